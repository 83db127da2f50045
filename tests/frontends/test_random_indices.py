"""`x[index]` of traced values is NumPy's, for random indices: slices, positions, arrays of them, None and ellipses."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt

SHAPES = [(5,), (3, 4), (2, 3, 4), (1, 3), (0, 2), (4, 1, 2, 3)]


class Traced:
    """An index that is an argument of the function."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"traced {self.value!r}"


def _item(draw: random.Random, n: int) -> Any:
    bound = lambda: draw.choice([None, None, *range(-n - 2, n + 3)])
    kind = draw.choice(
        ["slice"] * 3 + ["position", "array", "traced", "traced"] if n else ["slice", "none"]
    )
    if kind == "slice":
        return slice(bound(), bound(), draw.choice([None, None, 1, 2, -1, -2, 3]))
    if kind == "position":
        return draw.choice([draw.randrange(-n, n), np.int8(draw.randrange(-n, n))])
    if kind == "none":
        return np.array([], int)
    shape = draw.choice([(2,), (1,), (2, 1), (0,), (2, 3), *[()] * (kind == "traced")])
    dtype = draw.choice(["i8", "i4", "u1"])
    low = 0 if dtype == "u1" else -n
    places = [draw.randrange(low, n) for _ in range(int(np.prod(shape)))]
    values = np.array(places, dtype).reshape(shape)
    return Traced(values) if kind == "traced" else values


def _index(draw: random.Random, shape: tuple[int, ...]) -> list[Any]:
    items = [_item(draw, n) for n in shape[: draw.randint(0, len(shape))]]
    if draw.random() < 0.3:
        rest = len(shape) - len(items)
        kept = draw.randint(0, len(items))
        tail = [_item(draw, n) for n in shape[rest + kept :]]
        items = [*items[:kept], Ellipsis, *tail]
    for _ in range(draw.choice([0, 0, 1, 2])):
        items.insert(draw.randint(0, len(items)), None)
    return items


@pytest.mark.parametrize("seed", range(30))
def test_random_indices(seed):
    draw = random.Random(seed)
    for _ in range(20):
        shape = draw.choice(SHAPES)
        x, items = np.arange(np.prod(shape)).reshape(shape), _index(draw, shape)
        places = [i.value for i in items if isinstance(i, Traced)]

        def f(x, *places, items=items):
            rest = iter(places)
            index = tuple([next(rest) if isinstance(i, Traced) else i for i in items])
            return x[index[0]] if len(index) == 1 else x[index]

        try:
            wanted = np.asarray(f(x, *places))
        except IndexError:  # shapes of positions that do not broadcast
            with pytest.raises((IndexError, jt.JaxprToolError)):
                jt.make_jaxpr(f)(x, *places)
            continue
        found = np.asarray(jt.eval_jaxpr(jt.make_jaxpr(f)(x, *places), [x, *places])[0])
        assert found.shape == wanted.shape, (shape, items)
        np.testing.assert_array_equal(found, wanted, err_msg=f"{shape}{items}")

"""Places inside of the jaxprs that combine elements: of scatter, reduce, reduce_window, whatever the shapes are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from tests.analyses.exchanged import exchanges

X = np.array([1, 2, 3, 4], np.float32)
M = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
ZERO = np.float32(0)
Inner = Callable[[Any], Any]

WAYS: dict[str, tuple[Callable[[Inner], Callable[..., Any]], Any]] = {
    "apply": (lambda g: lambda x: x.at[np.array([1, 2])].apply(g), X),
    "apply rows": (lambda g: lambda x: x.at[np.array([1, 2])].apply(g), M),
    "apply twice": (lambda g: lambda x: x.at[np.array([1, 1, 3])].apply(g), X),
    "reduce": (lambda g: lambda x: lax.reduce(x, ZERO, lambda a, b: g(a + b), (0,)), X),
    "reduce rows": (lambda g: lambda x: lax.reduce(x, ZERO, lambda a, b: g(a + b), (0,)), M),
    "reduce pairs": (
        lambda g: (
            lambda x: lax.reduce(
                (x, x), (ZERO, ZERO), lambda a, b: (g(a[0] + b[0]), a[1] - b[1] * 2), (0,)
            )
        ),
        M,
    ),
    "windows": (
        lambda g: (
            lambda x: lax.reduce_window(x, ZERO, lambda a, b: g(a + b), (2, 1), (1, 1), "VALID")
        ),
        M,
    ),
}


def primitives(place: Any) -> list[str]:
    return [*(s.eqn.primitive.name for s in place.path), place.eqn.primitive.name]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_nan_inside_is_named_there(way: Any) -> None:
    make, x = way
    found = jt.blame(make(lambda v: jnp.sqrt(v - 100) + v), x, nan=True)
    assert len(primitives(found.first)) == 2 and primitives(found.first)[-1] == "sqrt", str(found)
    assert found.outputs[0].reached == "reaching"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_exchanged_primitive_inside_is_the_first_difference(way: Any) -> None:
    make, x = way
    f, g = (make(lambda v, h=h: h(v) * 0.5 + v) for h in (jnp.sin, jnp.cos))
    found = jt.compare(f, g, x, first=True)
    assert found.first is not None
    assert primitives(found.first.a)[1:] == ["sin"], str(found)
    assert primitives(found.first.b)[1:] == ["cos"], str(found)


def test_what_the_padding_of_windows_makes_is_no_fault() -> None:
    """The reducer runs on it, and the result is dropped; no NaN is in the program."""

    def f(x: Any) -> Any:
        least = np.float32(-np.inf)
        return lax.reduce_window(
            x, least, lambda a, b: jnp.maximum(a, jnp.sqrt(b)), (2,), (1,), "SAME"
        )

    found = jt.blame(f, X, nan=True)
    assert not found.found, str(found)


I = np.array([1, 1, 3])
SUMS: dict[str, Callable[[Any], Any]] = {
    "scatter-add": lambda x: x.at[I].add(x[:3]),
    "scatter-max": lambda x: x.at[I].max(x[:3]),
    "in a scan": lambda x: lax.scan(lambda c, a: (c.at[I].add(a), c), x, jnp.stack([x[:3]] * 2)),
    "scatter-min": lambda x: jnp.stack([x, x]).at[0, I].min(x[:3]),
}


@pytest.mark.parametrize("f", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_an_exchange_in_a_jaxpr_that_numpy_does_not_run_is_named(f: Any, backend: str) -> None:
    program = jt.trace(f, X)
    holder = next(e for e in all_eqns(program.jaxpr) if e.primitive.name.startswith("scatter"))
    inner = [e for c in sub_jaxprs(holder) for e in c.jaxpr.eqns]
    made = next(x for x in exchanges(program, 100, subtle=False) if x.eqn in inner)
    found = jt.compare(program, made.program, X, first=True, backends=backend)
    assert found.first is not None
    place = found.first.a
    assert primitives(place)[-2:] == [holder.primitive.name, inner[0].primitive.name], str(found)
    assert place.path[-1].param == "update_jaxpr" and not found.first.given
    assert primitives(found.first.b)[-1] != inner[0].primitive.name

"""blame knows of each element of a result all the origins that it has: of many origins, in loops of any length, and stacked up by them.

A random program moves and adds numbers, some of which are NaN by one of nine operations. The same program on integers, with a bit for
each operation and `|` in the place of arithmetic, says which origins each element has.
"""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.blaming import spots
from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.flow import Flow
from jaxprtool.driver.run import run
from jaxprtool.ir.interface import Tree

N = 10
MAKERS = {
    "log": lambda x: jnp.log(x - 2),
    "sqrt": lambda x: jnp.sqrt(x - 2),
    "rsqrt": lambda x: jax.lax.rsqrt(x - 2),
    "asin": lambda x: jnp.arcsin(x + 2),
    "acos": lambda x: jnp.arccos(x + 2),
    "atanh": lambda x: jnp.arctanh(x + 2),
    "acosh": lambda x: jnp.arccosh(x - 2),
    "log1p": lambda x: jnp.log1p(x - 3),
    "pow": lambda x: (x - 2) ** 0.5,
}


class Numbers:
    """What programs do with numbers."""

    good = 3.0

    def begin(self, x, where):
        found = jnp.ones(N, np.float32)
        for at, make in zip(where, MAKERS.values(), strict=False):
            found = jnp.where(jnp.arange(N) == at, make(x), found)
        return found

    add = staticmethod(lambda x, y: x * 0.5 + y)
    most = staticmethod(jnp.maximum)
    total = staticmethod(lambda x: jnp.full(N, x.sum() / 50))
    sums = staticmethod(lambda x: jnp.cumsum(x) / 50)


class Bits(Numbers):
    """The same of sets of origins."""

    good = 0

    def begin(self, x, where):
        found = jnp.zeros(N, np.int32)
        for i, at in enumerate(where):
            found = jnp.where((jnp.arange(N) == at) & (x == 0), 1 << i, found)
        return found

    add = most = staticmethod(lambda x, y: x | y)
    total = staticmethod(
        lambda x: jnp.full(N, jax.lax.reduce(x, np.int32(0), jax.lax.bitwise_or, (0,)))
    )
    sums = staticmethod(lambda x: jax.lax.associative_scan(jnp.bitwise_or, x))


def moved(rng, on, x, i):
    """One random operation on a vector; `i` is the number of a step."""
    k, which = rng.randrange(N), jnp.array([rng.randrange(N) for _ in range(N)])
    mask, other = jnp.array([rng.random() < 0.5 for _ in range(N)]), jnp.roll(x, k)
    return rng.choice(
        [
            lambda: other,
            lambda: jnp.where(mask, x, other),
            lambda: jnp.where((i + k) % 7 == 0, x, other),
            lambda: x[which],
            lambda: x[::-1],
            lambda: x.at[(i + k) % N].set(on.good),
            lambda: jax.lax.dynamic_update_slice(x, other[:2], (i % (N - 1),)),
            lambda: jnp.concatenate([x[k:], jnp.full(k, on.good)]),
            lambda: jax.lax.sort((which, x), num_keys=1)[1],
            lambda: jax.lax.cond((i + k) % 3 == 0, lambda x: jnp.roll(x, 1), lambda x: x, x),
            lambda: on.add(x, jnp.where(mask, other, on.good)),
            lambda: on.most(x, jnp.where(mask, other, on.good)),
            lambda: jnp.where(mask, on.total(x[: k + 1]), x),
            lambda: jnp.where(mask, on.sums(x), x),
        ]
    )()


def looped(rng, on, x, steps):
    """A random loop: what it carries, and what it stacks up, from which elements are taken."""
    state, kind = rng.getstate(), rng.choice(["scan", "reverse", "while", "nested", "xs"])
    count = rng.randrange(1, 4)

    def turn(x, i):
        rng.setstate(state)
        for _ in range(count):
            x = moved(rng, on, x, i)
        return x

    if kind == "while":
        return jax.lax.fori_loop(0, steps, lambda i, x: turn(x, i), x)

    def body(x, i):
        y = turn(x, i)
        if kind == "nested":
            y, inner = jax.lax.scan(lambda x, j: (turn(x, j), x[0]), y, jnp.arange(3))
            return y, (inner, x)
        return y, (x[:3], x)

    x, (few, all_of) = jax.lax.scan(body, x, jnp.arange(steps), reverse=kind == "reverse")
    at = [rng.randrange(steps) for _ in range(N)]
    if kind == "xs":  # what one loop has stacked up the next one takes apart
        x, (few, all_of) = jax.lax.scan(
            lambda c, y: (jnp.where(y[0][0] == 77, c, y[1]), y), x, (few, all_of), reverse=True
        )
    picked = jnp.stack([all_of[s, j] for j, s in enumerate(at)])
    return jnp.concatenate([picked[: N // 2], x[N // 2 : -1], few[at[0]][:1]])


def program(seed, on, steps):
    def f(x):
        rng = random.Random(seed)
        x = on.begin(x, rng.sample(range(N), rng.randrange(2, 1 + len(MAKERS))))
        for _ in range(2):
            x = moved(rng, on, x, 1)
        x = looped(rng, on, x, steps)
        for _ in range(2):
            x = moved(rng, on, x, 1)
        return [x[i] for i in range(N)]

    return f


@pytest.mark.parametrize("steps", [3, 130])
@pytest.mark.parametrize("seed", range(40))
def test_each_element_has_all_its_origins(seed, steps):
    x = np.float32(0)
    traced = jt.trace(program(seed, Numbers(), steps), x)
    flow = Flow(Sought())
    run(traced, [x], observer=flow)
    names = {}
    for o in flow.origins:
        assert o.eqn is not None
        names[o.bit] = o.eqn.primitive.name
    bits = jax.jit(program(seed, Bits(), steps))(x)
    makers = list(MAKERS)
    for mark, right in zip(flow.outs, map(int, bits), strict=True):
        found = {name for bit, name in names.items() if bit & mark.bad}
        assert found == {name for i, name in enumerate(makers) if right >> i & 1}


@pytest.mark.parametrize("seed", range(40))
def test_each_element_has_all_its_origins_where_only_bad_ones_are_looked_at(seed, monkeypatch):
    """As it is with large arrays, of which few elements are bad."""
    monkeypatch.setattr(spots, "_WIDE", 1)
    monkeypatch.setattr(spots, "_SPARSE", 1)
    test_each_element_has_all_its_origins(seed, 130)


def _with_bad_rows(seed):
    """Steps in which an argument is NaN in some places, in each less than before or elsewhere, and log and sqrt begin at others."""
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(8, 60))
    rows = rng.uniform(0.5, 2, (steps, 2, 3)).astype(np.float32)
    rows[rng.random(rows.shape) < rng.choice([0.3, 0.9, 1])] = np.nan
    quiet = int(rng.integers(1, steps))
    late = rows[quiet:]
    late[rng.random(late.shape) < 0.1] = -1
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_an_origin_of_a_late_step_is_found_where_earlier_ones_had_more_bad_elements(seed):
    rows = _with_bad_rows(seed)

    def f(rows):
        return jax.lax.scan(lambda c, x: (c, jnp.log(x[0]) * jnp.sqrt(x[1])), 0.0, rows)[1]

    flow = Flow(Sought())
    run(jt.trace(f, rows), [rows], observer=flow)
    found = {o.eqn.primitive.name for o in flow.origins if o.eqn is not None}
    begin = {"log": rows[:, 0], "sqrt": rows[:, 1]}
    assert found - {"slice"} == {name for name, x in begin.items() if (x < 0).any()}


def test_a_nan_of_infinities_in_a_late_step_is_found():
    rows = np.full((40, 3), np.nan, np.float32)
    rows[30:] = np.inf, 1, 2
    found = jt.blame(lambda xs: jax.lax.scan(lambda c, x: (c, x - x * 1.0), 0.0, xs)[1], rows)
    assert "step 30 > sub" in str(found)


@pytest.mark.parametrize("count", [1, 2, 3, len(MAKERS)])
@pytest.mark.parametrize("period", [1, N], ids=["in place", "turned"])
def test_steps_that_follow_ones_like_those_before_are_not_followed_again(
    count, period, monkeypatch
):
    steps, followed = 3_000, []

    def f(x, xs):
        def step(c, x):
            c = (c if period == 1 else jnp.concatenate([c[1:], c[:1]])) * 0.5 + x
            return c, (c, c.sum(), c[0])

        return jax.lax.scan(step, Numbers().begin(x, range(count)), xs)

    follow = Flow._follow_one
    monkeypatch.setattr(Flow, "_follow_one", lambda *args: (followed.append(1), follow(*args))[1])
    args = np.float32(0), np.ones((steps, N), "f")
    flow = Flow(Sought())
    run(jt.trace(f, *args), args, observer=flow)
    assert len(flow.origins) == count
    assert len(followed) < 250
    made = {o.made.eqn.primitive.name for o in flow.origins}
    assert len(made) == count


def test_a_callback_is_called_again_at_most_once_a_step() -> None:
    """A function of Python may take long: it is not called for each of the origins that meet in its operand."""
    calls = [0]

    def host(x: Any) -> Any:
        calls[0] += 1
        return np.asarray(x) * np.float32(1)

    def step(c: Any, i: Any) -> Any:
        y = jax.pure_callback(
            host, jax.ShapeDtypeStruct(c.shape, c.dtype), c, vmap_method="sequential"
        )
        at = jnp.arange(4)
        c = jnp.where(at == i % 4, jnp.sqrt(y - 2.0), y)
        c = jnp.where(at == (i + 1) % 4, jnp.log(y - i * 0.01), c)
        return jnp.where(jnp.isnan(c) & (i % 5 == 0), 1.5, c), y.sum()

    x, n = np.float32([1, 2, 0.5, 3]), 100
    program = jt.trace(lambda x: jax.lax.scan(step, x, jnp.arange(n)), x)
    found = jt.blame(program, x)
    assert n <= calls[0] <= 2 * n
    assert found.first is not None and found.first.eqn.primitive.name == "sqrt"
    assert {a.place.eqn.primitive.name for a in found.appearances} >= {"sqrt", "log"}


def test_many_results_are_labelled_in_linear_time(monkeypatch):
    """The paths of all results are written once for all of them, not once for each."""
    calls, real = [], Tree.paths
    monkeypatch.setattr(Tree, "paths", lambda self: (calls.append(1), real(self))[1])
    counts = []
    for n in (4, 40):
        calls.clear()
        found = jt.blame(
            lambda x, n=n: [jnp.log(x - i) for i in range(1, n + 1)], np.zeros(3, np.float32)
        )
        assert [o.label for o in found.outputs] == [f"result[{i}]" for i in range(n)]
        counts.append(len(calls))
    assert counts[0] == counts[1]

"""gradcheck evaluates a program at many points together where that gives the same."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.custom_batching import custom_vmap

import jaxprtool as jt
from jaxprtool.analyses.gradchecking import together
from jaxprtool.analyses.gradchecking.point import How, Point
from jaxprtool.core.trace import inexact
from jaxprtool.passes.precisions.double import doubled, in_double
from tests.analyses.planting import REAL, real_program

X = np.array([0.9, 0.3, 1.4], np.float32)


def runs(program: jt.ClosedJaxpr, args: Any, times: int = 4) -> tuple[Any, Any, bool]:
    """The results at several points one after the other and together; whether the program was vectorised."""
    program = in_double(program)
    live = inexact(program.in_avals)
    points = [
        [doubled(x) * (1 + 1e-3 * k) if f else x for x, f in zip(args, live, strict=True)]
        for k in range(times)
    ]
    runner = together.Together(live)
    runner.left = 0
    found = runner.run(program, points)
    return [jt.eval_jaxpr(program, p) for p in points], found, bool(runner.vectorised)


@pytest.mark.parametrize("name", REAL)
def test_real_programs_have_the_same_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "_LARGEST", 10**6)
    program, args = real_program(name)
    one_by_one, found, _ = runs(program, args)
    for ours, wanted in zip(found, one_by_one, strict=True):
        assert all(map(together._near, ours, wanted))


def test_most_real_programs_are_vectorised() -> None:
    done = {name: runs(*real_program(name))[2] for name in REAL}
    assert sum(done.values()) >= len(done) / 2, done


@custom_vmap
def own(x: Any) -> Any:
    return jnp.sin(x)


@own.def_vmap
def _(size: int, batched: Any, x: Any) -> Any:
    return jnp.cos(x), True


def searching(x: Any) -> Any:
    """Ends only where the branch is taken."""
    halved = lambda v: lax.while_loop(lambda c: c.sum() > 1, lambda c: c * 0.5, v)
    endless = lambda v: lax.while_loop(lambda c: c.sum() > -1, lambda c: c + 1, v)
    return lax.cond(x.sum() > 0, halved, endless, x)


def printing(x: Any) -> Any:
    jax.debug.print("{}", x.sum())
    return x * 2


@pytest.mark.parametrize(
    ("f", "vectorised"),
    [
        (jnp.sin, True),
        (lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: c * 2, x), True),
        (lambda x: lax.cond(x[0] > 0.9005, jnp.sin, jnp.cos, x), True),
        (lambda x: jnp.outer(jnp.ones(5000), x), False),
        (own, False),
        (searching, False),
        (printing, False),
    ],
    ids=["sin", "while", "cond", "large", "custom_vmap", "endless", "effect"],
)
def test_a_program_that_may_differ_runs_at_one_point_after_the_other(
    f: Any, vectorised: bool
) -> None:
    one_by_one, found, done = runs(jt.from_jax(jax.make_jaxpr(f)(X)), [X])
    assert done is vectorised
    for ours, wanted in zip(found, one_by_one, strict=True):
        np.testing.assert_allclose(ours[0], wanted[0], rtol=1e-12)


def test_a_derivative_is_checked_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The differences of many directions agree with those that are taken one after the other."""
    program, args = real_program("gru")
    found = []
    for alone in (0, 10**9):
        monkeypatch.setattr(together, "_ALONE", alone)
        point = Point(program, args, How())
        assert point.widen()
        given = [*map(point.numeric.wide, point.given)]
        direction = point.numeric.directions(point.given, 1, 2.0**-20)
        steps = point.numeric.steps_for(52, finer=4)
        found.append(point.numeric.estimate(point.wide_results, given, direction, steps))
        assert bool(point.together.vectorised) is (alone == 0)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.value, b.value, atol=1e-7 * abs(b.value).max())

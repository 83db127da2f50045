"""gradcheck of programs with indices: random ones are within bounds, and what an equation does beyond its promises accuses no rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.analyses.promises import bounds_of
from jaxprtool.driver.gradcheck import gradcheck_words

W = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3)
INSIDE, OUTSIDE = np.array([0, 3, 1, 2], np.int32), np.array([5, 9, 1, 7], np.int32)
MODE = "promise_in_bounds"


@jax.custom_jvp
def wrong_square(x: Any) -> Any:
    return x * x


wrong_square.defjvp(lambda p, t: (p[0] * p[0], 2.3 * p[0] * t[0]))


def _picked(w: Any, i: Any, mode: str | None) -> Any:
    logs = jax.nn.log_softmax(w)
    return -jnp.take_along_axis(logs, (i % 5)[:, None], axis=1, mode=mode).mean()


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda w, i: jnp.sum(w[i] ** 2),
    "elements": lambda w, i: jnp.sum(w.ravel()[i] ** 2),
    "cross entropy": lambda w, i: _picked(w, i, MODE),
    "jit": lambda w, i: jax.jit(lambda w, i: jnp.sum(w[i] ** 2))(w, i),
    "scan": lambda w, i: lax.scan(lambda c, k: (c + jnp.sum(w[k[None]] ** 2), None), 0.0, i)[0],
    "scatter": lambda w, i: jnp.sum(jnp.ones((4, 3)).at[i].add(w, mode=MODE) ** 2),
    "twice": lambda w, i: jnp.sum(
        jnp.zeros((4, 3)).at[i // 2].set(w, mode=MODE, unique_indices=True) ** 2
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_broken_promises_accuse_no_rule(name: str) -> None:
    found = jt.gradcheck(PROGRAMS[name], W, OUTSIDE if name != "twice" else INSIDE)
    assert found.passed and not found.blame, str(found)
    if name not in ("elements", "scan"):  # there are as many places; the loop clamps its indices
        assert "promise" in {f.kind for d in found.derivatives for f in d.equations}, str(found)


@pytest.mark.parametrize("name", [*PROGRAMS])
def test_promises_that_are_kept_are_not_spoken_of(name: str) -> None:
    inside = INSIDE * 2 if name == "twice" else INSIDE % 3
    found = jt.gradcheck(PROGRAMS[name], W, inside)
    assert found.passed
    assert "promise" not in {f.kind for d in found.derivatives for f in d.equations}, str(found)


@pytest.mark.parametrize("indices", [INSIDE, OUTSIDE])
def test_a_wrong_rule_beside_indices_is_named(indices: Any) -> None:
    found = jt.gradcheck(lambda w, i: jnp.sum(wrong_square(w)[i] * wrong_square(w)), W, indices)
    assert not found.passed
    assert {f.place.eqn.primitive.name for f in found.blame} == {"custom_jvp_call"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["fill", "clip", MODE])
def test_random_indices_are_within_bounds(mode: str, seed: int) -> None:
    """So that all elements of the result depend on the operand, and none is NaN or left out."""

    def f(w: Any, i: Any, j: Any) -> Any:
        rows = w.at[i].get(mode=mode)
        added = jnp.zeros((4, 3)).at[j].add(rows, mode=mode)
        return jnp.sum(added**2)

    args = (W, INSIDE, INSIDE)
    found = gradcheck_words(jt.trace(f, *args), [f"random:{seed}"])
    (first,) = found.derivatives
    assert {c.status for c in first.checks} == {"agrees"}, str(found)
    assert all(c.compared and c.max_abs < 1e-4 for c in first.checks), str(found)


def test_other_random_integers_are_as_everywhere() -> None:
    f = lambda w, n, i: jnp.sum(w[i] * n.astype(jnp.float32))
    program = jt.trace(f, W, np.int32(7), INSIDE)
    bounds = [*map(bounds_of(program).get, program.jaxpr.in_binders)]
    assert bounds == [None, None, 4]

"""What masks a NaN, what decides by one, and what it reaches, as blame says."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.analyses.test_blame import X, ask, outputs

INDEX = np.int32(0)


MASKS = {
    "select_n": lambda y: jnp.where(jnp.arange(3) != 1, y, 0.0),
    "slice": lambda y: y[:1],
    "overwrite": lambda y: y.at[1].set(0.0),
    "dynamic_update_slice": lambda y: jax.lax.dynamic_update_slice(y, jnp.zeros(2), (1,)),
    "pow": lambda y: jax.lax.pow(y, jnp.zeros(3)),
    "integer_pow": lambda y: jax.lax.integer_pow(y, 0),
    "conversion": lambda y: y.astype(jnp.int32),
    "gather": lambda y: y[jnp.array([0, 2])],
    "is_finite": lambda y: jnp.isfinite(y),
    "is_nan": lambda y: jnp.isnan(y),
    "nan_to_num": jnp.nan_to_num,
    "branch": lambda y: jax.lax.cond(INDEX == 0, lambda y: y[:1], lambda y: y[1:2], y),
    "loop": lambda y: jax.lax.scan(lambda c, x: (y[0], x), 0.0, jnp.arange(3))[0],
}
DECIDES = {
    "comparison": lambda y: y > 0,
    "argmax": jnp.argmax,
    "argmin": lambda y: jnp.argmin(y),
    "branch": lambda y: jax.lax.cond(y[1] > 0, lambda x: x + 1, lambda x: x * 2, 1.0),
    "loop": lambda y: jax.lax.while_loop(lambda c: c < y[1], lambda c: c + 1, 0.0),
    "index": lambda y: jnp.arange(8)[jnp.clip(y.astype(int), 0, 7)],
    "where": lambda y: jnp.where(y > 0, 1.0, 2.0),
    "sort": lambda y: jax.lax.sort((y, jnp.arange(3)), num_keys=1)[1],
}
REACHES = {
    "max": lambda y: jnp.maximum(y, 0.0),
    "min": lambda y: jnp.minimum(y, 0.0),
    "clamp": lambda y: jnp.clip(y, 0.0, 1.0),
    "times zero": lambda y: y * 0.0,
    "sum": jnp.sum,
    "scan": lambda y: jax.lax.scan(lambda c, x: (c + x, c), 0.0, y),
    "sort": jnp.sort,
    "call": jax.jit(lambda y: y * 2),
    "remat": jax.checkpoint(lambda y: jnp.sin(y)),
    "relu": jax.nn.relu,
    "pow": lambda y: y**2.5,
}


@pytest.mark.parametrize("name", MASKS)
def test_what_drops_a_nan_masks_it(name: str) -> None:
    found = ask(lambda x: MASKS[name](jnp.log(x)), X)
    assert [o.reached for o in found.outputs] == ["masked"], str(found)
    assert found.first.eqn.primitive.name == "log" and found.masked_by


@pytest.mark.parametrize("name", DECIDES)
def test_what_steers_by_a_nan_decides(name: str) -> None:
    found = ask(lambda x: DECIDES[name](jnp.log(x)), X)
    assert [o.reached for o in found.outputs] == ["deciding"], str(found)
    assert found.first.eqn.primitive.name == "log" and found.deciding


@pytest.mark.parametrize(
    ("how", "reached"),
    [
        (lambda y: jnp.where(X > 0, y, 0.0), "masked"),
        (lambda y: (y * 2)[2:], "masked"),
        (lambda y: y.at[:2].set(1.0), "masked"),
        (lambda y: jnp.where(jnp.isnan(y), 0.0, y), "deciding"),
        (lambda y: jnp.power(y, 0.0), "deciding"),
        (lambda y: y.astype(jnp.int32), "deciding"),
    ],
)
def test_a_comparison_decides_where_the_nan_has_gone_into_what_it_compares(
    how: Any, reached: str
) -> None:
    """What picks other elements leaves no trace of a NaN, which what replaces or converts one does."""

    def f(x: Any) -> Any:
        z = how(jnp.log(x))
        return jnp.where(z > 0.5, 1.0, 2.0)

    assert [o.reached for o in ask(f, X).outputs] == [reached]


@pytest.mark.parametrize("name", REACHES)
def test_what_keeps_a_nan_reaches(name: str) -> None:
    found = ask(lambda x: REACHES[name](jnp.log(x)), X)
    assert {o.reached for o in found.outputs} == {"reaching"}, str(found)
    assert not found.masked_by
    assert found.chain[0].eqn.primitive.name == "log"


def test_other_results_are_not_reached() -> None:
    assert outputs(lambda x: (jnp.log(x), x + 1), X) == ["reaching", None]


def test_a_program_that_is_clean() -> None:
    found = ask(jnp.sin, X)
    assert not found.found and found.first is None and found.kind is None
    assert str(found) == "no bad value"
    assert found.json()["found"] is False and found.json()["outputs"][0]["reached"] is None

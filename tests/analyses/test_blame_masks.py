"""blame: which equation masks a bad value, of references and in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt


def overwritten(x: Any) -> Any:
    cell = jax.new_ref(jnp.log(x))
    cell[...] = x
    return cell[...] * 2


def overwritten_in_part(x: Any) -> Any:
    cell = jax.new_ref(jnp.log(x))
    part = cell[2:]
    cell[0] = 3.0
    return part, cell[...]


def written(x: Any) -> Any:
    cell = jax.new_ref(x)
    cell[...] = jnp.log(x)
    return cell[1:], cell[...]


def swapped(x: Any) -> Any:
    cell = jax.new_ref(x)
    before = jax.ref.swap(cell, slice(None), jnp.log(x))
    return before, cell[...]


def added(x: Any) -> Any:
    cell = jax.new_ref(x)

    def body(c: Any, t: Any) -> Any:
        cell[...] += jnp.log(t - 1) * 0.1
        return c, None

    lax.scan(body, 0.0, jnp.arange(4.0))
    return cell[...]


@pytest.mark.parametrize(
    ("f", "masked_by", "reached"),
    [
        (overwritten, ["swap"], ["masked"]),
        (overwritten_in_part, ["get", "swap"], ["masked", "masked"]),
        (written, ["get"], ["masked", "reaching"]),
        (swapped, [], [None, "reaching"]),
        (added, [], ["reaching"]),
    ],
)
def test_what_is_written_to_a_reference_is_masked_where_it_is_overwritten(
    f: Callable[..., Any], masked_by: list[str], reached: list[str | None]
) -> None:
    found = jt.blame(f, np.arange(4, dtype=np.float32))
    assert [p.eqn.primitive.name for p in found.masked_by] == masked_by, str(found)
    assert [o.reached for o in found.outputs] == reached, str(found)


@pytest.mark.parametrize("every", [1, 10])
def test_a_call_in_a_loop_masks_nothing_besides_the_equation_inside(every: int) -> None:
    def guarded(c: Any) -> Any:
        return jnp.where(c < 0, jnp.log(-c), c)

    def body(i: Any, c: Any) -> Any:
        return guarded(c) if every == 1 else lax.cond(i % every == 7, guarded, jnp.sin, c)

    found = jt.blame(lambda x: lax.fori_loop(0, 60, body, x), np.float32(2))
    assert [p.eqn.primitive.name for p in found.masked_by] == ["select_n"], str(found)

"""Params in brackets whose text comes again are read once."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.syntax import params

X = np.ones((3, 3), np.float32)

REPEATED = {  # an operation that is applied with the same params again and again
    "matrix products": (lambda x: x @ x, "dot_general"),
    "sums": (lambda x: x - jnp.sum(x, 0), "reduce_sum"),
    "slices": (lambda x: x.at[1:].set(x[1:] * 2), "slice"),
    "transposed": (lambda x: x.T + x, "transpose"),
}


@pytest.mark.parametrize("name", REPEATED)
def test_equal_params_of_a_text_are_one_object(name: str) -> None:
    """But those of the first one, which may be read one by one."""
    f, primitive = REPEATED[name]
    program = jt.parse(str(jt.trace(lambda x: f(f(f(f(x)))), X)))
    found = [e.params for e in program.eqns if e.primitive.name == primitive]
    assert len(found) == 4 and found[0] == found[1]
    assert all(params is found[1] for params in found[1:])


def test_params_of_an_earlier_release_beside_those_of_today_are_read_each_in_its_way() -> None:
    today = """dot_general[
      dimension_numbers=(([1], [0]), ([], []))
      preferred_element_type=float32
    ]"""
    earlier = """dot_general[
      algorithm=None
      dimension_numbers=(([1], [0]), ([], []))
      precision=None
      preferred_element_type=float32
      transpose_algorithm=None
    ]"""
    text = f"""{{ lambda ; a:f32[3,3]. let
    b:f32[3,3] = {today} a a
    c:f32[3,3] = {today} b a
    d:f32[3,3] = {earlier} c a
    e:f32[3,3] = {earlier} d a
    f:f32[3,3] = {today} e a
  in (f,) }}"""
    found = [e.params for e in jt.parse(text).eqns]
    assert found[1] is found[4]
    assert all(params == found[0] for params in found)


@pytest.mark.parametrize("text", ["()", "(3,)", "(3, 4)", "(-1, 0, 12)", "(33, 2, 3, 4, 5)"])
def test_tuples_of_integers_are_read_without_looking_at_their_parts(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(params, "_Reader", None)
    assert params.read_value(text) == eval(text)

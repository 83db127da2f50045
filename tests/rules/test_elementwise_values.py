"""Elementwise functions where JAX's values are XLA's choice, and what its texts may hold."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("function", [jax.lax.max, jax.lax.min])
def test_extrema_of_complex_infinities_and_nans(function):
    parts = [0.0, 1.0, -INF, INF, NAN]
    values = np.array([complex(r, i) for r in parts for i in parts], np.complex64)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    program = jt.parse(str(jax.make_jaxpr(function)(x, y)))
    expected = np.asarray(jax.jit(function)(x, y))
    for out in (jt.eval_jaxpr(program.jaxpr, [x, y]), jt.compile(program)(x, y)):
        np.testing.assert_array_equal(np.asarray(out[0]), expected)


def test_conj_with_the_param_that_jax_ignores():
    text = """\
{ lambda ; a:f32[2]. let
    b:c64[2] = conj[_input_dtype=<class 'numpy.float32'>] a
  in (b,) }"""
    program = jt.parse(text)
    jt.typecheck_jaxpr(program.jaxpr)
    assert str(program) == text
    x = np.array([1.0, -2.0], np.float32)
    for out in (jt.eval_jaxpr(program.jaxpr, [x]), jt.compile(program)(x)):
        np.testing.assert_array_equal(np.asarray(out[0]), x.astype(np.complex64))
    assert str(jt.make_jaxpr(jt.vmap(jt.jaxpr_as_fun(program)))(np.stack([x, x]))) == (
        text.replace("[2]", "[2,2]")
    )


def test_conj_has_no_other_params():
    program = jt.parse("{ lambda ; a:f32[2]. let b:c64[2] = conj[dtype=float32] a in (b,) }")
    with pytest.raises(jt.JaxprTypeError, match="conj has no param dtype"):
        jt.typecheck_jaxpr(program.jaxpr)


def test_exported_conj_can_be_differentiated_by_jax():
    x = np.array([1 + 2j], np.complex64)
    f = jaxpr_as_fun(jt.to_jax(jt.make_jaxpr(jt.lax.conj)(x)))
    (ct,) = jax.vjp(f, x)[1]([x])
    np.testing.assert_array_equal(ct, x.conj())

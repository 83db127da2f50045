"""Primitives that the installed JAX does not have, in programs of later releases: JAX computes what their impl rules say."""

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.jax import to_jax as bridge
from jaxprtool.backends.jax.primitives import has_primitive

X = np.linspace(-0.75, 0.75, 5, dtype=np.float32)

ONE = "{ lambda ; a:f32[5]. let %s in (b,) }"
PROGRAMS = {
    "one_minus_square": ONE % "b:f32[5] = one_minus_square a",
    "polynomial": ONE % "b:f32[5] = polynomial a 1.0:f32[] -0.5:f32[] 0.25:f32[]",
    "SearchSorted": ONE
    % "b:i32[5] = SearchSorted[side=left dimension=0 batch_dims=0 method=scan] a a",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_jax_computes_what_it_has_no_primitive_for(name, monkeypatch):
    monkeypatch.setattr(bridge, "has_primitive", lambda n: n != name and has_primitive(n))
    monkeypatch.setattr(bridge, "hi_primitive", lambda *_: None)
    program = jt.parse(PROGRAMS[name])
    f = jt.to_jax_function(program)
    want = jt.jaxpr_as_fun(program)
    np.testing.assert_allclose(jax.jit(f)(X)[0], want(X)[0], rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(f)(X[None])[0][0], want(X)[0], rtol=1e-6)
    if name != "SearchSorted":
        got = jax.grad(lambda x: f(x)[0].sum())(X)
        np.testing.assert_allclose(got, jt.grad(lambda x: want(x)[0].sum())(X), rtol=1e-5)


def test_one_whose_rule_is_not_for_arrays_of_jax_is_refused(monkeypatch):
    monkeypatch.setattr(bridge, "has_primitive", lambda name: False)
    monkeypatch.setattr(bridge, "jax_primitive", refuse)
    with pytest.raises(jt.UnsupportedError, match="no psum"):
        jt.to_jax(jt.parse(ONE % "b:f32[5] = psum[axes=('i',) axis_index_groups=None] a"))


def refuse(name):
    raise jt.UnsupportedError(jt.Diagnostic(f"no {name}", "unknown-primitive"))


def test_a_class_of_jax_is_not_put_where_jax_cannot_lower_it():
    """JAX 0.10.2 has a class SearchSorted, and cannot lower a `closed_call` with an object of it."""
    inner = "{ lambda ; c:f32[5]. let d:i32[5] = SearchSorted[side=left dimension=0 batch_dims=0 method=scan] c c in (d,) }"
    program = jt.parse(
        f"{{ lambda ; a:f32[5]. let b:i32[5] = closed_call[call_jaxpr={inner}] a in (b,) }}"
    )
    (got,) = jax.jit(jt.to_jax_function(program))(X)
    np.testing.assert_array_equal(got, jt.jaxpr_as_fun(program)(X)[0])

"""Plug-ins whose primitives nobody declares to JAX: JAX runs and transforms them through the plug-in's rules."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.core.primitive import loading_plugin
from jaxprtool.driver.user_code.plugins import load_plugin

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "multiply_add.py"
TEXT = "{ lambda ; a:f32[3] b:f32[3] c:f32[3]. let d:f32[3] = multiply_add a b c in (d,) }"
A, B, C = (np.arange(3, dtype=np.float32) + i for i in (1, 3, 5))


with loading_plugin():  # apart from what the table of rules shows

    @jt.primitive
    def of_numpy_alone(x):
        """x, through an array of NumPy's."""

    @jt.primitive
    def twice_and_more(x, *, times: int):
        """times x, in other primitives."""


jt.define(
    of_numpy_alone,
    abstract_eval=lambda x: x,
    impl=lambda xp, x: np.array(x.tolist(), np.float32),
    jvp=lambda ps, ts: (of_numpy_alone(*ps), ts[0]),
    transpose=lambda ct, x: [ct],
    batch=lambda axis_size, values, dims: (of_numpy_alone(*values), dims[0]),
    lower=lambda ctx, x: x,
    cost=lambda ins, outs: 0,
)


jt.define(
    twice_and_more,
    **jt.decomposed(lambda in_avals, x, *, times: lax.mul(x, float(times))),
    abstract_eval=lambda x, **_: x,
    jvp=lambda ps, ts, **params: (twice_and_more(*ps, **params), twice_and_more(*ts, **params)),
    transpose=lambda ct, x, **params: [twice_and_more(ct, **params)],
    batch=lambda axis_size, values, dims, **params: (twice_and_more(*values, **params), dims[0]),
    cost=lambda ins, outs, **_: ins[0].size,
)


@pytest.fixture(autouse=True)
def _plugin():
    load_plugin(str(EXAMPLE))


def test_a_plug_in_of_ones_own_under_jax():
    f = jt.to_jax_function(jt.parse(TEXT))
    g = lambda a, b, c: f(a, b, c)[0]
    np.testing.assert_allclose(jax.jit(g)(A, B, C), A * B + C)
    np.testing.assert_allclose(
        jax.vmap(g, (0, None, 0))(A[:, None] + B, B, C[:, None] + B),
        (A[:, None] + B) * B + C[:, None] + B,
    )
    found = jax.grad(lambda *xs: g(*xs).sum(), (0, 1, 2))(A, B, C)
    for got, want in zip(found, (B, A, np.ones(3)), strict=True):
        np.testing.assert_allclose(got, want)


def test_one_in_terms_of_others():
    program = jt.make_jaxpr(lambda x: [twice_and_more(lax.sin(x), times=5)])(
        jt.ShapedArray((3,), A_TYPE)
    )
    f = lambda x: jt.to_jax_function(program)(x)[0]
    np.testing.assert_allclose(jax.jit(f)(A), 5 * np.sin(A), rtol=1e-6)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(lambda x: f(x).sum()))(np.stack([A, B])),
        5 * np.cos(np.stack([A, B])),
        rtol=1e-5,
    )
    assert str(jt.from_jax(jt.to_jax(program))) == str(program)


A_TYPE = jt.parse(TEXT).in_avals[0].dtype


def test_a_rule_for_numpy_alone_is_refused_with_its_name():
    program = jt.parse("{ lambda ; a:f32[3]. let b:f32[3] = of_numpy_alone a in (b,) }")
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [A])[0], A)
    with pytest.raises(jt.UnsupportedError, match="no primitive of_numpy_alone"):
        jax.jit(jt.to_jax_function(program))(A)

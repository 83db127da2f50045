"""Functions that can be mapped over a batch though their derivative rules cannot: as in JAX, only the derivative lacks the rule."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.interpreters.linearize import grad_jaxpr
from jaxprtool.interpreters.lost_rules import CustomRuleWarning

_BATCH = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
_LOST = r"could not be traced \(it cannot be mapped: pure_callback"


def _cosine(x):
    """The cosine, computed outside of JAX by a callback that cannot be mapped."""
    return jax.pure_callback(
        lambda x: np.asarray(np.cos(x)), jax.ShapeDtypeStruct(x.shape, x.dtype), x
    )


def _with_jvp():
    f = jax.custom_jvp(jnp.sin)
    f.__name__ = "f"
    f.defjvp(lambda xs, ts: (jnp.sin(xs[0]), _cosine(xs[0]) * ts[0]))
    return f


def _with_vjp():
    f = jax.custom_vjp(jnp.sin)
    f.__name__ = "f"
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (_cosine(x) * ct,))
    return f


@pytest.mark.parametrize("make", [_with_jvp, _with_vjp])
def test_function_is_mapped(make):
    f = make()
    program = jt.from_jax(jax.make_jaxpr(lambda x: f(x).sum())(_BATCH[0]))
    batched, _ = jt.vmap_jaxpr(program, 2, [0])
    jt.typecheck_jaxpr(batched.jaxpr)
    expected = jax.vmap(lambda x: f(x).sum())(_BATCH)
    np.testing.assert_allclose(jt.eval_jaxpr(batched, [_BATCH])[0], expected, rtol=1e-6)


@pytest.mark.parametrize("make", [_with_jvp, _with_vjp])
def test_derivative_says_which_rule_is_missing(make):
    f = make()
    program = jt.from_jax(jax.make_jaxpr(lambda x: f(x).sum())(_BATCH[0]))
    batched, _ = jt.vmap_jaxpr(program, 2, [0])
    with pytest.warns(CustomRuleWarning, match=_LOST):
        jt.jvp_jaxpr(batched)


@pytest.mark.parametrize("make", [_with_jvp, _with_vjp])
def test_rules_that_are_not_mapped_stay(make):
    """Without a batch the rule of the function is its own."""
    f = make()
    program = jt.from_jax(jax.make_jaxpr(lambda x: f(x).sum())(_BATCH[0]))
    (ct,) = jt.eval_jaxpr(grad_jaxpr(program, [0]), [_BATCH[0]])
    np.testing.assert_allclose(ct, np.cos(_BATCH[0]), rtol=1e-6)

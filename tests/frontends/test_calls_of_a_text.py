"""Calls of which a text holds the function alone are functions of JAX again, under every transformation that it needs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import sequential_vmap
from jax.custom_derivatives import linear_call
from jax.experimental.custom_partitioning import custom_partitioning

import jaxprtool as jt
from jaxprtool.analyses.gradchecking.point import copied
from jaxprtool.ir.walk import sub_jaxprs

X = np.arange(3, dtype=np.float32) + 0.5
BATCH = np.stack([X, 2 * X])


@sequential_vmap
def running(x):
    return jnp.cumsum(x)


def scaled(x):
    """Linear in the last, with x as residual."""
    return linear_call(lambda r, v: r * v, lambda r, ct: r * ct, x, x)


@custom_partitioning
def spread(x):
    return jnp.sin(x)


spread.def_partition(
    infer_sharding_from_operands=None,
    partition=lambda mesh, args, out: (mesh, jnp.sin, args[0].sharding, (args[0].sharding,)),
    sharding_rule="i -> i",
)


def of_text(f):
    """A function of one array, from its file."""
    program = jt.from_jax(jax.make_jaxpr(f)(X))
    called = jt.to_jax_function(jt.parse(jt.format_jaxpr(program, lossless=True)))
    return lambda x: jax.tree.leaves(called(x))[0]


def test_what_is_mapped_one_by_one_stays_so():
    np.testing.assert_allclose(jax.vmap(of_text(running))(BATCH), np.cumsum(BATCH, 1), rtol=1e-6)
    program = jt.parse(str(jax.make_jaxpr(running)(X)))
    batched = jt.vmap(jt.jaxpr_as_fun(program))(BATCH)[0]
    np.testing.assert_allclose(batched, np.cumsum(BATCH, 1), rtol=1e-6)


def test_a_linear_call_is_batched_and_differentiated_twice():
    f = of_text(scaled)
    np.testing.assert_allclose(jax.vmap(f)(BATCH), BATCH**2, rtol=1e-6)
    total = jax.grad(lambda x: jax.vmap(f)(x).sum())
    np.testing.assert_allclose(total(BATCH), 2 * BATCH, rtol=1e-6)
    np.testing.assert_allclose(
        jax.hessian(lambda x: f(x).sum())(X), 2 * np.eye(3, dtype=np.float32), rtol=1e-6
    )


def test_what_devices_share_is_computed_on_one():
    f = of_text(spread)
    np.testing.assert_allclose(jax.jit(f)(X), np.sin(X), rtol=1e-6)


def test_a_copy_has_no_jaxpr_of_the_program():
    program = jt.from_jax(jax.make_jaxpr(jax.jit(jnp.sin))(X))
    other = copied(program)
    (ours,), (others,) = (sub_jaxprs(p.eqns[0]) for p in (program, other))
    assert ours is not others
    assert str(program) == str(other)

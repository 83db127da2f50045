"""Values that are still to be summed over an explicit axis, `f32[2,2]{U:X}`, and those that were, `{R:X}`, as JAX has them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import P
from jax.sharding import AbstractMesh, AxisType

import jaxprtool as jt

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 4)).astype(np.float32)
W = RNG.normal(size=(4, 4)).astype(np.float32)


def contracted(x, w):
    """Two products whose sum over the devices is done once."""
    x, w = jax.reshard(x, P(None, "X")), jax.reshard(w, P("X", None))
    to_sum = P(None, None, unreduced={"X"})
    products = [jnp.einsum("ij,jk->ik", v, w, out_sharding=to_sum) for v in (x, 2 * x)]
    return jax.reshard(products[0] + products[1], P(None, None))


def gradient(x, w):
    """The gradient by what is on all devices, whose sum over them is done once."""
    x = jax.reshard(x, P("X", None))

    def loss(w):
        w = jax.reshard(w, P(None, None, reduced={"X"}))
        return jnp.sum((x @ w) ** 2) + jnp.sum((x * 2) @ w)

    return jax.grad(loss)(w)


def accumulated(x, w):
    """Gradients of several batches, added up in the carry of a scan before they are summed."""
    xs = jax.reshard(jnp.stack([x, x + 1, x * 2]), P(None, "X", None))
    w = jax.reshard(w, P(reduced={"X"}))

    def step(total, x):
        return total + jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w), None

    total = jax.reshard(jnp.zeros_like(w), P(unreduced={"X"}))
    total, _ = jax.lax.scan(step, total, xs)
    return jax.reshard(total, P())


def plain(function):
    """What a function above computes, without a mesh."""
    if function is contracted:
        return 3 * X @ W
    if function is gradient:
        return jax.grad(lambda w: jnp.sum((X @ w) ** 2) + jnp.sum((X * 2) @ w))(W)
    loss = lambda w: sum(jnp.sum(jnp.tanh(x @ w) ** 2) for x in (X, X + 1, X * 2))
    return jax.grad(loss)(W)


@pytest.mark.parametrize("function", [contracted, gradient, accumulated], ids=lambda f: f.__name__)
def test_there_and_back(function):
    mesh = AbstractMesh((2,), ("X",), axis_types=(AxisType.Explicit,))
    args = [jax.ShapeDtypeStruct((4, 4), "float32")] * 2
    try:
        with jax.sharding.use_abstract_mesh(mesh):
            closed = jax.make_jaxpr(function)(*args)
    except (NotImplementedError, TypeError, ValueError, AssertionError) as e:
        pytest.skip(f"this JAX has no such values: {e}")
    text = str(closed)
    assert "{U:X}" in text and "@X" in text
    for program in (jt.from_jax(closed), jt.parse(text)):
        assert str(program) == text
        with jax.sharding.use_abstract_mesh(mesh):  # which the text does not say
            assert str(jt.to_jax(program)) == text
            assert str(jax.make_jaxpr(jt.to_jax_function(program))(*args)) == text
        (got,) = jt.eval_jaxpr(program, [X, W])
        np.testing.assert_allclose(got, plain(function), rtol=1e-4)

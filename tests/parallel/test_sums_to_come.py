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


# What JAX (0.12) takes of a value that is still to be summed along X, in the text of one equation, and what it refuses.
TAKEN = {
    "neg a": "f32[4,4]{U:X}",
    "copy a": "f32[4,4]{U:X}",
    "convert_element_type[new_dtype=bfloat16 weak_type=False] a": "bf16[4,4]{U:X}",
    "reduce_precision[exponent_bits=5 mantissa_bits=5] a": "f32[4,4]{U:X}",
    "transpose[permutation=(1, 0)] a": "f32[4,4]{U:X}",
    "reshape[dimensions=None new_sizes=(16,) sharding=None] a": "f32[16]{U:X}",
    "slice[limit_indices=(2, 2) start_indices=(0, 0) strides=None] a": "f32[2,2]{U:X}",
    "pad[padding_config=((1, 0, 0), (0, 0, 0))] a 0.0:f32[]": "f32[5,4]{U:X}",
    "reduce_sum[axes=(0,) out_sharding=None] a": "f32[4]{U:X}",
    "concatenate[dimension=0] a a": "f32[8,4]{U:X}",
    "add a a": "f32[4,4]{U:X}",
    "sub a a": "f32[4,4]{U:X}",
    "add_any a a": "f32[4,4]{U:X}",
    "mul a r": "f32[4,4]{U:X}",
    "mul r a": "f32[4,4]{U:X}",
    "div a r": "f32[4,4]{U:X}",
    "sin r": "f32[4,4]{R:X}",
    "mul r r": "f32[4,4]{R:X}",
}
REFUSED = {
    "sin a": "f32[4,4]",
    "abs a": "f32[4,4]",
    "floor a": "f32[4,4]",
    "integer_pow[y=2] a": "f32[4,4]",
    "gt a a": "bool[4,4]",
    "max a a": "f32[4,4]",
    "reduce_max[axes=(0,) out_sharding=None] a": "f32[4]",
    "reduce_prod[axes=(0,) out_sharding=None] a": "f32[4]",
    "cumsum[axis=0 reverse=False] a": "f32[4,4]",
    "rev[dimensions=(0,)] a": "f32[4,4]",
    "add a 1.0:f32[]": "f32[4,4]",
    "add a p": "f32[4,4]",
    "add a y": "f32[4,4]",
    "mul a a": "f32[4,4]",
    "mul a p": "f32[4,4]",
    "mul a 2.0:f32[]": "f32[4,4]",
    "div p a": "f32[4,4]",
    "div a p": "f32[4,4]",
    "dot_general[dimension_numbers=(([1], [0]), ([], []))] a p": "f32[4,4]",
}  # fmt: skip


def _one(equation, out):
    operands = "a:f32[4,4]{U:X} p:f32[4,4] r:f32[4,4]{R:X} y:f32[4,4]{U:Y}"
    return jt.parse(f"{{ lambda ; {operands}. let b:{out} = {equation} in (b,) }}")


@pytest.mark.parametrize("equation", TAKEN)
def test_linear_operations_take_what_is_to_be_summed(equation):
    jt.typecheck_jaxpr(_one(equation, TAKEN[equation]))


@pytest.mark.parametrize("equation", REFUSED)
def test_others_do_not(equation):
    with pytest.raises(jt.JaxprTypeError, match="still to be summed along"):
        jt.typecheck_jaxpr(_one(equation, REFUSED[equation] + "{U:X}"))

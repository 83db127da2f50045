"""A quantised two-layer network, in the style of AQT: int8 activations, int8 and packed int4 weights.

Products of integers accumulate in int32. Gradients pass straight through the rounding.

jaxprtool trace examples/zoo/quantised.py:network \\
    --shape '{"b1": f32[8], "scales": f32[2,4], "w1": f32[8,8], "w2": i4[2,4,4]}' --shape 'f32[3,8]' \\
    -o examples/zoo/quantised.jaxpr
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

BATCH, INPUTS, HIDDEN, OUTPUTS, GROUP = 3, 8, 8, 4, 4


@jax.custom_jvp
def round_through(x):
    """Round to the nearest even; its derivative is taken to be 1."""
    return jnp.round(x)


@round_through.defjvp
def _(primals, tangents):
    return round_through(*primals), tangents[0]


def absmax_scale(x, axis, bits=8):
    """What one unit of the integers stands for, so that the largest value just fits."""
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=True)
    return lax.stop_gradient(jnp.maximum(largest, 1e-6) / (2 ** (bits - 1) - 1))


def fake_quantise(x, axis, bits=8):
    """(x rounded to its scale, still in floating point; the scale)."""
    scale = absmax_scale(x, axis, bits)
    limit = 2.0 ** (bits - 1) - 1
    return jnp.clip(round_through(x / scale), -limit, limit), scale


@jax.custom_vjp
def int8_matmul(x, w):
    """x: f32[n, k] @ w: f32[k, m] with int8 operands, scales for each row and column."""
    xq, x_scale = fake_quantise(x, 1)
    wq, w_scale = fake_quantise(w, 0)
    product = lax.dot_general(
        xq.astype(jnp.int8),
        wq.astype(jnp.int8),
        (((1,), (0,)), ((), ())),
        preferred_element_type=jnp.int32,
    )
    return product.astype(jnp.float32) * x_scale * w_scale


def _forward(x, w):
    return int8_matmul(x, w), (x, w)


def _backward(saved, g):
    x, w = saved
    return g @ w.T, x.T @ g


int8_matmul.defvjp(_forward, _backward)


def int4_matmul(x, packed, scales):
    """x: f32[n, k] by weights i4[k / GROUP, GROUP, m], with one scale for each group: f32[k / GROUP, m]."""
    groups = x.reshape(x.shape[0], -1, GROUP)
    xq, x_scale = fake_quantise(groups, 2)
    product = lax.dot_general(
        xq.astype(jnp.int8),
        packed.astype(jnp.int8),
        (((2,), (1,)), ((1,), (0,))),
        preferred_element_type=jnp.int32,
    )
    rescaled = product.astype(jnp.float32) * x_scale.transpose(1, 0, 2) * scales[:, None]
    return rescaled.sum(axis=0)


def network(params, x):
    """x: f32[n, INPUTS] -> (f32[n, OUTPUTS], u8[n, OUTPUTS] with an offset of 128)."""
    hidden = jax.nn.relu(int8_matmul(x, params["w1"]) + params["b1"])
    y = int4_matmul(fake_quantise(hidden, 1)[0], params["w2"], params["scales"])
    return y, (jnp.clip(jnp.round(y), -128, 127) + 128).astype(jnp.uint8)


def example(seed=0):
    """Arguments of `network`."""
    rng = np.random.default_rng(seed)
    params = {
        "b1": rng.normal(size=HIDDEN).astype(np.float32),
        "scales": rng.uniform(0.01, 0.1, (HIDDEN // GROUP, OUTPUTS)).astype(np.float32),
        "w1": rng.normal(size=(INPUTS, HIDDEN)).astype(np.float32),
        "w2": rng.integers(-8, 8, (HIDDEN // GROUP, GROUP, OUTPUTS)).astype(jnp.int4),
    }
    return params, rng.normal(size=(BATCH, INPUTS)).astype(np.float32)

"""A layer-normalised self-attention block with a residual connection, written with jax.numpy.

jaxprtool trace examples/attention.py:loss --shape '{"norm": {"scale": f32[8], "bias": f32[8]}, "qkv": f32[8,24],
    "out": f32[8,8]}' --shape 'f32[6,8]' --static heads=2 > examples/attention.jaxpr
"""

import jax
import jax.numpy as jnp


def layer_norm(x, scale, bias, epsilon=1e-5):
    """Each row of x with mean 0 and variance 1, then scaled and shifted."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = jnp.square(x - mean).mean(axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + epsilon) * scale + bias


def block(params, x, heads=2):
    """Self-attention over the rows of x: f32[time, features]."""
    time, features = x.shape
    normed = layer_norm(x, params["norm"]["scale"], params["norm"]["bias"])
    qkv = (normed @ params["qkv"]).reshape(time, 3, heads, features // heads)
    q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]
    scores = jnp.einsum("thd,shd->hts", q, k) / jnp.sqrt(features / heads)
    causal = jnp.tril(jnp.ones((time, time), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    mixed = jnp.einsum("hts,shd->thd", weights, v).reshape(time, features)
    return x + mixed @ params["out"]


def loss(params, x, heads=2):
    """The mean square of the block's output."""
    return jnp.mean(jnp.square(block(params, x, heads)))

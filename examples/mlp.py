"""A two-layer perceptron with softmax cross-entropy, written with jax.numpy.

jaxprtool trace examples/mlp.py:loss --shape '{"w1": f32[4,8], "b1": f32[8], "w2": f32[8,10], "b2": f32[10]}' \\
    --shape 'f32[5,4]' --shape 'i32[5]' > examples/mlp.jaxpr
"""

import jax
import jax.numpy as jnp


def predict(params, x):
    """Logits: f32[n, classes]."""
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss(params, x, labels):
    """Mean cross-entropy of integer labels."""
    log_probs = jax.nn.log_softmax(predict(params, x))
    one_hot = jax.nn.one_hot(labels, log_probs.shape[-1], dtype=log_probs.dtype)
    return -jnp.mean(jnp.sum(log_probs * one_hot, axis=-1))

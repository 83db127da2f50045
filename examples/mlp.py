"""A two-layer perceptron with softmax cross-entropy, written with jax.numpy.

jaxprtool trace examples/mlp.py:loss --shape '{"w1": f32[4,8], "b1": f32[8], "w2": f32[8,10], "b2": f32[10]}' \\
    --shape 'f32[5,4]' --shape 'i32[5]' > examples/mlp.jaxpr

or, from the examples of its arguments: jaxprtool trace examples/mlp.py:loss --like example_args
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


def example_args():
    """Parameters, inputs f32[5,4] and labels i32[5], for `--like example_args`."""
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "w1": jax.random.normal(keys[0], (4, 8)),
        "b1": jnp.zeros(8),
        "w2": jax.random.normal(keys[1], (8, 10)),
        "b2": jnp.zeros(10),
    }
    return params, jax.random.normal(keys[2], (5, 4)), jnp.arange(5)

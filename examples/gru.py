"""A gated recurrent network over a sequence by `scan`, and its training with jaxprtool's own gradient.

jaxprtool trace examples/gru.py:loss --shape '{"bias": f32[12], "input": f32[3,12], "output": f32[4,3],
    "recurrent": f32[4,12]}' --shape "f32[6,2,3]" --shape "f32[6,2,3]" > examples/gru.jaxpr
jaxprtool grad --wrt 0,1,2,3 examples/gru.jaxpr | jaxprtool run --jit - --args random:0
python examples/gru.py
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxprtool as jt

Params = dict[str, Any]


def init(seed: int, features: int, hidden: int, outputs: int) -> Params:
    """Weights scaled by the square root of the fan-in: a dict of f32 arrays."""
    rng = np.random.default_rng(seed)

    def weights(rows: int, columns: int) -> np.ndarray:
        return (rng.normal(size=(rows, columns)) / np.sqrt(rows)).astype(np.float32)

    return {
        "input": weights(features, 3 * hidden),
        "recurrent": weights(hidden, 3 * hidden),
        "bias": np.zeros(3 * hidden, np.float32),
        "output": weights(hidden, outputs),
    }


def cell(params: Params, h: jax.Array, x: jax.Array) -> jax.Array:
    """The next state; h: f32[batch, hidden], x: f32[batch, features]."""
    xr, xz, xn = jnp.split(x @ params["input"] + params["bias"], 3, axis=-1)
    hr, hz, hn = jnp.split(h @ params["recurrent"], 3, axis=-1)
    reset, update = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    return (1 - update) * jnp.tanh(xn + reset * hn) + update * h


def predict(params: Params, xs: jax.Array) -> jax.Array:
    """Outputs for every step: f32[time, batch, outputs], from xs: f32[time, batch, features]."""

    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = cell(params, h, x)
        return h, h @ params["output"]

    h0 = jnp.zeros((xs.shape[1], params["recurrent"].shape[0]), xs.dtype)
    return jax.lax.scan(step, h0, xs)[1]


def loss(params: Params, xs: jax.Array, ys: jax.Array) -> jax.Array:
    """Mean square error of the outputs at all steps."""
    return jnp.mean(jnp.square(predict(params, xs) - ys))


def train(params: Params, xs: Any, ys: Any, steps: int, rate: float) -> tuple[Params, list[float]]:
    """Gradient descent: `loss` is recorded by JAX, differentiated by jaxprtool and run on NumPy."""
    leaves, tree = jax.tree.flatten(params)
    program = jt.from_jax(jax.make_jaxpr(loss)(params, xs, ys))
    run = jt.jaxpr_as_fun(program)
    gradient = jt.value_and_grad(lambda *args: run(*args)[0], range(len(leaves)))
    losses = []
    for _ in range(steps):
        value, grads = gradient(*leaves, xs, ys)
        leaves = [w - np.float32(rate) * g for w, g in zip(leaves, grads, strict=True)]
        losses.append(float(value))
    return jax.tree.unflatten(tree, leaves), losses


def echo(seed: int, time: int, batch: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, and the task: the same noise one step later."""
    xs = np.random.default_rng(seed).normal(size=(time, batch, features)).astype(np.float32)
    return xs, np.concatenate([np.zeros_like(xs[:1]), xs[:-1]])


if __name__ == "__main__":
    xs, ys = echo(0, time=12, batch=8, features=3)
    _, losses = train(init(1, 3, 16, 3), xs, ys, steps=40, rate=0.5)
    print(*(f"{value:.4f}" for value in losses[::5]))

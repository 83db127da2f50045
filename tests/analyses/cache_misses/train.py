"""Calls that JAX traces again, each kind once or more; the logs beside this file are what releases of JAX say of it.

JAX_EXPLAIN_CACHE_MISSES=1 python train.py 2> jax-0.10.2.log
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def f(x, y=1.0):
    return x * y


@functools.partial(jax.jit, static_argnums=1, static_argnames=("mode",))
def g(x, n, mode="a"):
    return x * n


class Model:
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, params, x):
        return params["w"] * x


def train(x):
    return f(x)


ones = np.ones(3, np.float32)
train(ones)
for dtype in (np.float32, np.int32):
    train(np.ones(4, dtype))
f(1.0)
f(np.float32(1.0))
f(ones, y=2.0)
f(ones, ones)
for n in range(3):
    g(ones, n)
g(ones, 1, mode="b")
g(x=ones, n=2)
model = Model()
model.step({"w": ones}, 1.0)
model.step({"w": ones, "b": 1.0}, 1.0)
Model().step({"w": ones}, 1.0)
for _ in range(3):
    jax.jit(lambda x: x + 1)(ones)
for i in range(3):
    jax.jit(functools.partial(lambda x, k: x + k, k=i))(ones)
with jax.default_matmul_precision("float32"):
    f(ones)
for shape in ((2, 3), (3, 2), (3, 2, 1)):
    f(jnp.reshape(np.ones(6, np.float32), shape))

"""Programs whose texts, as releases of JAX print them, stand beside this file: `python programs.py FOLDER` writes them.

Run it with the Python of an environment that has the release; it needs JAX alone.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import lax

# What `jax.new_ref` was called: to 0.7.1 and to 0.6.2.
new_ref = getattr(jax, "new_ref", None) or getattr(jax, "array_ref", None)
if new_ref is None:
    from jax._src import core

    new_ref = getattr(core, "mutable_array", None)


def loop_of_sums(xs, w):
    def step(carry, x):
        carry = carry + x * w
        return carry, jnp.max(carry)

    return lax.scan(step, jnp.zeros(3), xs)


def loops_in_loops(xs):
    def inner(c, x):
        return c + x, None

    def outer(c, row):
        total, _ = lax.scan(inner, 0.0, row)
        return c * total, (total, c)

    return lax.scan(outer, 1.0, xs, reverse=True)


def mapped(xs):
    return lax.map(lambda x: x * 2, xs)


def counted(x):
    return lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 1, s[1] * 2), (0, x))


def counted_down(x):
    return lax.fori_loop(0, 5, lambda i, v: v + i, x)


def chosen(i, x):
    return lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * 3], x)


def looked_up(x, i):
    return x[i], x.at[i].add(1.0), x[1:], jnp.take(x, i)


def products(a, b):
    return jnp.einsum("bij,bjk->bik", a, b), a[0] @ b[0], jnp.dot(a[0, 0], b[0, :, 0])


def reduced(x):
    found = x.sum(), x.max(axis=1), x.min(), x.prod(0), jnp.argmax(x), (x > 0).any(), x.mean()
    return *found, jnp.cumsum(x, axis=0), lax.cummax(x)


def widened(x):
    return jnp.ones((2, 3)) * x, x[:, None] + x, jnp.broadcast_to(x, (4, 3)), jnp.zeros(2)


@jax.custom_jvp
def _cubed(x):
    return x**3


@_cubed.defjvp
def _cubed_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return _cubed(x), 3 * x**2 * t


@jax.custom_vjp
def _clipped(x):
    return jnp.sin(x)


_clipped.defvjp(lambda x: (jnp.sin(x), jnp.cos(x)), lambda c, g: (jnp.clip(g * c, -1, 1),))


def custom_rules(x):
    return _cubed(x) + _clipped(x), jax.grad(lambda v: _clipped(v).sum())(x)


def cells(x):
    ref = new_ref(x)
    ref[0] = ref[1] * 2
    ref[...] += 1.0
    return ref[...]


def largest(x):
    return lax.top_k(x, 2)


def sorted_pairs(k, v):
    return lax.sort((k, v), num_keys=1), jnp.argsort(k)


def composed(x):
    return lax.composite(lambda v: v * jnp.tanh(v), name="my.gate")(x)


def long_function(x):
    @jax.jit
    def f(v):
        for _ in range(6):
            v = jnp.sin(v) + 1.0
        return v

    @jax.jit
    def g(v):
        return v * 2

    return f(x) + g(x) + g(x)


def calls_of_later(x):
    @jax.jit
    def inner(v):
        return jnp.sin(v) * 2

    @jax.jit
    def outer(v):
        return inner(v) + 1

    return outer(x), outer(x * 3), inner(x)


def converted(x):
    return x.astype(jnp.bfloat16), x.astype(int), jnp.float32(1) * x, jnp.round(x)


def remembered(x):
    return jax.grad(lambda v: jax.checkpoint(lambda u: jnp.sin(jnp.sin(u)))(v).sum())(x)


def matrices(a, b):
    factor = jnp.linalg.cholesky(a)
    return factor, lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)


def printed(x):
    jax.debug.print("x is {} {n}", x, n=2)
    return x


def convolved(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME"), lax.reduce_window(
        x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
    )


F3, F43 = jnp.ones(3), jnp.ones((4, 3))
PROGRAMS = {
    loop_of_sums: (F43, F3),
    loops_in_loops: (F43,),
    mapped: (F43,),
    counted: (F3,),
    counted_down: (F3,),
    chosen: (jnp.int32(0), F3),
    looked_up: (F3, jnp.array([0, 2])),
    products: (jnp.ones((2, 3, 4)), jnp.ones((2, 4, 5))),
    reduced: (F43,),
    widened: (F3,),
    custom_rules: (F3,),
    cells: (F3,),
    largest: (F43,),
    sorted_pairs: (F3, F3),
    composed: (F3,),
    long_function: (F3,),
    calls_of_later: (F3,),
    converted: (F3,),
    remembered: (F3,),
    matrices: (jnp.eye(3), F3[:, None]),
    printed: (F3,),
    convolved: (jnp.ones((1, 2, 8, 8)), jnp.ones((3, 2, 3, 3))),
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for f, args in PROGRAMS.items():
        try:
            text = str(jax.make_jaxpr(f)(*args))
        except (AttributeError, TypeError) as e:  # a function of JAX that came later
            print(f.__name__, e)
            continue
        (folder / f"{f.__name__}.jaxpr").write_text(text + "\n")

"""Loops and branches that go wrong, written with JAX and with our lax."""

import jax

import jaxprtool as jt
from jaxprtool import lax


def carry_of_jax(x):
    def step(c, v):
        return {"a": c["a"], "b": c["b"] > 0}, v

    return jax.lax.scan(step, {"a": x[0], "b": x[1]}, x)


def while_of_jax(x):
    return jax.lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] > 0, c[1] + 1), (x, 0))


def carry(x):
    def step(c, v):
        return {"a": c["a"], "b": lax.gt(c["b"], c["b"])}, v

    return jt.scan(step, {"a": x[0], "b": x[1]}, x)


def structure(x):
    return jt.scan(lambda c, v: ((c, c), v), x[0], x)


def while_carry(x):
    return jt.while_loop(lambda c: c[1] < 3, lambda c: (lax.gt(c[0], c[0]), c[1] + 1), (x, 0))


def branches(x):
    return jt.cond(x[0] > 0, lambda x: (x, x[0]), lambda x: (x, x[0] > 0), x)


def lengths(x):
    return jt.scan(lambda c, v: (c, v[0]), x[0], (x, x[1:]))


def negative(x):
    return jt.scan(lambda c, v: (c, c), x[0], None, length=-1)


def no_steps(x):
    return jt.scan(lambda c, v: (c, c), x[0], None, length=0)


def axis(x):
    return lax.psum(x, axes=("i",), axis_index_groups=None)

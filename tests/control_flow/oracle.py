"""Programs of JAX beside what we make of them: value, compiled, derivatives, batch."""

from __future__ import annotations

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun as jax_fun

import jaxprtool as jt
from tests.releases import MADE_OF, jaxprs_in_params

__all__ = ["close", "compare", "count_jax", "traced"]


def close(ours, theirs, tol=3e-4):
    """Equal trees of arrays, up to rounding; float0 is compared by shape."""
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        if a.dtype.names is None and a.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def traced(f, *args):
    """The program of a JAX function, type-checked."""
    program = jt.from_jax(jax.make_jaxpr(f)(*args))
    jt.typecheck_jaxpr(program)
    return program


def count_jax(closed):
    """Equations of a jaxpr of JAX's as 0.10 would have them, nested ones included."""
    total = 0
    for eqn in getattr(closed, "jaxpr", closed).eqns:
        total += MADE_OF.get(eqn.primitive.name, 1)
        total += sum(map(count_jax, jaxprs_in_params(eqn.params)))
    return total


def _tangent(x):
    x = np.asarray(x)
    return np.ones_like(x) if x.dtype.kind == "f" else np.zeros(x.shape, jax.dtypes.float0)


def compare(f, *args, oracle=None, forward=True, reverse=True, batch=True):
    """Compare everything with JAX; `oracle` stands in for f where JAX cannot transform f itself."""
    program = traced(f, *args)
    ours, theirs = jt.jaxpr_as_fun(program), oracle or f
    want = jax.tree.leaves(f(*args))
    close(jt.eval_jaxpr(program, args), want)
    close(jt.compile(program)(*args), want)
    if forward:
        ts = tuple(map(_tangent, args))
        mine, other = jt.jvp(ours, args, ts), jax.jvp(theirs, args, ts)
        close(mine[0], other[0])
        close([t for t in mine[1] if t.dtype.kind == "f"], _floats(other[1]))
    if reverse:
        out, pull = jt.vjp(ours, *args)
        their_out, their_pull = jax.vjp(theirs, *args)
        mine = pull(*map(_tangent, out))
        close(_floats(list(mine)), _floats(their_pull(jax.tree.map(_tangent, their_out))))
    if batch:
        stacked = [np.stack([x, x + np.ones_like(x)]) for x in map(np.asarray, args)]
        close(jt.vmap(ours)(*stacked), jax.tree.leaves(jax.vmap(theirs)(*stacked)))
    return program


def _floats(tree):
    return [x for x in jax.tree.leaves(tree) if np.asarray(x).dtype.kind == "f"]


def in_jax(program):
    """A program of ours as a function of JAX's arrays."""
    fun = jax_fun(jt.to_jax(program))
    return lambda *args: tuple(fun(*args))

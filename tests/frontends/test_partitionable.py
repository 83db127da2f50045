"""JAX's setting `jax_threefry_partitionable` of the time of a trace stays with the program: JAX is the oracle."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt

FUNCTIONS = {
    **{
        f"bits-{width}-{shape}": lambda k, w=width, s=shape: jax.random.bits(k, s, f"uint{w}")
        for width, shape in itertools.product((8, 16, 32), ((3,), (2, 5)))
    },
    **{f"split-{n}": lambda k, n=n: jax.random.split(k, n) for n in (1, 3, (2, 3))},
    "gamma": lambda k: jax.random.gamma(k, 2.0, (3,)),
    "normal": lambda k: jax.random.normal(k, (3,)),
    "jit": jax.jit(lambda k: jax.random.permutation(k, 5)),
    "scan": lambda k: jax.lax.scan(lambda c, _: (jax.random.fold_in(c, 1), jax.random.normal(c)), k, None, 3),
    "vmap": lambda k: jax.vmap(lambda k: jax.random.uniform(k, (3,)))(jax.random.split(k, 4)),
    "grad": jax.grad(lambda k: jax.random.gamma(jax.random.key(3), k), allow_int=True),
}  # fmt: skip


def _words(x):
    if isinstance(x, jt.KeyArray):
        return np.asarray(x.data)
    is_key = jax.numpy.issubdtype(getattr(x, "dtype", float), jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def _agree(got, want):
    for g, w in zip(map(_words, got), map(_words, want), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(g, w, rtol=1e-5 if g.dtype.kind == "f" else 0)


@pytest.mark.parametrize(
    "name, impl, traced",
    [
        *[(name, "threefry2x32", False) for name in FUNCTIONS],
        *[(name, "rbg", False) for name in ("split-3", "gamma")],
        *[(name, "threefry2x32", True) for name in ("split-3", "normal", "scan")],
    ],
)
def test_a_program_draws_as_it_was_traced(name, impl, traced):
    f = FUNCTIONS[name]
    key = 2.0 if name == "grad" else jax.random.key(7, impl=impl)
    with jax.threefry_partitionable(traced):
        theirs = jax.make_jaxpr(f)(key)
        want = jax.tree.leaves(jax.jit(f)(key))
    program = jt.from_jax(theirs)
    arg = key if name == "grad" else jt.KeyArray(str(key.dtype)[4:-1], _words(key))
    with jax.threefry_partitionable(not traced):  # whatever it is now
        for read in (program, jt.parse(jt.format_jaxpr(program, lossless=True))):
            _agree(jt.run(read, arg), want)
            back = jt.to_jax(read)
            assert str(back) == str(theirs)
            _agree(jax.jit(jaxpr_as_fun(back))(key), want)
        _agree(jt.run(program, arg, jit=True), want)
        if theirs.consts == []:
            assert jt.format_jaxpr(program) == str(theirs)

"""JAX's jaxprs may share variables after partial evaluation and dead code elimination: a shared variable has one name in its print."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt

X = np.full(4, 0.5, np.float32)


def pulled_back(f):
    return lambda *args: jax.vjp(f, *args)[1](f(*args))


def sums(x):
    """The sines of running sums, whose last sum nobody reads."""
    return jnp.sin(jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, x)[1])


ERFCX = getattr(jax.scipy.special, "erfcx", jax.scipy.special.log_ndtr)  # since 0.10
PROGRAMS = {
    "unread": (pulled_back(jax.checkpoint(jax.jit(sums))), (X,)),
    "beta": (pulled_back(jax.scipy.special.beta), (X, X)),
    "remat": (pulled_back(jax.checkpoint(ERFCX)), (X,)),
    "second": (lambda x: jax.jvp(pulled_back(jnp.sinc), (x,), (x,)), (X,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_live_programs_print_as_jax_prints_them(name):
    function, args = PROGRAMS[name]
    closed = jax.make_jaxpr(function)(*args)
    live = jt.from_jax(closed)
    if not closed.consts:
        assert str(live) == str(closed)
    assert str(jt.to_jax(live)) == str(closed)
    for got, want in zip(
        jt.eval_jaxpr(live, args), jax.tree.leaves(jax.jit(function)(*args)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=2e-5)

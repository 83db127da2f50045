"""Rules of custom derivatives of a file are the same ones after `to_jax` and `from_jax`, and JAX calls them as it calls its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.driver.storage.output import program_text

X = np.linspace(0.5, 1.5, 3, dtype=np.float32)
TABLE = np.arange(3, dtype=np.float32)


@jax.custom_jvp
def scaled(x, n):
    return jnp.log1p(x * x) * n


@scaled.defjvp
def _(
    primals, tangents
):  # the tangent of n is weakly typed, and has no sum with the other one without a conversion
    (x, n), (dx, dn) = primals, tangents
    return scaled(x, n), dx * x * 2 + dn * 3


@jax.custom_vjp
def tabled(x):
    return x * TABLE


tabled.defvjp(lambda x: (x * TABLE, x), lambda x, ct: (ct * TABLE * 3,))


@jax.custom_vjp
def product(x, y):
    return x * y, x + y


def _is_zero(ct):
    return isinstance(ct, jax.custom_derivatives.SymbolicZero)


def _product_fwd(x, y):
    return (x.value * y.value, x.value + y.value), (x.value, y.value)


def _product_bwd(residuals, cts):
    a, b = (jnp.zeros(3) if _is_zero(ct) else ct for ct in cts)
    return a * residuals[1] + b, a * 2


product.defvjp(_product_fwd, _product_bwd, symbolic_zeros=True)

PROGRAMS = {
    "weak": lambda x: lax.scan(lambda c, y: (scaled(c + y, 2.0), scaled(y, c)), x, jnp.stack([x, x])),
    "constants": lambda x: (jax.jit(tabled)(x), lax.map(tabled, jnp.stack([x, x]))),
    "symbolic": lambda x: product(x, 2 * x),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_comes_back_from_jax(name):
    text = program_text({"": jt.from_jax(jax.make_jaxpr(PROGRAMS[name])(X))})
    again = jt.from_jax(jt.to_jax(jt.parse(text)))
    assert jt.hash(again) == jt.hash(jt.parse(text))
    assert program_text({"": again}) == text


@pytest.mark.parametrize("change", [jax.vmap, jax.checkpoint], ids=["vmap", "checkpoint"])
def test_what_jax_changed_is_read_anew(change):
    """A rule that JAX made of one of ours is not ours."""
    f = jt.to_jax_function(jt.from_jax(jax.make_jaxpr(lambda x: scaled(x, 2 * x).sum())(X)))
    batch = np.stack([X, 2 * X])
    total = lambda xs: jnp.sum(change(lambda x: f(x)[0])(xs if change is jax.vmap else xs[0]))
    got = jt.grad(jt.jaxpr_as_fun(jt.from_jax(jax.make_jaxpr(total)(batch))))
    np.testing.assert_allclose(got(batch), jax.grad(total)(batch), rtol=1e-5)


def test_a_rule_that_knows_symbolic_zeros_is_given_some():
    f = lambda x, y: (3 * product(x, y)[0]).sum()
    text = program_text({"": jt.from_jax(jax.make_jaxpr(f)(X, X))})
    g = jt.to_jax_function(jt.parse(text))
    got = jax.grad(lambda *xs: jax.tree.leaves(g(*xs))[0], (0, 1))(X, 2 * X)
    for ours, theirs in zip(got, jax.grad(f, (0, 1))(X, 2 * X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)

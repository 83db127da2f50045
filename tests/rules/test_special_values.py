"""Special functions at their edges, and derivatives by the operands that have one: JAX's values."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt

EDGES = np.array([0.0, 1.0, 2.0, 0.5, -0.5, -2.0, np.inf, -np.inf, np.nan, 8.0])


def _pairs():
    x, y = np.meshgrid(EDGES, EDGES)
    return x.ravel(), y.ravel()


def _agree(f, args):
    expected = np.asarray(jax.jit(f)(*args))
    program = jt.parse(str(jax.make_jaxpr(f)(*args)))
    for out in (jt.eval_jaxpr(program, args), jt.compile(program)(*args)):
        np.testing.assert_allclose(np.asarray(out[0]), expected, rtol=1e-8, atol=1e-11)


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", ["lgamma", "digamma", "bessel_i0e", "bessel_i1e"])
def test_edges(name):
    _agree(getattr(jax.lax, name), [EDGES])


@pytest.mark.parametrize("name", ["igamma", "igammac", "igamma_grad_a", "zeta", "polygamma"])
def test_edges_of_two_operands(name):
    _agree(getattr(jax.lax, name), _pairs())


@pytest.mark.parametrize("order", [1.0, 2.0, 5.0])
def test_polygamma_of_negative_numbers(order):
    """Below -9 XLA's numbers are far from the function, and are JAX's derivatives of digamma."""
    x = np.array([-0.3, -4.6, -8.9, -9.1, -9.5, -9.98, -10.4, -12.3, -30.7])
    _agree(jax.lax.polygamma, [np.full(x.shape, order), x])


def test_edges_of_the_incomplete_beta_function():
    a, b = _pairs()
    x = np.resize([0.0, 0.3, 1.0, -1.0, np.nan], a.shape)
    _agree(jax.lax.betainc, [a, b, x])


def test_derivative_of_polygamma_by_x():
    m, x = np.array([1.0, 2.0]), np.array([0.5, 3.0])
    ours = jt.grad(lambda x: jt.lax.reduce_sum(jt.lax.polygamma(m, x), axes=(0,)))(x)
    theirs = jax.grad(lambda x: jax.lax.polygamma(m, x).sum())(x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_derivative_of_zeta_by_its_second_operand():
    x, q = np.array([2.0, 3.5]), np.array([0.5, 3.0])
    ours = jt.grad(lambda q: jt.lax.reduce_sum(jt.lax.zeta(x, q), axes=(0,)))(q)
    theirs = jax.grad(lambda q: jax.scipy.special.zeta(x, q).sum())(q)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_derivative_of_the_incomplete_beta_function_by_x():
    a, x = np.array([0.5, 2.0]), np.array([0.2, 0.7])
    f = jt.lax.regularized_incomplete_beta
    ours = jt.grad(lambda x: jt.lax.reduce_sum(f(a, a, x), axes=(0,)))(x)
    theirs = jax.grad(lambda x: jax.lax.betainc(a, a, x).sum())(x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)

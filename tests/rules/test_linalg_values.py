"""Properties of decompositions that comparison with JAX does not show."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.backends.xla.compile import compile_jaxpr
from jaxprtool.syntax.print import format_jaxpr

RNG = np.random.default_rng(2)


def _results(f, *args):
    """What NumPy and XLA compute."""
    program = jt.make_jaxpr(f)(*args)
    return jt.eval_jaxpr(program, args), [np.asarray(x) for x in compile_jaxpr(program)(*args)]


def test_a_matrix_that_fails_is_nan_and_others_are_not():
    a = np.stack([np.eye(2), -np.eye(2)])
    for (c,) in _results(lambda x: [lax.cholesky(x)], a):
        assert np.isfinite(c[0]).all() and np.isnan(c[1]).all()


@pytest.mark.parametrize("kind", ["f", "c"])
def test_nan_in_gives_nan_out(kind):
    a = np.eye(3) * (1 + (1j if kind == "c" else 0))
    a[1, 1] = np.nan
    flags = {"compute_left_eigenvectors": True, "compute_right_eigenvectors": True}
    for op, params in (
        (lax.eig, flags),
        (lax.svd, {"full_matrices": False, "compute_uv": True}),
    ):
        for outs in _results(lambda x, op=op, params=params: op(x, **params), a):
            assert all(np.isnan(x).all() for x in outs), op.primitive


def test_pivoted_qr_of_a_wide_matrix_has_the_derivative_of_difference_quotients():
    """JAX (0.10.2) forgets to permute the columns of the operand here."""
    x, t = RNG.normal(size=(2, 2, 4))
    eps = 1e-6

    def f(x):
        return lax.qr(x, full_matrices=False, pivoting=True)

    (q, r, p), (dq, dr, _) = jt.jvp(f, (x,), (t,))
    np.testing.assert_allclose(q @ r, x[:, p], atol=1e-12)
    high, low = f(x + eps * t), f(x - eps * t)
    np.testing.assert_allclose(dq, (high[0] - low[0]) / (2 * eps), atol=1e-7)
    np.testing.assert_allclose(dr, (high[1] - low[1]) / (2 * eps), atol=1e-7)


def test_perturbed_tridiagonal_systems_are_solved_where_the_matrix_is_singular():
    d = np.array([1e-30, 1.0, 0.0, 1.0])
    zero, b = np.zeros(4), np.ones((4, 1))
    for (x,) in _results(
        lambda *v: [lax.tridiagonal_solve(*v, perturb_singular=True)], zero, d, zero, b
    ):
        np.testing.assert_allclose(x[:, 0], [1e30, 1, 1 / np.finfo(float).eps, 1])
    for (x,) in _results(lambda *v: [lax.tridiagonal_solve(*v)], zero, d, zero, b):
        assert np.isnan(x).all()


@pytest.mark.parametrize("extra", ["", "algorithm=None "])
def test_svd_prints_its_algorithm_where_the_text_has_it(extra):
    text = (
        "{ lambda ; a:f32[2,2]. let\n"
        f"    b:f32[2] = svd[{extra}compute_uv=False full_matrices=True subset_by_index=None] a\n"
        "  in (b,) }"
    )
    program = jt.parse(text)
    assert "".join(format_jaxpr(program).split()) == "".join(text.split())
    np.testing.assert_allclose(jt.eval_jaxpr(program, [np.eye(2, dtype=np.float32)])[0], 1)
    jt.typecheck_jaxpr(program)


def test_pivots_outside_are_read_as_the_nearest_and_not_written():
    for pivots in ([5, 1], [-1, 0], [-9, 2], [0, 100]):
        x = np.array(pivots, np.int32)
        program = jt.make_jaxpr(lambda x: jt.lax.lu_pivots_to_permutation(x, permutation_size=4))(x)
        theirs = jax.lax.linalg.lu_pivots_to_permutation(x, 4)
        np.testing.assert_array_equal(jt.eval_jaxpr(program, [x])[0], theirs)
        np.testing.assert_array_equal(jt.compile(program)(x)[0], theirs)


@pytest.mark.parametrize("kind", ["f", "c"])
def test_the_derivative_of_cholesky_in_hermitian_directions(kind):
    """There the rules of all releases agree, and are the quotient of differences."""
    root, t = RNG.normal(size=(2, 3, 3)) + (1j * RNG.normal(size=(2, 3, 3)) if kind == "c" else 0)
    a, t = root @ root.conj().T + 3 * np.eye(3), t + t.conj().T
    (_,), (moved,) = jt.jvp(lambda x: [lax.cholesky(x)], (a,), (t,))
    high, low = (np.linalg.cholesky(a + e * t) for e in (1e-6, -1e-6))
    np.testing.assert_allclose(np.tril(moved), (high - low) / 2e-6, rtol=1e-6, atol=1e-6)

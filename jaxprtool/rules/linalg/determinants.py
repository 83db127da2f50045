"""Determinants of square matrices, and their derivatives."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Value
from jaxprtool.makers.axes import full
from jaxprtool.makers.elementwise import full_like
from jaxprtool.rules.linalg.lu import solve_matrix
from jaxprtool.rules.linalg.matrices import columns_like, diagonal, eye, matmul, one_hot

__all__ = ["det_and_adjugate_product", "log_det_tangent", "trace"]


def trace(x: Value) -> Value:
    """Return the sum of the diagonal of a matrix."""
    return lax.reduce_sum(diagonal(x), axes=(get_aval(x).ndim - 2,))


def log_det_tangent(a: Value, da: Value) -> Value:
    """Return the tangent of log|det a|: the trace of a^-1 da (Jacobi's formula)."""
    return trace(solve_matrix(a, da))


def det_and_adjugate_product(a: Value, b: Value) -> tuple[Value, Value]:
    """Return the determinant of a, and adj(a) b, where adj(a) a = det(a) I; a may be singular.

    Let P a = L U and x = L^-1 P b. Then y = adj(a) b solves U y = det(a) x. Its last row is c times
    that of x, where c = det(a) / u_nn is computed without dividing by u_nn, which may be zero; the
    other rows follow by back substitution. If c is zero, as for matrices of rank n - 2 or less, y
    is zero.

    Args:
      a: [..., n, n] of floats, n > 0.
      b: of the same type.

    Returns:
      [...] and [..., n, n].
    """
    aval = get_aval(a)
    batch, n = aval.shape[:-2], aval.shape[-1]
    if n == 1:
        return lax.reduce_sum(a, axes=(aval.ndim - 2, aval.ndim - 1)), b
    factors, pivots, permutation = lax.lu(a)
    x = matmul(one_hot(permutation, aval.dtype), b)
    x = lax.triangular_solve(factors, x, left_side=True, lower=True, unit_diagonal=True)
    u, last = diagonal(factors), _is_last((*batch, n))
    minor = lax.mul(_sign(pivots, u), _product(lax.select_n(last, u, full_like(u, 1.0))))
    det = lax.mul(minor, _product(lax.select_n(last, full_like(u, 1.0), u)))
    zero = lax.eq(minor, 0.0)
    safe = lax.select_n(zero, minor, full_like(minor, 1.0))
    # U with 1 / c in the place of u_nn, and ones on the diagonal where the product is zero
    corner = lax.select_n(last, u, _along(lax.div(1.0, safe), batch, n))
    corner = lax.select_n(_along(zero, batch, n), corner, full_like(u, 1.0))
    upper = lax.select_n(
        eye(aval.shape, get_aval(zero).dtype), factors, columns_like(corner, aval.shape)
    )
    scale = lax.select_n(last, _along(det, batch, n), full_like(u, 1.0))
    x = lax.mul(x, columns_like(scale, aval.shape))
    y = lax.triangular_solve(upper, x, left_side=True, lower=False)
    everywhere = lax.broadcast_in_dim(
        zero, shape=aval.shape, broadcast_dimensions=(*range(len(batch)),)
    )
    return det, lax.select_n(everywhere, y, full(aval, 0))


def _sign(pivots: Value, like: Value) -> Value:
    """Return the sign of the permutation: -1 to the number of pivots that exchange two rows."""
    aval = get_aval(pivots)
    places = lax.iota(dtype=aval.dtype, shape=aval.shape, dimension=aval.ndim - 1)
    moved = lax.convert_element_type(lax.ne(pivots, places), new_dtype=INT32)
    odd = lax.and_(lax.reduce_sum(moved, axes=(aval.ndim - 1,)), 1)
    return lax.convert_element_type(lax.sub(1, lax.mul(2, odd)), new_dtype=get_aval(like).dtype)


def _product(x: Value) -> Value:
    return lax.reduce_prod(x, axes=(get_aval(x).ndim - 1,))


def _is_last(shape: tuple[int, ...]) -> Value:
    """Return an array of booleans of a shape that is True at the last position of the last axis."""
    return lax.eq(lax.iota(dtype=INT32, shape=shape, dimension=len(shape) - 1), shape[-1] - 1)


def _along(x: Value, batch: tuple[int, ...], n: int) -> Value:
    """Return vectors of n equal elements, one for each element of x."""
    return lax.broadcast_in_dim(x, shape=(*batch, n), broadcast_dimensions=(*range(len(batch)),))

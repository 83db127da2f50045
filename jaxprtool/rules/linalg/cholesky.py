"""Rows of the Cholesky decomposition, its rank-1 update, and symmetric products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR, is_linear, not_linear
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import check_same_dtype, static_impl
from jaxprtool.makers.decomposed import decomposed
from jaxprtool.makers.elementwise import check_kind, full_like
from jaxprtool.rules.control_flow.functions import fori_loop
from jaxprtool.rules.define import define
from jaxprtool.rules.linalg.lapack import (
    char,
    each_matrix,
    info_type,
    lapack_call,
    letter,
    routine,
    unless_failed,
)
from jaxprtool.rules.linalg.matrices import check_square, eye, leading_batch, matmul, swapped, tril

__all__: list[str] = []


def _types(a: Aval) -> Aval:
    check_square("cholesky", a)
    return a


def _impl(xp: Namespace, a: Value) -> Value:
    potrf = routine(xp, "cholesky", "potrf", a.dtype)

    def factor(x: Value) -> Value:
        c, info = potrf(x, lower=1, clean=0)
        return (c,) if info == 0 else None

    return lambda x: each_matrix(xp, factor, (2,), [a], (x,))[0]


def _jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    """Return L' = L phi(L^-1 a' L^-H), where phi keeps the lower triangle and halves the diagonal.

    Iain Murray, Differentiation of the Cholesky decomposition, arXiv:1602.07527. As in JAX up to
    0.11.1, the tangent a' has to be Hermitian, as a is. Later releases first mirror the lower
    triangle of a', which makes no difference for Hermitian a'.
    """
    factor = tril(lax.cholesky(*primals))
    half = lax.triangular_solve(
        factor, tangents[0], left_side=False, lower=True, transpose_a=True, conjugate_a=True
    )
    middle = lax.triangular_solve(factor, half, left_side=True, lower=True)
    aval = get_aval(middle)
    phi = lax.div(tril(middle), lax.add(eye(aval.shape, aval.dtype), 1))
    return factor, matmul(factor, phi)


def _lower(ctx: LoweringContext, a: HloValue) -> HloValue:
    target = f"lapack_{letter('cholesky', a.aval.dtype)}potrf_ffi"
    outs = [a.aval, info_type(a.aval)]
    c, info = lapack_call(ctx, target, [a], outs, {0: 0}, uplo=char("L"))
    return unless_failed(ctx, info, [c])[0]


define(
    lax.cholesky,
    abstract_eval=_types,
    impl=static_impl(_impl),
    jvp=_jvp,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_lower,
    cost=lambda ins, outs: max(ins[0].size, 0) * ins[0].shape[-1] // 3,
)


# -- cholesky_update -------------------------------------------------------------------------------


def _update_type(r: Aval, w: Aval) -> Aval:
    if r.ndim != 2 or r.shape[0] != r.shape[1] or w.shape != r.shape[:1]:
        ill_typed(
            f"cholesky_update needs a square matrix and a vector of its size, got {r} and {w}",
            "operand-shapes",
        )
    check_kind("cholesky_update", r, "f")
    check_same_dtype("cholesky_update", (r, w))
    return r


def _rotation(x: Value, y: Value) -> tuple[Value, Value]:
    """Return cosine and sine of the rotation that maps (x, y) to (length, 0); 1 and 0 where y is
    0.
    """
    zero = lax.eq(y, 0.0)
    size_x, size_y = lax.abs(x), lax.abs(y)
    size = lax.select_n(lax.gt(size_x, size_y), size_y, size_x)
    size = lax.select_n(zero, size, full_like(x, 1.0))
    x, y = lax.div(x, size), lax.div(y, size)
    scale = lax.div(1.0, lax.sqrt(lax.add(lax.mul(x, x), lax.mul(y, y))))
    cosine, sine = lax.mul(x, scale), lax.neg(lax.mul(y, scale))
    one, none = full_like(x, 1.0), full_like(x, 0.0)
    return lax.select_n(zero, cosine, one), lax.select_n(zero, sine, none)


def _updated(_avals: Sequence[Aval], r: Value, w: Value) -> Value:
    """Return R by Givens rotations: rotation k combines row k and w so that w[k] becomes 0.

    Golub, Van Loan: Matrix Computations, 4th edition, section 6.5.4.
    """
    n = get_aval(r).shape[0]

    def step(k: Any, state: Value) -> Value:
        r, w = state
        zero = scalar_lit(0, get_aval(k).dtype)
        row = lax.dynamic_slice(r, k, zero, slice_sizes=(1, n))
        row = lax.squeeze(row, dimensions=(0,))
        ends = [lax.dynamic_slice(v, k, slice_sizes=(1,)) for v in (row, w)]
        cosine, sine = _rotation(*[lax.squeeze(v, dimensions=(0,)) for v in ends])
        new = lax.sub(lax.mul(cosine, row), lax.mul(sine, w))
        rest = lax.add(lax.mul(cosine, w), lax.mul(sine, row))
        new = lax.broadcast_in_dim(new, shape=(1, n), broadcast_dimensions=(1,))
        return lax.dynamic_update_slice(r, new, k, zero), rest

    return fori_loop(0, n, step, (r, w))[0] if n else r


_NO_RULE = unsupported("JAX has no rule either")

define(
    lax.cholesky_update,
    abstract_eval=_update_type,
    **decomposed(_updated),
    jvp=_NO_RULE,
    transpose=NONLINEAR,
    batch=_NO_RULE,
    cost=AS_LOWERED,
)


# -- symmetric_product -----------------------------------------------------------------------------


def _product_type(a: Aval, c: Aval, *, alpha: float, beta: float) -> Aval:
    square = (*a.shape[:-1], *a.shape[-2:-1])
    if a.ndim < 2 or c.shape != square:
        ill_typed(
            f"symmetric_product needs matrices (m, n) and (m, m), got {a} and {c}", "operand-shapes"
        )
    check_kind("symmetric_product", a, "f")
    check_same_dtype("symmetric_product", (a, c))
    return c


def _product(_avals: Sequence[Aval], a: Value, c: Value, *, alpha: float, beta: float) -> Value:
    product = lax.mul(matmul(a, a, transpose_y=True), float(alpha))
    return lax.add(product, lax.mul(c, float(beta)))


def _product_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, alpha: float, beta: float
) -> PrimalAndTangent:
    """The jvp rule: alpha (a' a^T + a a'^T) + beta c'."""
    (a, _), (da, dc) = primals, tangents
    out, terms = lax.symmetric_product(*primals, alpha=alpha, beta=beta), []
    if type(da) is not Zero:
        half = matmul(da, a, transpose_y=True)
        terms.append(lax.mul(lax.add(half, swapped(half)), float(alpha)))
    if type(dc) is not Zero:
        terms.append(lax.mul(dc, float(beta)))
    return out, terms[0] if len(terms) == 1 else lax.add_any(*terms)


def _product_transpose(ct: Value, a: Value, c: Value, *, alpha: float, beta: float) -> Value:
    if is_linear(a):
        not_linear("symmetric_product", "the first operand depends on them")
    return [None, lax.mul(ct, float(beta))]


define(
    lax.symmetric_product,
    abstract_eval=_product_type,
    **decomposed(_product),
    jvp=_product_jvp,
    transpose=_product_transpose,
    batch=leading_batch,
    cost=AS_LOWERED,
)

"""Rows of the QR decomposition, and of products of Householder reflectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL, INT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import full, static_impl
from jaxprtool.makers.elementwise import as_dtype
from jaxprtool.rules.define import define
from jaxprtool.rules.linalg.lapack import each_matrix, lapack_call, letter, routine
from jaxprtool.rules.linalg.lu import solve_adjoint
from jaxprtool.rules.linalg.matrices import (
    adjoint,
    check_inexact,
    check_same_batch,
    conj,
    eye,
    leading_batch,
    matmul,
    matrix_type,
    one_hot,
    real_part,
    scalar_type,
    tril,
)

__all__: list[str] = []

_NO_DERIVATIVE = unsupported(
    "the reflectors of a decomposition are not differentiated; qr has a derivative"
)

# -- geqrf -----------------------------------------------------------------------------------------


def _geqrf_types(a: Aval) -> list[Aval]:
    check_inexact("geqrf", a)
    return [a, matrix_type(a, min(a.shape[-2:]))]


def _geqrf_impl(xp: Namespace, a: Value) -> Value:
    outs = _geqrf_types(a)
    geqrf = routine(xp, "geqrf", "geqrf", a.dtype)

    def factor(x: Value) -> Value:
        return geqrf(x)[:2] if x.size else (x, xp.zeros(0))

    return lambda x: each_matrix(xp, factor, (2,), outs, (x,))


def _geqrf_lower(ctx: LoweringContext, a: HloValue) -> list[HloValue]:
    taus = matrix_type(a.aval, min(a.aval.shape[-2:]))
    target = f"lapack_{letter('geqrf', a.aval.dtype)}geqrf_ffi"
    return lapack_call(ctx, target, [a], [a.aval, taus], {0: 0})


def _factor_cost(ins: Sequence[Value], outs: Sequence[Value], **_: ParamValue) -> int:
    return 2 * max(ins[0].size, 0) * min(ins[0].shape[-2:])


define(
    lax.geqrf,
    abstract_eval=_geqrf_types,
    impl=static_impl(_geqrf_impl),
    jvp=_NO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_geqrf_lower,
    cost=_factor_cost,
)

# -- householder_product -----------------------------------------------------------------------------


def _product_type(a: Aval, taus: Aval) -> Aval:
    check_same_batch("householder_product", (a, taus), (2, 1))
    m, n = a.shape[-2:]
    if m < n:
        ill_typed(
            f"householder_product needs at least as many rows as columns, got {a}",
            "operand-shapes",
        )
    if taus.shape[-1] > n:
        ill_typed(
            f"householder_product has more factors, {taus}, than columns of {a}", "operand-shapes"
        )
    return a


def _product_impl(xp: Namespace, a: Value, taus: Value) -> Value:
    orgqr = routine(xp, "householder_product", "orgqr", a.dtype, "ungqr")

    def product(x: Value, t: Value) -> Value:
        return (_columns(xp, orgqr, x, t),)

    return lambda x, t: each_matrix(xp, product, (2, 1), [a], (x, t))[0]


def _columns(xp: Namespace, orgqr: Any, a: Value, taus: Value) -> Value:
    """Return the first columns of the product of reflectors; SciPy's routine needs at least one."""
    if not taus.size:
        return xp.eye(*a.shape, dtype=a.dtype)
    return orgqr(a, taus)[0]


def _product_lower(ctx: LoweringContext, a: HloValue, taus: HloValue) -> HloValue:
    dtype = a.aval.dtype
    stem = "ungqr" if dtype.kind == "c" else "orgqr"
    target = f"lapack_{letter('householder_product', dtype)}{stem}_ffi"
    return lapack_call(ctx, target, [a, taus], [a.aval], {0: 0})[0]


define(
    lax.householder_product,
    abstract_eval=_product_type,
    impl=static_impl(_product_impl),
    jvp=_NO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_product_lower,
    cost=lambda ins, outs: 4 * max(ins[0].size, 0) * ins[1].shape[-1],
    masks="both",
)

# -- ormqr -----------------------------------------------------------------------------------------


def _ormqr_type(a: Aval, taus: Aval, c: Aval, *, left: ParamValue, transpose: ParamValue) -> Aval:
    check_same_batch("ormqr", (a, taus, c), (2, 1, 2))
    if c.shape[-2 if left else -1] != a.shape[-2]:
        axis = "rows" if left else "columns"
        ill_typed(f"ormqr needs {c} to have as many {axis} as {a} has rows", "operand-shapes")
    if taus.shape[-1] > min(a.shape[-2:]):
        ill_typed(
            f"ormqr has more factors, {taus}, than there are reflectors in {a}", "operand-shapes"
        )
    return c


def _ormqr_impl(
    xp: Namespace, a: Value, taus: Value, c: Value, *, left: bool, transpose: bool
) -> Value:
    ormqr = routine(xp, "ormqr", "ormqr", a.dtype, "unmqr")
    side, adjoined = "L" if left else "R", "C" if a.dtype.kind == "c" else "T"
    workspace = _BLOCK * max(1, *c.shape[-2:])

    def product(x: Value, t: Value, y: Value) -> Value:
        if not t.size:
            return (y,)
        x = xp.array(x[:, : len(t)], order="F")  # LAPACK writes into it while it runs
        return (ormqr(side, adjoined if transpose else "N", x, t, y, workspace)[0],)

    return lambda x, t, y: each_matrix(xp, product, (2, 1, 2), [c], (x, t, y))[0]


_BLOCK = 64  # workspace per row, large enough for LAPACK's blocked algorithm


def _ormqr_lower(
    ctx: LoweringContext, a: HloValue, taus: HloValue, c: HloValue, *, left: bool, transpose: bool
) -> HloValue:
    dtype = a.aval.dtype
    target = f"lapack_{letter('ormqr', dtype)}{'unmqr' if dtype.kind == 'c' else 'ormqr'}_ffi"
    if not c.aval.size or not taus.aval.size:
        return c
    options = {"left": str(bool(left)).lower(), "transpose": str(bool(transpose)).lower()}
    return lapack_call(ctx, target, [a, taus, c], [c.aval], {2: 0}, **options)[0]


define(
    lax.ormqr,
    abstract_eval=_ormqr_type,
    impl=static_impl(_ormqr_impl),
    jvp=_NO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_ormqr_lower,
    cost=lambda ins, outs, **_: 4 * max(ins[2].size, 0) * ins[1].shape[-1],
    masks="both",
)

# -- qr --------------------------------------------------------------------------------------------


def _qr_types(
    a: Aval, *, pivoting: ParamValue, full_matrices: ParamValue, use_magma: ParamValue
) -> list[Aval]:
    check_inexact("qr", a)
    m, n = a.shape[-2:]
    k = m if full_matrices else min(m, n)
    outs = [matrix_type(a, m, k), matrix_type(a, k, n)]
    return [*outs, matrix_type(a, n, dtype=INT32)] if pivoting else outs


def _qr_impl(
    xp: Namespace, a: Value, *, pivoting: bool, full_matrices: bool, use_magma: ParamValue
) -> Value:
    outs = _qr_types(a, pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma)
    geqrf = routine(xp, "qr", "geqp3" if pivoting else "geqrf", a.dtype)
    orgqr = routine(xp, "qr", "orgqr", a.dtype, "ungqr")
    dtype = xp.dtype_of_aval(a.dtype)
    m, n = a.shape[-2:]
    k = outs[0].shape[-1]

    def factor(x: Value) -> Value:
        if not x.size:
            empty = (xp.eye(m, k, dtype=dtype), xp.zeros((k, n), dtype), xp.zeros(n, xp.int32))
            return empty[: len(outs)]
        if pivoting:
            packed, order, taus = geqrf(x)[:3]
        else:
            (packed, taus), order = geqrf(x)[:2], None
        reflectors = xp.zeros((m, k), dtype)
        reflectors[:, : min(k, n)] = packed[:, :k]
        q, r = _columns(xp, orgqr, reflectors, taus), xp.triu(packed[:k])
        return (q, r) if order is None else (q, r, order - 1)

    return lambda x: each_matrix(xp, factor, (2,), outs, (x,))


def _part(x: Value, rows: tuple[int, int], columns: tuple[int, int]) -> Value:
    shape = get_aval(x).shape
    if shape[-2:] == (rows[1] - rows[0], columns[1] - columns[0]):
        return x
    zeros = (0,) * (len(shape) - 2)
    starts = (*zeros, rows[0], columns[0])
    limits = (*shape[:-2], rows[1], columns[1])
    return lax.slice(x, start_indices=starts, limit_indices=limits, strides=None)


def _thin_jvp(q: Value, r: Value, dx: Value) -> tuple[Value, Value]:
    """Return the tangents of Q and R of a matrix with at least as many rows as columns.

    Let S = Q^H x' R^-1, and W the skew-Hermitian matrix whose strict lower triangle is that of S,
    and whose diagonal is the imaginary part of that of S. Then Q' = Q (W - S) + x' R^-1 and R' = (S
    - W) R (Walter and Lehmann; Townsend).
    """
    dx_r = lax.triangular_solve(r, dx, left_side=False, lower=False)
    s = matmul(conj(q), dx_r, transpose_x=True)
    below = tril(s, strict=True)
    w = lax.sub(below, adjoint(below))
    aval = get_aval(s)
    if aval.dtype.kind == "c":
        imaginary = lax.sub(s, as_dtype(real_part(s), aval.dtype))
        mask = eye(aval.shape, BOOL)
        w = lax.add(w, lax.select_n(mask, full(aval, 0), imaginary))
    rest = lax.sub(s, w)
    return lax.sub(dx_r, matmul(q, rest)), matmul(rest, r)


def _full_jvp(q: Value, dq: Value, n: int) -> Value:
    """Return the tangent of all m columns of Q, given that of its first n columns.

    Eqs. 32 and 33 of arXiv:2409.13374.
    """
    m = get_aval(q).shape[-1]
    q_mn, q_mp = _part(q, (0, m), (0, n)), _part(q, (0, m), (n, m))
    q_nn, q_pn = _part(q, (0, n), (0, n)), _part(q, (n, m), (0, n))
    dq_nn, dq_pn = _part(dq, (0, n), (0, n)), _part(dq, (n, m), (0, n))
    aval = get_aval(q_nn)
    z_h = solve_adjoint(lax.sub(q_nn, eye(aval.shape, aval.dtype)), adjoint(q_pn))
    z = adjoint(z_h)
    left = lax.add(q_mn, matmul(q_mp, z))
    moved = lax.sub(dq_pn, matmul(z, dq_nn))
    dq_mp = lax.sub(matmul(dq, z_h), matmul(left, conj(moved), transpose_y=True))
    return lax.concatenate(dq, dq_mp, dimension=get_aval(q).ndim - 1)


def _qr_jvp(
    primals: Sequence[Value],
    tangents: Sequence[Value],
    *,
    pivoting: bool,
    full_matrices: bool,
    **rest: ParamValue,
) -> PrimalAndTangent:
    outs = lax.qr(*primals, pivoting=pivoting, full_matrices=full_matrices, **rest)
    q, r = outs[:2]
    x, dx = primals[0], tangents[0]
    aval = get_aval(dx)
    m, n = aval.shape[-2:]
    x2: Any = x  # with the columns of the decomposition
    if pivoting:
        order = one_hot(outs[2], aval.dtype)
        dx = matmul(dx, order, transpose_y=True)
        x2 = matmul(x, order, transpose_y=True) if m < n else x
    zeros = [Zero(get_aval(p)) for p in outs[2:]]
    axis = aval.ndim - 2
    if m < n:  # X = (X1 X2) = Q (R1 R2): R1 is that of a square matrix, and R2 = Q^H X2
        dq, dr1 = _thin_jvp(q, _part(r, (0, m), (0, m)), _part(dx, (0, m), (0, m)))
        dr2 = lax.add(
            matmul(conj(dq), _part(x2, (0, m), (m, n)), transpose_x=True),
            matmul(conj(q), _part(dx, (0, m), (m, n)), transpose_x=True),
        )
        return outs, [dq, lax.concatenate(dr1, dr2, dimension=axis + 1), *zeros]
    dq, dr = _thin_jvp(_part(q, (0, m), (0, n)), _part(r, (0, n), (0, n)), dx)
    if full_matrices and m > n:
        dq = _full_jvp(q, dq, n)
        config = ((0, 0, 0),) * axis + ((0, m - n, 0), (0, 0, 0))
        dr = lax.pad(dr, full(scalar_type(aval), 0), padding_config=config)
    return outs, [dq, dr, *zeros]


def _qr_lower(
    ctx: LoweringContext, a: HloValue, *, pivoting: bool, full_matrices: bool, **_: ParamValue
) -> list[HloValue]:
    outs, aval = ctx.out_avals, a.aval
    q_type, r_type = outs[:2]
    n_batch, (m, n) = aval.ndim - 2, aval.shape[-2:]
    if not m or not n:
        return _empty_qr(ctx, outs)
    taus = matrix_type(aval, min(m, n))
    order: list[Any] = []
    if pivoting:
        target = f"lapack_{letter('qr', aval.dtype)}geqp3_ffi"
        free = ctx.constant(0, outs[2])
        types = [aval, outs[2], taus]
        packed, p, factors = lapack_call(ctx, target, [a, free], types, {0: 0, 1: 1})
        order = [ctx.op("subtract", p, ctx.constant(1, outs[2]), out=outs[2])]
    else:
        packed, factors = _geqrf_lower(ctx, a)
    k = q_type.shape[-1]
    zero = ctx.constant(0, scalar_type(aval))
    reflectors = ctx.pad(packed, zero, ((0, 0, 0),) * (n_batch + 1) + ((0, k - n, 0),))
    r = ctx.slice(packed, (0,) * aval.ndim, r_type.shape)
    index = ShapedArray(r_type.shape, INT32)
    rows, columns = ctx.iota(index, n_batch), ctx.iota(index, n_batch + 1)
    r = ctx.select(ctx.compare("GT", rows, columns), ctx.constant(0, r_type), r)
    return [_product_lower(ctx, reflectors, factors), r, *order]


def _empty_qr(ctx: Value, outs: Value) -> list[Any]:
    q_type = outs[0]
    index = ShapedArray(q_type.shape, INT32)
    rows, columns = ctx.iota(index, q_type.ndim - 2), ctx.iota(index, q_type.ndim - 1)
    q = ctx.convert(ctx.compare("EQ", rows, columns), q_type.dtype)
    return [q, *[ctx.constant(0, a) for a in outs[1:]]]


define(
    lax.qr,
    abstract_eval=_qr_types,
    impl=static_impl(_qr_impl),
    jvp=_qr_jvp,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_qr_lower,
    cost=lambda ins, outs, **_: 2 * _factor_cost(ins, outs),
)

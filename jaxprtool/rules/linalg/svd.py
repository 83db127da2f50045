"""The row of the singular value decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import SVD_ALGORITHM
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, PrimalAndTangent
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import BOOL, INT32, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import full, static_impl
from jaxprtool.makers.elementwise import as_dtype
from jaxprtool.rules.define import define
from jaxprtool.rules.linalg.lapack import (
    char,
    check_choice,
    check_on_cpu,
    each_matrix,
    info_type,
    lapack_call,
    letter,
    refuse,
    routine,
    unless_failed,
)
from jaxprtool.rules.linalg.matrices import (
    adjoint,
    check_inexact,
    column_products,
    columns_like,
    conj,
    eye,
    leading_batch,
    matmul,
    matrix_type,
    real_part,
    rows_like,
)

__all__: list[str] = []

_ALGORITHMS = ("DEFAULT", "QR", "JACOBI", "POLAR", "DIVIDE_AND_CONQUER")
_ON_CPU = ("DEFAULT", "QR", "DIVIDE_AND_CONQUER")


def _types(
    a: Aval,
    *,
    full_matrices: Any,
    compute_uv: Any,
    subset_by_index: Any = None,
    algorithm: Any = None,
) -> list[Any]:
    check_inexact("svd", a)
    check_choice("svd", "algorithm", algorithm, SVD_ALGORITHM)
    m, n = a.shape[-2:]
    k = min(m, n)
    if subset_by_index is not None:
        k = _subset_size(tuple(subset_by_index), k, full_matrices)
    values = matrix_type(a, k, dtype=a.dtype.real)
    if not compute_uv:
        return [values]
    rows, columns = (m, n) if full_matrices else (k, k)
    return [values, matrix_type(a, m, rows), matrix_type(a, columns, n)]


def _subset_size(subset: tuple[int, ...], k: int, full_matrices: bool) -> int:
    if len(subset) != 2 or not 0 <= subset[0] <= subset[1]:
        ill_typed(f"svd subset_by_index={subset} is no range of indices", "param-value")
    if full_matrices and subset != (0, k):
        ill_typed(
            f"svd subset_by_index={subset} and full_matrices=True exclude each other",
            "param-value",
        )
    return min(k, subset[1] - subset[0])


def _check_cpu(a: Value, subset: Any, algorithm: Any) -> str:
    """Return the name of the LAPACK routine without its first letter; raise an error if there is
    none.
    """
    if subset is not None and tuple(subset) != (0, min(a.shape[-2:])):
        refuse("svd", "subset_by_index", subset, "a CPU computes all of them")
    check_on_cpu("svd", "algorithm", algorithm, SVD_ALGORITHM, _ON_CPU)
    return "gesvd" if SVD_ALGORITHM.member(algorithm) == "QR" else "gesdd"


def _impl(
    xp: Namespace,
    a: Value,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: ParamValue = None,
    algorithm: ParamValue = None,
) -> Value:
    outs = _types(a, full_matrices=full_matrices, compute_uv=compute_uv)
    decompose = routine(xp, "svd", _check_cpu(a, subset_by_index, algorithm), a.dtype)
    options = {"full_matrices": int(full_matrices), "compute_uv": int(compute_uv)}

    def factor(x: Value) -> Value:
        if not x.size:
            return [xp.eye(*o.shape[-2:]) if o.ndim == a.ndim else xp.zeros(0) for o in outs]
        if not xp.isfinite(x).all():
            return None
        u, s, vh, info = decompose(x, **options)
        return (s, u, vh)[: len(outs)] if info == 0 else None

    return lambda x: each_matrix(xp, factor, (2,), outs, (x,))


def _jvp(
    primals: Sequence[Value],
    tangents: Sequence[Value],
    *,
    full_matrices: bool,
    compute_uv: bool,
    **rest: ParamValue,
) -> PrimalAndTangent:
    """The jvp rule: Giles, An extended collection of matrix derivative results, section 3.2.

    Let P = U^H a' V. Then s' = Re diag P, U' = U (F * (P S + S P^H) + D), V' = V (F * (S P + P^H
    S)), where F[i, j] = 1 / (s[j]^2 - s[i]^2) off the diagonal, and D is diagonal: i Im diag P,
    divided by s. If a is not square, the longer one of U' and V' also has a part orthogonal to the
    columns of U or V.
    """
    a, da = primals[0], tangents[0]
    m, n = get_aval(a).shape[-2:]
    if compute_uv and full_matrices and m != n:
        fail(
            UnsupportedError,
            "svd: with full_matrices=True the singular vectors of a matrix that is not square have no "
            "derivative, in JAX neither",
            "no-rule",
        )
    s, u, vh = lax.svd(a, full_matrices=False, compute_uv=True, **rest)
    dtype, v = get_aval(a).dtype, adjoint(vh)
    right = matmul(da, v)
    p = matmul(conj(u), right, transpose_x=True)
    ds = real_part(column_products(conj(u), right))
    if not compute_uv:
        return [s], [ds]
    shape = get_aval(p).shape
    gaps, rows, columns, inverse = _gap_matrices(s, shape, dtype)
    p_s, s_p = lax.mul(p, rows), lax.mul(p, columns)
    du = matmul(u, lax.mul(gaps, lax.add(p_s, adjoint(p_s))))
    if dtype.kind == "c":
        skew = lax.mul(lax.sub(p, adjoint(p)), inverse)
        du = lax.add(du, matmul(u, skew))
    dv = matmul(v, lax.mul(gaps, lax.add(s_p, adjoint(s_p))))
    if m > n:
        du = lax.add(du, _outside(right, u, s))
    if n > m:
        dv = lax.add(dv, _outside(matmul(conj(da), u, transpose_x=True), v, s))
    return [s, u, vh], [ds, du, adjoint(dv)]


def _gap_matrices(
    s: Value, shape: tuple[int, ...], dtype: DType
) -> tuple[Value, Value, Value, Value]:
    """Return four matrices: F of `_jvp`; R[i, j] = s[j]; C[i, j] = s[i]; and 1 / 2s on the
    diagonal, with 0 where s is 0.
    """
    real = get_aval(s).dtype
    rows, columns, ones = rows_like(s, shape), columns_like(s, shape), eye(shape, real)
    squares = lax.mul(lax.add(rows, columns), lax.sub(rows, columns))
    gaps = lax.sub(lax.div(1, lax.add(squares, ones)), ones)
    off = lax.select_n(eye(shape, BOOL), full(get_aval(rows), 0), rows)
    empty = lax.convert_element_type(lax.eq(off, 0), new_dtype=real)
    inverse = lax.mul(lax.sub(lax.div(1, lax.add(off, empty)), empty), 0.5)
    return (
        as_dtype(gaps, dtype),
        as_dtype(rows, dtype),
        as_dtype(columns, dtype),
        as_dtype(inverse, dtype),
    )


def _outside(x: Value, u: Value, s: Value) -> Value:
    """Return the part of x that is orthogonal to the columns of u, with column j divided by
    s[j].
    """
    aval = get_aval(x)
    rest = lax.sub(x, matmul(u, matmul(conj(u), x, transpose_x=True)))
    return lax.div(rest, as_dtype(rows_like(s, aval.shape), aval.dtype))


def _lower(
    ctx: LoweringContext,
    a: HloValue,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: ParamValue = None,
    algorithm: ParamValue = None,
) -> list[HloValue]:
    aval, outs = a.aval, ctx.out_avals
    stem = _check_cpu(aval, subset_by_index, algorithm)
    m, n = aval.shape[-2:]
    if not m or not n:
        return [_identity(ctx, o) if o.ndim == aval.ndim else ctx.constant(0, o) for o in outs]
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    vectors = [matrix_type(aval, m, rows), matrix_type(aval, columns, n)]
    types = [aval, outs[0], *vectors, info_type(aval)]
    mode = char(("A" if full_matrices else "S") if compute_uv else "N")
    target = f"lapack_{letter('svd', aval.dtype)}{stem}_ffi"
    _, s, u, vh, info = lapack_call(ctx, target, [a], types, {0: 0}, mode=mode)
    return unless_failed(ctx, info, [s, u, vh][: len(outs)])


def _identity(ctx: LoweringContext, aval: Aval) -> HloValue:
    index = ShapedArray(aval.shape, INT32)
    rows, columns = ctx.iota(index, aval.ndim - 2), ctx.iota(index, aval.ndim - 1)
    return ctx.convert(ctx.compare("EQ", rows, columns), aval.dtype)


define(
    lax.svd,
    abstract_eval=_types,
    impl=static_impl(_impl),
    jvp=_jvp,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_lower,
    cost=lambda ins, outs, **_: 14 * max(ins[0].size, 0) * min(ins[0].shape[-2:]),
)

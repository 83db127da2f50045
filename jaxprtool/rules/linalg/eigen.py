"""Rows of eigenvalue decompositions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import EIGENVALUE_ALGORITHM, EIGENVALUE_LIBRARY
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, PrimalAndTangent
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import full, static_impl
from jaxprtool.makers.decomposed import decomposed
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
from jaxprtool.rules.linalg.lu import solve_matrix
from jaxprtool.rules.linalg.matrices import (
    adjoint,
    check_square,
    column_products,
    columns_like,
    complex_dtype,
    conj,
    diagonal,
    eye,
    leading_batch,
    matmul,
    matrix_type,
    real_part,
    rows_like,
    swapped,
)

__all__: list[str] = []


def inverse_gaps(w: Value) -> Value:
    """Return the matrix F[i, j] = 1 / (w[j] - w[i]), with zeros on the diagonal."""
    aval = get_aval(w)
    shape = (*aval.shape, aval.shape[-1])
    ones = eye(shape, aval.dtype)
    gaps = lax.sub(lax.add(ones, rows_like(w, shape)), columns_like(w, shape))
    return lax.sub(lax.div(1, gaps), ones)


# -- eigh ------------------------------------------------------------------------------------------


def _check_eigh(lower: Any, subset: Any, n: int) -> int:
    """Return the number of eigenvalues to compute; raise a type error for an invalid range of
    them.
    """
    if subset is None:
        return n
    start, end = subset
    if not 0 <= start <= end <= n:
        ill_typed(f"eigh subset_by_index={subset} is not within 0..{n}", "param-value")
    return end - start


def _eigh_types(
    a: Aval,
    *,
    lower: ParamValue,
    sort_eigenvalues: ParamValue,
    subset_by_index: ParamValue,
    algorithm: ParamValue,
) -> list[Aval]:
    check_square("eigh", a)
    n = a.shape[-1]
    k = _check_eigh(lower, subset_by_index, n)
    check_choice("eigh", "algorithm", algorithm, EIGENVALUE_ALGORITHM)
    return [matrix_type(a, n, k), matrix_type(a, k, dtype=a.dtype.real)]


def _check_cpu(name: str, subset: Any, algorithm: Any, size: int) -> None:
    if subset is not None and tuple(subset) != (0, size):
        refuse(name, "subset_by_index", subset, "a CPU computes all of them")
    if name == "eigh":
        check_on_cpu(name, "algorithm", algorithm, EIGENVALUE_ALGORITHM, ("QR",))


def _eigh_impl(
    xp: Namespace,
    a: Value,
    *,
    lower: bool,
    subset_by_index: ParamValue,
    algorithm: ParamValue,
    **_: ParamValue,
) -> Value:
    n = a.shape[-1]
    _check_cpu("eigh", subset_by_index, algorithm, n)
    outs = [a, matrix_type(a, n, dtype=a.dtype.real)]
    evd = routine(xp, "eigh", "syevd", a.dtype, "heevd")

    def factor(x: Value) -> Value:
        w, v, info = evd(x, lower=int(lower), compute_v=1)
        return (v, w) if info == 0 else None

    return lambda x: each_matrix(xp, factor, (2,), outs, (x,))


def _eigh_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
) -> PrimalAndTangent:
    """The jvp rule: v' = v (F * v^H a' v), w' = diag(v^H a' v), where F[i, j] = 1 / (w[j] - w[i]).

    This is perturbation theory for distinct eigenvalues: Giles, An extended collection of matrix
    derivative results, section 3.1. The matrix is replaced by (a + a^H) / 2 first, so that the
    derivative depends on both triangles.
    """
    a, da = primals[0], tangents[0]
    aval = get_aval(a)
    size = aval.shape[-1]
    if params["subset_by_index"] not in (None, (0, size)):
        fail(
            UnsupportedError,
            "eigh: the derivative of a part of the eigenvalues is not defined, in JAX neither",
            "no-rule",
        )
    v, w = lax.eigh(lax.div(lax.add(a, adjoint(a)), 2), **params)
    gaps = as_dtype(inverse_gaps(w), aval.dtype)
    right = matmul(da, v)
    inner = matmul(conj(v), right, transpose_x=True)
    dw = real_part(column_products(conj(v), right))
    return [v, w], [matmul(v, lax.mul(gaps, inner)), dw]


def _eigh_lower(
    ctx: LoweringContext,
    a: HloValue,
    *,
    lower: bool,
    subset_by_index: ParamValue,
    algorithm: ParamValue,
    **_: ParamValue,
) -> list[HloValue]:
    aval = a.aval
    _check_cpu("eigh", subset_by_index, algorithm, aval.shape[-1])
    stem = "heevd" if aval.dtype.kind == "c" else "syevd"
    target = f"lapack_{letter('eigh', aval.dtype)}{stem}_ffi"
    outs = [*ctx.out_avals, info_type(aval)]
    options = {"mode": char("V"), "uplo": char("L" if lower else "U")}
    v, w, info = lapack_call(ctx, target, [a], outs, {0: 0}, **options)
    return unless_failed(ctx, info, [v, w])


define(
    lax.eigh,
    abstract_eval=_eigh_types,
    impl=static_impl(_eigh_impl),
    jvp=_eigh_jvp,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_eigh_lower,
    cost=lambda ins, outs, **_: 9 * max(ins[0].size, 0) * ins[0].shape[-1],
)


def _jacobi_types(a: Aval, *, lower: bool, sort_eigenvalues: bool) -> list[Aval]:
    check_square("eigh_jacobi", a)
    real = a.dtype.real if a.dtype.kind == "c" else a.dtype
    return [a.update(shape=a.shape[:-1], dtype=real), a]


def _jacobi(in_avals: Sequence[Aval], a: Value, **params: ParamValue) -> list[Value]:
    """Return the results of `eigh`, which are those of the Jacobi method up to the signs of the columns."""
    v, w = lax.eigh(a, **params)
    return [w, v]


define(
    lax.eigh_jacobi,
    abstract_eval=_jacobi_types,
    jvp=unsupported("JAX has no derivative of it; eigh has one"),
    transpose=NONLINEAR,
    batch=leading_batch,
    **decomposed(_jacobi),
    cost=lambda ins, outs, **_: 9 * max(ins[0].size, 0) * ins[0].shape[-1],
)


# -- eig -------------------------------------------------------------------------------------------


def _eig_types(
    a: Aval,
    *,
    compute_left_eigenvectors: Any,
    compute_right_eigenvectors: Any,
    enable_eigvec_derivs: Any,
    implementation: Any,
) -> list[Any]:
    check_square("eig", a)
    check_choice("eig", "implementation", implementation, EIGENVALUE_LIBRARY)
    n, dtype = a.shape[-1], complex_dtype(a.dtype)
    count = compute_left_eigenvectors + compute_right_eigenvectors
    return [matrix_type(a, n, dtype=dtype)] + [matrix_type(a, n, n, dtype=dtype)] * count


def _check_eig_cpu(implementation: Any) -> None:
    check_on_cpu("eig", "implementation", implementation, EIGENVALUE_LIBRARY, ("LAPACK",))


def _eig_impl(
    xp: Namespace,
    a: Value,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    implementation: ParamValue,
    **_: ParamValue,
) -> Value:
    _check_eig_cpu(implementation)
    wanted = (compute_left_eigenvectors, compute_right_eigenvectors)
    n, dtype = a.shape[-1], complex_dtype(a.dtype)
    outs = [matrix_type(a, n, dtype=dtype)] + [matrix_type(a, n, n, dtype=dtype)] * sum(wanted)
    geev = routine(xp, "eig", "geev", a.dtype)
    is_real = a.dtype.kind == "f"

    def factor(x: Value) -> Value:
        if not xp.isfinite(x).all():
            return None
        *w, left, right, info = geev(x, compute_vl=int(wanted[0]), compute_vr=int(wanted[1]))
        if info != 0:
            return None
        vectors = [v for v, flag in zip((left, right), wanted, strict=True) if flag]
        if not is_real:
            return (w[0], *vectors)
        return (w[0] + 1j * w[1], *[_unpacked(v, w[1]) for v in vectors])

    return lambda x: each_matrix(xp, factor, (2,), outs, (x,))


def _unpacked(v: Value, imaginary: Value) -> Value:
    """Return complex eigenvectors from LAPACK's real array, where two columns are the real and
    imaginary part of a conjugate pair.
    """
    first, second = imaginary > 0, imaginary < 0
    out = v + 0j
    pairs = v[:, first] + 1j * v[:, second]
    out[:, first], out[:, second] = pairs, pairs.conj()
    return out


def _vector_jvp(w: Value, v: Value, da: Value) -> tuple[Value, Value]:
    """Return the tangents of the eigenvalues, and of the eigenvectors of norm 1 whose largest
    component is real.

    Perturbation theory (Giles, section 3.1) gives v' = u + v diag(c) with u = v (F * v^-1 a' v), F as in
    `inverse_gaps`, and c free. The norm fixes its real part, -Re(v^H u); that component k of v stays
    real fixes the imaginary part, -Im(u_k) / v_k.
    """
    inner = matmul(solve_matrix(v, da), v)
    u = matmul(v, lax.mul(inverse_gaps(w), inner))
    aval = get_aval(v)
    axis, index = aval.ndim - 2, ShapedArray(aval.shape, INT32)
    largest = lax.argmax(lax.abs(v), axes=(axis,), index_dtype=INT32)
    places = lax.iota(dtype=INT32, shape=index.shape, dimension=axis)
    chosen = lax.eq(places, rows_like(largest, index.shape))

    def column_sum(x: Value) -> Value:
        return lax.reduce_sum(x, axes=(axis,))

    def at_largest(x: Value) -> Value:
        return column_sum(lax.select_n(chosen, full(get_aval(x), 0), x))

    length = lax.neg(column_sum(lax.real(lax.mul(lax.conj(v, input_dtype=aval.dtype), u))))
    phase = lax.div(lax.neg(at_largest(lax.imag(u))), at_largest(lax.real(v)))
    factor = rows_like(lax.complex(length, phase), aval.shape)
    return diagonal(inner), lax.add(u, lax.mul(v, factor))


def _eig_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
) -> PrimalAndTangent:
    left, right = params["compute_left_eigenvectors"], params["compute_right_eigenvectors"]
    if (left or right) and not params["enable_eigvec_derivs"]:
        fail(
            UnsupportedError,
            "eig: eigenvectors of a general matrix are differentiated only where "
            "enable_eigvec_derivs=True says that its eigenvalues are distinct",
            "no-rule",
        )
    outs = lax.eig(*primals, **{**params, "compute_right_eigenvectors": True})
    w, v = outs[0], outs[-1]
    da = as_dtype(tangents[0], get_aval(v).dtype)
    if not left and not right:
        moved = solve_matrix(v, da)
        terms = lax.mul(moved, swapped(v))
        return [w], [lax.reduce_sum(terms, axes=(get_aval(v).ndim - 1,))]
    dw, dv = _vector_jvp(w, v, da)
    primals_out, tangents_out = [w], [dw]
    if left:
        vl = outs[1]
        primals_out.append(vl)
        tangents_out.append(_vector_jvp(conj(w), vl, adjoint(da))[1])
    if right:
        primals_out.append(v)
        tangents_out.append(dv)
    return primals_out, tangents_out


def _eig_lower(
    ctx: Value,
    a: Value,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    implementation: Any,
    **_: Any,
) -> list[Any]:
    _check_eig_cpu(implementation)
    aval = a.aval
    n, dtype = aval.shape[-1], complex_dtype(aval.dtype)
    target = f"lapack_{letter('eig', aval.dtype)}geev_ffi"
    values = [matrix_type(aval, n)] * (1 if aval.dtype.kind == "c" else 2)
    vectors = [matrix_type(aval, n, n, dtype=dtype)] * 2
    wanted = (compute_left_eigenvectors, compute_right_eigenvectors)
    options = dict(
        zip(("compute_left", "compute_right"), (char("NV"[f]) for f in wanted), strict=True)
    )
    *w, vl, vr, info = lapack_call(
        ctx, target, [a], [*values, *vectors, info_type(aval)], **options
    )
    w_type = matrix_type(aval, n, dtype=dtype)
    found = w[0] if len(w) == 1 else ctx.op("complex", *w, out=w_type)
    chosen = [v for v, flag in zip((vl, vr), wanted, strict=True) if flag]
    return unless_failed(ctx, info, [found, *chosen])


define(
    lax.eig,
    abstract_eval=_eig_types,
    impl=static_impl(_eig_impl),
    jvp=_eig_jvp,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_eig_lower,
    cost=lambda ins, outs, **_: 25 * max(ins[0].size, 0) * ins[0].shape[-1],
)

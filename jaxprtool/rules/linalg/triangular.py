"""The row of `triangular_solve`: linear systems with a triangular matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize, moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero, add_tangents
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import reshaped, static_impl
from jaxprtool.rules.define import define
from jaxprtool.rules.linalg.lapack import char, each_matrix, lapack_call, routine
from jaxprtool.rules.linalg.matrices import (
    check_same_batch,
    check_square,
    conj,
    matmul,
    swapped,
    tril,
    triu,
)

__all__: list[str] = []


def _types(a: Aval, b: Aval, *, left_side: ParamValue, **_: ParamValue) -> Aval:
    check_square("triangular_solve", a)
    check_same_batch("triangular_solve", (a, b), (2, 2))
    if a.shape[-1] != b.shape[-2 if left_side else -1]:
        side = "rows" if left_side else "columns"
        ill_typed(
            f"triangular_solve left_side={left_side} needs b with as many {side} as a has, got "
            f"{a} and {b}",
            "operand-shapes",
        )
    return b


def _impl(
    xp: Namespace,
    a: Value,
    b: Value,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Value:
    dtype = b.dtype if b.dtype.bits >= 32 else FLOAT32
    wide, out = xp.dtype_of_aval(dtype), b.update(dtype=dtype)
    trsm = routine(xp, "triangular_solve", "trsm", dtype)
    conjugate_first = conjugate_a and not transpose_a and dtype.kind == "c"
    options = {
        "side": int(not left_side),
        "lower": int(lower),
        "trans_a": int(transpose_a) * (1 + conjugate_a),
        "diag": int(unit_diagonal),
    }

    def solve(x: Value, y: Value) -> Value:
        return (trsm(1.0, x.conj() if conjugate_first else x, y, **options),)

    def run(x: Value, y: Value) -> Value:
        narrow = y.dtype
        x, y = x.astype(wide, copy=False), y.astype(wide, copy=False)
        return each_matrix(xp, solve, (2, 2), [out], (x, y))[0].astype(narrow, copy=False)

    return run


def _tangent_of_a(t: Value, x: Value, a: Value, **params: Any) -> Value:
    """Return -op(a)^-1 op(t) x, or -x op(t) op(a)^-1, multiplied in the cheaper order."""
    left = params["left_side"]
    take = tril if params["lower"] else triu
    t = take(t, strict=params["unit_diagonal"])
    t = swapped(t) if params["transpose_a"] else t
    t = lax.neg(conj(t) if params["conjugate_a"] else t)
    m, n = get_aval(x).shape[-2:]
    if left and m > n:
        return lax.triangular_solve(a, matmul(t, x), **params)
    if left:
        return matmul(lax.triangular_solve(a, t, **params), x)
    if m < n:
        return lax.triangular_solve(a, matmul(x, t), **params)
    return matmul(x, lax.triangular_solve(a, t, **params))


def _jvp(
    primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
) -> PrimalAndTangent:
    (a, b), (da, db) = primals, tangents
    x = lax.triangular_solve(a, b, **params)
    from_a = da if type(da) is Zero else _tangent_of_a(da, x, a, **params)
    from_b = db if type(db) is Zero else lax.triangular_solve(a, db, **params)
    return x, add_tangents(from_a, from_b)


def _transpose(
    ct: Value, a: Value, b: Value, *, transpose_a: bool, **params: ParamValue
) -> list[Value]:
    if is_linear(a):
        not_linear("triangular_solve", "the matrix depends on them")
    return [None, lax.triangular_solve(a, ct, transpose_a=not transpose_a, **params)]


def _batch(size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    """The batch rule; if only b is batched, the examples become further columns (or rows) of b."""
    (a, b), (a_dim, b_dim) = vals, dims
    if a_dim is not None:
        a, b = materialize(a, a_dim, size), materialize(b, b_dim, size)
        return lax.triangular_solve(a, b, **params), 0
    at = get_aval(b).ndim - (1 if params["left_side"] else 2)
    b = moveaxis(b, b_dim, at)
    shape = get_aval(b).shape
    flat = (*shape[: at - 1], shape[at - 1] * shape[at], *shape[at + 1 :])
    out = lax.triangular_solve(a, reshaped(b, flat), **params)
    return reshaped(out, shape), at


def _lower(
    ctx: LoweringContext,
    a: HloValue,
    b: HloValue,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> HloValue:
    dtype = b.aval.dtype
    if conjugate_a and not transpose_a and dtype.kind == "c":
        a = ctx.op("chlo.conj", a, out=a.aval)
    conjugate_a = conjugate_a and transpose_a
    if dtype.bits < 32:
        op = ("ADJOINT" if conjugate_a else "TRANSPOSE") if transpose_a else "NO_TRANSPOSE"
        return ctx.op(
            "triangular_solve",
            a,
            b,
            left_side=left_side,
            lower=lower,
            unit_diagonal=unit_diagonal,
            transpose_a=f"#stablehlo<transpose {op}>",
        )
    target = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}[dtype.short]
    return lapack_call(
        ctx,
        f"lapack_{target}trsm_ffi",
        [a, b],
        [b.aval],
        {1: 0},
        side=char("L" if left_side else "R"),
        uplo=char("L" if lower else "U"),
        trans_x=char(("C" if conjugate_a else "T") if transpose_a else "N"),
        diag=char("U" if unit_diagonal else "N"),
    )[0]


def _cost(ins: Sequence[Value], outs: Sequence[Value], **_: ParamValue) -> int:
    n = ins[0].shape[-1]
    return n * max(outs[0].size, 0)


define(
    lax.triangular_solve,
    abstract_eval=_types,
    impl=static_impl(_impl),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    cost=_cost,
    masks="both",
)

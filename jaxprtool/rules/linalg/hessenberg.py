"""Rows of the Hessenberg and Schur forms."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import static_impl
from jaxprtool.rules.define import define
from jaxprtool.rules.linalg.lapack import (
    char,
    each_matrix,
    info_type,
    lapack_call,
    letter,
    refuse,
    routine,
    unless_failed,
)
from jaxprtool.rules.linalg.matrices import check_square, leading_batch, matrix_type

__all__: list[str] = []

_NO_DERIVATIVE = unsupported("JAX has no derivative of it either")


def _cost(ins: Sequence[Value], outs: Sequence[Value], **_: ParamValue) -> int:
    return 10 * max(ins[0].size, 0) * ins[0].shape[-1] // 3


# -- hessenberg ------------------------------------------------------------------------------------


def _hessenberg_types(a: Aval) -> list[Aval]:
    check_square("hessenberg", a)
    n = a.shape[-1]
    if not n:
        ill_typed(f"hessenberg needs a matrix with at least one row, got {a}", "operand-shapes")
    return [a, matrix_type(a, n - 1)]


def _hessenberg_impl(xp: Namespace, a: Value) -> Value:
    outs = _hessenberg_types(a)
    gehrd = routine(xp, "hessenberg", "gehrd", a.dtype)

    def reduce(x: Value) -> Value:
        if len(x) == 1:
            return x, xp.zeros(0)
        packed, taus, info = gehrd(x)
        return (packed, taus) if info == 0 else None

    return lambda x: each_matrix(xp, reduce, (2,), outs, (x,))


def _hessenberg_lower(ctx: LoweringContext, a: HloValue) -> list[HloValue]:
    target = f"lapack_{letter('hessenberg', a.aval.dtype)}gehrd_ffi"
    outs = [*ctx.out_avals, info_type(a.aval)]
    options = {"low": "1 : i32", "high": f"{a.aval.shape[-1]} : i32"}
    packed, taus, info = lapack_call(ctx, target, [a], outs, {0: 0}, **options)
    return unless_failed(ctx, info, [packed, taus])


define(
    lax.hessenberg,
    abstract_eval=_hessenberg_types,
    impl=static_impl(_hessenberg_impl),
    jvp=_NO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_hessenberg_lower,
    cost=_cost,
)

# -- schur -----------------------------------------------------------------------------------------


def _schur_types(
    a: Aval,
    *,
    compute_schur_vectors: ParamValue,
    sort_eig_vals: ParamValue,
    select_callable: ParamValue,
) -> list[Aval]:
    check_square("schur", a)
    return [a, a] if compute_schur_vectors else [a]


def _not_sorted(sort_eig_vals: bool) -> None:
    if sort_eig_vals:
        refuse("schur", "sort_eig_vals", True, "sorting is not implemented, in JAX neither")


def _keep_all(*_: Value) -> int:
    return 0


def _schur_impl(
    xp: Namespace,
    a: Value,
    *,
    compute_schur_vectors: bool,
    sort_eig_vals: bool,
    select_callable: ParamValue,
) -> Value:
    _not_sorted(sort_eig_vals)
    outs = [a, a] if compute_schur_vectors else [a]
    gees = routine(xp, "schur", "gees", a.dtype)

    def factor(x: Value) -> Value:
        out = gees(_keep_all, x, compute_v=int(compute_schur_vectors), sort_t=0)
        form, vectors, info = out[0], out[-3], out[-1]
        return (form, vectors)[: len(outs)] if info == 0 else None

    return lambda x: each_matrix(xp, factor, (2,), outs, (x,))


def _schur_lower(
    ctx: LoweringContext,
    a: HloValue,
    *,
    compute_schur_vectors: bool,
    sort_eig_vals: bool,
    **_: ParamValue,
) -> list[HloValue]:
    _not_sorted(sort_eig_vals)
    aval = a.aval
    target = f"lapack_{letter('schur', aval.dtype)}gees_ffi"
    values = [matrix_type(aval, aval.shape[-1])] * (1 if aval.dtype.kind == "c" else 2)
    outs = [aval, aval, *values, info_type(aval), info_type(aval)]
    mode = char("V" if compute_schur_vectors else "N")
    results = lapack_call(ctx, target, [a], outs, {0: 0}, mode=mode, sort=char("N"))
    form, vectors, info = results[0], results[1], results[-1]
    wanted = [form, vectors] if compute_schur_vectors else [form]
    return unless_failed(ctx, info, wanted)


define(
    lax.schur,
    abstract_eval=_schur_types,
    impl=static_impl(_schur_impl),
    jvp=_NO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_schur_lower,
    cost=lambda ins, outs, **_: 25 * max(ins[0].size, 0) * ins[0].shape[-1],
)

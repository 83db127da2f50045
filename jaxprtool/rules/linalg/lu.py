"""Rows of the LU decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import full, static_impl, with_shape
from jaxprtool.rules.define import LOCALLY_CONSTANT, define
from jaxprtool.rules.linalg.lapack import (
    each_matrix,
    info_type,
    lapack_call,
    letter,
    routine,
    unless_failed,
)
from jaxprtool.rules.linalg.matrices import (
    check_inexact,
    eye,
    leading_batch,
    matmul,
    matrix_type,
    one_hot,
    scalar_type,
    tril,
    triu,
)

__all__ = ["solve_adjoint", "solve_matrix"]


def _types(a: Aval) -> list[Aval]:
    check_inexact("lu", a)
    m, n = a.shape[-2:]
    return [a, matrix_type(a, min(m, n), dtype=INT32), matrix_type(a, m, dtype=INT32)]


def _impl(xp: Namespace, a: Value) -> Value:
    outs = _types(a)
    m = a.shape[-2]
    getrf = routine(xp, "lu", "getrf", a.dtype)

    def factor(x: Value) -> Value:
        if not x.size:
            return x, xp.zeros(0), xp.arange(m)
        c, pivots, info = getrf(x)
        return (c, pivots, _permuted(xp, pivots, m)) if info >= 0 else None

    return lambda x: each_matrix(xp, factor, (2,), outs, (x,))


def _permuted(xp: Namespace, pivots: Value, size: int) -> Value:
    """Return the permutation that the swaps make.

    As in JAX, a position out of range is read as the nearest one, and not written.
    """
    order = list(range(size))
    for i, pivot in enumerate(pivots.tolist()):
        j = pivot + size if pivot < 0 else pivot
        order[i], mine = order[min(max(j, 0), size - 1)], order[i]
        if 0 <= j < size:
            order[j] = mine
    return xp.asarray(order, xp.int32)


def _jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    """The jvp rule: L' = L tril(L^-1 P a' U^-1, -1) and U' = triu(L^-1 P a' U^-1) U.

    De Hoog, Anderssen, Lukas: Differentiation of matrix functionals using triangular factorization.
    If a is not square, L and U are extended to square matrices with ones on the diagonal and zeros
    elsewhere.
    """
    factors, pivots, permutation = lax.lu(*primals)
    da = tangents[0]
    aval = get_aval(da)
    rest = [Zero(get_aval(pivots)), Zero(get_aval(permutation))]
    if aval.size == 0:
        return [factors, pivots, permutation], [Zero(aval), *rest]
    lower, upper = _square_factors(factors, aval)
    moved = matmul(one_hot(permutation, aval.dtype), da)
    inner = lax.triangular_solve(lower, moved, left_side=True, lower=True, unit_diagonal=True)
    inner = lax.triangular_solve(upper, inner, left_side=False, lower=False)
    out = lax.add(matmul(lower, tril(inner, strict=True)), matmul(triu(inner), upper))
    return [factors, pivots, permutation], [out, *rest]


def _square_factors(factors: Any, aval: Aval) -> tuple[Value, Value]:
    """Return L of shape m x m and U of shape n x n from the array that holds both."""
    m, n = aval.shape[-2:]
    batch, k = aval.ndim - 2, min(m, n)
    below, above = tril(factors, strict=True), triu(factors)
    if m > n:
        config = ((0, 0, 0),) * (batch + 1) + ((0, m - k, 0),)
        below = lax.pad(below, full(scalar_type(aval), 0), padding_config=config)
    elif m < n:
        below = _leading(below, m, m)
        config = ((0, 0, 0),) * batch + ((0, n - k, 0), (0, 0, 0))
        above = lax.pad(above, full(scalar_type(aval), 0), padding_config=config)
        corner = lax.ge(lax.iota(dtype=INT32, shape=(*aval.shape[:-2], n, n), dimension=batch), k)
        ones = lax.convert_element_type(corner, new_dtype=aval.dtype)
        diagonal = eye((*aval.shape[:-2], n, n), aval.dtype)
        above = lax.add(above, lax.mul(ones, diagonal))
    if m > n:
        above = _leading(above, n, n)
    below = lax.add(below, eye(get_aval(below).shape, aval.dtype))
    return below, above


def _leading(x: Value, rows: int, columns: int) -> Value:
    shape = get_aval(x).shape
    limits = (*shape[:-2], rows, columns)
    return lax.slice(x, start_indices=(0,) * len(shape), limit_indices=limits, strides=None)


def solve_matrix(a: Value, b: Value) -> Value:
    """Return x with a x = b, for square matrices a and matrices b, by the LU decomposition of a."""
    factors, _, permutation = lax.lu(a)
    b = matmul(one_hot(permutation, get_aval(b).dtype), b)
    b = lax.triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
    return lax.triangular_solve(factors, b, left_side=True, lower=False)


def solve_adjoint(a: Value, b: Value) -> Value:
    """Return x with a^H x = b, for square matrices a and matrices b, by the LU decomposition of
    a.
    """
    factors, _, permutation = lax.lu(a)
    flags = {"left_side": True, "transpose_a": True, "conjugate_a": True}
    b = lax.triangular_solve(factors, b, lower=False, **flags)
    b = lax.triangular_solve(factors, b, lower=True, unit_diagonal=True, **flags)
    return matmul(one_hot(permutation, get_aval(b).dtype), b, transpose_x=True)


def _lower(ctx: LoweringContext, a: HloValue) -> list[HloValue]:
    factors_type, pivots_type, permutation_type = ctx.out_avals
    target = f"lapack_{letter('lu', a.aval.dtype)}getrf_ffi"
    outs = [factors_type, pivots_type, info_type(a.aval)]
    factors, pivots, info = lapack_call(ctx, target, [a], outs, {0: 0})
    pivots = ctx.op("subtract", pivots, ctx.constant(1, pivots_type), out=pivots_type)
    factors = unless_failed(ctx, info, [factors], "GE")[0]
    return [factors, pivots, _lower_swaps(ctx, pivots, permutation_type)]


define(
    lax.lu,
    abstract_eval=_types,
    impl=static_impl(_impl),
    jvp=_jvp,
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_lower,
    cost=lambda ins, outs: 2 * max(ins[0].size, 0) * min(ins[0].shape[-2:]) // 3,
    steers="all",
)

# -- lu_pivots_to_permutation ----------------------------------------------------------------------


def _permutation_type(pivots: Aval, *, permutation_size: ParamValue) -> Aval:
    if pivots.dtype is not INT32 or not pivots.ndim:
        ill_typed(f"lu_pivots_to_permutation takes an array of i32, got {pivots}", "operand-dtype")
    if not isinstance(permutation_size, int) or permutation_size < pivots.shape[-1]:
        ill_typed(
            f"lu_pivots_to_permutation permutation_size={permutation_size} is less than the "
            f"number of pivots in {pivots}",
            "param-value",
        )
    return with_shape(pivots, (*pivots.shape[:-1], int(permutation_size)))


def _permutation_impl(xp: Namespace, pivots: Value, *, permutation_size: int) -> Value:
    out = _permutation_type(pivots, permutation_size=permutation_size)

    def permuted(x: Value) -> Value:
        return (_permuted(xp, x, permutation_size),)

    return lambda x: each_matrix(xp, permuted, (1,), [out], (x,))[0]


def _lower_swaps(ctx: Value, pivots: Value, out: Value) -> Value:
    """Write a loop over the swaps.

    Element pivots[i] is read and written by masks, because the index differs between examples of a
    batch.
    """
    batch, k, m = out.shape[:-1], pivots.aval.shape[-1], out.shape[-1]
    start = ctx.iota(out, len(batch))
    if k == 0 or m == 0 or 0 in batch:
        return start
    counter, column = ShapedArray((), INT32), ShapedArray((*batch, 1), INT32)
    sizes = (*batch, 1)

    def holds(i: Value, *_: Value) -> list[Value]:
        return [ctx.compare("LT", i, ctx.constant(k, counter))]

    def at(x: Value, i: Value) -> Value:
        zeros = [ctx.constant(0, counter)] * len(batch)
        return ctx.op("dynamic_slice", x, *zeros, i, out=column, slice_sizes=sizes)

    def step(i: Value, order: Any, swaps: Value) -> list[Any]:
        other = at(swaps, i)
        size, zero = ctx.constant(m, column), ctx.constant(0, column)
        wrapped = ctx.op("add", other, size, out=column)
        other = ctx.select(ctx.compare("LT", other, zero), wrapped, other)
        near = ctx.op("clamp", zero, other, ctx.constant(m - 1, column), out=column)
        read, chosen = [
            ctx.compare("EQ", ctx.iota(out, len(batch)), ctx.fill(j, out.shape))
            for j in (near, other)
        ]
        theirs = ctx.select(read, order, ctx.constant(0, out))
        theirs = ctx.reshape(ctx.reduce("add", theirs, 0, (len(batch),)), sizes)
        order = ctx.select(chosen, ctx.fill(at(order, i), out.shape), order)
        zeros = [ctx.constant(0, counter)] * len(batch)
        order = ctx.op("dynamic_update_slice", order, theirs, *zeros, i, out=out)
        return [ctx.op("add", i, ctx.constant(1, counter), out=counter), order, swaps]

    state = [ctx.constant(0, counter), start, pivots]
    avals = [x.aval for x in state]
    regions = [ctx.region(avals, holds), ctx.region(avals, step)]
    return ctx.op("while", *state, out=avals, regions=regions)[1]


define(
    lax.lu_pivots_to_permutation,
    abstract_eval=_permutation_type,
    impl=static_impl(_permutation_impl),
    **LOCALLY_CONSTANT,
    batch=leading_batch,
    lower=lambda ctx, pivots, **_: _lower_swaps(ctx, pivots, ctx.out_aval),
    cost=lambda ins, outs, **_: max(ins[0].size, 0),
)

"""Rows of tridiagonal matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize, moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero, instantiate
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import NONLINEAR, is_linear, not_linear
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import full, reshaped, static_impl
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
from jaxprtool.rules.linalg.matrices import (
    check_same_batch,
    check_square,
    columns_like,
    leading_batch,
    matrix_type,
    scalar_type,
)

__all__: list[str] = []

# -- tridiagonal -----------------------------------------------------------------------------------


def _types(a: Aval, *, lower: ParamValue) -> list[Aval]:
    check_square("tridiagonal", a)
    n, real = a.shape[-1], a.dtype.real
    if not n:
        ill_typed(f"tridiagonal needs a matrix with at least one row, got {a}", "operand-shapes")
    diagonals = [matrix_type(a, n, dtype=real), matrix_type(a, n - 1, dtype=real)]
    return [a, *diagonals, matrix_type(a, n - 1)]


def _impl(xp: Namespace, a: Value, *, lower: bool) -> Value:
    outs = _types(a, lower=lower)
    trd = routine(xp, "tridiagonal", "sytrd", a.dtype, "hetrd")

    def reduce(x: Value) -> Value:
        *results, info = trd(x, lower=int(lower))
        return results if info == 0 else None

    def reduce_one(x: Value) -> Value:
        return x.real, x[0].real, xp.zeros(0), xp.zeros(0)

    f = reduce if a.shape[-1] > 1 else reduce_one
    return lambda x: each_matrix(xp, f, (2,), outs, (x,))


def _lower(ctx: LoweringContext, a: HloValue, *, lower: bool) -> list[HloValue]:
    stem = "hetrd" if a.aval.dtype.kind == "c" else "sytrd"
    target = f"lapack_{letter('tridiagonal', a.aval.dtype)}{stem}_ffi"
    outs = [*ctx.out_avals, info_type(a.aval)]
    uplo = char("L" if lower else "U")
    *results, info = lapack_call(ctx, target, [a], outs, {0: 0}, uplo=uplo)
    return unless_failed(ctx, info, results)


define(
    lax.tridiagonal,
    abstract_eval=_types,
    impl=static_impl(_impl),
    jvp=unsupported("JAX has no derivative of it either"),
    transpose=NONLINEAR,
    batch=leading_batch,
    lower=_lower,
    cost=lambda ins, outs, **_: 4 * max(ins[0].size, 0) * ins[0].shape[-1] // 3,
)

# -- tridiagonal_solve -----------------------------------------------------------------------------


def _solve_type(dl: Aval, d: Any, du: Aval, b: Aval, *, perturb_singular: ParamValue) -> Aval:
    check_same_batch("tridiagonal_solve", (dl, d, du, b), (1, 1, 1, 2))
    if not dl.shape == d.shape == du.shape == b.shape[:-1]:
        ill_typed(
            f"tridiagonal_solve needs three diagonals as long as b has rows, got {dl}, {d}, {du} "
            f"and {b}",
            "operand-shapes",
        )
    return b


def _solve_impl(
    xp: Namespace, dl: Value, d: Any, du: Value, b: Value, *, perturb_singular: bool
) -> Value:
    gtsv = routine(xp, "tridiagonal_solve", "gtsv", b.dtype)

    def one(dl: Value, d: Any, du: Value, b: Value) -> Value:
        return (b / d[:, None],) if d[0] != 0 else None

    def solve(dl: Value, d: Any, du: Value, b: Value) -> Value:
        x, info = gtsv(dl[1:], d, du[:-1], b)[-2:]
        return (x,) if info == 0 else None

    def solve_perturbed(dl: Value, d: Any, du: Value, b: Value) -> Value:
        return (_perturbed(xp, dl, d, du, b),)

    f = solve if d.shape[-1] > 1 else one
    f = solve_perturbed if perturb_singular else f
    if not b.size:
        return lambda *values: values[3].copy()
    return lambda *values: each_matrix(xp, f, (1, 1, 1, 2), [b], values)[0]


def _eliminate(xp: Namespace, dl: Value, d: Any, du: Value, x: Value) -> tuple[Value, float]:
    """Return the rows of U of an LU decomposition, as (diagonal, two superdiagonals); apply L^-1 to
    x in place.

    Two rows are swapped if the pivot is then larger relative to its row, as in LAPACK's lagtf. The
    second result is the largest absolute value in U, in which the last row but one does not count,
    as in jaxlib.
    """
    n = len(d)
    u = xp.zeros((n, 3), d.dtype)
    u[0, :2] = d[0], du[0]
    largest, size = abs(u[0, :2]).max(), abs(u[0, :2]).sum()
    for k in range(n - 1):
        below, beyond = dl[k + 1], du[k + 1] if k + 2 < n else d.dtype.type(0)
        next_size = abs(below) + abs(d[k + 1]) + abs(beyond)
        u[k + 1, :2] = d[k + 1], du[k + 1]
        if below == 0:
            size = next_size
        elif u[k, 0] != 0 and abs(below) / next_size <= abs(u[k, 0]) / size:
            factor, size = below / u[k, 0], next_size
            u[k + 1, 0] -= factor * u[k, 1]
            x[k + 1] -= factor * x[k]
        else:
            factor = u[k, 0] / below
            u[k + 1, :2] = u[k, 1] - factor * d[k + 1], -factor * beyond
            u[k] = below, d[k + 1], beyond
            x[k], x[k + 1] = x[k + 1].copy(), x[k] - factor * x[k + 1]
            size = abs(u[k + 1, :2]).sum()
        if k + 2 < n:
            largest = max(largest, abs(u[k]).max())
    return u, max(largest, abs(u[n - 1, 0]))


def _divide(xp: Namespace, row: Value, pivot: Value, change: float, tiny: float) -> Value:
    """Return row / pivot; a pivot so small that the quotient would overflow is increased first.

    The change is doubled until it is large enough, as in LAPACK's lagts.
    """
    change = xp.copysign(max(change, tiny), pivot.real)
    largest = abs(row).max()
    while abs(pivot) < 1:
        size = abs(pivot)
        if size >= tiny and largest <= size / tiny:
            break
        if 0 < size < tiny and largest * tiny <= size:
            return row / tiny * (1 / (pivot / tiny))
        pivot = pivot + change
        change *= 2
    return row * (1 / pivot)


def _perturbed(xp: Namespace, dl: Value, d: Any, du: Value, b: Value) -> Value:
    """Solve, with pivots near zero moved away from it by eps times the largest element of U or
    more.
    """
    info = xp.finfo(d.dtype)
    x = b.copy()
    u, largest = _eliminate(xp, dl, d, du, x)
    change = info.eps * largest
    for k in range(len(d) - 1, -1, -1):
        for i in (1, 2):
            if k + i < len(d):
                x[k] -= u[k, i] * x[k + i]
        x[k] = _divide(xp, x[k], u[k, 0], change, info.tiny)
    return x


def _shifted(x: Value, by: int) -> Value:
    """Return x with its rows shifted down (by=1) or up (by=-1) by one, and zeros in the free
    row.
    """
    aval = get_aval(x)
    config = ((0, 0, 0),) * (aval.ndim - 2) + ((by, -by, 0), (0, 0, 0))
    return lax.pad(x, full(scalar_type(aval), 0), padding_config=config)


def _product(dl: Value, d: Any, du: Value, x: Value) -> Value:
    """Return T x for the matrix T of three diagonals, each of which may be Zero; None if all
    are.
    """
    shape = get_aval(x).shape
    parts = [(d, 0), (dl, 1), (du, -1)] if shape[-2] > 1 else [(d, 0)]
    out: Any = None
    for v, by in parts:
        if type(v) is not Zero:
            term = lax.mul(columns_like(v, shape), _shifted(x, by) if by else x)
            out = term if out is None else lax.add(out, term)
    return out


def _solve_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, perturb_singular: bool
) -> PrimalAndTangent:
    """The jvp rule: x' = T^-1 (b' - T' x)."""
    diagonals, (*moved, db) = primals[:3], tangents
    x = lax.tridiagonal_solve(*primals, perturb_singular=perturb_singular)
    dl, d, du = moved
    change = _product(dl, d, du, x)
    if change is None:
        right = instantiate(db)
    else:
        right = lax.neg(change) if type(db) is Zero else lax.sub(db, change)
    return x, lax.tridiagonal_solve(*diagonals, right, perturb_singular=perturb_singular)


def _along(v: Value, by: int) -> Value:
    """Return a diagonal shifted by one position, with a zero in the free position."""
    aval = get_aval(v)
    config = ((0, 0, 0),) * (aval.ndim - 1) + ((by, -by, 0),)
    return lax.pad(v, full(scalar_type(aval), 0), padding_config=config)


def _solve_transpose(
    ct: Value, dl: Value, d: Any, du: Value, b: Value, **params: ParamValue
) -> list[Value]:
    if is_linear(dl) or is_linear(d) or is_linear(du):
        not_linear("tridiagonal_solve", "the matrix depends on them")
    out = lax.tridiagonal_solve(_along(du, 1), d, _along(dl, -1), ct, **params)
    return [None, None, None, out]


def _solve_batch(size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    """The batch rule; if only b is batched, the examples become further columns of b."""
    *diagonals, b = vals
    if any(d is not None for d in dims[:3]):
        values = [materialize(x, d, size) for x, d in zip(vals, dims, strict=True)]
        return lax.tridiagonal_solve(*values, **params), 0
    at = get_aval(b).ndim - 2
    b = moveaxis(b, dims[3], at)
    shape = get_aval(b).shape
    flat = reshaped(b, (*shape[:at], shape[at] * shape[at + 1]))
    return reshaped(lax.tridiagonal_solve(*diagonals, flat, **params), shape), at


def _solve_lower(
    ctx: LoweringContext, dl: HloValue, d: Any, du: HloValue, b: HloValue, *, perturb_singular: bool
) -> HloValue:
    operands = [dl, d, du, b]
    if perturb_singular:
        letter("tridiagonal_solve", b.aval.dtype)
        return lapack_call(ctx, "tridiagonal_solve_perturbed_ffi", operands, [b.aval])[0]
    target = f"lapack_{letter('tridiagonal_solve', b.aval.dtype)}gtsv_ffi"
    outs = [*[x.aval for x in operands], info_type(b.aval)]
    *_, x, info = lapack_call(ctx, target, operands, outs, {i: i for i in range(4)})
    return unless_failed(ctx, info, [x])[0]


define(
    lax.tridiagonal_solve,
    abstract_eval=_solve_type,
    impl=static_impl(_solve_impl),
    jvp=_solve_jvp,
    transpose=_solve_transpose,
    batch=_solve_batch,
    lower=_solve_lower,
    cost=lambda ins, outs, **_: 8 * max(outs[0].size, 0),
    masks="both",
)

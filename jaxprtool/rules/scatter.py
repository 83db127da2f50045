"""Rows of `scatter`, and of the scatters that combine updates with old elements, such as
`scatter-add`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import materialize, moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero, add_tangents, instantiate
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR, is_linear, not_linear
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import UINT32, DType
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import (
    check_same_dtype,
    full,
    static_impl,
    with_dtype,
    with_shape,
)
from jaxprtool.makers.extrema import ufunc_of
from jaxprtool.makers.indexing import (
    CLIP,
    DROP_MODE,
    Windows,
    batched_indices,
    batched_operand,
    check_windows,
    gather_windows,
    mode_of,
    scatter_added,
    stablehlo_numbers,
    update_jaxpr_of,
    wide_indices,
    window_sizes,
    windows_of,
    with_indices_of_batches,
    without_promises,
)
from jaxprtool.makers.keys import MOVES_KEYS
from jaxprtool.makers.reducers import check_reducer, vectorized, with_consts
from jaxprtool.makers.selection import Selection
from jaxprtool.rules.define import define

# -- types -----------------------------------------------------------------------------------------


def _scatter_type(name: str) -> Callable[..., Aval]:
    def rule(
        x: Aval,
        indices: Aval,
        updates: Any,
        *,
        dimension_numbers: ParamValue,
        mode: ParamValue,
        update_jaxpr: Any,
        update_consts: Any,
        **_: ParamValue,
    ) -> Aval:
        mode_of(name, mode)
        check_same_dtype(name, (x, updates))
        _check_update_jaxpr(name, x, update_jaxpr, update_consts)
        _check_scatter(name, x, indices, updates, windows_of("scatter", dimension_numbers, name))
        return x.strong

    return rule


def _check_update_jaxpr(name: str, x: Value, update_jaxpr: Any, update_consts: Any) -> None:
    if update_jaxpr is not None:
        scalar = ShapedArray((), x.dtype)
        check_reducer(name, "update_jaxpr", update_jaxpr, [scalar] * 2, [scalar], update_consts)


@functools.lru_cache(4096)
def _check_scatter(name: str, x: Value, indices: Value, updates: Any, w: Windows) -> None:
    check_windows(name, "scatter", w, x, indices)
    rank = indices.ndim - 1 + len(w.window)
    if updates.ndim != rank:
        ill_typed(f"{name} needs updates of rank {rank}, got {updates}", "operand-shapes")
    batch = tuple(updates.shape[i] for i in w.batch_positions(indices.ndim - 1))
    if batch != indices.shape[:-1]:
        ill_typed(
            f"{name} updates {updates} and indices {indices} differ in shape apart from "
            f"update_window_dims {w.window} and the index vectors",
            "operand-shapes",
        )
    sizes = window_sizes(w, x.ndim, updates.shape)
    absent = {*w.collapsed, *w.operand_batch}
    if any(s > n for i, (s, n) in enumerate(zip(sizes, x.shape, strict=True)) if i not in absent):
        ill_typed(f"{name} cannot write windows of {updates} into {x}", "slice-range")


# -- NumPy -----------------------------------------------------------------------------------------

Combine = Callable[
    [Any, Any, Any, Any], None
]  # (xp, table, places, rows): change the table in place


def _replace(xp: Namespace, table: Any, places: Any, rows: Value) -> None:
    table[places] = rows  # of equal places the last update counts


def _combine(name: str, unique: bool, dtype: DType) -> Combine:
    """Return a function that combines updates with elements by a NumPy ufunc, in their order."""

    def run(xp: Namespace, table: Any, places: Any, rows: Value) -> None:
        ufunc = ufunc_of(xp, name, dtype)
        if unique:
            table[places] = ufunc(table[places], rows)
            return
        xp.combine_rows(ufunc, table, places, rows)

    return run


def _apply_jaxpr(closed: ClosedJaxpr) -> Combine:
    """Return a function that combines by a jaxpr of scalars, in rounds that update no element
    twice.
    """

    def run(xp: Namespace, table: Any, places: Any, rows: Value) -> None:
        order = xp.argsort(places, kind="stable")
        ordered = places[order]
        position = xp.arange(len(order))
        is_first = xp.ones(len(order), bool)
        is_first[1:] = ordered[1:] != ordered[:-1]
        turn = position - xp.maximum.accumulate(xp.where(is_first, position, 0))
        for k in range(int(turn.max(initial=-1)) + 1):
            now = order[turn == k]
            old, new = table[places[now]], rows[now]
            (changed,) = vectorized(xp, closed, (old.size,))(old.reshape(-1), new.reshape(-1))
            table[places[now]] = xp.asarray(changed).reshape(old.shape)

    return run


def _is_that_of(update_jaxpr: Any, op: Any) -> bool:
    """Whether an update_jaxpr is the single operation `op` of its two arguments in order, the
    operation in the primitive's name.
    """
    jaxpr = update_jaxpr.jaxpr
    if len(jaxpr.eqns) != 1 or jaxpr.const_binders:
        return False
    (eqn,) = jaxpr.eqns
    same = eqn.primitive is op.primitive and [*jaxpr.outs] == [*eqn.out_binders]
    return same and [*eqn.inputs] == [*jaxpr.in_binders]


def _scatter_impl(op: Any, ufunc: str) -> Callable[..., Value]:
    def make(
        xp: Namespace,
        x: Value,
        indices: Value,
        updates: Any,
        *,
        dimension_numbers: ParamValue,
        mode: ParamValue,
        unique_indices: bool,
        update_jaxpr: Any,
        update_consts: Any,
        **_: ParamValue,
    ) -> Value:
        if not updates.size or not x.size:
            return lambda v, i, u: v
        w = windows_of("scatter", dimension_numbers)
        sizes = window_sizes(w, x.ndim, updates.shape)
        selection = Selection(xp, x.shape, indices, w, sizes)
        combine: Any = _replace
        if ufunc and (update_jaxpr is None or _is_that_of(update_jaxpr, op)):
            combine = _combine(ufunc, unique_indices, x.dtype)
        elif update_jaxpr is not None:
            combine = _apply_jaxpr(with_consts(update_jaxpr, update_consts))
        clip = mode_of("scatter", mode) == CLIP
        n, count = math.prod(indices.shape[:-1]), math.prod(selection.kept)

        def run(v: Value, i: Value, u: Value) -> Value:
            starts = selection.starts(i)
            rows = selection.from_windows(xp.asarray(u))
            inside = None
            if clip:
                starts = selection.clipped(starts)
            else:
                inside = selection.inside(starts).reshape(n)
            places = selection.places(starts)
            if inside is not None and not inside.all():
                places, rows = places.reshape(n, -1)[inside], rows.reshape(n, -1)[inside]
            table = xp.array(selection.table(xp.asarray(v)), order="C").reshape(selection.n, count)
            combine(xp, table, places.reshape(-1), rows.reshape(-1, count))
            return selection.with_table(v, table)

        return run

    return static_impl(make)


# -- derivatives -------------------------------------------------------------------------------------


def _options(params: dict[str, ParamValue]) -> dict[str, Any]:
    """Return the params that say how a scatter takes its indices."""
    return {k: params[k] for k in ("mode", "unique_indices", "indices_are_sorted")}


def _linear_jvp(op: Any) -> Callable[..., Value]:
    """Return the jvp rule of a scatter that is linear in (operand, updates)."""

    def rule(
        primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
    ) -> PrimalAndTangent:
        (x, indices, updates), (dx, _, du) = primals, tangents
        out = op(x, indices, updates, **params)
        if type(dx) is Zero and type(du) is Zero:
            return out, Zero(get_aval(out))
        return out, op(instantiate(dx), indices, instantiate(du), **params)

    return rule


def _scatter_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
) -> PrimalAndTangent:
    """The jvp rule of `scatter`.

    Of overlapping updates only the last one counts. To find these, each update gets a number; the
    numbers are scattered, then gathered at the updates' positions: an update whose number comes
    back was not overwritten. Value and tangent are sums over these updates.
    """
    if params["update_jaxpr"] is not None:
        fail(
            UnsupportedError,
            "scatter with an update_jaxpr has no derivative",
            "no-derivative",
        )
    (x, indices, updates), (dx, _, du) = primals, tangents
    if params["unique_indices"] or (type(dx) is Zero and type(du) is Zero):
        return _linear_jvp(lax.scatter)(primals, tangents, **params)
    dx, du = instantiate(dx), instantiate(du)
    w = windows_of("scatter", params["dimension_numbers"])
    aval, u_aval = get_aval(x), get_aval(updates)
    shape = tuple(1 if i in w.window else n for i, n in enumerate(u_aval.shape))
    ids = _numbered(shape, u_aval.shape)
    none = full(with_dtype(aval, get_aval(ids).dtype), 0)
    written = lax.scatter(none, indices, ids, **params)
    untouched = lax.eq(written, none)
    counts = lax.eq(ids, gather_windows(written, indices, w, u_aval))
    zero, zero_u = full(aval, 0), full(u_aval, 0)
    options = _options(params)

    def total(old: Value, new: Value) -> Value:
        old, new = lax.select_n(untouched, zero, old), lax.select_n(counts, zero_u, new)
        return scatter_added(old, indices, new, w, **options)

    return total(x, updates), total(dx, du)


def _numbered(shape: tuple[int, ...], wanted: tuple[int, ...]) -> Value:
    """Return 1, 2, ... for the elements of `shape`, broadcast to `wanted`."""
    ids = lax.iota(dtype=UINT32, shape=(math.prod(shape),), dimension=0)
    ids = lax.add(lax.reshape(ids, new_sizes=shape), scalar_lit(1, UINT32))
    if shape == wanted:
        return ids
    dims = tuple(range(len(wanted)))
    return lax.broadcast_in_dim(ids, shape=wanted, broadcast_dimensions=dims)


def _mul_jvp(primals: Value, tangents: Value, **params: Any) -> PrimalAndTangent:
    (x, indices, updates), (dx, _, du) = primals, tangents
    out = lax.scatter_mul(x, indices, updates, **params)
    left: Any = dx
    if type(dx) is not Zero:
        left = lax.scatter_mul(dx, indices, updates, **params)
    if type(du) is Zero:
        return out, left
    _need_unique("scatter-mul", params["unique_indices"])
    w = windows_of("scatter", params["dimension_numbers"])
    added = scatter_added(full(get_aval(x), 0), indices, du, w, **_options(params))
    right = lax.mul(x, added)
    return out, add_tangents(left, right)


def _need_unique(name: str, unique: bool) -> None:
    if not unique:
        fail(
            UnsupportedError,
            f"{name} has a derivative in its updates only where unique_indices is true",
            "no-derivative",
        )


def _extremal_jvp(op: Any) -> Callable[..., Value]:
    """Return the jvp rule of scatter-min or scatter-max: equal extreme values, among the updates of
    an element and the old element, have equal derivatives, whose sum is 1.

    The rule gathers and scatters with the same mode as the primitive, so that an update whose
    position is clipped counts at the position to which it is written.
    """

    def rule(
        primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
    ) -> PrimalAndTangent:
        (x, indices, updates), (dx, _, du) = primals, tangents
        out = op(x, indices, updates, **params)
        if type(dx) is Zero and type(du) is Zero:
            return out, Zero(get_aval(out))
        dx, du = instantiate(dx), instantiate(du)
        w = windows_of("scatter", params["dimension_numbers"])
        aval, u_aval = get_aval(x), get_aval(updates)
        options, mode = _options(params), params["mode"]
        read = functools.partial(gather_windows, indices=indices, w=w, updates=u_aval, mode=mode)
        zero, zero_u, one_u = full(aval, 0), full(u_aval, 0), full(u_aval, 1)
        one = scalar_lit(1, aval.dtype)
        best = read(out)
        wins, stays = lax.eq(updates, best), lax.eq(read(x), best)
        counted = lax.select_n(wins, zero_u, one_u)
        winners = read(scatter_added(zero, indices, counted, w, **options))
        writers = read(scatter_added(zero, indices, one_u, w, **options))
        shared = lax.div(one, lax.add(winners, one))
        share = lax.select_n(stays, lax.div(one, winners), shared)
        new = lax.select_n(wins, zero_u, share)
        old = lax.sub(lax.select_n(stays, zero_u, shared), one)
        moved = lax.mul(read(dx), lax.div(old, writers))
        change = lax.add(moved, lax.mul(du, new))
        return out, scatter_added(dx, indices, change, w, **options)

    return rule


def _fixed_indices(name: str, indices: Value) -> None:
    if is_linear(indices):
        not_linear(name, "scatter_indices depend on them")


def _add_transpose(op: Any) -> Callable[..., Value]:
    name = op.primitive.name

    def rule(
        ct: Value,
        x: Value,
        indices: Value,
        updates: Any,
        *,
        dimension_numbers: ParamValue,
        mode: ParamValue,
        **_: ParamValue,
    ) -> list[Value]:
        _fixed_indices(name, indices)
        du = None
        if is_linear(updates):
            w = windows_of("scatter", dimension_numbers)
            du = gather_windows(ct, indices, w, updates, mode, 0)
            du = lax.neg(du) if op is lax.scatter_sub else du
        return [ct if is_linear(x) else None, None, du]

    return rule


def _mul_transpose(ct: Value, x: Value, indices: Value, updates: Any, **params: Any) -> list[Value]:
    _fixed_indices("scatter-mul", indices)
    dx = du = None
    if is_linear(x):
        dx = lax.scatter_mul(ct, indices, updates, **params)
    if is_linear(updates):
        _need_unique("scatter-mul", params["unique_indices"])
        w = windows_of("scatter", params["dimension_numbers"])
        du = gather_windows(lax.mul(ct, x), indices, w, updates, params["mode"], 0)
    return [dx, None, du]


def _scatter_transpose(
    ct: Value, x: Value, indices: Value, updates: Any, **params: ParamValue
) -> list[Value]:
    _fixed_indices("scatter", indices)
    if not params["unique_indices"] or params["update_jaxpr"] is not None:
        fail(
            UnsupportedError,
            "scatter can be transposed only where unique_indices is true and update_jaxpr is None",
            "no-transpose",
        )
    aval = updates.aval if is_linear(updates) else get_aval(updates)
    dx = du = None
    if is_linear(x):
        zeros = full(with_shape(x.aval, aval.shape), 0)
        dx = lax.scatter(ct, indices, zeros, **params)
    if is_linear(updates):
        w = windows_of("scatter", params["dimension_numbers"])
        du = gather_windows(ct, indices, w, aval, params["mode"], 0)
    return [dx, None, du]


# -- batching, lowering, cost --------------------------------------------------------------------------


def _scatter_batch(op: Any) -> Callable[..., Value]:
    def rule(
        size: int,
        vals: Sequence[Value],
        dims: Sequence[int | None],
        *,
        dimension_numbers: ParamValue,
        **params: ParamValue,
    ) -> OutAndDim:
        (x, indices, updates), (dim, index_dim, update_dim) = vals, dims
        w = windows_of("scatter", dimension_numbers)
        if dim is None:
            x, dim = materialize(x, None, size), 0
        if index_dim is None:
            w, at = batched_operand(w, dim)
        else:
            last = get_aval(indices).ndim - 1
            if index_dim == last:
                indices, index_dim = moveaxis(indices, last, 0), 0
            w, at = batched_indices(w, index_dim, last - 1, dim)
        updates = materialize(updates, update_dim, size, at)
        return op(x, indices, updates, dimension_numbers=w.scatter_numbers(), **params), dim

    return rule


def _clamped(
    ctx: LoweringContext, x: HloValue, indices: HloValue, updates: Any, w: Windows
) -> HloValue:
    """Return the indices moved so that all windows lie within the operand."""
    if not w.start_map:
        return indices
    sizes, aval = window_sizes(w, x.aval.ndim, updates.aval.shape), indices.aval
    limits = [x.aval.shape[i] - sizes[i] for i in w.start_map]
    row = ctx.array(limits, ShapedArray((len(limits),), aval.dtype))
    most = ctx.broadcast(row, aval, (aval.ndim - 1,))
    return ctx.op("clamp", ctx.constant(0, aval), indices, most, out=aval)


def _scatter_lower(op: Any) -> Callable[..., Value]:
    def lower(
        ctx: LoweringContext,
        x: HloValue,
        indices: HloValue,
        updates: Any,
        *,
        dimension_numbers: ParamValue,
        mode: ParamValue,
        unique_indices: bool,
        indices_are_sorted: bool,
        update_jaxpr: Any,
        update_consts: Any,
    ) -> HloValue:
        w = windows_of("scatter", dimension_numbers)
        n_batch, indices = indices.aval.ndim - 1, wide_indices(ctx, indices)
        if mode_of("scatter", mode) == CLIP:
            indices = _clamped(ctx, x, indices, updates, w)
        scalar = ShapedArray((), x.aval.dtype)
        if update_jaxpr is None and op is not None:
            update_jaxpr = update_jaxpr_of(op, x.aval.dtype)

        def body(old: Value, new: Value) -> Value:
            if update_jaxpr is None:
                return new
            return ctx.inline(with_consts(update_jaxpr, update_consts), [old, new])

        return ctx.op(
            "scatter",
            x,
            indices,
            updates,
            regions=[ctx.region([scalar, scalar], body)],
            scatter_dimension_numbers=stablehlo_numbers("scatter", w, n_batch),
            indices_are_sorted=bool(indices_are_sorted),
            unique_indices=bool(unique_indices),
        )

    return lower


# Primitive -> the operation that combines an old element with an update.
COMBINED_BY: dict[str, Any] = {
    "scatter-add": lax.add,
    "scatter-sub": lax.sub,
    "scatter-mul": lax.mul,
    "scatter-min": lax.min,
    "scatter-max": lax.max,
}


def _earlier(op: Value) -> Value:
    """Return the earlier rule of a scatter: batch axes were indexed like others, nothing was promised about indices, and
    updates that did not fit were dropped.
    """

    def rule(*in_avals: Aval, **params: ParamValue) -> Value:
        w = windows_of("scatter", params["dimension_numbers"], op.primitive.name)
        if w.operand_batch:

            def indexed(x: Value, i: Value, updates: Value) -> Value:
                numbers, i = with_indices_of_batches(w, i)
                how = {"dimension_numbers": numbers.scatter_numbers(), "indices_are_sorted": False}
                return op(x, i, updates, **{**params, **how})

            return indexed
        if op is lax.scatter_sub:
            params |= {"update_jaxpr": None, "update_consts": ()}  # of a subtraction
            return lambda x, i, u: lax.scatter_add(x, i, lax.neg(u), **params)
        if mode_of("scatter", params["mode"]) == CLIP:
            return None
        plain = {"mode": DROP_MODE, "unique_indices": False, "indices_are_sorted": False}
        if all(params[key] == value for key, value in plain.items()):
            return None
        return lambda *xs: op(*xs, **{**params, **plain})

    return rule


_LINEAR = (lax.scatter_add, lax.scatter_sub)
_ROWS: Any = (
    (lax.scatter, None, "", _scatter_jvp, _scatter_transpose, MOVES_KEYS),
    (lax.scatter_add, lax.add, "add", None, _add_transpose(lax.scatter_add), None),
    (lax.scatter_sub, lax.sub, "subtract", None, _add_transpose(lax.scatter_sub), None),
    (lax.scatter_mul, lax.mul, "multiply", _mul_jvp, _mul_transpose, None),
    (lax.scatter_min, lax.min, "minimum", _extremal_jvp(lax.scatter_min), NONLINEAR, None),
    (lax.scatter_max, lax.max, "maximum", _extremal_jvp(lax.scatter_max), NONLINEAR, None),
)
for _op, _scalar_op, _ufunc, _jvp, _transpose, _keys in _ROWS:
    define(
        _op,
        abstract_eval=_scatter_type(_op.primitive.name),
        impl=_scatter_impl(_scalar_op, _ufunc),
        jvp=_jvp or _linear_jvp(_op),
        transpose=_transpose,
        batch=_scatter_batch(_op),
        lower=_scatter_lower(_scalar_op),
        cost=AS_LOWERED,
        keys=_keys,
        masks="both",
        steers="operand 1",
        elements="computed" if _scalar_op else "placed",
        determined=without_promises,
        sums="kept" if _op in _LINEAR else "refused",
        earlier=_earlier(_op),
    )

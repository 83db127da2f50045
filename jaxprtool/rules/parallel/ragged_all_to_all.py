"""The row of `ragged_all_to_all`, by which members send slices of rows to one another; the sizes of
the slices are operands.

If slice j of member s is for member d and covers row r, that is `output_offsets[j] <= r <
output_offsets[j] + send_sizes[j]`, then `out[r]` of d is `operand[input_offsets[j] + r -
output_offsets[j]]` of s, where all these arrays are those of s. Other rows are those of `output`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize, moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.jvp import Zero, instantiate
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import (
    full,
    reshaped,
    transposed,
    varied,
    with_shape,
)
from jaxprtool.ops.arrays.taking import pick
from jaxprtool.ops.parallel import names_of
from jaxprtool.rules.define import define
from jaxprtool.rules.parallel.groups import Grouped, grouped, refuse
from jaxprtool.rules.parallel.lowering import mesh_groups, pairs_text
from jaxprtool.rules.parallel.reductions import unbound_impl
from jaxprtool.rules.parallel.traffic import sent_parts
from jaxprtool.rules.parallel.types import group_size

__all__: list[str] = []

_PLACES = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")


# -- type ------------------------------------------------------------------------------------------


def _ragged_type(
    x: Aval, y: Aval, *places: Aval, axis_name: Any, axis_index_groups: Any = None
) -> Aval:
    """The type rule: the type of `output`.

    Offsets and sizes are vectors of integers of one length, with the same number for each member.
    """
    size = group_size("ragged_all_to_all", names_of(axis_name), axis_index_groups)
    if x.dtype != y.dtype or x.shape[1:] != y.shape[1:] or not x.ndim or not y.ndim:
        ill_typed(f"ragged_all_to_all: rows of {x} cannot be written to {y}", "operand-type")
    for what, p in zip(_PLACES, places, strict=True):
        if not p.dtype.is_integer or p.ndim != 1 or not p.shape[0]:
            ill_typed(f"ragged_all_to_all: {what} must be integers along one axis, not {p}", "rank")
        if p.shape[0] % size or p.shape != places[0].shape:
            ill_typed(
                f"ragged_all_to_all: {what} of type {p} does not hold as many slices for each of {size} members",
                "axis-size",
            )
    return y.update(weak_type=False, spec=())


# -- derivatives -------------------------------------------------------------------------------------


def _ragged_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
) -> PrimalAndTangent:
    """The jvp rule: the primitive is linear in (operand, output)."""
    (_, _, *places), (dx, dy, *_) = primals, tangents
    out = lax.ragged_all_to_all(*primals, **params)
    if type(dx) is Zero and type(dy) is Zero:
        return out, Zero(get_aval(out))
    return out, lax.ragged_all_to_all(instantiate(dx), instantiate(dy), *places, **params)


def _ragged_transpose(
    ct: Value, x: Value, y: Value, *places: Value, **params: ParamValue
) -> list[Value]:
    """The transpose rule: the cotangents of rows that were sent go back to their senders.

    The cotangent of `output` is zero for rows that were received.
    """
    if any(map(is_linear, places)):
        not_linear("ragged_all_to_all", "its offsets or sizes depend on them")
    sent_from, sent, sent_to, received = places
    exchange = {"split_axis": 0, "concat_axis": 0, "tiled": True, **params}
    exchange["axis_name"] = names_of(params["axis_name"])
    arrived_at = lax.all_to_all(sent_to, **exchange)
    dx = dy = None
    if is_linear(x):
        came_from = lax.all_to_all(sent_from, **exchange)
        blank = varied(full(with_shape(x.aval, x.aval.shape), 0), exchange["axis_name"])
        dx = lax.ragged_all_to_all(ct, blank, arrived_at, received, came_from, sent, **params)
    if is_linear(y):
        n, rows = get_aval(arrived_at).shape[0], y.aval.shape[0]
        inside, _ = _covered(arrived_at, received, (n, rows), 1, (0,))
        hit = lax.reduce_or(inside, axes=(0,))
        dy = lax.select_n(_over(hit, y.aval.shape, (0,)), ct, full(y.aval, 0))
    return [dx, dy, *[None] * 4]


def _over(x: Value, shape: tuple[int, ...], dims: tuple[int, ...]) -> OutAndDim:
    return lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims)


def _covered(
    starts: Value, sizes: Sequence[int], shape: tuple[int, ...], at: int, dims: tuple[int, ...]
) -> OutAndDim:
    """Return whether row r is in each slice, and its offset from the start of the slice.

    Args:
      starts, sizes: the first row and number of rows of each slice.
      shape: the shape of both results.
      at: the axis of `shape` whose index is r.
      dims: the axes of `shape` that are those of starts and sizes.
    """
    dtype = get_aval(starts).dtype
    row = lax.iota(dtype=dtype, shape=shape, dimension=at)
    place = lax.sub(row, _over(starts, shape, dims))
    after = lax.ge(place, full(get_aval(place), 0))
    return lax.and_(after, lax.lt(place, _over(sizes, shape, dims))), place


# -- vmap --------------------------------------------------------------------------------------------


def _ragged_batch(
    axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: ParamValue
) -> OutAndDim:
    names, groups = names_of(params["axis_name"]), params["axis_index_groups"]
    members = grouped("ragged_all_to_all", axis_size, names, groups)
    if members is not None:
        return _exchanged(members, vals, dims)
    if groups is not None:
        refuse("ragged_all_to_all", "axis_index_groups are given")
    x, y = (materialize(v, d, axis_size) for v, d in zip(vals[:2], dims[:2], strict=True))
    places = [materialize(v, d, axis_size, 1) for v, d in zip(vals[2:], dims[2:], strict=True)]
    for i, rows in ((0, get_aval(x).shape[1]), (2, get_aval(y).shape[1])):
        places[i] = lax.add(places[i], _first_rows(get_aval(places[i]), rows, 1))
    flat = [_merged(v) for v in (x, y, *places)]
    out = lax.ragged_all_to_all(*flat, **params)
    return reshaped(out, get_aval(y).shape), 0


def _merged(x: Value) -> Value:
    a, b, *rest = get_aval(x).shape
    return reshaped(x, (a * b, *rest))


def _first_rows(aval: Aval, rows: int, at: int) -> Value:
    """Return an array of integers of type `aval`: at index i, i[at] * rows."""
    number = lax.iota(dtype=aval.dtype, shape=aval.shape, dimension=at)
    return lax.mul(number, full(get_aval(number), rows))


def _exchanged(
    members: Grouped, vals: Sequence[Value], dims: Sequence[int | None]
) -> tuple[Value, int]:
    """Return the results of all members: for each row of a result, look up the row of its sender."""
    x, y, start, size, target, _ = (
        _in_groups(members, v, d) for v, d in zip(vals, dims, strict=True)
    )
    (groups, n, rows, *rest), out_rows = get_aval(x).shape, get_aval(y).shape[2]
    start = lax.add(start, _first_rows(get_aval(start), rows, 1))
    start = lax.add(start, _first_rows(get_aval(start), n * rows, 0))
    start, size, target = (_by_receiver(p, n) for p in (start, size, target))
    shape = (groups, n, out_rows, get_aval(start).shape[2])
    inside, place = _covered(target, size, shape, 2, (0, 1, 3))
    source = lax.add(_over(start, shape, (0, 1, 3)), place)
    found = lax.select_n(inside, full(get_aval(source), -1), source)
    source = lax.reduce_max(found, axes=(3,))
    zero = full(get_aval(source), 0)
    sent = pick(reshaped(x, (groups * n * rows, *rest)), (0,), (lax.max(source, zero),), 0)
    hit = _over(lax.ge(source, zero), get_aval(y).shape, (0, 1, 2))
    out = lax.select_n(hit, y, sent)
    return members.each(
        reshaped(out, get_aval(y).shape[1:]) if members.whole else out, members.lead
    )


def _in_groups(members: Grouped, x: Value, dim: int | None) -> Value:
    """Return a batch as (groups, members, *shape of one member's value)."""
    members.load(x, dim)
    y = moveaxis(members.x, members.at, members.lead)
    return y if members.lead else reshaped(y, (1, *get_aval(y).shape))


def _by_receiver(places: Any, n: int) -> Value:
    """Regroup (groups, senders, slices) as (groups, receivers, all slices for one receiver)."""
    groups, senders, slices = get_aval(places).shape
    apart = reshaped(places, (groups, senders, n, slices // n))
    return reshaped(transposed(apart, (0, 2, 1, 3)), (groups, n, senders * (slices // n)))


# -- XLA ---------------------------------------------------------------------------------------------


def _ragged_lower(
    ctx: LoweringContext,
    x: HloValue,
    y: HloValue,
    *places: HloValue,
    axis_name: ParamValue,
    axis_index_groups: ParamValue,
) -> HloValue:
    groups = mesh_groups(ctx, "ragged_all_to_all", names_of(axis_name), axis_index_groups)
    config = f"{{channel_id = 1 : i64, replica_groups = {pairs_text(groups)}}}"
    return ctx.op(
        "custom_call",
        x,
        y,
        *places,
        out=y.aval,
        call_target_name='"ragged_all_to_all"',
        api_version="4 : i32",
        backend_config=config,
    )


define(
    lax.ragged_all_to_all,
    abstract_eval=_ragged_type,
    impl=unbound_impl,
    jvp=_ragged_jvp,
    transpose=_ragged_transpose,
    batch=_ragged_batch,
    lower=_ragged_lower,
    cost=FREE,
    sends=sent_parts,
)

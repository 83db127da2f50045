"""Rows of `axis_index` and of the collectives that move values between members."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import NamedAxis, current_axes
from jaxprtool.core.rule_table import Maker
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import materialize, moveaxis
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.cost import FREE, PER_OUTPUT
from jaxprtool.interpreters.jvp import linear
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import transpose_unary
from jaxprtool.ir.avals import NO_GROUPS, ShapedArray
from jaxprtool.ir.dtypes import INT32, UINT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import varying_axes
from jaxprtool.makers.axes import bumped, full, inserted, reshaped, transposed, varied
from jaxprtool.ops.parallel import names_of
from jaxprtool.rules.define import LOCALLY_CONSTANT, define
from jaxprtool.rules.parallel.groups import Grouped, grouped, is_partly_mapped, mapped, taken
from jaxprtool.rules.parallel.lowering import (
    GLOBAL_IDS,
    channel,
    device_groups,
    device_number,
    mesh_groups,
    pairs_text,
    reducer,
)
from jaxprtool.rules.parallel.reductions import MOVES, sum_along, unbound_impl
from jaxprtool.rules.parallel.traffic import sent_along, sent_parts, sent_whole
from jaxprtool.rules.parallel.types import (
    all_gather_type,
    all_to_all_type,
    axis_index_type,
    reduce_scatter_type,
    same_type,
)

__all__ = ["gather_batch", "gather_lower", "scatter_batch", "scatter_lower"]


# -- ppermute and pbroadcast -------------------------------------------------------------------


def _ppermute_batch(
    axis_size: int, vals: Value, dims: Any, *, axis_name: Any, perm: Any
) -> OutAndDim:
    members = grouped("ppermute", axis_size, names_of(axis_name))
    if members is None:
        return lax.ppermute(vals[0], axis_name=axis_name, perm=perm), dims[0]
    if dims[0] is None and len(perm) == members.size:
        return vals[0], None
    members.load(vals[0], dims[0])
    sources: list[int | None] = [None] * members.size
    for source, destination in perm:
        sources[destination] = source
    return members.each(taken(members.x, sources, members.at), members.at)


def _ppermute_lower(ctx: Value, x: Value, *, axis_name: Any, perm: Any) -> Value:
    groups = mesh_groups(ctx, "ppermute", names_of(axis_name), None)
    pairs = [[g[a], g[b]] for g in groups for a, b in perm]
    attrs = {"channel_handle": channel, "source_target_pairs": pairs_text(pairs)}
    return ctx.op("collective_permute", x, out=x.aval, **attrs)


def _ppermute_transpose(ct: Value, aval: Aval, *, axis_name: Any, perm: Any) -> Value:
    back = tuple((b, a) for a, b in perm)
    return lax.ppermute(varied(ct, varying_axes(aval)), axis_name=axis_name, perm=back)


define(
    lax.ppermute,
    **MOVES,
    abstract_eval=same_type,
    transpose=transpose_unary(_ppermute_transpose),
    batch=_ppermute_batch,
    lower=_ppermute_lower,
    varying="rule",
    sends=sent_along,
)


def _pbroadcast_batch(
    axis_size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    *,
    axis_name: ParamValue,
    source: int,
) -> OutAndDim:
    members = grouped("pbroadcast", axis_size, names_of(axis_name))
    if members is None:
        return lax.pbroadcast(vals[0], axis_name=axis_name, source=source), dims[0]
    if dims[0] is None:
        return vals[0], None
    members.load(vals[0], dims[0])
    one = taken(members.x, [source], members.at)
    return members.shared(lax.squeeze(one, dimensions=(members.at,)))


def _pbroadcast_transpose(ct: Value, aval: Aval, *, axis_name: ParamValue, source: int) -> Value:
    """The transpose rule: the source gets the sum of all cotangents, the other members zero."""
    names = names_of(axis_name)
    total = varied(sum_along(ct, names), varying_axes(aval))
    here = lax.eq(lax.axis_index(axis_name=axis_name), scalar_lit(source, INT32))
    which = lax.broadcast_in_dim(here, shape=aval.shape) if aval.shape else here
    return lax.select_n(which, full(aval.update(vary=NO_GROUPS), 0), total)


def _pbroadcast_lower(
    ctx: LoweringContext, x: HloValue, *, axis_name: ParamValue, source: int
) -> HloValue:
    """Write a sum in which only the source has a value and the others have zeros: XLA's CPU backend
    cannot broadcast between devices.
    """
    index = _index_lower(ctx, names_of(axis_name))
    here = ctx.compare("EQ", index, ctx.constant(source, index.aval))
    boolean = x.aval.dtype.kind == "b"
    kept = ctx.select(here, x, ctx.constant(False if boolean else 0, x.aval))
    groups = device_groups(ctx, "pbroadcast", names_of(axis_name))
    body = reducer(ctx, "or" if boolean else "add", x.aval.dtype)
    return ctx.op(
        "all_reduce", kept, out=x.aval, regions=[body], replica_groups=groups, **GLOBAL_IDS
    )


define(
    lax.pbroadcast,
    **MOVES,
    abstract_eval=same_type,
    transpose=transpose_unary(_pbroadcast_transpose),
    batch=_pbroadcast_batch,
    lower=_pbroadcast_lower,
    varying="rule",
    sends=sent_along,
)


# -- all_gather --------------------------------------------------------------------------------


@Maker
def gather_batch(op: Any) -> Value:
    """Return the batch rule of a primitive that gathers the values of all members."""
    name = op.primitive.name

    def rule(axis_size: int, vals: Value, dims: Any, /, **params: Any) -> OutAndDim:
        (x,), (dim,) = vals, dims
        d, tiled = params["all_gather_dimension"], params["tiled"]
        groups = params.get("axis_index_groups")
        members = grouped(name, axis_size, names_of(params["axis_name"]), groups)
        if members is None:
            if dim is None:
                return op(x, **params), None
            moved = d + (dim <= d)
            out = dim + (not tiled and d < dim)
            return op(x, **{**params, "all_gather_dimension": moved}), out
        if dim is None:
            y = materialize(x, None, members.size, d)
            return _merged(y, d, tiled), None
        members.load(x, dim)
        y = moveaxis(members.x, members.at, d + members.lead)
        return members.shared(_merged(y, d + members.lead, tiled))

    return rule


def _merged(x: Value, d: int, tiled: bool = True) -> Value:
    """Merge axes d and d + 1 of x, if tiled."""
    shape = get_aval(x).shape
    return reshaped(x, (*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :])) if tiled else x


def gather_lower(ctx: LoweringContext, x: Value, **params: Any) -> Value:
    """Write an all_gather.

    If it is not tiled, values first get the axis along which they are stacked.
    """
    d = params["all_gather_dimension"]
    if not params["tiled"]:
        x = ctx.reshape(x, inserted(x.aval.shape, d, 1))
    names = names_of(params["axis_name"])
    groups = device_groups(ctx, "all_gather", names, params.get("axis_index_groups"))
    return ctx.op("all_gather", x, all_gather_dim=d, replica_groups=groups, **GLOBAL_IDS)


def _gather_transpose(ct: Value, aval: Aval, **params: ParamValue) -> Value:
    fields = {k: v for k, v in params.items() if k != "all_gather_dimension"}
    ct = varied(ct, varying_axes(aval))
    return lax.reduce_scatter(ct, scatter_dimension=params["all_gather_dimension"], **fields)


define(
    lax.all_gather,
    **MOVES,
    abstract_eval=all_gather_type,
    transpose=transpose_unary(_gather_transpose),
    batch=gather_batch,
    lower=gather_lower,
    varying="rule",
    sends=sent_whole,
)


def _invariant_transpose(ct: Value, aval: Aval, **params: Any) -> Value:
    """The transpose rule: all members hold the same cotangent, and each takes its own part of
    it.
    """
    d, tiled, shape = params["all_gather_dimension"], params["tiled"], get_aval(ct).shape
    n = shape[d] // params["axis_size"]
    index = lax.axis_index(axis_name=params["axis_name"])
    start = lax.mul(index, scalar_lit(n, INT32)) if n != 1 else index
    starts = [scalar_lit(0, INT32)] * len(shape)
    starts[d] = start
    part = lax.dynamic_slice(ct, *starts, slice_sizes=(*shape[:d], n, *shape[d + 1 :]))
    return part if tiled else lax.squeeze(part, dimensions=(d,))


define(
    lax.all_gather_invariant,
    **MOVES,
    abstract_eval=all_gather_type,
    transpose=transpose_unary(_invariant_transpose),
    batch=gather_batch,
    lower=gather_lower,
    varying="rule",
    sends=sent_whole,
)


# -- all_to_all and reduce_scatter -------------------------------------------------------------


def _all_to_all_batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    (x,), (dim,) = vals, dims
    split, concat = params["split_axis"], params["concat_axis"]
    names, groups = names_of(params["axis_name"]), params["axis_index_groups"]
    if groups is None and is_partly_mapped(axis_size, names):
        step = functools.partial(_axis_by_axis, names, split, concat)
        return mapped(step, [get_aval(x).strong], axis_size, vals, dims)
    members = grouped("all_to_all", axis_size, names, groups)
    if members is None:
        if dim is not None:
            split, concat = bumped((split, concat), dim)
        fields = {**params, "split_axis": split, "concat_axis": concat}
        return lax.all_to_all(x, **fields), dim
    members.load(x, dim)
    return _exchanged(members, split, concat)


def _axis_by_axis(names: Sequence[str], split: int, concat: int, x: Value) -> Value:
    """Apply all_to_all along several named axes, one after the other.

    The split axis is first reshaped to one axis for each name; each all_to_all exchanges the index
    along one of them with the index of the sender.
    """
    sizes = [current_axes().sizes[n] for n in names]
    shape = get_aval(x).shape
    part = shape[split] // math.prod(sizes)
    x = reshaped(x, (*shape[:split], *sizes, part, *shape[split + 1 :]))
    for i, n in enumerate(names, split):
        x = lax.all_to_all(x, axis_name=(n,), split_axis=i, concat_axis=i, tiled=True)
    k = len(names)
    sources = range(split, split + k)
    rest = [i for i in range(len(shape) + k) if i not in sources]
    x = transposed(x, [*rest[:concat], *sources, *rest[concat:]])
    shape = get_aval(x).shape
    joined = math.prod(shape[concat : concat + k + 1])
    return reshaped(x, (*shape[:concat], joined, *shape[concat + k + 1 :]))


def _exchanged(members: Grouped, split: int, concat: int) -> tuple[Value, int | None]:
    """Cut each value along `split`, exchange the parts, and join the received ones along `concat`."""
    values = members.value_axes()
    cut = values[split]
    y = members.split(cut)  # the axis of parts is inserted at `cut`; the axes after it move by one
    parts = cut
    source = members.at + (members.at >= cut)
    inner = [a + (a >= cut) for a in values]
    order = [*list(range(members.lead)), parts]
    for i, a in enumerate(inner):
        order += [source, a] if i == concat else [a]
    y = transposed(y, order)
    return members.each(_merged(y, members.lead + 1 + concat), members.lead)


def _all_to_all_lower(ctx: LoweringContext, x: HloValue, **params: ParamValue) -> HloValue:
    names = names_of(params["axis_name"])
    groups = mesh_groups(ctx, "all_to_all", names, params["axis_index_groups"])
    return ctx.op(
        "all_to_all",
        x,
        split_dimension=params["split_axis"],
        concat_dimension=params["concat_axis"],
        split_count=len(groups[0]),
        replica_groups=pairs_text(groups),
        channel_handle=channel,
    )


def _all_to_all_transpose(ct: Value, aval: Aval, **params: ParamValue) -> Value:
    split, concat = params["split_axis"], params["concat_axis"]
    fields = {**params, "split_axis": concat, "concat_axis": split}
    return lax.all_to_all(varied(ct, varying_axes(aval)), **fields)


define(
    lax.all_to_all,
    **MOVES,
    abstract_eval=all_to_all_type,
    transpose=transpose_unary(_all_to_all_transpose),
    batch=_all_to_all_batch,
    lower=_all_to_all_lower,
    varying="rule",
    sends=sent_parts,
)


@Maker
def scatter_batch(op: Any) -> Value:
    """Return the batch rule of reduce_scatter or unreduced_reduce_scatter."""
    name = op.primitive.name

    def rule(axis_size: int, vals: Value, dims: Any, /, **params: Any) -> OutAndDim:
        (x,), (dim,) = vals, dims
        d, tiled = params["scatter_dimension"], params["tiled"]
        names, groups = names_of(params["axis_name"]), params.get("axis_index_groups")
        members = grouped(name, axis_size, names, groups)
        if members is None:
            if dim is None:
                return op(x, **params), None
            out = dim - (not tiled and d < dim)
            return op(x, **{**params, "scatter_dimension": d + (dim <= d)}), out
        if dim is None and members.whole:
            members.x, members.at = lax.mul(x, scalar_lit(members.size, get_aval(x).dtype)), -1
        else:
            members.load(x, dim)
            members.x = lax.reduce_sum(members.x, axes=(members.at,))
            members.at = -1
        at = d + members.lead
        return members.each(members.split(at) if tiled else members.x, at)

    return rule


def scatter_lower(ctx: LoweringContext, x: Value, **params: Any) -> Value:
    """Write a reduce_scatter. Unless it is tiled, the dimension that is cut is removed."""
    d, shape = params["scatter_dimension"], x.aval.shape
    part = (*shape[:d], shape[d] // params["axis_size"], *shape[d + 1 :])
    names = names_of(params["axis_name"])
    groups = device_groups(ctx, "reduce_scatter", names, params.get("axis_index_groups"))
    y = ctx.op(
        "reduce_scatter",
        x,
        out=ShapedArray(part, x.aval.dtype),
        regions=[reducer(ctx, "add", x.aval.dtype)],
        scatter_dimension=d,
        replica_groups=groups,
        **GLOBAL_IDS,
    )
    return ctx.reshape(y, ctx.out_aval.shape)


def _scatter_transpose(ct: Value, aval: Aval, **params: ParamValue) -> Value:
    fields = {k: v for k, v in params.items() if k != "scatter_dimension"}
    ct = varied(ct, varying_axes(aval))
    return lax.all_gather(ct, all_gather_dimension=params["scatter_dimension"], **fields)


define(
    lax.reduce_scatter,
    abstract_eval=reduce_scatter_type,
    impl=unbound_impl,
    jvp=linear,
    transpose=transpose_unary(_scatter_transpose),
    batch=scatter_batch,
    lower=scatter_lower,
    cost=PER_OUTPUT,
    varying="rule",
    sends=sent_parts,
)


# -- axis_index --------------------------------------------------------------------------------


def _index_batch(
    axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], *, axis_name: ParamValue
) -> OutAndDim:
    names = names_of(axis_name)
    alone = type(axis_size) is NamedAxis and axis_size.alone
    if is_partly_mapped(axis_size, names) or (alone and len(names) > 1):
        return mapped(functools.partial(_sum_of_indices, names), [], axis_size, vals, dims)
    if alone:
        return lax.axis_index(axis_name=axis_name), None
    members = grouped("axis_index", axis_size, names)
    if members is None:
        return lax.axis_index(axis_name=axis_name), None
    if members.whole:
        return lax.iota(dtype=INT32, shape=(members.size,), dimension=0), 0
    shape = (len(members.groups), members.size)
    return members.each(lax.iota(dtype=INT32, shape=shape, dimension=1), 1)


def _sum_of_indices(names: Sequence[str]) -> Value:
    """Return the index along several axes in row-major order, from the indices along each of
    them.
    """
    total = lax.axis_index(axis_name=names[0])
    for n in names[1:]:
        total = lax.mul(total, scalar_lit(current_axes().sizes[n], INT32))
        total = lax.add(total, lax.axis_index(axis_name=n))
    return total


def _index_lower(ctx: Value, names: Sequence[str]) -> Value:
    """Write the index along named axes, computed from the number of the device."""
    groups = mesh_groups(ctx, "axis_index", names, None)
    sizes = ctx.mesh.sizes
    unsigned, signed = ShapedArray((), UINT32), ShapedArray((), INT32)
    device = device_number(ctx)
    total: Any = None
    for name in names:
        after = list(sizes)[list(sizes).index(name) + 1 :]
        stride = 1
        for n in after:
            stride *= sizes[n]
        part = ctx.op("divide", device, ctx.constant(stride, unsigned), out=unsigned)
        part = ctx.op("remainder", part, ctx.constant(sizes[name], unsigned), out=unsigned)
        if total is not None:
            total = ctx.op("multiply", total, ctx.constant(sizes[name], unsigned), out=unsigned)
            part = ctx.op("add", total, part, out=unsigned)
        total = part
    if total is None or not groups:
        return ctx.constant(0, signed)
    return ctx.op("convert", total, out=signed)


define(
    lax.axis_index,
    abstract_eval=axis_index_type,
    impl=unbound_impl,
    **LOCALLY_CONSTANT,
    batch=_index_batch,
    lower=lambda ctx, *, axis_name: _index_lower(ctx, names_of(axis_name)),
    cost=FREE,
    varying="rule",
)

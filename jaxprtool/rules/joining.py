"""Rows of the operations that concatenate, stack, pad, repeat and split arrays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.jvp import Zero, instantiate, linear
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import is_linear, transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import (
    check_axes,
    check_same_dtype,
    check_sizes,
    full,
    inserted,
    removed,
    reshaped,
    static_impl,
    summed,
    with_shape,
)
from jaxprtool.makers.keys import MOVES_KEYS
from jaxprtool.makers.windows import padded_size, padder
from jaxprtool.rules.define import define

# -- concatenate, split ------------------------------------------------------------------------------


def _concatenate_type(*operands: Aval, dimension: int) -> Aval:
    if not operands:
        ill_typed("concatenate needs at least one operand", "operand-count")
    first, total = operands[0], 0
    check_axes("concatenate", "dimension", (dimension,), first.ndim, first)
    rest = removed(first.shape, (dimension,))
    for x in operands:
        if x.ndim != first.ndim or removed(x.shape, (dimension,)) != rest:
            ill_typed(
                f"concatenate operands may differ in size along dimension {dimension} only, "
                f"got {first} and {x}",
                "operand-shapes",
            )
        total += x.shape[dimension]
    check_same_dtype("concatenate", operands)
    return with_shape(first, inserted(rest, dimension, total))


def _concatenate_transpose(ct: Value, *operands: Value, dimension: int) -> list[Value]:
    sizes = tuple(
        x.aval.shape[dimension] if is_linear(x) else get_aval(x).shape[dimension] for x in operands
    )
    if len(operands) == 1:
        return [ct]
    parts = lax.split(ct, sizes=sizes, axis=dimension)
    return [part if is_linear(x) else None for part, x in zip(parts, operands, strict=True)]


def _concatenate_batch(
    size: int, vals: Sequence[Value], dims: Sequence[int | None], *, dimension: int
) -> OutAndDim:
    if len(vals) == 1:
        return vals[0], dims[0]
    at = dims[0] if dims[0] is not None and all(d == dims[0] for d in dims) else 0
    placed = [materialize(x, d, size, at) for x, d in zip(vals, dims, strict=True)]
    return lax.concatenate(*placed, dimension=dimension + (dimension >= at)), at


define(
    lax.concatenate,
    abstract_eval=_concatenate_type,
    impl=static_impl(lambda xp, *xs, dimension: lambda *vs: xp.concatenate(vs, dimension)),
    jvp=linear,
    transpose=_concatenate_transpose,
    batch=_concatenate_batch,
    lower=lambda ctx, *xs, dimension: ctx.concatenate(xs, dimension),
    cost=FREE,
    keys=MOVES_KEYS,
    elements="placed",
    sums="kept",
)


def _split_type(x: Aval, *, sizes: Sequence[int], axis: int) -> list[Aval]:
    check_axes("split", "axis", (axis,), x.ndim, x)
    check_sizes("split", "sizes", sizes)
    if sum(sizes) != x.shape[axis]:
        ill_typed(
            f"split sizes {tuple(sizes)} add up to {sum(sizes)}, and axis {axis} of {x} has "
            f"size {x.shape[axis]}",
            "split-sizes",
        )
    return [with_shape(x, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in sizes]


def _split_bounds(sizes: Sequence[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


def _split_impl(xp: Namespace, x: Value, *, sizes: Sequence[int], axis: int) -> Value:
    before = (slice(None),) * axis
    index = [(*before, slice(a, b)) for a, b in _split_bounds(sizes)]
    return lambda v: [v[i] for i in index]


def _split_lower(
    ctx: LoweringContext, x: HloValue, *, sizes: Sequence[int], axis: int
) -> list[HloValue]:
    outs, shape = [], x.aval.shape
    for a, b in _split_bounds(sizes):
        starts, limits = [0] * len(shape), list(shape)
        starts[axis], limits[axis] = a, b
        outs.append(ctx.slice(x, starts, limits))
    return outs


def _sliced(x: Value, axis: int, start: int, stop: int) -> Value:
    shape = get_aval(x).shape
    starts, limits = [0] * len(shape), [*shape]
    starts[axis], limits[axis] = start, stop
    return lax.slice(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=None)


def _split_by_slices(x: Aval, *, sizes: Sequence[int], axis: int) -> Value:
    """The earlier rule: a slice for each part."""
    return lambda v: [_sliced(v, axis, a, b) for a, b in _split_bounds(sizes)]


define(
    lax.split,
    abstract_eval=_split_type,
    impl=static_impl(_split_impl),
    jvp=linear,
    transpose=lambda cts, x, *, sizes, axis: [
        lax.concatenate(*map(instantiate, cts), dimension=axis)
    ],
    batch=lambda size, vals, dims, *, sizes, axis: (
        lax.split(vals[0], sizes=sizes, axis=axis + (axis >= dims[0])),
        [dims[0]] * len(sizes),
    ),
    lower=_split_lower,
    cost=FREE,
    keys=MOVES_KEYS,
    elements="chosen",
    sums="kept",
    earlier=_split_by_slices,
)

# -- stack, unstack ----------------------------------------------------------------------------------


def _stack_type(*operands: Aval, axis: int) -> Aval:
    if not operands:
        ill_typed("stack needs at least one operand", "operand-count")
    first = operands[0]
    check_axes("stack", "axis", (axis,), first.ndim + 1, f"the result of stacking {first}")
    for x in operands:
        if x.shape != first.shape:
            ill_typed(f"stack needs operands of one shape, got {first} and {x}", "operand-shapes")
    check_same_dtype("stack", operands)
    return with_shape(first, inserted(first.shape, axis, len(operands)))


def _stack_transpose(ct: Value, *operands: Value, axis: int) -> list[Value]:
    parts = lax.unstack(ct, axis=axis)
    return [part if is_linear(x) else None for part, x in zip(parts, operands, strict=True)]


def _stack_batch(
    size: int, vals: Sequence[Value], dims: Sequence[int | None], *, axis: int
) -> OutAndDim:
    at = dims[0] if dims[0] is not None and all(d == dims[0] for d in dims) else 0
    placed = [materialize(x, d, size, at) for x, d in zip(vals, dims, strict=True)]
    if axis <= at and at:
        return lax.stack(*placed, axis=axis), at + 1
    return lax.stack(*placed, axis=axis + 1), at


def _stack_lower(ctx: LoweringContext, *xs: HloValue, axis: int) -> HloValue:
    shape = inserted(xs[0].aval.shape, axis, 1)
    return ctx.concatenate([ctx.reshape(x, shape) for x in xs], axis)


def _stack_of_rows(*operands: Aval, axis: int) -> Value:
    """The earlier rule: operands with a dimension more, one after the other."""
    shape = inserted(operands[0].shape, axis, 1)
    dims = tuple([i for i in range(len(shape)) if i != axis])

    def row(x: Value) -> Value:
        return lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims)

    return lambda *xs: lax.concatenate(*map(row, xs), dimension=axis)


define(
    lax.stack,
    abstract_eval=_stack_type,
    impl=static_impl(lambda xp, *xs, axis: lambda *vs: xp.stack(vs, axis)),
    jvp=linear,
    transpose=_stack_transpose,
    batch=_stack_batch,
    lower=_stack_lower,
    cost=FREE,
    keys=MOVES_KEYS,
    elements="placed",
    sums="kept",
    earlier=_stack_of_rows,
)


_MOST_RESULTS = 1_000_000  # no real program has more, and the list of them would exhaust the memory


def _unstack_type(x: Aval, *, axis: int) -> list[Aval]:
    check_axes("unstack", "axis", (axis,), x.ndim, x)
    count = x.shape[axis]
    if isinstance(count, int) and count > _MOST_RESULTS:
        ill_typed(f"unstack of {x} along axis {axis} has {count} results", "result-count")
    return [with_shape(x, removed(x.shape, (axis,)))] * count


def _unstack_impl(xp: Namespace, x: Value, *, axis: int) -> Value:
    before = (slice(None),) * axis
    index = [(*before, i) for i in range(x.shape[axis])]
    return lambda v: [v[i] for i in index]


def _unstack_transpose(cts: Sequence[Value], x: Value, *, axis: int) -> list[Value]:
    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval)]
    return [lax.stack(*map(instantiate, cts), axis=axis)]


def _unstack_batch(size: int, vals: Value, dims: Any, *, axis: int) -> OutAndDim:
    out = lax.unstack(vals[0], axis=axis + (axis >= dims[0]))
    return out, [dims[0] - (axis < dims[0])] * len(out)


def _unstack_lower(ctx: LoweringContext, x: HloValue, *, axis: int) -> list[HloValue]:
    pieces = _split_lower(ctx, x, sizes=(1,) * x.aval.shape[axis], axis=axis)
    return [ctx.reshape(p, removed(x.aval.shape, (axis,))) for p in pieces]


def _unstack_by_slices(x: Aval, *, axis: int) -> Value:
    """The earlier rule: a slice for each result, without the axis."""
    count = x.shape[axis]
    return lambda v: [
        lax.squeeze(_sliced(v, axis, i, i + 1), dimensions=(axis,)) for i in range(count)
    ]


define(
    lax.unstack,
    abstract_eval=_unstack_type,
    impl=static_impl(_unstack_impl),
    jvp=linear,
    transpose=_unstack_transpose,
    batch=_unstack_batch,
    lower=_unstack_lower,
    cost=FREE,
    keys=MOVES_KEYS,
    elements="chosen",
    sums="kept",
    earlier=_unstack_by_slices,
)

# -- pad -------------------------------------------------------------------------------------------


def _pad_type(x: Aval, value: Aval, *, padding_config: Any) -> Aval:
    if value.ndim:
        ill_typed(f"pad needs a padding value of rank 0, got {value}", "operand-shapes")
    check_same_dtype("pad", (x, value))
    if len(padding_config) != x.ndim:
        ill_typed(
            f"pad padding_config {padding_config} must have one entry for each axis of {x}",
            "dimension-count",
        )
    shape = []
    for i, (n, (low, high, interior)) in enumerate(zip(x.shape, padding_config, strict=True)):
        if interior < 0:
            ill_typed(f"pad interior padding {interior} of axis {i} is negative", "negative-size")
        shape.append(padded_size(n, low, high, interior))
        if shape[-1] < 0:
            ill_typed(
                f"pad cuts more off axis {i} of {x} than there is: {(low, high, interior)}",
                "negative-size",
            )
    return with_shape(x, tuple(shape))


def _pad_impl(xp: Namespace, x: Value, value: Value, *, padding_config: ParamValue) -> Value:
    return padder(xp, x.shape, xp.dtype_of_aval(x.dtype), padding_config)


def _unpadded(ct: Value, x: Value, padding_config: Any) -> Value:
    """Return the elements of `ct` at the positions where `pad` puts the elements of its operand;
    zeros for elements that it removes.
    """
    grow = [(max(0, -low), max(0, -high), 0) for low, high, _ in padding_config]
    if any(any(g) for g in grow):
        ct = lax.pad(ct, full(ShapedArray((), x.dtype), 0), padding_config=tuple(grow))
    starts = tuple(max(0, low) for low, _, _ in padding_config)
    steps = tuple(interior + 1 for _, _, interior in padding_config)
    limits = tuple(
        s + max(0, (n - 1) * step + 1) for s, n, step in zip(starts, x.shape, steps, strict=True)
    )
    if limits == get_aval(ct).shape and not any(starts) and x.shape == limits:
        return ct
    strides = steps if any(s != 1 for s in steps) else None
    return lax.slice(ct, start_indices=starts, limit_indices=limits, strides=strides)


def _pad_transpose(ct: Value, x: Value, value: Value, *, padding_config: ParamValue) -> list[Value]:
    aval = x.aval if is_linear(x) else get_aval(x)
    inside = _unpadded(ct, aval, padding_config) if is_linear(x) or is_linear(value) else None
    rest = None
    if is_linear(value):
        # the sum over the padding is total - inside; elements that `pad` removes are in neither
        rest = lax.sub(summed(ct, range(aval.ndim)), summed(inside, range(aval.ndim)))
    return [inside if is_linear(x) else None, rest]


def _pad_batch(size: int, vals: Value, dims: Any, *, padding_config: Any) -> OutAndDim:
    (x, value), (dim, value_dim) = vals, dims
    if dim is None:
        x, dim = materialize(x, None, size), 0
    config = inserted(padding_config, dim, (0, 0, 0))
    if not any(any(c) for c in config):
        return x, dim
    if value_dim is None:
        return lax.pad(x, value, padding_config=config), dim
    aval = get_aval(x)
    padded = lax.pad(x, full(ShapedArray((), aval.dtype), 0), padding_config=config)
    inside = lax.pad(
        full(ShapedArray(aval.shape, BOOL), True),
        full(ShapedArray((), BOOL), False),
        padding_config=config,
    )
    values = lax.broadcast_in_dim(value, shape=get_aval(padded).shape, broadcast_dimensions=(dim,))
    return lax.select_n(inside, values, padded), dim


define(
    lax.pad,
    abstract_eval=_pad_type,
    impl=static_impl(_pad_impl),
    jvp=linear,
    transpose=_pad_transpose,
    batch=_pad_batch,
    lower=lambda ctx, x, value, *, padding_config: ctx.pad(x, value, padding_config),
    cost=FREE,
    keys=MOVES_KEYS,
    masks="both",
    elements="placed",
    sums="kept",
)

# -- tile ------------------------------------------------------------------------------------------


def _tile_type(x: Aval, *, reps: Any) -> Aval:
    if len(reps) != x.ndim:
        ill_typed(
            f"tile reps {tuple(reps)} must have a number for each axis of {x}", "dimension-count"
        )
    check_sizes("tile", "reps", reps)
    return with_shape(x, tuple([n * r for n, r in zip(x.shape, reps, strict=True)]))


def _interleaved(reps: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes reps[0], shape[0], reps[1], shape[1], ...: an axis of copies before each
    axis.
    """
    return tuple([n for pair in zip(reps, shape, strict=True) for n in pair])


def _tile_transpose(ct: Value, x: Value, *, reps: Any) -> Value:
    copied = [i for i, r in enumerate(reps) if r != 1]
    shape = [n for i, n in enumerate(x.shape) for n in ((reps[i], n) if i in copied else (n,))]
    return summed(reshaped(ct, tuple(shape)), [i + k for k, i in enumerate(copied)])


def _tile_lower(ctx: LoweringContext, x: Value, *, reps: Any) -> Value:
    shape, rank = x.aval.shape, x.aval.ndim
    apart = ctx.reshape(x, _interleaved((1,) * rank, shape))
    copies = ShapedArray(_interleaved(reps, shape), x.aval.dtype)
    return ctx.reshape(ctx.broadcast(apart, copies, range(2 * rank)), ctx.out_aval.shape)


def _tile_of_copies(x: Aval, *, reps: Any) -> Value:
    """The earlier rule: each axis after one of its copies, and both as one."""
    shape, rank = _interleaved(reps, x.shape), x.ndim
    own = tuple(range(1, 2 * rank, 2))
    size = tuple([n * r for n, r in zip(x.shape, reps, strict=True)])
    return lambda v: reshaped(lax.broadcast_in_dim(v, shape=shape, broadcast_dimensions=own), size)


define(
    lax.tile,
    abstract_eval=_tile_type,
    impl=static_impl(lambda xp, x, *, reps: lambda v: xp.tile(v, reps)),
    jvp=linear,
    transpose=transpose_unary(_tile_transpose),
    batch=lambda size, vals, dims, *, reps: (
        lax.tile(vals[0], reps=inserted(reps, dims[0], 1)),
        dims[0],
    ),
    lower=_tile_lower,
    cost=FREE,
    keys=MOVES_KEYS,
    elements="placed",
    earlier=_tile_of_copies,
)

"""The row of `gather`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import full, inserted, static_impl, with_shape
from jaxprtool.makers.indexing import (
    CLIP_MODE,
    FILL_OR_DROP,
    IN_BOUNDS,
    Windows,
    batched_indices,
    batched_operand,
    check_windows,
    mode_of,
    scatter_added,
    stablehlo_numbers,
    wide_indices,
    windows_of,
    with_indices_of_batches,
    without_promises,
)
from jaxprtool.makers.keys import MOVES_KEYS
from jaxprtool.makers.selection import Selection
from jaxprtool.rules.define import define


def _gather_type(
    x: Aval,
    indices: Aval,
    *,
    dimension_numbers: ParamValue,
    slice_sizes: Sequence[int],
    mode: ParamValue,
    fill_value: ParamValue,
    **_: ParamValue,
) -> Aval:
    mode_of("gather", mode)
    if not (fill_value is None or isinstance(fill_value, (bool, int, float, complex))):
        ill_typed(f"gather fill_value {fill_value} is not a number", "fill-value")
    if isinstance(fill_value, int) and x.dtype.kind in "fc" and abs(fill_value) >= 1 << 1024:
        ill_typed("gather fill_value is larger than all floats", "fill-value")
    if isinstance(fill_value, complex) and x.dtype.kind not in "bc":
        ill_typed(f"gather fill_value {fill_value} is complex, and {x} is not", "fill-value")
    w = windows_of("gather", dimension_numbers)
    return with_shape(x, _gather_shape(x, indices, w, tuple(slice_sizes)))


@functools.lru_cache(4096)
def _gather_shape(x: Value, indices: Value, w: Windows, sizes: tuple[int, ...]) -> tuple[int, ...]:
    check_windows("gather", "gather", w, x, indices)
    if len(sizes) != x.ndim:
        ill_typed(
            f"gather slice_sizes {sizes} must have a size for each axis of {x}", "dimension-count"
        )
    for size, n in zip(sizes, x.shape, strict=True):
        if all(indices.shape[:-1]) and not 0 <= size <= n:
            ill_typed(f"gather slice_sizes {sizes} are not within {x}", "slice-range")
    for i in w.collapsed:
        if sizes[i] != 1:
            ill_typed(
                f"gather slice_sizes {sizes} must be 1 along collapsed_slice_dims {w.collapsed}",
                "slice-sizes",
            )
    for i in w.operand_batch:
        if sizes[i] > 1:
            ill_typed(
                f"gather slice_sizes {sizes} must be 0 or 1 along operand_batching_dims "
                f"{w.operand_batch}",
                "slice-sizes",
            )
    absent = {*w.collapsed, *w.operand_batch}
    windows = iter([n for i, n in enumerate(sizes) if i not in absent])
    batch = iter(indices.shape[:-1])
    rank = len(w.window) + indices.ndim - 1
    return tuple([next(windows) if i in w.window else next(batch) for i in range(rank)])


def _fill_value(fill_value: Any, dtype: DType) -> Value:
    """Return the value of elements outside of the operand: `fill_value`, converted as NumPy does,
    or the default of the type.

    The defaults are JAX's: NaN, the smallest signed integer, the largest unsigned integer, True.
    """
    if fill_value is not None:
        return _converted(fill_value, dtype)
    if dtype.kind == "i":
        return -(1 << dtype.bits - 1)
    if dtype.kind == "u":
        return (1 << dtype.bits) - 1
    return True if dtype.kind == "b" else math.nan


def _gather_impl(
    xp: Namespace,
    x: Value,
    indices: Value,
    *,
    dimension_numbers: ParamValue,
    slice_sizes: Sequence[int],
    mode: ParamValue,
    fill_value: ParamValue,
    **_: ParamValue,
) -> Value:
    w = windows_of("gather", dimension_numbers)
    shape = _gather_shape(x, indices, w, tuple(slice_sizes))
    dtype = xp.dtype_of_aval(x.dtype)
    if 0 in shape:
        return lambda v, i: xp.zeros(shape, dtype)
    selection = Selection(xp, x.shape, indices, w, slice_sizes)
    if mode_of("gather", mode) != FILL_OR_DROP:

        def run(v: Value, i: Value) -> Value:
            places = selection.places(selection.clipped(selection.starts(i)))
            return selection.to_windows(selection.take(v, places))

        return run
    fill = xp.asarray(_fill_value(fill_value, x.dtype)).astype(dtype)

    def run_filling(v: Value, i: Value) -> Value:
        starts = selection.starts(i)
        inside = selection.inside(starts)
        if inside.all():
            return selection.to_windows(selection.take(v, selection.places(starts)))
        rows = selection.take(v, selection.places(selection.clipped(starts)))
        if not rows.ndim:  # a NumPy scalar, which takes no assignment
            return selection.to_windows(fill)
        rows[~inside] = fill
        return selection.to_windows(rows)

    return run_filling


def _gather_jvp(
    primals: Sequence[Value],
    tangents: Sequence[Value],
    *,
    fill_value: ParamValue,
    **params: ParamValue,
) -> PrimalAndTangent:
    (x, indices), (t, _) = primals, tangents
    out = lax.gather(x, indices, fill_value=fill_value, **params)
    if type(t) is Zero:
        return out, Zero(get_aval(out))
    zero = 0 if mode_of("gather", params["mode"]) == FILL_OR_DROP else None
    return out, lax.gather(t, indices, fill_value=zero, **params)


def _gather_transpose(
    ct: Value,
    x: Value,
    indices: Value,
    *,
    dimension_numbers: ParamValue,
    slice_sizes: Sequence[int],
    **params: ParamValue,
) -> list[Value]:
    if is_linear(indices):
        not_linear("gather", "start_indices depend on them")
    del params["fill_value"]
    w = windows_of("gather", dimension_numbers)
    return [scatter_added(full(x.aval, 0), indices, ct, w, **params), None]


def _gather_batch(
    size: int, vals: Value, dims: Any, *, dimension_numbers: Any, slice_sizes: Any, **params: Any
) -> OutAndDim:
    (x, indices), (dim, index_dim) = vals, dims
    w = windows_of("gather", dimension_numbers)
    if index_dim is None:
        w, at = batched_operand(w, dim)
        slice_sizes = inserted(slice_sizes, dim, size)
    else:
        last = get_aval(indices).ndim - 1
        if index_dim == last:
            indices, index_dim = moveaxis(indices, last, 0), 0
        w, at = batched_indices(w, index_dim, last - 1, dim)
        if dim is None:  # the same element may be read for several examples
            params.update(unique_indices=False, indices_are_sorted=False)
        else:
            slice_sizes = inserted(slice_sizes, dim, min(size, 1))
    numbers = w.gather_numbers()
    out = lax.gather(x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **params)
    return out, at


def _gather_lower(
    ctx: LoweringContext,
    x: HloValue,
    indices: HloValue,
    *,
    dimension_numbers: ParamValue,
    slice_sizes: Sequence[int],
    mode: ParamValue,
    fill_value: ParamValue,
    unique_indices: bool,
    indices_are_sorted: bool,
) -> HloValue:
    """Write a gather.

    XLA itself clamps start indices; the windows to fill are found by comparing their starts with
    the limits.
    """
    out, w = ctx.out_aval, windows_of("gather", dimension_numbers)
    if out.size == 0:
        return ctx.constant(0, out)
    indices, n_batch = wide_indices(ctx, indices), indices.aval.ndim - 1
    rows = ctx.op(
        "gather",
        x,
        indices,
        dimension_numbers=stablehlo_numbers("gather", w, n_batch),
        indices_are_sorted=bool(indices_are_sorted),
        slice_sizes=tuple(slice_sizes),
    )
    if mode_of("gather", mode) != FILL_OR_DROP or not w.start_map:
        return rows
    limits = [x.aval.shape[i] - slice_sizes[i] for i in w.start_map]
    inside = _within(ctx, indices, limits)
    inside = ctx.broadcast(inside, ShapedArray(out.shape, BOOL), w.batch_positions(n_batch))
    fill = ctx.constant(_fill_value(fill_value, out.dtype), out)
    return ctx.select(inside, rows, fill)


def _converted(value: Value, dtype: DType) -> Value:
    """Return a number as a constant of a type.

    Integers wrap around; for an integer type, numbers that are not finite become 0.
    """
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind not in "iu":
        return value
    bits = int(value) & ((1 << dtype.bits) - 1) if math.isfinite(value) else 0
    return bits - (1 << dtype.bits) if dtype.kind == "i" and bits >> dtype.bits - 1 else bits


def _within(ctx: LoweringContext, indices: HloValue, limits: list[int]) -> HloValue:
    """Return whether all components of each index vector are between 0 and their limits, both included."""
    aval = indices.aval
    row = ctx.array(limits, ShapedArray((len(limits),), aval.dtype))
    most = ctx.broadcast(row, aval, (aval.ndim - 1,))
    flags = ctx.op(
        "and",
        ctx.compare("GE", indices, ctx.constant(0, aval)),
        ctx.compare("LE", indices, most),
        out=ShapedArray(aval.shape, BOOL),
    )
    return ctx.reduce("and", flags, True, (aval.ndim - 1,))


def _earlier(
    x: Aval, indices: Aval, *, dimension_numbers: ParamValue, mode: ParamValue, **params: ParamValue
) -> Value:
    """The earlier rule: batch axes were indexed like others, and indices that are promised to fit were moved until they
    do.
    """
    w = windows_of("gather", dimension_numbers)
    if w.operand_batch:
        params |= {"mode": mode, "indices_are_sorted": False}

        def indexed(v: Value, i: Value) -> Value:
            numbers, i = with_indices_of_batches(w, i)
            return lax.gather(v, i, dimension_numbers=numbers.gather_numbers(), **params)

        return indexed
    if mode_of("gather", mode) != IN_BOUNDS:
        return None
    params |= {"unique_indices": False, "indices_are_sorted": False, "fill_value": None}
    params |= {"dimension_numbers": dimension_numbers, "mode": CLIP_MODE}
    return lambda v, i: lax.gather(v, i, **params)


define(
    lax.gather,
    abstract_eval=_gather_type,
    impl=static_impl(_gather_impl),
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
    lower=_gather_lower,
    cost=AS_LOWERED,
    keys=MOVES_KEYS,
    masks="both",
    steers="operand 1",
    determined=without_promises,
    elements="chosen",
    earlier=_earlier,
)

"""Rows of sorting, and of selection of the largest elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.determined import undetermined
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.stage import stage
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL, FLOAT32, INT32, UINT32, UINT64, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import varying_axes
from jaxprtool.makers.axes import (
    bumped,
    check_axes,
    inverse_permutation,
    static_impl,
    varied,
    with_dtype,
    with_shape,
)
from jaxprtool.makers.elementwise import check_kind
from jaxprtool.makers.indexing import Windows
from jaxprtool.rules.define import define

# -- orders on NumPy: numbers as integers that compare as they should ---------------------------------


def _along(xp: Namespace, values: Any, order: Any, axis: int) -> Any:
    """Return the values at positions along an axis, as `numpy.take_along_axis`.

    They are reshaped to three axes first, since NumPy can index fewer axes than an array may have.
    """
    shape, n = values.shape, values.ndim
    axis %= max(n, 1)
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    flat = values.reshape(before, shape[axis], after)
    places = order.reshape(before, order.shape[axis], after)
    return xp.take_along_axis(flat, places, axis=1).reshape(order.shape)


def _ordinals(xp: Namespace, x: Value, dtype: DType) -> Value:
    """Return integers in the same order as the elements; floats in the order -NaN < -inf < ... <
    NaN.
    """
    if dtype.kind == "b":
        return x.view(xp.uint8)
    if dtype.kind != "f":
        return x if dtype.bits >= 8 else x.astype(xp.int8)
    if dtype.bits < 8 or not hasattr(xp, f"int{dtype.bits}"):
        x, dtype_bits = x.astype(xp.float32), 32
    else:
        dtype_bits = dtype.bits
    if dtype_bits == 8:  # 8-bit floats have different bit layouts; all are exact in f32
        x, dtype_bits = x.astype(xp.float32), 32
    if (
        8 * x.dtype.itemsize != dtype_bits
    ):  # long double in the place of f64, of which some bits say nothing
        return xp.unique(x, return_inverse=True)[1].reshape(x.shape)
    bits = xp.ascontiguousarray(x).view(getattr(xp, f"int{dtype_bits}"))
    return bits ^ ((bits >> (dtype_bits - 1)) & ((1 << dtype_bits - 1) - 1))


def _plain(xp: Namespace, x: Value) -> Value:
    """Return floats with all zeros replaced by +0, and all NaNs by one NaN."""
    zero = x.dtype.type(0)
    x = xp.where(x == zero, zero, x)
    return xp.where(x != x, xp.asarray(xp.nan).astype(x.dtype), x)


def _keys(xp: Namespace, x: Value, dtype: DType) -> list[Value]:
    """Return arrays of integers whose lexicographic order is that of the elements: two for complex
    elements (real part first), otherwise one.
    """
    if dtype.kind == "c":
        return [*_keys(xp, x.real, dtype.real), *_keys(xp, x.imag, dtype.real)]
    return [_ordinals(xp, _plain(xp, x) if dtype.kind == "f" else x, dtype)]


def _order(xp: Namespace, keys: Sequence[Value], axis: int) -> Value:
    """Return the positions that sort the elements along an axis, stably."""
    if len(keys) == 1 and keys[0].dtype.itemsize <= 4:
        return _packed(xp, keys[0], axis, None)
    if len(keys) == 1:
        return xp.argsort(keys[0], axis=axis, kind="stable")
    return xp.lexsort(keys[::-1], axis=axis)


def _packed(xp: Namespace, key: Value, axis: int, k: int | None) -> Value:
    """Return the positions of the k smallest keys of up to 32 bits, stably sorted; None means all.

    Key and position are packed into one integer. No two of these are equal, so that the fastest
    sort, which is not stable, gives the same result as a stable one.
    """
    n = key.shape[axis]
    place = xp.arange(n, dtype=xp.int64).reshape([n if i == axis else 1 for i in range(key.ndim)])
    middle = 1 << 31 if key.dtype == xp.uint32 else 0
    both = ((key.astype(xp.int64) - middle) << 32) | place
    if k is not None and k < n:
        both = xp.partition(both, max(k - 1, 0), axis=axis)
        both = both[(slice(None),) * axis + (slice(k),)]
    return xp.sort(both, axis=axis) & 0xFFFFFFFF


# -- sort ------------------------------------------------------------------------------------------


def _sort_type(*operands: Aval, dimension: int, is_stable: bool, num_keys: int) -> list[Aval]:
    if not operands:
        ill_typed("sort needs at least one operand", "operand-count")
    first = operands[0]
    for x in operands:
        check_kind("sort", x, "biufc")
        if x.shape != first.shape:
            ill_typed(f"sort needs operands of one shape, got {first} and {x}", "operand-shapes")
    check_axes("sort", "dimension", (dimension,), first.ndim, first)
    if not 1 <= num_keys <= len(operands):
        ill_typed(
            f"sort num_keys {num_keys} must be from 1 to the number of operands, {len(operands)}",
            "key-count",
        )
    return [x.strong for x in operands]


def _sort_impl(
    xp: Namespace, *operands: Value, dimension: int, num_keys: int, **_: ParamValue
) -> Value:
    avals = operands[:num_keys]
    plain = operands[0].dtype.kind in "biu" and operands[0].dtype.bits >= 8
    if len(operands) == 1 and plain:
        return lambda v: [xp.sort(v, axis=dimension)]

    def run(*values: Value) -> list[Value]:
        keys = [k for v, a in zip(values, avals, strict=False) for k in _keys(xp, v, a.dtype)]
        order = _order(xp, keys, dimension)
        return [_along(xp, v, order, dimension) for v in values]

    return run


def _picked(t: Value, positions: Any, axis: int, indices: Value) -> Value:
    """Return the elements of t at positions along an axis; `indices` are the positions with a last
    axis of size 1.
    """
    rank = get_aval(positions).ndim
    rest = tuple(i for i in range(rank) if i != axis)
    numbers = Windows((), (axis,), (axis,), rest, rest).gather_numbers()
    return lax.gather(t, indices, dimension_numbers=numbers, slice_sizes=(1,) * rank)


def _sort_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, dimension: int, **params: ParamValue
) -> PrimalAndTangent:
    """The jvp rule: the tangents are permuted as the primals are.

    The permutation varies along the mesh axes that the keys vary along. Its type does not say so,
    so it is cast.
    """
    shape = get_aval(primals[0]).shape
    dtype = UINT64 if max(shape) >= 1 << 32 else UINT32
    places = lax.iota(dtype=dtype, shape=shape, dimension=dimension)
    *out, order = lax.sort(*primals, places, dimension=dimension, **params)
    dims = tuple(range(len(shape)))
    indices = lax.broadcast_in_dim(order, shape=(*shape, 1), broadcast_dimensions=dims)
    indices = varied(indices, [n for x in primals for n in varying_axes(get_aval(x))])
    moved = [t if type(t) is Zero else _picked(t, order, dimension, indices) for t in tangents]
    return out, moved


def _sort_batch(
    size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    *,
    dimension: int,
    **params: ParamValue,
) -> OutAndDim:
    at = next(d for d in dims if d is not None)
    placed = [materialize(x, d, size, at) for x, d in zip(vals, dims, strict=True)]
    (axis,) = bumped((dimension,), at)
    return lax.sort(*placed, dimension=axis, **params), [at] * len(vals)


def _lower_key(ctx: LoweringContext, x: HloValue) -> list[HloValue]:
    """Return the values to compare in the total order: real and imaginary parts, +0 for zeros, one
    NaN.
    """
    if x.aval.dtype.kind == "c":
        real = ShapedArray((), x.aval.dtype.real)
        parts = [ctx.op(part, x, out=real) for part in ("real", "imag")]
        return [key for part in parts for key in _lower_key(ctx, part)]
    if x.aval.dtype.kind != "f":
        return [x]
    zero, nan = ctx.constant(0.0, x.aval), ctx.constant(math.nan, x.aval)
    plain = ctx.select(ctx.compare("EQ", x, zero), zero, x)
    return [ctx.select(ctx.compare("NE", x, x), nan, plain)]


def _lower_less(ctx: LoweringContext, pairs: Sequence[tuple[HloValue, HloValue]]) -> HloValue:
    """Return whether (x0, x1, ...) comes before (y0, y1, ...) lexicographically, for pairs (x,
    y).
    """
    flag = ShapedArray((), BOOL)
    keys = [
        both for x, y in pairs for both in zip(_lower_key(ctx, x), _lower_key(ctx, y), strict=True)
    ]
    less: Any = None
    for x, y in reversed(keys):
        kind = "TOTALORDER" if x.aval.dtype.kind == "f" else None
        before = ctx.compare("LT", x, y, kind)
        if less is not None:
            tie = ctx.op("and", ctx.compare("EQ", x, y, kind), less, out=flag)
            before = ctx.op("or", before, tie, out=flag)
        less = before
    return less


def _sort_lower(
    ctx: LoweringContext, *operands: HloValue, dimension: int, is_stable: bool, num_keys: int
) -> list[HloValue]:
    given, operands = operands, tuple(ctx.widened(x) for x in operands)
    scalars = [ShapedArray((), x.aval.dtype) for x in operands for _ in range(2)]

    def comparator(*xs: Value) -> Value:
        return _lower_less(ctx, list(zip(xs[::2], xs[1::2], strict=True))[:num_keys])

    outs = ctx.op(
        "sort",
        *operands,
        out=[x.aval for x in operands],
        regions=[ctx.region(scalars, comparator)],
        dimension=dimension,
        is_stable=bool(is_stable),
    )
    return [ctx.convert(out, x.aval.dtype) for out, x in zip(outs, given, strict=True)]


def _sort_cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], **_: ParamValue) -> int:
    """The cost rule: n log2(n) comparisons, where n is the number of all elements, as XLA estimates
    it.
    """
    n = max(in_avals[0].size, 0)
    return n * max(n - 1, 0).bit_length()


define(
    lax.sort,
    abstract_eval=_sort_type,
    impl=static_impl(_sort_impl),
    jvp=_sort_jvp,
    transpose=NONLINEAR,
    batch=_sort_batch,
    lower=_sort_lower,
    cost=_sort_cost,
    varying="rule",  # as in JAX, each result varies along the axes of its own operand
    steers="num_keys",
    elements="ordered",
)

# -- top_k -----------------------------------------------------------------------------------------


def _check_k(name: str, k: int, least: int, axis: int, x: Value) -> None:
    if not least <= k <= x.shape[axis]:
        ill_typed(
            f"{name} k {k} must be from {least} to the size of axis {axis} of {x}", "top-k-size"
        )


def _with_size(x: Value, axis: int, n: int) -> list[Value]:
    """Return the types of the values and of their positions, with size n along the axis."""
    out = with_shape(x, (*x.shape[:axis], n, *x.shape[axis + 1 :]))
    return [out, with_dtype(out, INT32)]


def _top_k_type(x: Aval, *, k: int, axis: int, is_stable: bool) -> list[Aval]:
    if x.dtype.kind not in "biuf":
        ill_typed(f"top_k is for types with an order, and its operand is {x}", "operand-types")
    check_axes("top_k", "axis", (axis,), x.ndim, x)
    _check_k("top_k", k, 0, axis, x)
    return _with_size(x, axis, k)


_BLOCKS = 16  # the number of blocks for each of the k keys


def _few_with_the_smallest(xp: Namespace, row: Value, k: int) -> Value:
    """Return, in order, the positions of a superset of the k smallest keys of a row; usually it is
    small.

    Take the smallest key of each block, and the k-th smallest of these as a bound. At least k keys
    are at most the bound, so none of the k smallest keys is above it.
    """
    width = len(row) // (k * _BLOCKS)
    blocks = len(row) // width
    least = row[: blocks * width].reshape(blocks, width).min(axis=1)
    return xp.flatnonzero(row <= xp.partition(least, k - 1)[k - 1])


def _first(xp: Namespace, key: Value, axis: int, k: int) -> Value:
    """Return the positions of the k smallest integers along an axis, in order; equal ones by
    position.
    """
    n = key.shape[axis]
    if key.size == n and 0 < k * _BLOCKS < n:
        row = key.reshape(n)
        few = _few_with_the_smallest(xp, row, k)
        order = few[xp.argsort(row[few], kind="stable")[:k]]
        return order.reshape([k if i == axis else 1 for i in range(key.ndim)])
    if key.dtype.itemsize <= 4:
        return _packed(xp, key, axis, k)
    return xp.argsort(key, axis=axis, kind="stable")[(slice(None),) * axis + (slice(k),)]


def _top_k_impl(xp: Namespace, x: Value, *, k: int, axis: int, is_stable: bool) -> Value:
    def run(v: Value) -> list[Value]:
        order = _first(xp, ~_ordinals(xp, v, x.dtype), axis, k)
        return [_along(xp, v, order, axis), order.astype(xp.int32)]

    return run


def _top_k_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, axis: int, **params: Any
) -> PrimalAndTangent:
    out, places = lax.top_k(primals[0], axis=axis, **params)
    return _with_tangents(out, places, tangents[0], axis)


def _with_tangents(out: Value, places: Any, tangent: Value, axis: int) -> Value:
    indices = lax.reshape(places, new_sizes=(*get_aval(places).shape, 1))
    moved = _picked(tangent, places, axis, indices)
    return [out, places], [moved, Zero(get_aval(places))]


def _top_k_batch(size: int, vals: Value, dims: Any, *, axis: int, **params: Any) -> OutAndDim:
    (axis,) = bumped((axis,), dims[0])
    return lax.top_k(vals[0], axis=axis, **params), [dims[0]] * 2


def _top_k_lower(
    ctx: LoweringContext, x: HloValue, *, k: int, axis: int, is_stable: bool
) -> list[HloValue]:
    rank = x.aval.ndim
    order = [*(i for i in range(rank) if i != axis), axis]
    x = ctx.transpose(x, order)
    outs = [ShapedArray(tuple(a.shape[i] for i in order), a.dtype) for a in ctx.out_avals]
    found = ctx.op("chlo.top_k", x, out=outs, k=k)
    back = sorted(range(rank), key=order.__getitem__)
    return [ctx.transpose(v, back) for v in found]


def _top_k_of_last(x: Aval, *, k: int, axis: int, is_stable: bool) -> Value:
    """The earlier rule: the last axis, in the order that JAX had before there was another."""
    last = x.ndim - 1
    order = *(i for i in range(x.ndim) if i != axis), axis
    back = inverse_permutation(order)

    def f(v: Value) -> list[Value]:
        moved = v if axis == last else lax.transpose(v, permutation=order)
        out = lax.top_k(moved, k=k, axis=last, is_stable=True)
        return [y if axis == last else lax.transpose(y, permutation=back) for y in out]

    return None if axis == last and is_stable else f


define(
    lax.top_k,
    abstract_eval=_top_k_type,
    impl=static_impl(_top_k_impl),
    jvp=_top_k_jvp,
    transpose=NONLINEAR,
    batch=_top_k_batch,
    lower=_top_k_lower,
    cost=_sort_cost,
    masks="inf",
    steers="all",
    earlier=_top_k_of_last,
)

# -- approx_top_k ----------------------------------------------------------------------------------


def _candidates(n: int, rank: int, k: int, recall: float, override: int) -> int:
    """Return how many candidates XLA keeps if it does not reduce them to k (arXiv:2206.14286).

    The elements are divided into parts, and the best of each part is a candidate. The recall needs
    (1 - k) / log(recall) parts; the number of parts is that of tiles, halved some times.
    """
    tile = 1024 if rank == 1 else 128
    if n <= tile:
        return n
    if k == 1:
        return tile
    if recall >= 1:
        return n
    tiles = math.ceil(n / tile)
    whole = override if override >= 0 else n
    parts = min(max(int((1.0 - k) / math.log(recall)), tile), whole)
    halvings = (whole // parts).bit_length() - 1
    if halvings <= 0:
        return n
    halvings = min(halvings, (n // tile - 1).bit_length())
    return math.ceil(tiles / (1 << halvings)) * tile


def _approx_type(
    x: Aval,
    *,
    k: int,
    reduction_dimension: int,
    recall_target: float,
    is_max_k: bool,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
) -> list[Aval]:
    name = "approx_top_k"
    if x.dtype.kind != "f":
        ill_typed(f"{name} is for floats, and its operand is {x}", "operand-types")
    axis = reduction_dimension + x.ndim if reduction_dimension < 0 else reduction_dimension
    check_axes(name, "reduction_dimension", (axis,), x.ndim, x)
    _check_k(name, k, 1, axis, x)
    if not 0 < recall_target <= 1:
        ill_typed(f"{name} recall_target {recall_target} is not in (0, 1]", "recall-target")
    if aggregate_to_topk:
        return _with_size(x, axis, k)
    override, n = reduction_input_size_override, x.shape[axis]
    if 0 <= override < n:
        ill_typed(
            f"{name} reduction_input_size_override {override} is less than the size of axis {axis} of {x}",
            "size-override",
        )
    return _with_size(x, axis, _candidates(n, x.ndim, k, recall_target, override))


def _approx_impl(xp: Namespace, x: Value, *, is_max_k: bool, **params: Any) -> Value:
    axis = params["reduction_dimension"] % x.ndim
    n = _approx_type(x, is_max_k=is_max_k, **params)[0].shape[axis]
    narrow = x.dtype.bits <= 8  # one of them has no negative numbers
    dtype = FLOAT32 if narrow else x.dtype

    def run(v: Value) -> list[Value]:
        signed = v.astype(xp.float32) if narrow else v
        key = _ordinals(xp, _plain(xp, -signed if is_max_k else signed), dtype)
        order = _first(xp, key, axis, n)
        return [_along(xp, v, order, axis), order.astype(xp.int32)]

    return run


def _approx_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
) -> PrimalAndTangent:
    out, places = lax.approx_top_k(primals[0], **params)
    axis = params["reduction_dimension"] % get_aval(out).ndim
    return _with_tangents(out, places, tangents[0], axis)


def _approx_batch(
    size: int, vals: Value, dims: Any, *, reduction_dimension: int, **params: Any
) -> OutAndDim:
    axis = reduction_dimension % (get_aval(vals[0]).ndim - 1)
    (axis,) = bumped((axis,), dims[0])
    return lax.approx_top_k(vals[0], reduction_dimension=axis, **params), [dims[0]] * 2


def _approx_lower(
    ctx: LoweringContext,
    x: HloValue,
    *,
    k: int,
    reduction_dimension: int,
    recall_target: float,
    is_max_k: bool,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
) -> list[HloValue]:
    """Write XLA's custom call, which XLA expands to a sort on CPUs."""
    dtype, axis = x.aval.dtype, reduction_dimension % x.aval.ndim
    scalar, place = ShapedArray((), dtype), ShapedArray((), INT32)
    better = lax.gt if is_max_k else lax.lt
    first = stage(lambda x, y, *_: [better(x, y)], [scalar, scalar, place, place])
    comparator = ctx.function(first, f"top_k_{better.primitive}_{dtype.short}_comparator")
    config = (
        f"{{aggregate_to_topk = {str(bool(aggregate_to_topk)).lower()}, is_fallback = true, "
        f"recall_target = {recall_target:e} : f32, reduction_dim = {axis} : i64, "
        f"reduction_input_size_override = {reduction_input_size_override} : i64, top_k = {k} : i64}}"
    )
    return ctx.op(
        "custom_call",
        x,
        ctx.iota(ShapedArray(x.aval.shape, INT32), axis),
        ctx.constant(-math.inf if is_max_k else math.inf, scalar),
        ctx.constant(-1, place),
        out=ctx.out_avals,
        call_target_name='"ApproxTopK"',
        called_computations=f"[@{comparator}]",
        **{"mhlo.backend_config": config},
    )


define(
    lax.approx_top_k,
    abstract_eval=_approx_type,
    impl=static_impl(_approx_impl),
    jvp=_approx_jvp,
    transpose=NONLINEAR,
    batch=_approx_batch,
    lower=_approx_lower,
    cost=_sort_cost,
    determined=undetermined,  # backends may select different ones of equal elements
    masks="both",
    steers="all",
)

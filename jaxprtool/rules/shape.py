"""Rows of the operations that rearrange elements, and of those that return sizes of axes."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.layouts import spec_of
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.jvp import linear
from jaxprtool.interpreters.lower import LoweringContext
from jaxprtool.interpreters.transpose import transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import (
    broadcasted,
    bumped,
    check_axes,
    check_sizes,
    inserted,
    inverse_permutation,
    removed,
    reshaped,
    static_impl,
    summed,
    transposed,
    with_shape,
)
from jaxprtool.makers.keys import MOVES_KEYS
from jaxprtool.rules.define import LOCALLY_CONSTANT, define

# Results of up to this many elements are copied, which is cheaper than making a NumPy view.
_SMALL = 4096


def _shape_impl(shape_of: Callable[..., tuple[int, ...]]) -> Callable[..., Value]:
    """Return the impl rule of an operation that only changes the shape."""
    return static_impl(
        lambda xp, x, **params: operator.methodcaller("reshape", shape_of(x, **params))
    )


# -- broadcast_in_dim ------------------------------------------------------------------------------


def _broadcast_type(
    x: Aval, *dyn_shape: Aval, shape: Any, broadcast_dimensions: Any, **_: Any
) -> Aval:
    if len(broadcast_dimensions) != x.ndim:
        ill_typed(
            f"broadcast_in_dim broadcast_dimensions {broadcast_dimensions} must name one axis for "
            f"each of {x}",
            "dimension-count",
        )
    check_sizes("broadcast_in_dim", "shape", shape)
    if x.ndim:
        what = f"the result's shape {tuple(shape)}"
        check_axes(
            "broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions, len(shape), what
        )
        for n, d in zip(x.shape, broadcast_dimensions, strict=True):
            if n != shape[d] and n != 1:
                ill_typed(
                    f"broadcast_in_dim cannot broadcast {x} to shape {tuple(shape)}: an axis of "
                    f"size {n} goes to one of size {shape[d]}",
                    "broadcast-size",
                )
    return with_shape(x, tuple(shape))


def _broadcast_impl(
    xp: Namespace, x: Value, *, shape: Any, broadcast_dimensions: Any, **_: Any
) -> Value:
    middle, order = [1] * len(shape), sorted(range(x.ndim), key=broadcast_dimensions.__getitem__)
    for n, d in zip(x.shape, broadcast_dimensions, strict=True):
        middle[d] = n
    ordered = order == list(range(x.ndim))
    dtype = xp.dtype_of_aval(x.dtype)

    def run(v: Value) -> Value:
        v = (v if ordered else v.transpose(order)).reshape(middle)
        if not large:
            out = xp.empty(shape, dtype)
            out[...] = v
            return out
        return xp.broadcast_to(v, shape)

    large = math.prod(shape) > _SMALL
    return run


def _keeps_order(dims: Any) -> bool:
    return all(a < b for a, b in itertools.pairwise(dims))


def _broadcast_jvp(
    primals: Value, tangents: Value, *, shape: Any, **params: Any
) -> PrimalAndTangent:
    if (
        get_aval(primals[0]).shape == shape
        and shape
        and _keeps_order(params["broadcast_dimensions"])
    ):
        return primals[0], tangents[0]
    return tuple(lax.broadcast_in_dim(v, shape=shape, **params) for v in (*primals, *tangents))


def _broadcast_transpose(
    ct: Value, x: Value, *, shape: Any, broadcast_dimensions: Any, **_: Any
) -> Value:
    kept = {
        d: i
        for i, d in enumerate(broadcast_dimensions)
        if x.shape[i] == shape[d]  # the others have size 1 and were repeated
    }
    out = summed(ct, [d for d in range(len(shape)) if d not in kept])
    if len(kept) > 1:  # permute the axes of the sum to the order of the operand's axes
        axes = [kept[d] for d in sorted(kept)]
        out = transposed(out, inverse_permutation([sorted(axes).index(i) for i in axes]))
    if len(kept) == x.ndim:
        return out
    return broadcasted(out, x.shape, tuple(sorted(kept.values())))


def _broadcast_batch(
    size: int, vals: Value, dims: Any, *, shape: Any, broadcast_dimensions: Any, **params: Any
) -> OutAndDim:
    (x,), (dim,) = vals, dims
    increasing = _keeps_order(broadcast_dimensions)
    if not increasing:
        x, dim = moveaxis(x, dim, 0), 0
    # insert the batch axis before the result's axis of the operand's next axis, so that no axis
    # moves
    at = 0
    if increasing and dim:
        at = broadcast_dimensions[dim] if dim < len(broadcast_dimensions) else len(shape)
    dims, shape = inserted(bumped(broadcast_dimensions, at), dim, at), inserted(shape, at, size)
    if increasing and get_aval(x).shape == shape:
        return x, at
    return lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims, **params), at


def _broadcast_layout(
    ins: Value, out: Value, *, broadcast_dimensions: Any, **_: Any
) -> list[tuple[str, ...]]:
    spec: list[tuple[str, ...]] = [()] * out.ndim
    for i, axis in enumerate(broadcast_dimensions):
        if ins[0].shape[i] == out.shape[axis]:
            spec[axis] = spec_of(ins[0])[i]
    return spec


define(
    lax.broadcast_in_dim,
    abstract_eval=_broadcast_type,
    impl=static_impl(_broadcast_impl),
    jvp=_broadcast_jvp,
    transpose=transpose_unary(_broadcast_transpose),
    batch=_broadcast_batch,
    lower=lambda ctx, x, *, broadcast_dimensions, **_: ctx.broadcast(
        x, ctx.out_aval, broadcast_dimensions
    ),
    cost=FREE,
    residual="made again",
    identity=lambda params: _keeps_order(params["broadcast_dimensions"]),
    layout=_broadcast_layout,
    keys=MOVES_KEYS,
    elements="kept",
    sums="kept",
)

# -- reshape, squeeze, expand_dims -----------------------------------------------------------------


def _reshape_type(x: Aval, *, new_sizes: Any, dimensions: Any, **_: Any) -> Aval:
    check_sizes("reshape", "new_sizes", new_sizes)
    out = with_shape(x, tuple(new_sizes))
    if out.size != x.size and out.size >= 0 and x.size >= 0:
        ill_typed(
            f"reshape new_sizes {out.shape} has {out.size} elements, and {x} has {x.size}",
            "reshape-size",
        )
    if dimensions is not None and sorted(dimensions) != list(range(x.ndim)):
        ill_typed(
            f"reshape dimensions {dimensions} is no permutation of the axes of {x}", "permutation"
        )
    return out


def _reshape_impl(
    xp: Namespace, x: Value, *, new_sizes: ParamValue, dimensions: Sequence[int], **_: ParamValue
) -> Value:
    if dimensions is None:
        return operator.methodcaller("reshape", tuple(new_sizes))
    return lambda v: v.transpose(dimensions).reshape(new_sizes)


def _reshape_transpose(ct: Value, x: Value, *, dimensions: Sequence[int], **_: ParamValue) -> Value:
    if dimensions is None:
        return reshaped(ct, x.shape)
    permuted = reshaped(ct, tuple(x.shape[d] for d in dimensions))
    return transposed(permuted, inverse_permutation(dimensions))


def _reshape_batch(
    size: int, vals: Value, dims: Any, *, new_sizes: Any, dimensions: Any, **params: Any
) -> OutAndDim:
    (x,), (dim,) = vals, dims
    at = 0
    if dimensions is not None:
        dimensions = inserted(bumped(dimensions, dim), 0, dim)
    elif dim:
        # The batch axis need not move if the sizes before it have the same product in the new
        # shape.
        before = math.prod(get_aval(x).shape[:dim])
        products = list(itertools.accumulate(new_sizes, operator.mul, initial=1))
        if before in products and math.prod(new_sizes):
            at = products.index(before)
        else:
            x = moveaxis(x, dim, 0)
    sizes = inserted(new_sizes, at, size)
    if dimensions is None and get_aval(x).shape == sizes:
        return x, at
    out = lax.reshape(x, new_sizes=sizes, dimensions=dimensions, **params)
    return out, at


def _reshape_lower(
    ctx: LoweringContext, x: Value, *, new_sizes: Any, dimensions: Any, **_: Any
) -> Value:
    return ctx.reshape(x if dimensions is None else ctx.transpose(x, dimensions), new_sizes)


define(
    lax.reshape,
    abstract_eval=_reshape_type,
    impl=static_impl(_reshape_impl),
    jvp=linear,
    transpose=transpose_unary(_reshape_transpose),
    batch=_reshape_batch,
    lower=_reshape_lower,
    cost=FREE,
    keys=MOVES_KEYS,
    elements="kept",
    sums="kept",
)


def _squeezed_shape(x: Value, *, dimensions: Sequence[int]) -> tuple[int, ...]:
    return removed(x.shape, dimensions)


def _squeeze_type(x: Aval, *, dimensions: Sequence[int]) -> Aval:
    check_axes("squeeze", "dimensions", dimensions, x.ndim, x)
    for d in dimensions:
        if x.shape[d] != 1:
            ill_typed(f"squeeze dimension {d} of {x} does not have size 1", "squeeze-size")
    return with_shape(x, removed(x.shape, dimensions))


def _squeeze_batch(size: int, vals: Value, dims: Any, *, dimensions: Any) -> OutAndDim:
    out = bumped(dimensions, dims[0])
    if not out:
        return vals[0], dims[0]
    return lax.squeeze(vals[0], dimensions=out), dims[0] - sum(d < dims[0] for d in out)


def _squeeze_layout(ins: Sequence[Value], out: Value, *, dimensions: Sequence[int]) -> Value:
    return removed(spec_of(ins[0]), [d % ins[0].ndim for d in dimensions])


define(
    lax.squeeze,
    abstract_eval=_squeeze_type,
    impl=_shape_impl(_squeezed_shape),
    jvp=linear,
    transpose=transpose_unary(
        lambda ct, x, *, dimensions: broadcasted(ct, x.shape, removed(range(x.ndim), dimensions))
    ),
    batch=_squeeze_batch,
    lower=lambda ctx, x, *, dimensions: ctx.reshape(x, ctx.out_aval.shape),
    cost=FREE,
    layout=_squeeze_layout,
    keys=MOVES_KEYS,
    elements="kept",
    sums="kept",
)


def _expanded_shape(x: Value, *, dimensions: Sequence[int]) -> tuple[int, ...]:
    shape = list(x.shape)
    for d in sorted(dimensions):
        shape.insert(d, 1)
    return tuple(shape)


def _expand_dims_type(x: Aval, *, dimensions: Sequence[int]) -> Aval:
    rank = x.ndim + len(dimensions)
    check_axes("expand_dims", "dimensions", dimensions, rank, f"a result of rank {rank}")
    return with_shape(x, _expanded_shape(x, dimensions=dimensions))


def _expand_dims_batch(
    size: int, vals: Sequence[Value], dims: Sequence[int | None], *, dimensions: Sequence[int]
) -> OutAndDim:
    rank = get_aval(vals[0]).ndim - 1 + len(dimensions)
    old = removed(range(rank), dimensions)  # the positions of an example's axes in the result
    at = old[dims[0] - 1] + 1 if dims[0] else 0
    return lax.expand_dims(vals[0], dimensions=bumped(dimensions, at)), at


def _expand_dims_layout(ins: Sequence[Value], out: Value, *, dimensions: Sequence[int]) -> Value:
    spec = spec_of(ins[0])
    for d in sorted(d % out.ndim for d in dimensions):
        spec = inserted(spec, d, ())
    return spec


define(
    lax.expand_dims,
    abstract_eval=_expand_dims_type,
    impl=_shape_impl(_expanded_shape),
    jvp=linear,
    transpose=transpose_unary(
        lambda ct, x, *, dimensions: lax.squeeze(ct, dimensions=dimensions) if dimensions else ct
    ),
    batch=_expand_dims_batch,
    lower=lambda ctx, x, *, dimensions: ctx.reshape(x, ctx.out_aval.shape),
    cost=FREE,
    layout=_expand_dims_layout,
    keys=MOVES_KEYS,
    elements="kept",
    sums="kept",
)

# -- transpose, rev --------------------------------------------------------------------------------


def _transpose_type(x: Aval, *, permutation: Any) -> Aval:
    if sorted(permutation) != list(range(x.ndim)):
        ill_typed(
            f"transpose permutation {tuple(permutation)} is no permutation of the axes of {x}",
            "permutation",
        )
    return with_shape(x, tuple([x.shape[p] for p in permutation]))


define(
    lax.transpose,
    abstract_eval=_transpose_type,
    impl=static_impl(
        lambda xp, x, *, permutation: operator.methodcaller("transpose", tuple(permutation))
    ),
    jvp=linear,
    transpose=transpose_unary(
        lambda ct, x, *, permutation: transposed(ct, inverse_permutation(permutation))
    ),
    batch=lambda size, vals, dims, *, permutation: (
        transposed(vals[0], (dims[0], *bumped(permutation, dims[0]))),
        0,
    ),
    lower=lambda ctx, x, *, permutation: ctx.transpose(x, permutation),
    cost=FREE,
    layout=lambda ins, out, *, permutation: [spec_of(ins[0])[i] for i in permutation],
    keys=MOVES_KEYS,
    elements="permuted",
    sums="kept",
)


def _rev_type(x: Aval, *, dimensions: Sequence[int]) -> Aval:
    check_axes("rev", "dimensions", dimensions, x.ndim, x)
    return x.strong


def _rev_impl(xp: Namespace, x: Value, *, dimensions: Sequence[int]) -> Value:
    back, ahead = slice(None, None, -1), slice(None)
    return operator.itemgetter(tuple(back if d in dimensions else ahead for d in range(x.ndim)))


define(
    lax.rev,
    abstract_eval=_rev_type,
    impl=static_impl(_rev_impl),
    jvp=linear,
    transpose=transpose_unary(lambda ct, x, *, dimensions: lax.rev(ct, dimensions=dimensions)),
    batch=lambda size, vals, dims, *, dimensions: (
        lax.rev(vals[0], dimensions=bumped(dimensions, dims[0])),
        dims[0],
    ),
    lower=lambda ctx, x, *, dimensions: ctx.op("reverse", x, dimensions=tuple(dimensions)),
    cost=FREE,
    keys=MOVES_KEYS,
    elements="permuted",
)

# -- iota ------------------------------------------------------------------------------------------


def _iota_type(
    *dyn_shape: Aval, dtype: DType, shape: Sequence[int], dimension: int, **_: ParamValue
) -> Aval:
    if dtype.kind not in "iufc":
        ill_typed(f"iota dtype {dtype} is not a number type", "operand-types")
    check_sizes("iota", "shape", shape)
    check_axes("iota", "dimension", (dimension,), len(shape), f"shape {tuple(shape)}")
    return ShapedArray(tuple(shape), dtype)


def _iota_impl(
    xp: Namespace, *, dtype: DType, shape: Sequence[int], dimension: int, **_: ParamValue
) -> Value:
    middle = [1] * len(shape)
    middle[dimension] = n = shape[dimension]
    target = xp.dtype_of_aval(dtype)

    if len(shape) == 1:
        return lambda: xp.arange(n).astype(target)
    return lambda: xp.broadcast_to(xp.arange(n).astype(target).reshape(middle), shape)


define(
    lax.iota,
    abstract_eval=_iota_type,
    impl=static_impl(_iota_impl),
    **LOCALLY_CONSTANT,
    batch=unsupported("it has no operands"),
    lower=lambda ctx, *, dimension, **_: ctx.iota(ctx.out_aval, dimension),
    cost=FREE,
    residual="made again",
)

# -- dim_as_value ----------------------------------------------------------------------------------


def _dim_type(*, dim: Any, dtype: DType) -> Aval:
    if dtype.kind != "i":
        ill_typed(f"dim_as_value gives a signed integer, and not {dtype}", "operand-types")
    if isinstance(dim, int) and not dtype.holds(dim):
        ill_typed(f"dim_as_value dim {dim} is no value of type {dtype}", "param-value")
    return ShapedArray((), dtype)


define(
    lax.dim_as_value,
    abstract_eval=_dim_type,
    impl=lambda xp, *, dim, dtype: xp.dtype_of_aval(dtype).type(operator.index(dim)),
    **LOCALLY_CONSTANT,
    batch=unsupported("it has no operands"),
    lower=lambda ctx, *, dim, dtype: ctx.constant(operator.index(dim), ctx.out_aval),
    cost=FREE,
    residual="made again",
)

# -- dimension_size --------------------------------------------------------------------------------


def _size_type(x: Aval, *, dimension: int, dtype: DType) -> Aval:
    check_axes("dimension_size", "dimension", (dimension,), x.ndim, x)
    return _dim_type(dim=x.shape[dimension], dtype=dtype)


def _size_batch(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    (at,), dimension = dims, params["dimension"]
    return lax.dimension_size(
        vals[0], **{**params, "dimension": dimension + (at is not None and at <= dimension)}
    ), None


define(
    lax.dimension_size,
    abstract_eval=_size_type,
    impl=lambda xp, x, *, dimension, dtype: xp.dtype_of_aval(dtype).type(x.shape[dimension]),
    **LOCALLY_CONSTANT,
    batch=_size_batch,
    lower=lambda ctx, x, *, dimension, dtype: ctx.constant(x.aval.shape[dimension], ctx.out_aval),
    cost=FREE,
    residual="made again",
)

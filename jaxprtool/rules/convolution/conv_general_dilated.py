"""The row of `conv_general_dilated`.

Leaving out the spatial axes, a convolution multiplies matrices, one for each of g groups (n is the
batch, i are the input features, o the output features):

    [n, g i] [i, g o] -> [n, g o]   with feature groups
    [g n, i] [i, g o] -> [n, g o]   with batch groups

The transposes are convolutions, too. With feature groups they are [n, g o] [o, g i] -> [n, g i],
again with feature groups, and [g i, n] [n, g o] -> [i, g o], with batch groups. With batch groups,
the transpose by the kernel is [i, g n] [n, g o] -> [i, g o], with feature groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import precision_level
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.cost import Cost
from jaxprtool.interpreters.jvp import Zero, bilinear
from jaxprtool.interpreters.lowered_cost import lowered_cost
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import full, removed, static_impl
from jaxprtool.makers.elementwise import as_dtype
from jaxprtool.makers.windows import dilated
from jaxprtool.rules.convolution.evaluate import conv_impl
from jaxprtool.rules.convolution.types import NAME, Ints, Specs, conv_type, specs_of, take
from jaxprtool.rules.define import define
from jaxprtool.stablehlo.text import int_list, mlir_type

# -- differentiation -------------------------------------------------------------------------------


def _swapped(spec: Ints) -> Ints:
    return (spec[1], spec[0], *spec[2:])


def _axis_into(source: int, target: int, x: Value) -> Value:
    """Merge axis `source` of x into axis `target`, so that its index changes slowest there.

    `target` is a position among the axes without `source`.
    """
    shape = get_aval(x).shape
    order = [i for i in range(len(shape)) if i != source]
    sizes = take(shape, order)
    sizes[target] *= shape[source]
    order.insert(target, source)
    dimensions = None if order == sorted(order) else tuple(order)
    return lax.reshape(x, new_sizes=tuple(sizes), dimensions=dimensions)


def _axis_out_of(source: int, size: int, x: Value) -> Value:
    """Split axis `source` of x in two, the first of which has the given size."""
    shape = get_aval(x).shape
    parts = (size, shape[source] // size)
    return lax.reshape(x, new_sizes=(*shape[:source], *parts, *shape[source + 1 :]))


def _conv_transpose(ct: Value, x: Value, y: Value, **params: Any) -> list[Any]:
    if is_linear(x) and is_linear(y):
        not_linear(NAME, "both operands depend on them")
    if is_linear(x):
        return [_lhs_cotangent(ct, x.aval, y, **params), None]
    return [None, _rhs_cotangent(ct, x, y.aval, **params)]


def _lhs_cotangent(
    ct: Value,
    x: Value,
    y: Value,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> Value:
    """Return the cotangent of lhs: ct convolved with the flipped kernel.

    The strides of the convolution become the lhs_dilation of this one, and conversely.
    """
    specs, kernel_aval, ct_aval = specs_of(dimension_numbers), get_aval(y), get_aval(ct)
    groups = max(feature_group_count, batch_group_count)
    if groups > 1:
        y = _axis_into(specs.rhs[0], specs.rhs[1], _axis_out_of(specs.rhs[0], groups, y))
    if any(n > 1 for n in take(kernel_aval.shape, specs.rhs[2:])):
        y = lax.rev(y, dimensions=specs.rhs[2:])
    pads = []
    for n, k, m, stride, ld, rd, (low, _) in zip(
        take(x.shape, specs.lhs[2:]),
        take(kernel_aval.shape, specs.rhs[2:]),
        take(ct_aval.shape, specs.out[2:]),
        window_strides,
        lhs_dilation,
        rhs_dilation,
        padding,
        strict=True,
    ):
        before = dilated(k, rd) - low - 1
        pads.append((before, dilated(n, ld) + dilated(k, rd) - 1 - dilated(m, stride) - before))
    out = lax.conv_general_dilated(
        ct,
        as_dtype(y, ct_aval.dtype),
        window_strides=lhs_dilation,
        padding=tuple(pads),
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=Specs(specs.out, _swapped(specs.rhs), specs.lhs).record,
        feature_group_count=groups,
        **params,
    )
    out = as_dtype(out, x.dtype)
    if batch_group_count > 1:
        split = _axis_out_of(specs.lhs[1], batch_group_count, out)
        out = _axis_into(specs.lhs[1], specs.lhs[0], split)
    return out


def _rhs_cotangent(
    ct: Value,
    x: Value,
    y: Value,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> Value:
    """Return the cotangent of rhs: lhs convolved with ct, where batch and input features change
    roles.

    The strides of the convolution become the rhs_dilation of this one, and conversely.
    """
    specs, aval, ct_aval = specs_of(dimension_numbers), get_aval(x), get_aval(ct)
    if ct_aval.size == 0:
        return Zero(y)
    pads = []
    for n, k, m, stride, ld, rd, (low, _) in zip(
        take(aval.shape, specs.lhs[2:]),
        take(y.shape, specs.rhs[2:]),
        take(ct_aval.shape, specs.out[2:]),
        window_strides,
        lhs_dilation,
        rhs_dilation,
        padding,
        strict=True,
    ):
        pads.append((low, dilated(m, stride) - dilated(n, ld) + dilated(k, rd) - low - 1))
    out = lax.conv_general_dilated(
        as_dtype(x, ct_aval.dtype),
        ct,
        window_strides=rhs_dilation,
        padding=tuple(pads),
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=Specs(*map(_swapped, (specs.lhs, specs.out, specs.rhs))).record,
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        **params,
    )
    return as_dtype(out, y.dtype)


# -- vectorisation ---------------------------------------------------------------------------------


def _conv_batch(
    size: int,
    vals: Value,
    dims: Any,
    *,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> OutAndDim:
    """The batch rule.

    A batch axis of lhs is merged into the batch, and one of rhs into the output features. If both
    have one, it becomes groups.
    """
    (x, y), (x_dim, y_dim) = vals, dims
    specs = specs_of(dimension_numbers)
    groups = {
        "feature_group_count": feature_group_count,
        "batch_group_count": batch_group_count,
    }
    if size == 0:
        return _empty_batch(vals, dims, dimension_numbers=dimension_numbers, **groups, **params)
    if y_dim is None:
        at = specs.out[0]
        x = _into_groups(x, x_dim, specs.lhs[0], batch_group_count)
    elif x_dim is None:
        at = specs.out[1]
        y = _into_groups(y, y_dim, specs.rhs[0], max(feature_group_count, batch_group_count))
    else:
        at, by_batch = specs.out[1], batch_group_count > 1
        groups["batch_group_count" if by_batch else "feature_group_count"] *= size
        x = _axis_into(x_dim, specs.lhs[0] if by_batch else specs.lhs[1], x)
        y = _axis_into(y_dim, specs.rhs[0], y)
    out = lax.conv_general_dilated(x, y, dimension_numbers=dimension_numbers, **groups, **params)
    count = max(feature_group_count, batch_group_count)
    if x_dim is None and count > 1:
        return _out_of_groups(out, at, size, count), at
    return _axis_out_of(at, size, out), at


def _into_groups(x: Value, dim: int, axis: int, groups: int) -> Value:
    """Merge the batch axis `dim` of x into axis `axis`, within each of its groups.

    `axis` is a position among the axes without `dim`.
    """
    if groups == 1:
        return _axis_into(dim, axis, x)
    x = _axis_out_of(axis + (dim <= axis), groups, x)
    shape, at = get_aval(x).shape, dim + (dim > axis)
    order = [i for i in range(len(shape)) if i != at]
    order.insert(axis + 1, at)
    sizes = take(shape, order)
    sizes[axis : axis + 3] = [math.prod(sizes[axis : axis + 3])]
    return lax.reshape(x, new_sizes=tuple(sizes), dimensions=tuple(order))


def _out_of_groups(out: Value, axis: int, size: int, groups: int) -> Value:
    """Split an axis of a result into (groups, batch, rest); return it as the two axes batch,
    (groups, rest).
    """
    shape = get_aval(out).shape
    rest = shape[axis] // (groups * size)
    split = (*shape[:axis], groups, size, rest, *shape[axis + 1 :])
    order = [*range(axis), axis + 1, axis, *range(axis + 2, len(split))]
    out = lax.reshape(out, new_sizes=split)
    sizes = (*shape[:axis], size, groups * rest, *shape[axis + 1 :])
    return lax.reshape(out, new_sizes=sizes, dimensions=tuple(order))


def _empty_batch(
    vals: Sequence[Value], dims: Sequence[int | None], **params: ParamValue
) -> OutAndDim:
    avals = [
        ShapedArray(
            get_aval(v).shape if d is None else removed(get_aval(v).shape, (d,)), get_aval(v).dtype
        )
        for v, d in zip(vals, dims, strict=True)
    ]
    out = conv_type(*avals, **params)
    return full(ShapedArray((0, *out.shape), out.dtype), 0), 0


# -- lowering --------------------------------------------------------------------------------------


def _conv_lower(ctx: Value, x: Value, y: Value, **params: Any) -> Value:
    out = ctx.out_aval
    if out.dtype.kind != "c":
        return _write_conv(ctx, x, y, out, **params)
    # XLA's complex convolutions are slow; three real ones compute the same (Gauss's product)
    part = out.dtype.real
    real = ShapedArray(out.shape, part)

    def both(op: str, a: Value, b: Value) -> Value:
        return ctx.op(op, a, b, out=a.aval)

    (xr, xi), (yr, yi) = (
        [ctx.op(p, v, out=ShapedArray(v.aval.shape, v.aval.dtype.real)) for p in ("real", "imag")]
        for v in (x, y)
    )
    first = _write_conv(ctx, both("add", xr, xi), yr, real, **params)
    second = _write_conv(ctx, xr, both("subtract", yi, yr), real, **params)
    third = _write_conv(ctx, xi, both("add", yr, yi), real, **params)
    return ctx.op("complex", both("subtract", first, third), both("add", first, second), out=out)


def _dimension_text(spec: Ints, names: str) -> str:
    letters = [""] * len(spec)
    for i, axis in enumerate(spec):
        letters[axis] = names[i] if i < 2 else str(i - 2)
    return f"[{', '.join(letters)}]"


def _write_conv(
    ctx: Value,
    x: Value,
    y: Value,
    out: Value,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    **_: Any,
) -> Value:
    specs = specs_of(dimension_numbers)
    axes = [_dimension_text(s, n) for s, n in zip(specs, ("bf", "oi", "bf"), strict=True)]
    window = {
        "stride": int_list(window_strides),
        "pad": int_list([int_list(p) for p in padding]),  # type: ignore[arg-type]
        "lhs_dilate": int_list(lhs_dilation),
        "rhs_dilate": int_list(rhs_dilation),
    }
    window_text = ", ".join(f"{k} = {v}" for k, v in window.items()) if window_strides else ""
    given = precision if isinstance(precision, tuple | list) else (precision, precision)
    levels = ", ".join(f"#stablehlo<precision {precision_level(p)}>" for p in given)
    text = (
        f"stablehlo.convolution({x.name}, {y.name}) dim_numbers = {axes[0]}x{axes[1]}->{axes[2]}, "
        f"window = {{{window_text}}} {{batch_group_count = {batch_group_count} : i64, "
        f"feature_group_count = {feature_group_count} : i64, precision_config = [{levels}]}} : "
        f"({mlir_type(x.aval)}, {mlir_type(y.aval)}) -> {mlir_type(out)}"
    )
    return ctx.write(text, out)


def _conv_cost(in_avals: Aval, out_avals: Aval, **params: Any) -> Cost:
    """The cost rule: two operations for each pair of elements of kernel and operand that are
    multiplied.
    """
    x, y = in_avals
    lhs, rhs, _ = specs = specs_of(params["dimension_numbers"])
    sizes, kernel, outs = (
        [a.shape[i] for i in s[2:]] for a, s in zip((x, y, out_avals[0]), specs, strict=True)
    )
    fields = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    windows = zip(sizes, kernel, outs, *[params[f] for f in fields], strict=True)
    batch = x.shape[lhs[0]] // params["batch_group_count"]
    pairs = batch * y.shape[rhs[0]] * y.shape[rhs[1]] * math.prod([_meetings(*w) for w in windows])
    products = 3 if out_avals[0].dtype.kind == "c" else 1
    written = lowered_cost(lax.conv_general_dilated.primitive, in_avals, out_avals, params)
    return written + Cost(2 * pairs * products)


def _meetings(
    n: int, k: int, outs: int, stride: int, padding: Any, dilation: int, kernel_dilation: int
) -> int:
    """Count, along one axis, the pairs (window, element of the kernel) that hit an element of the
    operand.

    Element j of the kernel is at `o * stride - low + j * kernel_dilation` in window o; elements of
    the operand are at multiples of `dilation`. Windows and elements of the kernel enter this
    formula in the same way, so the loop is over the fewer of them.

    Raises:
      UnsupportedError: both are more than a million.
    """
    few, many = sorted([(outs, stride), (k, kernel_dilation)])
    if few[0] > _MOST_STEPS:
        message = (
            f"a convolution of {k:,} by {n:,} elements along an axis is too large to be counted"
        )
        fail(UnsupportedError, message, "too-large")
    (size, step), (other, stride) = few, many
    common = math.gcd(stride, dilation)
    period = dilation // common
    inverse = pow(stride // common, -1, period) if period > 1 else 0
    count = 0
    for i in range(size):
        start = i * step - padding[0]
        if start % common:
            continue
        first = max(-(start // stride), 0)
        on = first + (-(start // common) * inverse - first) % period
        last = min(((n - 1) * dilation - start) // stride, other - 1)
        count += max((last - on) // period + 1, 0)
    return count


_MOST_STEPS = 1 << 20


def _determined(in_avals: Any, params: Any) -> Any:
    """The determined rule: with padding or dilation, operands determine the results if they are
    finite.

    A backend may multiply the zeros that are inserted by NaN or infinity, or leave them out.
    """
    del in_avals
    holes = any(n > 1 for n in params["lhs_dilation"] or ())
    return "finite" if holes or any(map(any, params["padding"])) else True


define(
    lax.conv_general_dilated,
    abstract_eval=conv_type,
    impl=static_impl(conv_impl),
    jvp=bilinear,
    transpose=_conv_transpose,
    batch=_conv_batch,
    lower=_conv_lower,
    cost=_conv_cost,
    masks="both",
    determined=_determined,
)

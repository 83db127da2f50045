"""Rows of cumulative reductions along an axis."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import linear
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR, transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import FLOAT32, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import (
    check_axes,
    full,
    lexicographic,
    lowest,
    static_impl,
)
from jaxprtool.makers.complex_values import exp, log1p
from jaxprtool.makers.elementwise import byte_type
from jaxprtool.makers.extrema import ufunc_of
from jaxprtool.rules.binary import extremum_jvp
from jaxprtool.rules.define import define


def _cumulative_type(name: str) -> Callable[..., Aval]:
    def rule(x: Aval, *, axis: int, reverse: bool) -> Aval:
        if x.dtype.kind not in "iufc":
            ill_typed(f"{name} is for numbers, and its operand is {x}", "operand-types")
        check_axes(name, "axis", (axis,), x.ndim, x)
        return x.strong

    return rule


def _cumulative_impl(ufunc: str) -> Callable[..., Value]:
    """Return the impl rule that accumulates by a ufunc.

    Floats of 16 bits or fewer are accumulated in f32, and rounded once.
    """

    def make(xp: Namespace, x: Value, *, axis: int, reverse: bool) -> Value:
        accumulate, dtype = ufunc_of(xp, ufunc, x.dtype).accumulate, xp.dtype_of_aval(x.dtype)
        narrow = x.dtype.kind == "f" and x.dtype.bits < 32
        wide = xp.float32 if narrow else byte_type(xp, x.dtype)
        inner = wide or dtype
        from_zero = ufunc == "add" and x.dtype.kind in "fc" and x.shape[axis] > 1  # never -0

        def run(v: Value) -> Value:
            v = xp.flip(v, axis) if reverse else v
            out = accumulate(v.astype(inner) if wide else v, axis=axis, dtype=inner)
            if from_zero:
                out += 0
            out = xp.flip(out, axis) if reverse else out
            return out.astype(dtype) if wide else out

        return run

    return static_impl(make)


def _cumulative_batch(op: Any) -> Callable[..., Value]:
    def rule(size: int, vals: Value, dims: Any, *, axis: int, reverse: bool) -> OutAndDim:
        return op(vals[0], axis=axis + (axis >= dims[0]), reverse=reverse), dims[0]

    return rule


def _cumulative_lower(name: Any, unit: Callable[[DType], Value]) -> Callable[..., HloValue]:
    """Return the lower rule: a reduce_window whose windows reach from the start of the axis to each
    element, which XLA compiles to a scan.
    """

    def lower(ctx: LoweringContext, x: HloValue, *, axis: int, reverse: bool) -> HloValue:
        rank, n = x.aval.ndim, x.aval.shape[axis]
        if n == 0:
            return x
        window, padding = [1] * rank, [(0, 0)] * rank
        window[axis] = n
        padding[axis] = (0, n - 1) if reverse else (n - 1, 0)
        by_name = type(name) is str and x.aval.dtype.kind == "c"
        body = lexicographic(ctx, name) if by_name else name
        return ctx.reduce_window(body, x, unit(x.aval.dtype), window, padding=padding, out=x.aval)

    return lower


def _cumprod_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, axis: int, reverse: bool
) -> PrimalAndTangent:
    """The jvp rule, by doubling: p and d are the product and its tangent over windows of 1, 2, 4,
    ... elements that end at each position.

    Two adjacent windows are joined by d = d * p_before + d_before * p. There is no division, so
    zeros give the right tangents; at the start of the axis p_before is 1 and nothing is added, so
    infinities do.
    """
    (p,), (d,) = primals, tangents
    aval = get_aval(p)
    n, step = aval.shape[axis], 1
    if n < 2:
        return p, d
    out = lax.cumprod(p, axis=axis, reverse=reverse)
    zero, one = (full(ShapedArray((), aval.dtype), v) for v in (0, 1))
    starts, limits = [0] * aval.ndim, list(aval.shape)

    def piece(v: Value, start: int) -> Value:
        starts[axis], limits[axis] = start, start + n - step
        return lax.slice(v, start_indices=tuple(starts), limit_indices=tuple(limits))

    while step < n:
        ahead, behind = (0, step) if reverse else (step, 0)
        p_before = _shifted(p, one, axis, step, reverse, crop=True)
        product = lax.mul(piece(d, behind), piece(p, ahead))
        product = _shifted(product, zero, axis, step, reverse, crop=False)
        d = lax.add_any(lax.mul(d, p_before), product)
        if 2 * step < n:
            p = lax.mul(p, p_before)
        step *= 2
    return out, d


def _shifted(v: Value, fill: Value, axis: int, step: int, reverse: bool, *, crop: bool) -> Value:
    """Return v shifted by `step` positions along an axis; with `crop` the result has the size of
    v.
    """
    config = [(0, 0, 0)] * get_aval(v).ndim
    cut = -step if crop else 0
    config[axis] = (cut, step, 0) if reverse else (step, cut, 0)
    return lax.pad(v, fill, padding_config=tuple(config))


def _extremum_scan_jvp(op: Any, combine: Any) -> Callable[..., Value]:
    """Return the jvp rule of `cummax` or `cummin`: the derivative of the scan by pairs that JAX
    uses.

    That scan combines neighbouring elements, scans the results, which are half as many and give the
    odd positions, and combines each of them with the element after it for the even positions. Each
    combination halves the tangents of equal elements. NaN results have the tangent 0, except the
    first one, which is the element itself.

    Args:
      op: the cumulative operation.
      combine: the operation of two operands.
    """
    joined = extremum_jvp(combine)

    def rule(
        primals: Sequence[Value], tangents: Sequence[Value], *, axis: int, reverse: bool
    ) -> PrimalAndTangent:
        (x,), (d,) = primals, tangents
        if get_aval(x).shape[axis] < 2:
            return x, d
        out = op(x, axis=axis, reverse=reverse)
        if not reverse:
            return out, scan(x, out, d, axis)
        dims = (axis,)
        x, y, d = (lax.rev(v, dimensions=dims) for v in (x, out, d))
        return out, lax.rev(scan(x, y, d, axis), dimensions=dims)

    def scan(x: Value, y: Value, d: Any, axis: int) -> Value:
        """Return the tangent of y, the running maxima or minima of x, for the tangent d of x."""
        n = get_aval(x).shape[axis]
        if n < 2:
            return d
        pairs = [[_strided(v, axis, start, n - 1 + start, 2) for start in (0, 1)] for v in (x, d)]
        reduced, d_reduced = joined(*pairs)
        y_odd = _strided(y, axis, 1, n, 2)
        d_odd = scan(reduced, y_odd, d_reduced, axis)
        d_even = _strided(d, axis, 0, 1)
        if n > 2:
            before = [_strided(v, axis, 0, (n - 1) // 2) for v in (y_odd, d_odd)]
            here = [_strided(v, axis, 2, n, 2) for v in (x, d)]
            _, rest = joined(*zip(before, here, strict=True))
            d_even = lax.concatenate(d_even, rest, dimension=axis)
        return _interleaved(d_even, d_odd, axis)

    return rule


def _strided(v: Value, axis: int, start: int, limit: int, stride: int = 1) -> Value:
    """Return v[start:limit:stride] along an axis; v itself if that is all of it."""
    shape = get_aval(v).shape
    if (start, limit, stride) == (0, shape[axis], 1):
        return v
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return lax.slice(
        v, start_indices=tuple(starts), limit_indices=tuple(limits), strides=tuple(strides)
    )


def _interleaved(even: Value, odd: Value, axis: int) -> Value:
    """Return even[0], odd[0], even[1], odd[1], ... along an axis; `even` may have one element
    more.
    """
    aval = get_aval(even)
    zero = full(ShapedArray((), aval.dtype), 0)
    spare = aval.shape[axis] - get_aval(odd).shape[axis]

    def spread(v: Value, low: int, high: int) -> Value:
        config = [(0, 0, 0)] * aval.ndim
        config[axis] = (low, high, 1)
        return lax.pad(v, zero, padding_config=tuple(config))

    return lax.add_any(spread(even, 0, 1 - spare), spread(odd, 1, spare))


def _forwards(op: Value) -> Value:
    """Return the earlier rule of a cumulative operation: from the end as of the reversed array."""

    def rule(x: Aval, *, axis: int, reverse: bool) -> Value:
        if not reverse:
            return None
        return lambda v: lax.rev(op(lax.rev(v, dimensions=(axis,)), axis=axis), dimensions=(axis,))

    return rule


def _cummin_by_maximum(x: Aval, *, axis: int, reverse: bool) -> Value:
    """The earlier rule: the largest of the numbers in the opposite order."""
    opposite = lax.not_ if x.dtype.is_integer or x.dtype.kind == "b" else lax.neg
    return lambda v: opposite(lax.cummax(opposite(v), axis=axis, reverse=reverse))


define(
    lax.cumsum,
    abstract_eval=_cumulative_type("cumsum"),
    impl=_cumulative_impl("add"),
    jvp=linear,
    transpose=transpose_unary(
        lambda ct, x, *, axis, reverse: lax.cumsum(ct, axis=axis, reverse=not reverse)
    ),
    batch=_cumulative_batch(lax.cumsum),
    lower=_cumulative_lower("add", lambda _: 0),
    cost=AS_LOWERED,
    earlier=_forwards(lax.cumsum),
)

define(
    lax.cumprod,
    abstract_eval=_cumulative_type("cumprod"),
    impl=_cumulative_impl("multiply"),
    jvp=_cumprod_jvp,
    transpose=NONLINEAR,
    batch=_cumulative_batch(lax.cumprod),
    lower=_cumulative_lower("multiply", lambda _: 1),
    cost=AS_LOWERED,
    earlier=_forwards(lax.cumprod),
)

for _op, _combine, _name, _sign in (
    (lax.cummax, lax.max, "maximum", -1),
    (lax.cummin, lax.min, "minimum", 1),
):
    define(
        _op,
        abstract_eval=_cumulative_type(_op.primitive.name),
        impl=_cumulative_impl(_name),
        jvp=_extremum_scan_jvp(_op, _combine),
        transpose=NONLINEAR,
        batch=_cumulative_batch(_op),
        lower=_cumulative_lower(_name, functools.partial(lowest, sign=_sign)),
        cost=AS_LOWERED,
        masks="inf",
        earlier=_forwards(_op) if _op is lax.cummax else _cummin_by_maximum,
    )


# -- log of a sum of exponentials --------------------------------------------------------------------


def _cumlogsumexp_type(x: Aval, *, axis: int, reverse: bool) -> Aval:
    if x.dtype.kind not in "fc":
        ill_typed(f"cumlogsumexp is for floats, and its operand is {x}", "operand-types")
    check_axes("cumlogsumexp", "axis", (axis,), x.ndim, x)
    return x.strong


def _cumlogsumexp_impl(xp: Namespace, x: Value, *, axis: int, reverse: bool) -> Value:
    """Return the function that evaluates `cumlogsumexp`; floats of 16 bits or fewer go through
    f32.
    """
    dtype = xp.dtype_of_aval(x.dtype)
    inner = xp.float32 if x.dtype.kind == "f" and x.dtype.bits < 32 else dtype
    accumulate = _complex_accumulate if x.dtype.kind == "c" else _real_accumulate

    def run(v: Value) -> Value:
        v = (xp.flip(v, axis) if reverse else v).astype(inner, copy=False)
        out = accumulate(xp, v, axis)
        return (xp.flip(out, axis) if reverse else out).astype(dtype, copy=False)

    return run


def _real_accumulate(xp: Namespace, v: Value, axis: int) -> Value:
    return xp.logaddexp.accumulate(v, axis=axis, dtype=v.dtype)


def _complex_accumulate(xp: Namespace, v: Value, axis: int) -> Value:
    """Accumulate complex numbers one after the other; imaginary parts are brought to [-pi, pi)."""
    v, out = xp.moveaxis(v, axis, 0), xp.empty_like(v)
    rows, pi = xp.moveaxis(out, axis, 0), v.real.dtype.type(xp.pi)
    last = xp.full(v.shape[1:], -xp.inf, v.dtype)
    for i in range(len(v)):
        largest = xp.maximum(last, v[i])
        total = largest + log1p(xp, exp(xp, last + v[i] - (largest + largest)))
        wrapped = xp.remainder(total.imag + pi, pi + pi) - pi
        last = total.real + 1j * wrapped
        rows[i] = last
    return out


def _cumlogsumexp_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, axis: int, reverse: bool
) -> PrimalAndTangent:
    """The jvp rule: d[i] = a[i] d[i-1] + b[i] t[i] with a[i] = exp(out[i-1] - out[i]) and
    b[i] = exp(x[i] - out[i]), computed by doubling.

    Infinite values are replaced by the largest finite ones, so that their differences are not NaN.
    """
    (x,), (t,) = primals, tangents
    aval = get_aval(x)
    n, step = aval.shape[axis], 1
    if n < 2:
        return x, t
    out = lax.cumlogsumexp(x, axis=axis, reverse=reverse)
    high, real = out, aval.dtype.real
    level = _LARGE.get(real.name) or min(lowest(real, 1), 3e38)
    if aval.dtype.kind == "f":
        x, high = lax.clamp(-level, x, level), lax.clamp(-level, out, level)
    least, zero = (full(ShapedArray((), aval.dtype), v) for v in (-level, 0))
    d = lax.mul(t, lax.exp(lax.sub(x, high)))
    a = lax.exp(lax.sub(_shifted(high, least, axis, 1, reverse, crop=True), high))
    while step < n:
        before = _shifted(d, zero, axis, step, reverse, crop=True)
        d = lax.add_any(d, lax.mul(before, a))
        if 2 * step < n:
            a = lax.mul(a, _shifted(a, zero, axis, step, reverse, crop=True))
        step *= 2
    return out, d


# A number close to the largest finite one, for float types with infinities other than f32 and bf16
# (3e38).
_LARGE = {
    "float16": 6e4,
    "float64": 1e308,
    "float8_e3m4": 15.0,
    "float8_e4m3": 240.0,
    "float8_e5m2": 5e4,
}


def _cumlogsumexp_lower(ctx: Any, x: HloValue, *, axis: int, reverse: bool) -> Value:
    """Write the scan; floats of 8 bits or fewer, some of which have no infinity, are computed in
    f32.
    """
    dtype = x.aval.dtype
    inner = FLOAT32 if dtype.bits <= 8 else dtype
    scalar = ShapedArray((), inner)
    body = _complex_logaddexp if dtype.kind == "c" else _real_logaddexp
    rule = _cumulative_lower(lambda a, b: body(ctx, scalar, a, b), lambda d: lowest(d, -1))
    return ctx.convert(rule(ctx, ctx.convert(x, inner), axis=axis, reverse=reverse), dtype)


def _real_logaddexp(ctx: LoweringContext, scalar: Aval, a: HloValue, b: HloValue) -> HloValue:
    """Write max(a, b) + log1p(exp(-|a - b|)); a + b where a - b is NaN, as for equal infinities."""

    def op(name: str, *xs: Value) -> Value:
        return ctx.op(name, *xs, out=scalar)

    delta = op("subtract", a, b)
    small = op("log_plus_one", op("exponential", op("negate", op("abs", delta))))
    return ctx.select(
        ctx.compare("NE", delta, delta),
        op("add", a, b),
        op("add", op("maximum", a, b), small),
    )


def _complex_logaddexp(ctx: Value, scalar: Value, a: Value, b: Value) -> Value:
    real = ShapedArray((), scalar.dtype.real)

    def op(name: str, *xs: Value, out: ParamValue = scalar) -> Value:
        return ctx.op(name, *xs, out=out)

    largest = lexicographic(ctx, "maximum")(a, b)
    delta = op("subtract", op("add", a, b), op("add", largest, largest))
    total = op("add", largest, op("log_plus_one", op("exponential", delta)))
    pi, turn, zero = (ctx.constant(v, real) for v in (math.pi, 2 * math.pi, 0.0))
    angle = op("remainder", op("add", op("imag", total, out=real), pi, out=real), turn, out=real)
    raised = op("add", angle, turn, out=real)
    angle = ctx.select(ctx.compare("LT", angle, zero), raised, angle)
    angle = op("subtract", angle, pi, out=real)
    return op("complex", op("real", total, out=real), angle)


define(
    lax.cumlogsumexp,
    abstract_eval=_cumlogsumexp_type,
    impl=static_impl(_cumlogsumexp_impl),
    jvp=_cumlogsumexp_jvp,
    transpose=NONLINEAR,
    batch=_cumulative_batch(lax.cumlogsumexp),
    lower=_cumlogsumexp_lower,
    cost=AS_LOWERED,
    masks="inf",
)

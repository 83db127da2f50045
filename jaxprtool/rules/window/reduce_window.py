"""Rows of reductions of windows: sum, maximum, minimum, and reduction by a jaxpr."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize_all
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.monoids import Monoid, monoid_of
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import fill_zeros, instantiate, linear
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR, transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue, Word
from jaxprtool.makers.axes import full, lexicographic, lowest, static_impl, with_shape
from jaxprtool.makers.elementwise import byte_type
from jaxprtool.makers.extrema import ufunc_of
from jaxprtool.makers.reducers import (
    check_initials,
    check_reducer,
    no_initial_tangents,
    reducer_jvp,
    vectorized,
    with_consts,
)
from jaxprtool.makers.windows import Windows, dilated, padder
from jaxprtool.rules.define import define

# From this size on, a window is composed of windows of 1, 2, 4, ... elements.
_DOUBLING = 8


def windows_of(
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    base_dilation: Any = None,
    window_dilation: Any = None,
) -> Windows:
    """Return the windows that the params of an operation describe."""
    ones = (1,) * len(window_dimensions)
    return Windows(
        tuple(window_dimensions),
        tuple(window_strides),
        tuple(tuple(p) for p in padding),
        ones if base_dilation is None else tuple(base_dilation),
        ones if window_dilation is None else tuple(window_dilation),
    )


def params_of(w: Windows) -> dict[str, Any]:
    """Return the params that describe windows."""
    return {
        "window_dimensions": w.dimensions,
        "window_strides": w.strides,
        "padding": w.padding,
        "base_dilation": w.base_dilation,
        "window_dilation": w.window_dilation,
    }


# -- evaluation ------------------------------------------------------------------------------------


def window_ufunc(xp: Namespace, x: Value, windows: Windows, monoid: Monoid) -> Callable[..., Value]:
    """Return a function that reduces the windows of an array of type `x` by a NumPy function.

    It reduces one axis after the other. Floats of 16 bits or fewer are computed in f32 and rounded
    once.
    """
    ufunc, dtype = ufunc_of(xp, monoid.ufunc, x.dtype), xp.dtype_of_aval(x.dtype)
    narrow = x.dtype.kind == "f" and x.dtype.bits < 32
    wide = xp.dtype_of_aval(FLOAT32) if narrow else byte_type(xp, x.dtype)
    inner = wide or dtype
    pad = padder(xp, x.shape, inner, windows.pad_config)
    unit = xp.asarray(monoid.unit, inner)[()]
    out_shape = windows.out_shape(x.shape)
    axes = list(
        zip(
            range(x.ndim),
            windows.dimensions,
            windows.strides,
            windows.window_dilation,
            out_shape,
            strict=True,
        )
    )
    axes = [a for a in axes if (a[1], a[2]) != (1, 1)]
    axes.sort(key=lambda a: -a[2])  # large strides first: they leave less to do

    def run(v: Value) -> Value:
        v = pad(v.astype(inner) if wide else v, unit)
        if math.prod(out_shape) == 0:
            return xp.zeros(out_shape, dtype)
        for axis in axes:
            v = _reduce_axis(ufunc, v, *axis)
        return v.astype(dtype) if wide else v

    return run


def _reduce_axis(
    ufunc: Any, v: Value, axis: int, size: int, stride: int, dilation: int, count: int
) -> Value:
    """Reduce the windows along one axis: element by element, or by doubling for large windows."""
    before = (slice(None),) * axis

    def at(x: Value, start: int, stop: int | None, step: int) -> Value:
        return x[(*before, slice(start, stop, step))]

    length = (count - 1) * stride + 1
    if size < _DOUBLING * max(stride, 1):
        out = at(v, 0, length, stride)
        for k in range(1, size):
            out = ufunc(out, at(v, k * dilation, k * dilation + length, stride))
        return out
    out, start, span, part = None, 0, 1, v  # part holds windows of `span` elements
    while True:
        if size & span:
            piece = at(part, start * dilation, start * dilation + length, 1)
            out = piece if out is None else ufunc(out, piece)
            start += span
        if 2 * span > size:
            return at(out, 0, length, stride)
        step = span * dilation
        part = ufunc(at(part, 0, -step, 1), at(part, step, None, 1))
        span *= 2


# -- sum, largest, smallest ------------------------------------------------------------------------


def _window_type(name: str, kinds: str) -> Callable[..., Any]:
    def rule(x: Aval, **params: Any) -> Aval:
        if x.dtype.kind not in kinds:
            ill_typed(f"{name} is for numbers, and its operand is {x}", "operand-types")
        return with_shape(x, windows_of(**params).check(name, x))

    return rule


def _window_impl(ufunc: str, unit: Callable[[Any], Any]) -> Callable[..., Any]:
    def make(xp: Namespace, x: Value, **params: Any) -> Value:
        windows = windows_of(**params)
        run = window_ufunc(xp, x, windows, Monoid(ufunc, unit(x.dtype)))
        if ufunc != "add" or x.dtype.kind not in "fc" or math.prod(windows.dimensions) == 1:
            return run
        return lambda v: run(v) + 0  # a sum that begins with +0 is never -0

    return static_impl(make)


def _window_batch(op: Any) -> Callable[..., Any]:
    def rule(size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
        return op(vals[0], **params_of(windows_of(**params).batched(dims[0]))), dims[0]

    return rule


def _window_lower(name: str, unit: Callable[[Any], Any]) -> Callable[..., Any]:
    def lower(ctx: Value, x: Value, **params: Any) -> Value:
        body = lexicographic(ctx, name) if x.aval.dtype.kind == "c" else name
        return ctx.reduce_window(body, x, unit(x.aval.dtype), *windows_of(**params))

    return lower


def _sum_transpose(ct: Value, x: Value, **params: Any) -> Value:
    """The transpose rule: the cotangent of an element is the sum of those of the windows that
    contain it.

    It is a reduce_window_sum of ct, with the strides as base dilation.
    """
    w, ct_shape = windows_of(**params), get_aval(ct).shape
    config = []
    for n, size, m, stride, (low, _), base, inner in zip(
        x.shape,
        w.dimensions,
        ct_shape,
        w.strides,
        w.padding,
        w.base_dilation,
        w.window_dilation,
        strict=True,
    ):
        reach = dilated(size, inner) - 1
        before = reach - low
        after = dilated(n, base) + reach - dilated(m, stride) - before
        config.append((before, after, stride - 1))
    if any(any(c) for c in config):
        ct = lax.pad(ct, full(ShapedArray((), x.dtype), 0), padding_config=tuple(config))
    ones, none = (1,) * x.ndim, ((0, 0),) * x.ndim
    spread = Windows(w.dimensions, w.base_dilation, none, ones, w.window_dilation)
    return lax.reduce_window_sum(ct, **params_of(spread))


define(
    lax.reduce_window_sum,
    abstract_eval=_window_type("reduce_window_sum", "iufc"),
    impl=_window_impl("add", lambda _: 0),
    jvp=linear,
    transpose=transpose_unary(_sum_transpose),
    batch=_window_batch(lax.reduce_window_sum),
    lower=_window_lower("add", lambda _: 0),
    cost=AS_LOWERED,
    masks="both",
)


def _chooser_jvp(op: Any, select_prim: str) -> Callable[..., Value]:
    """Return the jvp rule: the tangent of a result is that of the window's first extreme
    element.
    """

    def rule(
        primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
    ) -> PrimalAndTangent:
        (x,), (t,) = primals, tangents
        select = Word(select_prim)
        return op(x, **params), lax.select_and_gather_add(t, x, select_prim=select, **params)

    return rule


for _op, _ufunc, _select, _sign in (
    (lax.reduce_window_max, "maximum", "ge", -1),
    (lax.reduce_window_min, "minimum", "le", 1),
):
    _unit = functools.partial(lowest, sign=_sign)
    define(
        _op,
        abstract_eval=_window_type(_op.primitive.name, "biufc"),
        impl=_window_impl(_ufunc, _unit),
        jvp=_chooser_jvp(_op, _select),
        transpose=NONLINEAR,
        batch=_window_batch(_op),
        lower=_window_lower(_ufunc, _unit),
        cost=AS_LOWERED,
        masks="both",
    )


# -- by a jaxpr ------------------------------------------------------------------------------------


def _general_type(*avals: Aval, jaxpr: Any, consts: Any, **params: Any) -> list[Any]:
    operands, initials = check_initials("reduce_window", avals)
    check_reducer("reduce_window", "jaxpr", jaxpr, [*initials, *initials], initials, consts)
    shape = windows_of(**params).check("reduce_window", operands[0])
    return [with_shape(x, shape) for x in operands]


def _general_impl(xp: Namespace, *avals: Aval, jaxpr: Any, consts: Any, **params: Any) -> Value:
    windows, closed = windows_of(**params), with_consts(jaxpr, consts)
    xs, monoid = avals[: len(avals) // 2], monoid_of(closed)
    if not xs[0].ndim:
        return lambda *values: list(values[: len(xs)])  # XLA returns scalars unchanged
    if monoid is not None:
        reduce = window_ufunc(xp, xs[0], windows, monoid)
        ufunc = ufunc_of(xp, monoid.ufunc, xs[0].dtype)
        dtype = xp.dtype_of_aval(xs[0].dtype)
        return lambda x, init: [xp.asarray(ufunc(init, reduce(x)), dtype)]
    return window_fold(xp, closed, xs, windows)


def window_fold(
    xp: Namespace, closed: Any, xs: Value, windows: Windows
) -> Callable[..., list[Any]]:
    """Return a function of (arrays, initial values) that folds a reducer over each window's
    elements, in their order.
    """
    n, out_shape = len(xs), windows.out_shape(xs[0].shape)
    pads = [padder(xp, x.shape, xp.dtype_of_aval(x.dtype), windows.pad_config) for x in xs]
    inside = padder(xp, xs[0].shape, bool, windows.pad_config)(xp.ones(xs[0].shape, bool), False)
    places = []  # (offset in the window, mask of the windows with an element there; None: all have one)
    for at in windows.offsets(out_shape):
        if inside[at].any():
            places.append((at, None if inside[at].all() else inside[at]))

    step = vectorized(xp, closed, out_shape, counts=all(there is None for _, there in places))

    def run(*values: Value) -> list[Value]:
        arrays = [pad(v, i) for pad, v, i in zip(pads, values[:n], values[n:], strict=True)]
        acc = [xp.full(out_shape, i, a.dtype) for a, i in zip(arrays, values[n:], strict=True)]
        for at, there in places:
            new = step(*acc, *[a[at] for a in arrays])
            if there is None:
                acc = new
            else:
                acc = [xp.where(there, y, x) for x, y in zip(acc, new, strict=True)]
        return acc

    return run


def _general_jvp(
    primals: Value, tangents: Value, *, jaxpr: Any, consts: Any, **params: Any
) -> PrimalAndTangent:
    """The jvp rule: reduce values and tangents together, by the derivative of the jaxpr."""
    n = len(primals) // 2
    no_initial_tangents("reduce_window", tangents[n:])
    derivative, inexact = reducer_jvp(with_consts(jaxpr, consts))
    live = [instantiate(t) for t, f in zip(tangents[:n], inexact, strict=True) if f]
    zeros = [full(ShapedArray((), get_aval(t).dtype), 0) for t in live]
    outs = lax.reduce_window(
        *primals[:n], *live, *primals[n:], *zeros, jaxpr=derivative, consts=(), **params
    )
    return outs[:n], fill_zeros(inexact, outs[n:], map(get_aval, outs[:n]))


def _general_batch(
    size: int, vals: Value, dims: Any, *, jaxpr: Any, consts: Any, **params: Any
) -> OutAndDim:
    n = len(vals) // 2
    if any(d is not None for d in dims[n:]):
        fail(
            UnsupportedError,
            "reduce_window has no batch rule for initial values that are batched",
            "no-batch-rule",
        )
    xs, target = materialize_all(vals[:n], dims[:n], size)
    wider = params_of(windows_of(**params).batched(target))
    outs = lax.reduce_window(*xs, *vals[n:], jaxpr=jaxpr, consts=consts, **wider)
    return outs, [target] * n


def _general_lower(
    ctx: Value, *operands: Value, jaxpr: Any, consts: Any, **params: Any
) -> list[Any]:
    n, closed = len(operands) // 2, with_consts(jaxpr, consts)
    return ctx.reduce_window(
        lambda *scalars: ctx.inline(closed, scalars),
        list(operands[:n]),
        list(operands[n:]),
        *windows_of(**params),
        out=ctx.out_avals,
    )


define(
    lax.reduce_window,
    abstract_eval=_general_type,
    impl=static_impl(_general_impl),
    jvp=_general_jvp,
    transpose=NONLINEAR,
    batch=_general_batch,
    lower=_general_lower,
    cost=AS_LOWERED,
    masks="both",
)

"""Rows of the primitives of derivatives of windows' maxima and minima.

They move values from or to the positions of the windows' extreme elements.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import SELECTION
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize_all
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR, is_linear, not_linear
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import BOOL
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import compare_by_parts, full, lowest, static_impl, with_shape
from jaxprtool.makers.reducers import check_reducer, vectorized, with_consts
from jaxprtool.makers.windows import Windows, padder
from jaxprtool.rules.define import define
from jaxprtool.rules.window.reduce_window import params_of, windows_of
from jaxprtool.stablehlo.builder import int_pairs

_DIRECTIONS = {"ge": ("GE", -1), "le": ("LE", 1)}


def _direction(name: str, select_prim: Any) -> tuple[str, int]:
    """Return the comparison for which the selected element is kept, and the sign of the infinity
    that any element replaces.
    """
    return _DIRECTIONS[SELECTION.required(name, "select_prim", select_prim)]


def _unit(aval: Aval, select_prim: Any) -> Value:
    return lowest(aval.dtype, _DIRECTIONS[str(SELECTION.member(select_prim))][1])


def _better(xp: Namespace, select_prim: Any) -> Callable[[Value, Value], Value]:
    return xp.greater_equal if SELECTION.member(select_prim) == "ge" else xp.less_equal


def _same_dtype(name: str, x: Value, y: Value) -> None:
    if x.dtype is not y.dtype:
        ill_typed(f"{name} needs operands of one element type, got {x} and {y}", "operand-types")


def _linear_first(op: Any) -> Callable[..., Value]:
    """Return the jvp rule of an operation that is linear in its first operand and locally constant in the second."""

    def rule(
        primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
    ) -> PrimalAndTangent:
        out = op(*primals, **params)
        t = tangents[0]
        if type(t) is Zero:
            return out, Zero(get_aval(out))
        return out, op(t, primals[1], **params)

    return rule


# -- gather ----------------------------------------------------------------------------------------


def _gather_type(t: Aval, x: Aval, *, select_prim: Any, **params: Any) -> Aval:
    name = "select_and_gather_add"
    _direction(name, select_prim)
    _same_dtype(name, t, x)
    if t.shape != x.shape:
        ill_typed(f"{name} needs operands of one shape, got {t} and {x}", "operand-shapes")
    if x.dtype.kind != "f":
        ill_typed(f"{name} is for floating types, and its operand is {x}", "operand-types")
    return with_shape(x, windows_of(**params).check(name, x))


def _gather_impl(xp: Namespace, t: Value, x: Value, *, select_prim: Any, **params: Any) -> Value:
    windows, dtype = windows_of(**params), xp.dtype_of_aval(x.dtype)
    out_shape, better = windows.out_shape(x.shape), _better(xp, select_prim)
    pad = padder(xp, x.shape, dtype, windows.pad_config)
    unit = xp.asarray(_unit(x, select_prim), dtype)[()]
    zero = xp.zeros((), dtype)[()]

    def run(tangents: Value, operand: Value) -> Value:
        tangents, operand = pad(tangents, zero), pad(operand, unit)
        best, out = xp.full(out_shape, unit, dtype), xp.zeros(out_shape, dtype)
        if not out.size:
            return out
        for at in windows.offsets(out_shape):
            stays = better(best, operand[at])
            best = xp.where(stays, best, operand[at])
            out = xp.where(stays, out, tangents[at])
        return out

    return run


def _gather_transpose(
    ct: Value,
    t: Value,
    x: Value,
    *,
    select_prim: Any,
    window_dilation: Any,
    base_dilation: Any,
    **params: Any,
) -> list[Any]:
    if is_linear(x):
        not_linear("select_and_gather_add", "the operand that is selected from is among them")
    if any(d != 1 for d in window_dilation):
        fail(
            UnsupportedError,
            f"select_and_gather_add has no transpose rule for window_dilation {tuple(window_dilation)}",
            "no-transpose-rule",
        )
    holes = any(d != 1 for d in base_dilation)
    if holes:
        unit = full(ShapedArray((), get_aval(x).dtype), _unit(get_aval(x), select_prim))
        x = lax.pad(x, unit, padding_config=tuple((0, 0, d - 1) for d in base_dilation))
    out = lax.select_and_scatter_add(ct, x, select_prim=select_prim, **params)
    if holes:
        shape = get_aval(out).shape
        out = lax.slice(
            out,
            start_indices=(0,) * len(shape),
            limit_indices=shape,
            strides=tuple(base_dilation),
        )
    return [out, None]


def _gather_batch(
    size: int, vals: Value, dims: Any, *, select_prim: Any, **params: Any
) -> OutAndDim:
    (t, x), target = materialize_all(vals, dims, size)
    wider = params_of(windows_of(**params).batched(target))
    return lax.select_and_gather_add(t, x, select_prim=select_prim, **wider), target


def _gather_lower(ctx: Value, t: Value, x: Value, *, select_prim: Any, **params: Any) -> Value:
    """Write a reduce_window of pairs (key, value), of which the pair with the extreme key is
    kept.
    """
    direction, sign = _direction("select_and_gather_add", select_prim)

    def body(key: Value, value: Value, new_key: Value, new_value: Value) -> list[Value]:
        stays = ctx.compare(direction, key, new_key)
        return [ctx.select(stays, key, new_key), ctx.select(stays, value, new_value)]

    inits = [lowest(x.aval.dtype, sign), 0]
    out = ctx.out_aval
    return ctx.reduce_window(body, [x, t], inits, *windows_of(**params), out=[out, out])[1]


define(
    lax.select_and_gather_add,
    abstract_eval=_gather_type,
    impl=static_impl(_gather_impl),
    jvp=_linear_first(lax.select_and_gather_add),
    transpose=_gather_transpose,
    batch=_gather_batch,
    lower=_gather_lower,
    cost=AS_LOWERED,
    masks="both",
    steers="operand 1",
)


# -- scatter ---------------------------------------------------------------------------------------


def _scatter_windows(name: str, source: Value, x: Value, **params: Any) -> Windows:
    """Return the windows on the operand; raise a type error if their number differs from the
    source's shape.
    """
    windows = windows_of(**params)
    shape = windows.check(name, x)
    _same_dtype(name, source, x)
    if source.shape != shape:
        ill_typed(
            f"{name}: window_dimensions, window_strides and padding make windows in shape {list(shape)} "
            f"on {x}, and the source is {source}",
            "operand-shapes",
        )
    return windows


def _scatter_add_type(
    source: Aval, x: Aval, *, select_prim: ParamValue, **params: ParamValue
) -> Aval:
    name = "select_and_scatter_add"
    _direction(name, select_prim)
    _scatter_windows(name, source, x, **params)
    return x.strong


def _selected(
    xp: Namespace, stays: Callable[..., Value], x: Value, inside: Any, offsets: Value
) -> Value:
    """Return, for each window, the offset number of the selected element; -1 for windows of padding
    only.
    """
    where = best = None
    for k, at in enumerate(offsets):
        new, there = x[at], inside[at]
        if where is None:
            where, best = xp.full(new.shape, -1), new
        taken = there & ((where < 0) | ~stays(best, new))
        best, where = xp.where(taken, new, best), xp.where(taken, k, where)
    return where


def _scatter_impl(
    xp: Namespace,
    x: Value,
    windows: Windows,
    stays: Callable[..., Any],
    combine: Callable[..., Any],
    padding_loses: Any = None,
) -> Callable[..., Any]:
    """Return a function of (operand, source, initial value).

    At the same offset, different windows have different elements. So the windows that selected a
    certain offset are scattered at once, one offset after the other, without collisions.

    Args:
      padding_loses: the value of elements of the padding, which may be selected, too; None if they
        may not.
    """
    dtype, config = xp.dtype_of_aval(x.dtype), windows.pad_config
    out_shape = windows.out_shape(x.shape)
    pad = padder(xp, x.shape, dtype, config)
    fill = xp.asarray(0 if padding_loses is None else padding_loses, dtype)[()]
    inside = padder(xp, x.shape, bool, config)(xp.ones(x.shape, bool), padding_loses is not None)
    undo = [(-low, -high, 0) for low, high in windows.padding]
    padded = [n + low + high for n, (low, high) in zip(x.shape, windows.padding, strict=True)]
    unpad = padder(xp, padded, dtype, undo)

    def run(operand: Value, source: Value, init: Value) -> Value:
        operand = pad(operand, fill)
        out = xp.full(operand.shape, init, dtype)
        if source.size:
            where = _selected(xp, stays, operand, inside, windows.offsets(out_shape))
            for k, at in enumerate(windows.offsets(out_shape)):
                out[at] = xp.where(where == k, combine(out[at], source), out[at])
        return unpad(out, init)

    return run


def _scatter_add_impl(
    xp: Namespace, source: Value, x: Value, *, select_prim: Any, **params: Any
) -> Value:
    windows = windows_of(**params)
    combine = xp.logical_or if x.dtype is BOOL else xp.add
    run = _scatter_impl(xp, x, windows, _better(xp, select_prim), combine, _unit(x, select_prim))
    zero = xp.zeros((), xp.dtype_of_aval(x.dtype))[()]
    return lambda s, v: run(v, s, zero)


def _scatter_add_transpose(ct: Value, source: Value, x: Value, **params: ParamValue) -> list[Value]:
    if is_linear(x):
        not_linear("select_and_scatter_add", "the operand that is selected from is among them")
    ones = (1,) * get_aval(x).ndim
    out = lax.select_and_gather_add(ct, x, base_dilation=ones, window_dilation=ones, **params)
    return [out, None]


def _scatter_add_batch(
    size: int, vals: Value, dims: Any, *, select_prim: Any, **params: Any
) -> OutAndDim:
    (source, x), target = materialize_all(vals, dims, size)
    wider = params_of(windows_of(**params).batched(target))
    del wider["base_dilation"], wider["window_dilation"]
    return lax.select_and_scatter_add(source, x, select_prim=select_prim, **wider), target


def _scatter_op(
    ctx: LoweringContext,
    x: HloValue,
    source: HloValue,
    init: HloValue,
    select: Any,
    scatter: Any,
    windows: Windows,
) -> HloValue:
    scalar = ShapedArray((), x.aval.dtype)
    if not x.aval.ndim:  # XLA cannot compile the operation for scalars
        out = scatter(init, source)
        return out[0] if isinstance(out, list) else out
    return ctx.op(
        "select_and_scatter",
        x,
        source,
        init,
        out=x.aval,
        regions=[ctx.region([scalar, scalar], select), ctx.region([scalar, scalar], scatter)],
        window_dimensions=windows.dimensions,
        window_strides=windows.strides,
        padding=int_pairs(windows.padding),
    )


def _scatter_add_lower(
    ctx: Value, source: Value, x: Value, *, select_prim: Any, **params: Any
) -> Value:
    """Write a select_and_scatter of the padded operand, since XLA on CPUs has none with padding."""
    direction, _ = _direction("select_and_scatter_add", select_prim)
    aval, scalar = x.aval, ShapedArray((), x.aval.dtype)
    compare = ctx.compare
    if aval.dtype.kind == "c":  # which XLA cannot compare
        compare = functools.partial(compare_by_parts, ctx)
    windows = windows_of(**params)
    x = ctx.pad(x, ctx.constant(_unit(aval, select_prim), scalar), windows.pad_config)
    add, zero = "or" if aval.dtype is BOOL else "add", ctx.constant(0, scalar)
    out = _scatter_op(
        ctx,
        x,
        source,
        zero,
        functools.partial(compare, direction),
        lambda a, b: ctx.op(add, a, b, out=scalar),
        windows._replace(padding=((0, 0),) * aval.ndim),
    )
    return ctx.pad(out, zero, [(-low, -high, 0) for low, high in windows.padding])


define(
    lax.select_and_scatter_add,
    abstract_eval=_scatter_add_type,
    impl=static_impl(_scatter_add_impl),
    jvp=_linear_first(lax.select_and_scatter_add),
    transpose=_scatter_add_transpose,
    batch=_scatter_add_batch,
    lower=_scatter_add_lower,
    cost=AS_LOWERED,
    masks="both",
    steers="operand 1",
)


# -- scatter by jaxprs -----------------------------------------------------------------------------


def _scatter_type(
    x: Aval,
    source: Aval,
    init: Aval,
    *,
    select_jaxpr: Any,
    select_consts: Any,
    scatter_jaxpr: Any,
    scatter_consts: Any,
    **params: Any,
) -> Aval:
    name = "select_and_scatter"
    _scatter_windows(name, source, x, **params)
    if init.shape or init.dtype is not x.dtype:
        ill_typed(f"{name} needs an initial value {x.dtype}[], and {init} is given")
    pair = [ShapedArray((), x.dtype)] * 2
    check_reducer(name, "select_jaxpr", select_jaxpr, pair, [ShapedArray((), BOOL)], select_consts)
    check_reducer(name, "scatter_jaxpr", scatter_jaxpr, pair, pair[:1], scatter_consts)
    return x.strong


def _parts(
    *, select_jaxpr: Any, select_consts: Any, scatter_jaxpr: Any, scatter_consts: Any, **params: Any
) -> tuple[Any, Any, Windows]:
    """Return the jaxprs `select` and `scatter`, and the windows, of the params."""
    select = with_consts(select_jaxpr, select_consts)
    return select, with_consts(scatter_jaxpr, scatter_consts), windows_of(**params)


def _scatter_general_impl(
    xp: Namespace, x: Value, source: Value, init: Value, **params: ParamValue
) -> Value:
    select, scatter, windows = _parts(**params)
    counts = not any(map(any, windows.padding))  # results for padding are discarded
    chosen, combined = (vectorized(xp, f, source.shape, counts=counts) for f in (select, scatter))
    return _scatter_impl(xp, x, windows, lambda *v: chosen(*v)[0], lambda *v: combined(*v)[0])


def _scatter_general_lower(
    ctx: LoweringContext, x: HloValue, source: HloValue, init: HloValue, **params: ParamValue
) -> HloValue:
    select, scatter, windows = _parts(**params)
    return _scatter_op(
        ctx,
        x,
        source,
        init,
        lambda *scalars: ctx.inline(select, scalars),
        lambda *scalars: ctx.inline(scatter, scalars),
        windows,
    )


def _is_determined(in_avals: Any, params: Any) -> bool:
    """The determined rule: True if no element is in two windows, and there is no padding.

    The order of windows is unspecified, and XLA on CPUs reads elements of the padding.
    """
    del in_avals
    windows = windows_of(
        **{k: params[k] for k in ("window_dimensions", "window_strides", "padding")}
    )
    apart = all(n <= s for n, s in zip(windows.dimensions, windows.strides, strict=True))
    return apart and not any(map(any, windows.padding))


define(
    lax.select_and_scatter,
    abstract_eval=_scatter_type,
    impl=static_impl(_scatter_general_impl),
    jvp=unsupported("its select and scatter are any functions; JAX has no rule either"),
    transpose=NONLINEAR,
    batch=unsupported("JAX has no rule either; use select_and_scatter_add"),
    lower=_scatter_general_lower,
    cost=AS_LOWERED,
    masks="both",
    steers="operand 0",
    determined=_is_determined,
)

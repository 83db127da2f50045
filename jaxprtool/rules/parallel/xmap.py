"""The row of `xmap`, which JAX had from 0.2.8 to 0.4.30.

It applies a jaxpr along named axes, like one `vmap` with `axis_name=` for each name. Every rule
except the type rule applies that of a `jit` of the jaxpr that is vectorised in this way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import NamedAxis, bound_axes
from jaxprtool.core.kinds.placement import numbers_of_names
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.check import ill_typed, typecheck_jaxpr
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.interpreters.evaluation.observe import runs_as
from jaxprtool.ir.diagnostics import JaxprTypeError
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr
from jaxprtool.ir.memo import MemoTable
from jaxprtool.makers.axes import inserted, removed
from jaxprtool.makers.call_types import check_call
from jaxprtool.makers.mapped_calls import of_another
from jaxprtool.rules.define import define

__all__ = ["as_jit"]

Positions = Mapping[Any, int]


def _types(
    *operands: Aval,
    call_jaxpr: Any,
    global_axis_sizes: Any,
    in_axes: Any,
    out_axes: Any,
    **params: Any,
) -> list[Aval]:
    name = f"xmap of {params['name']}"
    if not isinstance(call_jaxpr, ClosedJaxpr):
        ill_typed(f"{name}: the param call_jaxpr is not a jaxpr: {call_jaxpr}", "bad-param")
    if len(in_axes) != len(operands) or len(out_axes) != len(call_jaxpr.out_avals):
        ill_typed(f"{name}: in_axes={in_axes} and out_axes={out_axes} do not fit", "argument-count")
    sizes = _numbers(global_axis_sizes)
    slices = [
        _slice(f"{name}: operand {i}", x, _numbers(axes), sizes)
        for i, (x, axes) in enumerate(zip(operands, in_axes, strict=True))
    ]
    outs = check_call(name, call_jaxpr, slices, "call_jaxpr")
    found = [
        _whole(f"{name}: result {i}", a, _numbers(axes), sizes)
        for i, (a, axes) in enumerate(zip(outs, out_axes, strict=True))
    ]
    with bound_axes({str(k): n for k, n in sizes.items()}):
        try:
            typecheck_jaxpr(call_jaxpr.jaxpr)
        except JaxprTypeError:
            return found  # the checker reports it inside of the jaxpr
    # raises if a result varies along an axis that it lacks
    _vectorised(call_jaxpr, sizes, in_axes, out_axes)
    return found


def _numbers(value: Any) -> Positions:
    return numbers_of_names(value) or {}


def _slice(what: str, x: Aval, axes: Positions, sizes: Positions) -> Aval:
    """Return the type of a slice of an operand."""
    for key, axis in axes.items():
        if not 0 <= axis < x.ndim or x.shape[axis] != sizes.get(key):
            ill_typed(
                f"{what} is {x}, with no axis {axis} of the size {sizes.get(key)} of {key}",
                "axis-size",
            )
    if len({*axes.values()}) != len(axes):
        ill_typed(f"{what} has one axis for several names: {dict(axes)}", "axis-twice")
    return x.update(shape=removed(x.shape, tuple(axes.values()))) if axes else x


def _whole(what: str, a: Aval, axes: Positions, sizes: Positions) -> Aval:
    """Return the type of a result whose slices the call_jaxpr returns."""
    shape = a.shape if axes else ()
    for key, axis in sorted(axes.items(), key=lambda item: item[1]):
        if key not in sizes or not 0 <= axis <= len(shape):
            ill_typed(f"{what} is {a}, and {key} cannot be its axis {axis}", "axis-range")
        shape = inserted(shape, axis, sizes[key])
    if len({*axes.values()}) != len(axes):
        ill_typed(f"{what} has one axis for several names: {dict(axes)}", "axis-twice")
    return a.update(shape=shape) if axes else a


def _nested(axes: Positions, names: list[Any]) -> list[int | None]:
    """Return the axis of each name, the outermost first, counted without the axes of the names
    before it; None where the array has no such axis.
    """
    found: list[int | None] = []
    for i, name in enumerate(names):
        axis = axes.get(name)
        outer = [axes[n] for n in names[:i] if n in axes]
        found.append(axis if axis is None else axis - sum(o < axis for o in outer))
    return found


def _vectorised(closed: ClosedJaxpr, sizes: Positions, in_axes: Any, out_axes: Any) -> ClosedJaxpr:
    """Return the jaxpr vectorised for whole operands."""
    ins = [tuple(_numbers(a).items()) for a in in_axes]
    outs = [tuple(_numbers(a).items()) for a in out_axes]
    key = (tuple(sizes.items()), tuple(ins), tuple(outs))
    return _VECTORISED.of(closed, key, lambda: _vectorise(closed, sizes, in_axes, out_axes))


_VECTORISED = MemoTable[ClosedJaxpr]("along named axes")


def _vectorise(closed: ClosedJaxpr, sizes: Positions, in_axes: Any, out_axes: Any) -> ClosedJaxpr:
    names = list(sizes)
    ins = [_nested(_numbers(a), names) for a in in_axes]
    outs = [_nested(_numbers(a), names) for a in out_axes]
    found = closed
    for i in reversed(range(len(names))):
        outer = {str(n): sizes[n] for n in names[:i]}
        size = NamedAxis({str(names[i]): sizes[names[i]]})
        with bound_axes(outer):
            _, mapped = vmap_jaxpr(found, size, [a[i] for a in ins], None)
            for j, (a, is_mapped) in enumerate(zip(outs, mapped, strict=True)):
                if a[i] is None and is_mapped is not None:
                    ill_typed(
                        f"xmap: result {j} varies along {names[i]}, which its out_axes do not have",
                        "out-axes",
                    )
            found, _ = vmap_jaxpr(found, size, [a[i] for a in ins], [a[i] for a in outs])
    runs_as(closed.jaxpr, found.jaxpr)
    return found


def as_jit(params: dict[str, Any]) -> dict[str, Any]:
    """Return the params of the equivalent jit."""
    sizes = _numbers(params["global_axis_sizes"])
    jaxpr = _vectorised(params["call_jaxpr"], sizes, params["in_axes"], params["out_axes"])
    return {**lax.jit_call.primitive.defaults, "jaxpr": jaxpr, "name": params["name"]}


define(
    lax.xmap,
    abstract_eval=_types,
    **of_another(lax.jit_call, as_jit),
    runs=lambda params: [
        Run(
            "call_jaxpr",
            params["call_jaxpr"],
            math.prod(_numbers(params["global_axis_sizes"]).values()),
        )
    ],
)

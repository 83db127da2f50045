"""The row of `xla_pmap`, which JAX printed for `pmap` until 0.7.

Since then JAX traces `pmap` to a `shard_map` over a mesh with one axis, with shards of size 1.
Here, too, every rule except the type rule applies that of this `shard_map`.
"""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import bound_axes
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.interpreters.evaluation.observe import runs_as
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.avals import Spec
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.sharding import Mesh, partition_specs
from jaxprtool.makers.axes import inserted
from jaxprtool.makers.call_types import check_call
from jaxprtool.makers.mapped_calls import of_another
from jaxprtool.rules.define import define

__all__ = ["as_shard_map"]


def _types(
    *operands: Aval, call_jaxpr: Any, axis_size: int, in_axes: Any, out_axes: Any, **params: Any
) -> Aval:
    name = f"xla_pmap of {params['name']}"
    if not isinstance(call_jaxpr, ClosedJaxpr):
        ill_typed(f"{name}: the param call_jaxpr is not a jaxpr: {call_jaxpr}", "bad-param")
    if len(in_axes) != len(operands) or len(out_axes) != len(call_jaxpr.out_avals):
        ill_typed(f"{name}: in_axes={in_axes} and out_axes={out_axes} do not fit", "argument-count")
    slices = []
    for i, (x, axis) in enumerate(zip(operands, in_axes, strict=True)):
        if axis is None:
            slices.append(x)
            continue
        if not 0 <= axis < x.ndim or x.shape[axis] != axis_size:
            ill_typed(
                f"{name}: operand {i} is {x}, with no axis {axis} of size {axis_size}", "axis-size"
            )
        slices.append(x.update(shape=(*x.shape[:axis], *x.shape[axis + 1 :])))
    outs = check_call(name, call_jaxpr, slices, "call_jaxpr")
    whole = []
    for i, (a, axis) in enumerate(zip(outs, out_axes, strict=True)):
        if axis is not None and not 0 <= axis <= a.ndim:
            ill_typed(f"{name}: out_axes[{i}]={axis} is out of range for {a}", "axis-range")
        whole.append(a if axis is None else a.update(shape=inserted(a.shape, axis, axis_size)))
    return whole


def as_shard_map(params: dict[str, Any]) -> dict[str, Any]:
    """Return the params of the equivalent shard_map."""
    closed: ClosedJaxpr = params["call_jaxpr"]
    axis, size = str(params["axis_name"]), params["axis_size"]
    in_axes, out_axes = tuple(params["in_axes"]), tuple(params["out_axes"])
    key = (axis, size, in_axes, out_axes)
    return _AS_SHARD_MAP.of(closed, key, lambda: _shard_map_params(closed, *key))


_AS_SHARD_MAP = MemoTable[dict[str, Any]]("params of a shard_map")


def _shard_map_params(
    closed: ClosedJaxpr,
    axis: str,
    size: int,
    in_axes: tuple[Value, ...],
    out_axes: tuple[Value, ...],
) -> dict[str, Any]:
    def body(*shards: Value) -> list[Value]:
        slices = [
            x if d is None else lax.squeeze(x, dimensions=(d,))
            for x, d in zip(shards, in_axes, strict=True)
        ]
        outs = apply_jaxpr(closed, slices)
        return [
            y if d is None else _expanded(y, a, d)
            for y, a, d in zip(outs, closed.out_avals, out_axes, strict=True)
        ]

    avals = [
        a if d is None else a.update(shape=inserted(a.shape, d, 1))
        for a, d in zip(closed.in_avals, in_axes, strict=True)
    ]
    with bound_axes({axis: size}):
        staged = stage(body, avals)
    runs_as(closed.jaxpr, staged.jaxpr)
    return {
        "jaxpr": staged,
        "mesh": Mesh({axis: size}),
        "in_specs": partition_specs(_spec(axis, d) for d in in_axes),
        "out_specs": partition_specs(_spec(axis, d) for d in out_axes),
        "newly_manual_axes": frozenset([axis]),
        "check_vma": False,
    }


def _spec(axis: str, dim: int | None) -> Spec:
    return () if dim is None else ((),) * dim + ((axis,),)


def _expanded(y: Value, aval: Aval, dim: int) -> Value:
    kept = tuple(i + (i >= dim) for i in range(aval.ndim))
    return lax.broadcast_in_dim(y, shape=inserted(aval.shape, dim, 1), broadcast_dimensions=kept)


define(
    lax.xla_pmap,
    abstract_eval=_types,
    **of_another(lax.shard_map, as_shard_map),
    runs=lambda params: [
        Run("call_jaxpr", params["call_jaxpr"], params["axis_size"], devices=params["axis_size"])
    ],
)

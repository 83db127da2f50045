"""Rows of `atomic_rmw` and `atomic_cas`.

The instances of a kernel are evaluated one after the other here, so each step is atomic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.bind import base_trace, set_current_trace
from jaxprtool.core.kinds.kernels import ATOMIC_OP
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.cost import PER_OUTPUT
from jaxprtool.interpreters.discharge import State
from jaxprtool.interpreters.evaluation.state_values import Cell
from jaxprtool.interpreters.reference_trees import index_in
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.references import Indexer, RefIndex
from jaxprtool.rules.define import define
from jaxprtool.rules.state.indices import combined_at, resolved
from jaxprtool.rules.state.references import (
    NO_RULES,
    discharge_get,
    discharge_swap,
    in_pure_operations,
    inside,
    part_of_cell,
    write_path,
    written_type,
)

__all__: list[str] = []

# Kind -> the operation of (old element, value), and its scatter, which applies all updates of an
# element.
_OPERATIONS: dict[str, tuple[Any, Any]] = {
    "ADD": (lax.add, lax.scatter_add),
    "MAX": (lax.max, lax.scatter_max),
    "MIN": (lax.min, lax.scatter_min),
    "AND": (lax.and_, None),
    "OR": (lax.or_, None),
    "XOR": (lax.xor, None),
}


class _Parts(NamedTuple):
    """The operands of an `atomic_rmw`, and the params of the `swap` that writes.

    Attributes:
      positions: the operands of the index.
      value: the value to combine with.
      mask: the mask as a list with one element, or empty.
      params: the params of the `swap`.
    """

    positions: Sequence[Any]
    value: Any
    mask: Sequence[Any]
    params: dict[str, Any]


def _parts(operands: Sequence[Any], args_tree: ParamValue) -> _Parts:
    found = index_in(args_tree)
    if found is None:
        ill_typed(
            f"atomic_rmw: args_tree={args_tree} is not the tree of a reference, an index, a value and a mask",
            "param-value",
        )
    index, masked = found
    n = len(operands) - 1 - masked
    if n != len(list(index.operands())):
        ill_typed(
            f"atomic_rmw: its args_tree, {args_tree}, is of other operands than the {len(operands)} after the reference",
            "operand-count",
        )
    params = {"index": index, "tree": None, "mask": masked, "other": False}
    return _Parts(operands[:n], operands[n], operands[n + 1 :], params)


def _rmw_type(
    ref: Aval, *operands: Aval, args_tree: ParamValue, atomic_type: ParamValue
) -> ShapedArray:
    kind = ATOMIC_OP.required("atomic_rmw", "atomic_type", atomic_type)
    parts = _parts(operands, args_tree)
    out = written_type(
        "atomic_rmw", ref, parts.value, [*parts.positions, *parts.mask], parts.params
    )
    kinds = {"AND": "iu", "OR": "iu", "XOR": "iu", "ADD": "iufc", "XCHG": "iufc"}.get(kind, "iuf")
    if out.dtype.kind not in kinds:
        ill_typed(f"atomic_rmw: {kind} of {out}", "operand-dtype")
    return out


def _neutral(kind: str, old: Value) -> Value:
    """Return the operand with which the operation changes nothing: 0 for ADD and XOR, otherwise the old value."""
    aval = get_aval(old)
    zero = scalar_lit(False if aval.dtype.kind == "b" else 0, aval.dtype)
    return lax.broadcast_in_dim(zero, shape=aval.shape) if kind in ("ADD", "XOR") else old


def _old_and_value(ref: State, kind: str, parts: _Parts) -> tuple[Value, Value]:
    """Return the old elements at the index, and the value, with neutral elements where it is masked."""
    old = discharge_get(ref, *parts.positions, **{**parts.params, "mask": False})
    value = parts.value
    for mask in parts.mask:
        value = lax.select_n(mask, _neutral(kind, old), value)
    return old, value


def _rmw_discharge(
    ref: State, *operands: Value, args_tree: ParamValue, atomic_type: ParamValue
) -> Value:
    kind = ATOMIC_OP.required("atomic_rmw", "atomic_type", atomic_type)
    parts = _parts(operands, args_tree)
    if kind == "XCHG":
        at = [*parts.positions, *parts.mask]
        old = discharge_get(ref, *parts.positions, **{**parts.params, "mask": False})
        discharge_swap(ref, parts.value, *at, **parts.params)
        return old
    old, value = _old_and_value(ref, kind, parts)
    combine, scatter = _OPERATIONS[kind]
    if not any(get_aval(x).shape for x in parts.positions):
        plain = {**parts.params, "mask": False}
        discharge_swap(ref, combine(old, value), *parts.positions, **plain)
        return old
    if scatter is None:
        message = f"atomic_rmw: {kind} at an index with arrays, which may select an element twice, has no pure form"
        fail(UnsupportedError, message, "no-rule")
    path = resolved("atomic_rmw", parts.params["index"], get_aval(ref.value).shape)
    put = combined_at(scatter, combine)
    ref.value = write_path(ref.value, path, parts.positions, value, put)
    return old


def _rmw_impl(
    xp: Namespace, cell: Cell, *operands: Value, args_tree: ParamValue, atomic_type: ParamValue
) -> Value:
    kind = ATOMIC_OP.required("atomic_rmw", "atomic_type", atomic_type)
    parts = _parts(operands, args_tree)
    arrays = any(get_aval(x).shape for x in parts.positions)
    if not arrays or kind not in _AT:
        params = {"args_tree": args_tree, "atomic_type": atomic_type}
        return in_pure_operations(_rmw_discharge, cell, operands, params)
    with set_current_trace(base_trace()):
        old, value = _old_and_value(State(cell.value, cell.aval), kind, parts)
    array, index = part_of_cell(xp, cell, parts.positions, parts.params)
    getattr(xp, _AT[kind]).at(array, *inside(xp, index, value, array.shape))
    return old


_AT = {"AND": "bitwise_and", "OR": "bitwise_or", "XOR": "bitwise_xor"}  # of NumPy

define(
    lax.atomic_rmw,
    abstract_eval=_rmw_type,
    impl=_rmw_impl,
    cost=PER_OUTPUT,
    discharge=_rmw_discharge,
    effects=True,
    varying="rule",
    **NO_RULES,
)


def _cas_type(ref: Aval, compared: Aval, value: Aval) -> ShapedArray:
    held = written_type("atomic_cas", ref, value, (), _WHOLE)
    if not isinstance(compared, ShapedArray) or (compared.shape, compared.dtype) != (
        (),
        held.dtype,
    ):
        ill_typed(f"atomic_cas compares {compared} with {held}")
    if held.shape or not held.dtype.is_integer:
        ill_typed(f"atomic_cas is of one integer, and not of {held}", "operand-dtype")
    return held


_WHOLE: dict[str, Any] = {"index": RefIndex(Indexer(())), "mask": False, "other": False}


def _cas_discharge(ref: State, compared: Value, value: Value) -> Value:
    old = ref.value
    ref.value = lax.select_n(lax.eq(old, compared), old, value)
    return old


def _cas_impl(xp: Namespace, cell: Cell, compared: Value, value: Value) -> Value:
    old = xp.array(cell.value)[()]
    if old == compared:
        cell.value[...] = value
    return old


define(
    lax.atomic_cas,
    abstract_eval=_cas_type,
    impl=_cas_impl,
    cost=PER_OUTPUT,
    discharge=_cas_discharge,
    effects=True,
    varying="rule",
    **NO_RULES,
)

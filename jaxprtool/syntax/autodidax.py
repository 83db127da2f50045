"""The Autodidax dialect: its primitives and params to ours while reading, and back for printing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.primitive import find_primitive
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Primitive, Var
from jaxprtool.ir.params import ParamValue
from jaxprtool.syntax.elided_params import printed_params
from jaxprtool.syntax.infer import UntypedLit

__all__ = ["SpelledList", "from_autodidax", "to_autodidax"]

_RENAMED = {"greater": "gt", "less": "lt", "broadcast": "broadcast_in_dim", "xla_call": "jit"}
_BACK = {"gt": "greater", "lt": "less"}


class SpelledList(tuple[Any, ...]):
    """A tuple that was spelled as a list, as the tutorial's vmap leaves some."""

    __slots__ = ()


def from_autodidax(
    primitive: Primitive,
    inputs: list[Any],
    params: dict[str, Any],
    jaxprs: Sequence[ClosedJaxpr],
) -> tuple[Primitive, list[Any], dict[str, Any], JaxprEqn | None]:
    """An equation of the tutorial as one of ours, and the equation that has to come before it, or None."""
    name = primitive.name
    jaxprs = list(jaxprs) or [
        v for v in (params.get(k) for k in _JAXPR_KEYS) if isinstance(v, ClosedJaxpr)
    ]
    before = None
    if name == "cond":
        inputs = inputs[:]
        inputs[0], before = _index(inputs[0])
        params = {"branches": tuple(reversed(jaxprs))}
    elif name == "xla_call":
        params = {k: v for k, v in params.items() if k not in ("num_consts", "jaxpr")}
        params = {**find_primitive("jit").defaults, "name": "xla_call", **params}
        params.update({"jaxpr": jaxprs[0]} if jaxprs else {})
    elif name in _PARAMS:
        params = _PARAMS[name](params)
    return find_primitive(_RENAMED.get(name, name)), inputs, params, before


_JAXPR_KEYS = ("true_jaxpr", "false_jaxpr", "jaxpr")


def _index(predicate: Any) -> tuple[Any, JaxprEqn | None]:
    """The tutorial's predicate as a branch index: branch 0 is the false one."""
    if isinstance(predicate, UntypedLit):
        return Lit(int(predicate.text == "True"), ShapedArray((), INT32)), None
    index = Var(ShapedArray((), INT32))
    convert = find_primitive("convert_element_type")
    params = {**convert.defaults, "new_dtype": INT32, "weak_type": False}
    return index, JaxprEqn(convert, [predicate], params, [index], predicate.span)


def _axes(params: dict[str, Any]) -> dict[str, Any]:
    axis = params.get("axis", ())
    return {"axes": axis if isinstance(axis, tuple) else (axis,)}


def _broadcast(params: dict[str, Any]) -> dict[str, Any]:
    shape: ParamValue = params.get("shape")
    axes: ParamValue = params.get("axes")
    if not isinstance(shape, (tuple, list)) or not isinstance(axes, (tuple, list)):
        return params  # the checker says what is wrong with them
    shape = _as_tuple(shape)
    kept = [i for i in range(len(shape)) if i not in axes]
    dimensions = SpelledList(kept) if isinstance(axes, list) else tuple(kept)
    return {"shape": shape, "broadcast_dimensions": dimensions}


def _as_tuple(value: tuple[Any, ...] | list[Any]) -> tuple[Any, ...]:
    return SpelledList(value) if isinstance(value, list) else tuple(value)


_PARAMS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "reduce_sum": _axes,
    "broadcast": _broadcast,
    "transpose": lambda params: {"permutation": params.get("perm", ())},
}


def to_autodidax(
    eqn: JaxprEqn, lossless: bool
) -> tuple[str, list[tuple[str, Any]], list[ClosedJaxpr]]:
    """The tutorial's primitive name, params in its order, and the jaxprs under the equation.

    Params of a call that the tutorial has not are there when `lossless`.
    """
    name, params = eqn.primitive.name, eqn.params
    if name == "jit" and isinstance(params.get("jaxpr"), ClosedJaxpr):
        closed = params["jaxpr"]
        shown = [("num_consts", len(closed.jaxpr.const_binders))]
        for key, value in printed_params(eqn.primitive, params, True) if lossless else ():
            if key != "jaxpr" and (key, value) != ("name", "xla_call"):
                shown.append((key, value))
        return "xla_call", sorted(shown), [closed]
    branches: ParamValue = params.get("branches")
    if name == "cond" and isinstance(branches, tuple) and len(branches) == 2:
        return "cond", [], list(reversed(branches))
    if name == "reduce_sum" and "axes" in params:
        return name, [("axis", params["axes"])], []
    if name == "transpose" and "permutation" in params:
        return name, [("perm", params["permutation"])], []
    if name == "broadcast_in_dim" and isinstance(params.get("broadcast_dimensions"), tuple):
        return "broadcast", _broadcast_back(params), []
    shown = eqn.primitive.defaults
    kept = [(k, v) for k, v in sorted(params.items()) if k not in shown or shown[k] != v]
    return _BACK.get(name, name), kept, []


def _broadcast_back(params: dict[str, Any]) -> list[tuple[str, Any]]:
    shape, kept = params["shape"], params["broadcast_dimensions"]
    axes = [i for i in range(len(shape)) if i not in kept]
    spelled = list if isinstance(kept, SpelledList) else tuple
    return [("axes", spelled(axes)), ("shape", spelled(shape))]

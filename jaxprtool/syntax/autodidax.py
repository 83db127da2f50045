"""The Autodidax dialect: translates its primitives and params to ours when reading, and back when printing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.core.primitive import find_primitive
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL, INT32
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Primitive, Var
from jaxprtool.ir.params import ParamValue
from jaxprtool.syntax.elided_params import printed_params
from jaxprtool.syntax.infer import UntypedLit

__all__ = ["Spelled", "SpelledList", "from_autodidax", "predicates", "to_autodidax"]

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
    """Translate an equation of the tutorial; also return the equation that has to come before it, or None."""
    name = primitive.name
    jaxprs = list(jaxprs) or [
        v for v in (params.get(k) for k in _JAXPR_KEYS) if isinstance(v, ClosedJaxpr)
    ]
    before = None
    if name == "cond":
        if inputs:
            inputs = inputs[:]
            inputs[0], before = _index(inputs[0])
        if len(jaxprs) == 2:
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
    """Convert the tutorial's predicate to a branch index: branch 0 is the false one.

    Returns the index and the equation that converts it, or None where none is needed.
    """
    if isinstance(predicate, UntypedLit):
        return Lit(int(predicate.text == "True"), ShapedArray((), INT32)), None
    if getattr(predicate.aval, "dtype", None) is INT32:  # JAX's own programs have an index
        return predicate, None
    index = Var(ShapedArray((), INT32))
    convert = find_primitive("convert_element_type")
    params = {**convert.defaults, "new_dtype": INT32, "weak_type": False}
    return index, JaxprEqn(convert, [predicate], params, [index], predicate.span)


def _axes(params: dict[str, Any]) -> dict[str, Any]:
    axis = params.get("axis", ())
    rest = {k: v for k, v in params.items() if k != "axis"}
    return {"axes": axis if isinstance(axis, tuple) else (axis,), **rest}


def _broadcast(params: dict[str, Any]) -> dict[str, Any]:
    shape: ParamValue = params.get("shape")
    axes: ParamValue = params.get("axes")
    if not isinstance(shape, (tuple, list)) or not isinstance(axes, (tuple, list)):
        return params  # the checker says what is wrong with them
    shape = _as_tuple(shape)
    kept = [i for i in range(len(shape)) if i not in axes]
    dimensions = SpelledList(kept) if isinstance(axes, list) else tuple(kept)
    rest = {k: v for k, v in params.items() if k not in ("shape", "axes")}
    return {"shape": shape, "broadcast_dimensions": dimensions, **rest}


def _as_tuple(value: tuple[Any, ...] | list[Any]) -> tuple[Any, ...]:
    return SpelledList(value) if isinstance(value, list) else tuple(value)


_PARAMS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "reduce_sum": _axes,
    "broadcast": _broadcast,
    "transpose": lambda params: {"permutation" if k == "perm" else k: v for k, v in params.items()},
}


def predicates(jaxpr: Jaxpr) -> dict[Atom, Atom]:
    """Return the branch indices that are converted predicates and that only conds read, each with the predicate.

    The tutorial uses the predicate itself.
    """
    converted: dict[Atom, Atom] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name != "convert_element_type" or len(eqn.inputs) != 1:
            continue
        (x,) = eqn.inputs
        if isinstance(x.aval, ShapedArray) and x.aval.dtype is BOOL:
            converted[eqn.out_binders[0]] = x
    for x in jaxpr.outs:
        converted.pop(x, None)
    for eqn in jaxpr.eqns if converted else ():
        for i, x in enumerate(eqn.inputs):
            if i or eqn.primitive.name != "cond":
                converted.pop(x, None)
    return converted


class Spelled(NamedTuple):
    """An equation as the tutorial spells it.

    Attributes:
      name: the name of the primitive.
      params: in the tutorial's order.
      inputs: the operands.
      jaxprs: the jaxprs printed under the equation.
    """

    name: str
    params: list[tuple[str, Any]]
    inputs: Sequence[Atom]
    jaxprs: list[ClosedJaxpr]


def to_autodidax(eqn: JaxprEqn, lossless: bool) -> Spelled:
    """Translate an equation to the tutorial's spelling.

    With `lossless`, params of a call that the tutorial does not have are included.
    """
    name, params, jaxprs = _respelled(eqn, lossless)
    inputs = eqn.inputs
    if name == "cond" and isinstance(inputs[0], Lit):
        inputs = Lit(bool(inputs[0].val), ShapedArray((), BOOL)), *inputs[1:]
    return Spelled(name, params, inputs, jaxprs)


def _respelled(
    eqn: JaxprEqn, lossless: bool
) -> tuple[str, list[tuple[str, Any]], list[ClosedJaxpr]]:
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

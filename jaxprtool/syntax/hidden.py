"""What the print of an equation leaves out, per primitive, and how reading puts it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool.ir.jaxpr import Primitive, Var
from jaxprtool.ir.placement import Placement, placement_of
from jaxprtool.syntax.types import UNTYPED

__all__ = [
    "ALWAYS_HIDDEN",
    "NAME_FIRST",
    "params_order",
    "printed_params",
    "recover_params",
]

NAME_FIRST = frozenset({"jit", "pjit", "custom_jvp_call", "custom_vjp_call"})

# Params that JAX never prints: implied by the binder, or without effect on values.
ALWAYS_HIDDEN: dict[str, frozenset[str]] = {
    "broadcast_in_dim": frozenset({"shape", "sharding"}),
    "convert_element_type": frozenset({"sharding"}),
    "custom_jvp_call": frozenset({"jvp_jaxpr"}),
    "custom_lin": frozenset({"bwd_jaxpr", "out_avals"}),
    "custom_vjp_call": frozenset({"bwd_jaxpr", "fwd_jaxpr", "out_trees"}),
    "dot_general": frozenset({"out_sharding"}),
    "jit": frozenset({"backend", "inline"}),
    "linear_call": frozenset({"transpose_jaxpr"}),
}
_NEVER: frozenset[str] = frozenset()

# Per-operand params of jit that JAX leaves out when every entry is the default.
_JIT_LISTS = frozenset(
    {"donated_invars", "in_shardings", "out_shardings", "in_layouts", "out_layouts"}
)


def _recover_broadcast(params: dict[str, Any], binders: list[Var]) -> None:
    if "shape" not in params and len(binders) == 1:
        params["shape"] = getattr(binders[0].aval, "shape", ())


def _recover_dot_general(params: dict[str, Any], binders: list[Var]) -> None:
    del binders
    numbers = params.get("dimension_numbers")
    if isinstance(numbers, tuple):
        params["dimension_numbers"] = _tuples(numbers)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def _recover_custom_lin(params: dict[str, Any], binders: list[Var]) -> None:
    if params.get("out_avals") is None:
        params["out_avals"] = tuple(v.aval.strong for v in binders)


def _recover_reshard(params: dict[str, Any], binders: list[Var]) -> None:
    if params.get("dst_sharding") is None and len(binders) == 1:
        params["dst_sharding"] = placement_of(binders[0].aval)


_RECOVER: dict[str, Callable[[dict[str, Any], list[Var]], None]] = {
    "broadcast_in_dim": _recover_broadcast,
    "custom_lin": _recover_custom_lin,
    "dot_general": _recover_dot_general,
    "reshard": _recover_reshard,
}


def recover_params(
    primitive: Primitive, params: dict[str, Any], binders: list[Var]
) -> dict[str, Any]:
    """All params of an equation, from those that stand in its text and the types of its binders."""
    if primitive.known and primitive.defaults:
        absent = primitive.optional - params.keys()
        params = {**primitive.defaults, **params} if params else primitive.defaults
        if absent:
            params = {k: v for k, v in params.items() if k not in absent}
    recover = _RECOVER.get(primitive.name)
    if recover is not None and not any(v.aval is UNTYPED for v in binders):
        params = dict(params)
        recover(params, binders)
    return params


def params_order(primitive: Primitive, params: dict[str, Any]) -> list[str]:
    """The order in which params are printed: sorted, but for a `name` that comes first.

    Those of a primitive that we do not know stay as they were given.
    """
    if primitive.name in NAME_FIRST and "name" in params:
        return ["name", *sorted(k for k in params if k != "name")]
    return sorted(params) if primitive.known else list(params)


def printed_params(
    primitive: Primitive, params: dict[str, Any], lossless: bool
) -> list[tuple[str, Any]]:
    """The params that are printed, in order; those that JAX hides only when `lossless` needs them."""
    if not primitive.known:
        return [(k, params[k]) for k in params_order(primitive, params)]
    declared, found = primitive.params, []
    never = ALWAYS_HIDDEN.get(primitive.name, _NEVER)
    for key in params_order(primitive, params):
        value = params[key]
        declaration = declared.get(key)
        if declaration is not None and declaration.hidden:
            default = declaration.default
            if value is default or (_same_kind(value, default) and value == default):
                continue
        if isinstance(value, Placement):  # the binder's type says it
            continue
        if key in never and (not lossless or key == "shape"):
            continue
        if key in _JIT_LISTS and primitive.name == "jit" and _all_default(value):
            continue
        found.append((key, value))
    if primitive.name == "dot_general":
        return [(k, _lists(v) if k == "dimension_numbers" else v) for k, v in found]
    return found


def _same_kind(value: Any, default: Any) -> bool:
    """Whether both are of one type; how a tuple is spelled does not matter."""
    return type(value) is type(default) or (isinstance(value, tuple) and isinstance(default, tuple))


def _all_default(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and not any(value)


def _lists(numbers: Any) -> Any:
    """Dimension numbers with the inner tuples as lists, which is how JAX prints them."""
    if not isinstance(numbers, tuple):  # a value that cannot be read
        return numbers
    return tuple(
        tuple(list(axes) if isinstance(axes, tuple) else axes for axes in pair)
        if isinstance(pair, tuple)
        else pair
        for pair in numbers
    )

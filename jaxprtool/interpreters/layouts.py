"""How the results of operations are laid out, where types say so (`f32[8@x,4]`).

Contract of a layout rule:

    rule(in_avals, out_aval, **params) -> spec      (see `Placement.spec`)

An operation without one takes the layout of the first operand that has the result's shape and a layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.primitive import primitive_of
from jaxprtool.ir.jaxpr import Primitive
from jaxprtool.ir.placement import Placement, placed, placement_of

__all__ = ["declare_layout", "laid_out"]

_rules: dict[Primitive, Callable[..., Sequence[str | None]]] = {}


def declare_layout(op: Any, rule: Callable[..., Sequence[str | None]]) -> None:
    """Give a primitive its layout rule."""
    _rules[primitive_of(op)] = rule


def laid_out(
    primitive: Primitive, in_avals: Sequence[Any], out_aval: Any, params: dict[str, Any]
) -> Any:
    """The type of a result, with its layout."""
    rule = _rules.get(primitive)
    if rule is not None:
        spec = tuple(rule(in_avals, out_aval, **params))
        return placed(out_aval, Placement(spec if any(spec) else ()))
    shape = getattr(out_aval, "shape", None)
    for a in in_avals:
        if getattr(a, "shape", ...) == shape and any(placement_of(a)):
            return placed(out_aval, placement_of(a))
    return out_aval

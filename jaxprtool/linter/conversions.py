"""Conversions that undo each other."""

from __future__ import annotations

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import holds_all
from jaxprtool.linter.frames import At
from jaxprtool.linter.registry import lint_rule

__all__ = ["converted_back"]


@lint_rule(
    "converted-back",
    "convert_element_type",
    family="conversions",
    mend="leave out both conversions",
    fix="simplify,dce",
)
def converted_back(at: At) -> str | None:
    """A value is converted to a wider type and straight back.

    Both conversions together change nothing. (The other way around, narrower and back, rounds, and is not told.) Mostly an operation
    between them is gone, or was meant to be there: the f32 that somebody wanted is not used.
    """
    found = at.frame.maker(at.eqn.inputs[0])
    if found is None or found[0].primitive is not at.eqn.primitive:
        return None
    first, wide = found[0].inputs[0].aval, at.eqn.inputs[0].aval
    if not isinstance(first, ShapedArray) or first.strong is not at.out.strong:
        return None
    back = first.dtype is not wide.dtype and holds_all(first.dtype, wide.dtype)
    return f"{first} becomes {wide} and {at.out} again" if back else None

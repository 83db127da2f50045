"""Conversions that undo each other."""

from __future__ import annotations

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import holds_all
from jaxprtool.linter.frames import At
from jaxprtool.linter.registry import lint_rule

__all__ = ["converted_back"]


# What an operation does with the elements between two conversions (`interpreters.flow`): it moves them.
_MOVES = frozenset({"kept", "permuted", "chosen"})


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
    between them is gone, or was meant to be there: the f32 that somebody wanted is not used. What only moves elements between the two
    (a reshape, a transposition, a broadcast, a slice) changes no number.
    """
    moved = at.operand(0).seen_through(_MOVES)
    found = moved.frame.maker(moved.atom)
    if found is None or found[0].primitive is not at.eqn.primitive:
        return None
    first, wide = found[0].inputs[0].aval, moved.aval
    if not isinstance(first, ShapedArray) or first.dtype is not at.out.dtype:
        return None
    back = first.dtype is not wide.dtype and holds_all(first.dtype, wide.dtype)
    return f"{first} becomes {wide} and {at.out} again" if back else None

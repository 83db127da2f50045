"""Lint rule of conversions between element types that undo each other."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from jaxprtool.interpreters.columns.flow import passed_on
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import holds_all
from jaxprtool.ir.jaxpr import Atom, JaxprEqn, Lit, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.linter.frames import At, Ref
from jaxprtool.linter.registry import Found, lint_rule
from jaxprtool.passes.rules import Match
from jaxprtool.passes.simplify import converts_back_for_nothing

__all__ = ["converted_back"]


# Kinds of operations (`interpreters.columns.flow`) that move elements without changing them.
_MOVES = frozenset({"kept", "permuted", "chosen"})


@lint_rule(
    "converted-back",
    "convert_element_type",
    family="conversions",
    mend="leave out both conversions",
    fix="simplify,dce",
)
def converted_back(at: At) -> Found | None:
    """A value is converted to a wider type and straight back.

    Together the two conversions change nothing. (To a narrower type and back rounds, and is not
    reported.) Usually an operation between them was removed or forgotten, so that the wider type is
    not used. Operations between the two that only move elements (reshape, transpose, broadcast,
    slice) are looked through. Nothing is reported if the moved wider value is used elsewhere, too:
    then it is needed.
    """
    moved = at.operand(0).seen_through(_MOVES)
    found = moved.frame.maker(moved.atom)
    if found is None or found[0].primitive is not at.eqn.primitive:
        return None
    first, wide = found[0].inputs[0].aval, moved.aval
    if not isinstance(first, ShapedArray) or first.dtype is not at.out.dtype:
        return None
    if first.dtype is wide.dtype or not holds_all(first.dtype, wide.dtype):
        return None
    mendable = moved.frame is at.frame and converts_back_for_nothing(_match(at))
    if not mendable and _is_read_between(at, moved):
        return None
    return Found(f"{first} becomes {wide} and {at.out} again", mendable=mendable)


_READS = Memo[Counter[Atom]]("how often each variable is read")
_DEFINED = Memo[dict[Var, JaxprEqn]]("the equation that defines each variable")


def _match(at: At) -> Match:
    """Return the equation in the form in which passes match it."""
    jaxpr = at.frame.jaxpr
    defined = _DEFINED.of(jaxpr, lambda: {v: eqn for eqn in jaxpr.eqns for v in eqn.out_binders})
    reads = _READS.of(
        jaxpr,
        lambda: Counter(
            x for x in chain(jaxpr.outs, *(e.inputs for e in jaxpr.eqns)) if type(x) is not Lit
        ),
    )
    return Match(at.eqn, defined, reads)


def _is_read_between(at: At, wide: Ref) -> bool:
    """Whether a moved copy of the wider value is used by anything else in the same jaxpr."""
    frame, x = at.frame, at.eqn.inputs[0]
    while x is not wide.atom:
        if len(frame.readers(x)) > 1 or x in frame.jaxpr.outs:
            return True
        made = frame.maker(x)
        operand = None if made is None else passed_on(*made, _MOVES)
        if operand is None:
            return False
        x = operand
    return False

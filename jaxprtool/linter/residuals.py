"""Lint rule of residuals with a wider element type than that of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxprtool.analyses.memory.kept import keeping
from jaxprtool.interpreters.columns.flow import elements_facts
from jaxprtool.interpreters.linearize import linearize_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.linter.engine import View
from jaxprtool.linter.frames import At, Frame, Ref
from jaxprtool.linter.registry import Found, lint_rule

__all__ = ["wide_residual"]

_DEPTH = 8  # the largest number of operations between a conversion and a residual


@lint_rule(
    "wide-residual",
    family="residuals",
    kind="program",
    mend="compute it in the narrow type, or again in the reverse pass: jax.checkpoint around the part in f32",
    default=False,
)
def wide_residual(view: View) -> Iterator[Found]:
    """A reverse pass stores residuals in f32 in a program that computes in bf16 or f16.

    To compute a norm or a softmax of bf16 values in f32 is right. But the residuals of its
    derivative are stored from the forward to the reverse pass, and in f32 they take twice the
    memory of the bf16 values. To find them, the program is differentiated by all its floating-point
    arguments, which takes longer than other rules; so the rule is only applied if --select names
    it. `residuals` lists all residuals, also those of branches, which are not reported here.
    """
    widened = [at for frame in view.frames for at in _conversions(frame)]
    if not widened:
        return
    try:
        primal, linear, _ = linearize_jaxpr(view.program)
        values = keeping(view.program, primal, linear).values
    except JaxprToolError:
        return  # it has no derivative
    # equations of a derivative have the spans of the equations from which they were made
    written = {str(eqn.span): At(frame, eqn) for frame in view.frames for eqn in frame.jaxpr.eqns}
    for kept in values:
        if not kept.is_computed or kept.producer is None or not _is_wide(kept.aval):
            continue
        at = written.get(str(kept.producer.eqn.span))
        if at is not None and _was_narrow(at):
            message = f"a reverse pass keeps {kept.aval} of values that were narrower: {kept.nbytes:,} bytes"
            yield Found(message, at.place())


def _conversions(frame: Frame) -> Iterator[At]:
    """Yield the conversions in a jaxpr from 16-bit floats to wider types."""
    for eqn in frame.jaxpr.eqns:
        if _converts(eqn) and _is_narrow(eqn.inputs[0].aval):
            yield At(frame, eqn)


def _converts(eqn: JaxprEqn) -> bool:
    return elements_facts[eqn.primitive] == "converted"


def _is_narrow(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and aval.dtype.short in ("bf16", "f16")


def _is_wide(aval: Any) -> bool:
    wide = isinstance(aval, ShapedArray) and aval.dtype.kind in "fc" and aval.dtype.bits > 16
    return wide and aval.size != 1


def _was_narrow(at: At, depth: int = _DEPTH) -> bool:
    """Whether the result of an equation comes from a value that was converted from a 16-bit
    float.
    """
    if _converts(at.eqn):
        return _is_narrow(at.eqn.inputs[0].aval)
    if depth == 0:
        return False
    for i, x in enumerate(at.eqn.inputs):
        if _is_wide(x.aval):
            above = _maker(at.operand(i))
            if above is not None and _was_narrow(above, depth - 1):
                return True
    return False


def _maker(ref: Ref) -> At | None:
    """Return the equation that makes a value; conversions are not looked through."""
    here = ref.seen_through(frozenset())
    found = here.frame.maker(here.atom)
    return None if found is None else At(here.frame, found[0])

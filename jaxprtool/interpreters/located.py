"""Lowering with the origin of each operation, which XLA keeps as the metadata of its instructions.

The name of a location is the position in the jaxpr's text, then the name stack of the equation and
its primitive: `[loss.jaxpr:12:5]/attn/dot_general`. XLA puts the names of calls before those of the
operations that they call. The file and line of a location are those of Python, where they are
known, else those of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.bind import NO_EQN, interpreted, interpreting
from jaxprtool.interpreters.lower import LoweringContext, lowering_rules
from jaxprtool.ir.jaxpr import Aval, Jaxpr, JaxprEqn, Lit, Value
from jaxprtool.stablehlo.attributes import quoted
from jaxprtool.stablehlo.builder import HloValue

__all__ = ["LocatedContext"]


class LocatedContext(LoweringContext):
    """Writes the body of one function, with the locations of its operations."""

    def __init__(self, *given: Any, **named: Any):
        super().__init__(*given, **named)
        self._mark = 0  # number of leading lines that have locations already

    def block(
        self, avals: Sequence[Aval], body: Callable[..., Value], terminator: str
    ) -> tuple[list[HloValue], str]:
        def located(*args: HloValue) -> Value:
            outs = body(*args)
            self._locate(self.eqn)
            return outs

        mark, self._mark = self._mark, 0
        found = super().block(avals, located, terminator)
        self._mark = mark
        return found

    def body(self, jaxpr: Jaxpr, args: Sequence[HloValue]) -> list[HloValue]:
        env: dict[Any, HloValue] = dict(zip(jaxpr.all_binders, args, strict=True))
        outer, literal = self.eqn, self.literal
        self._locate(outer)
        with interpreting():
            for eqn in interpreted(jaxpr.eqns):
                self.eqn = eqn
                ins = [env[x] if type(x) is not Lit else literal(x) for x in eqn.inputs]
                out = lowering_rules[eqn.primitive](self, *ins, **eqn.params)
                outs = out if eqn.primitive.multiple_results else [out]
                env.update(zip(eqn.out_binders, outs, strict=True))
                self._locate(eqn)
        self.eqn = outer
        return [env[x] if type(x) is not Lit else literal(x) for x in jaxpr.outs]

    def _locate(self, eqn: JaxprEqn) -> None:
        """Give the lines that were written since the last call the location of an equation."""
        lines = self.lines
        place = "" if eqn is NO_EQN else _location(eqn)
        for i in range(min(self._mark, len(lines)), len(lines) if place else 0):
            if type(lines[i]) is str:
                lines[i] += place
        self._mark = len(lines)


def _location(eqn: JaxprEqn) -> str:
    """Return the location of an equation in MLIR, after a blank."""
    origin, span = eqn.origin, eqn.span
    names = (origin.names if origin is not None else None) or ()
    at = [f"[{span}]"] if span is not None else []
    name = quoted("/".join([*at, *names, eqn.primitive.name]))
    frame = None if origin is None else origin.frame
    if frame is not None:
        return f" loc({name}({quoted(frame.file)}:{frame.line}:{(frame.column or 0) + 1}))"
    if span is not None:
        line, column = span.source.position(span.start)
        return f" loc({name}({quoted(span.source.name)}:{line}:{column}))"
    return f" loc({name})"

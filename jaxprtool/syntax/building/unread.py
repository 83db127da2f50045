"""Constants without a type that nothing reads: units, or empty tuples, of releases that passed such values around.

{ lambda b ; a.
  let c = xla_call[ call_jaxpr={ lambda  ; a b.
                                 let c = sin a
                                 in (c,) }
                    name=f ] a b
  in (c,) }
"""

from __future__ import annotations

from jaxprtool.core.inner import inner_arguments
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.syntax.consts import UNREAD
from jaxprtool.syntax.infer import FAULTS, inner_jaxprs
from jaxprtool.syntax.types import UNTYPED

__all__ = ["stand_in_for_unread"]


def stand_in_for_unread(program: ClosedJaxpr) -> None:
    """Give the constants of a program that was just read a placeholder value, where they have no
    type and nothing reads them.
    """
    binders = program.jaxpr.const_binders
    pairs = [*zip(binders, program.consts, strict=True)]
    if not any(v.aval is UNTYPED and c is None for v, c in pairs):
        return
    read = _Read().of(program.jaxpr)
    consts = [UNREAD if v.aval is UNTYPED and c is None and v not in read else c for v, c in pairs]
    amend(program, consts=consts)


class _Read:
    """Computes the variables of jaxprs that are read.

    A call reads an operand only if its jaxpr does.
    """

    def __init__(self) -> None:
        self.found: dict[Jaxpr, set[Var]] = {}

    def of(self, jaxpr: Jaxpr) -> set[Var]:
        if jaxpr not in self.found:
            read = self.found[jaxpr] = {x for x in jaxpr.outs if type(x) is Var}
            for eqn in jaxpr.eqns:
                unread = self.unread_operands(eqn)
                read.update(
                    x for i, x in enumerate(eqn.inputs) if type(x) is Var and i not in unread
                )
        return self.found[jaxpr]

    def unread_operands(self, eqn: JaxprEqn) -> set[int]:
        """Return the positions of the operands that only jaxprs of the equation take, none of which reads them."""
        if not inner_jaxprs(eqn):
            return set()
        try:
            found = inner_arguments(eqn.primitive, range(len(eqn.inputs)), eqn.params)  # type: ignore[arg-type]
        except FAULTS:
            return set()
        taken, read = set[int](), set[int]()
        for closed, places in found:
            inside = self.of(closed.jaxpr)
            for v, i in zip(closed.jaxpr.in_binders, places, strict=False):
                if isinstance(i, int):
                    taken.add(i)
                    if v in inside:
                        read.add(i)
        return taken - read

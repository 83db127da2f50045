"""Give places to the equations of programs that were read from no text, and names to their variables."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, DropVar, JaxprEqn, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import map_programs, pair_jaxprs
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr

__all__ = ["with_places"]


def with_places(program: ClosedJaxpr, name: str = "<program>") -> ClosedJaxpr:
    """Return a traced program with the place of each equation in its text; one that was read has places already.

    Args:
      program: the program.
      name: the name of the text: the function, say.

    Returns:
      The same equations, whose spans and names are those of the lossless text of the program, as
        `jaxprtool trace` prints it. A program that was read is returned itself, and the same
        program gets the same places each time.
    """
    if all(e.span is not None for e in program.eqns):
        return program
    return _PLACED.of(program, lambda: _placed(program, name))


_PLACED = Memo[ClosedJaxpr]("with places")


def _placed(program: ClosedJaxpr, name: str) -> ClosedJaxpr:
    text = format_jaxpr(_without_values(program), lossless=True)
    return _located(program, parse(text, name), {})


def _without_values(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program without the values of its constants, which may be long and stand below it."""
    return map_programs(program, lambda c: c.replace(consts=[None] * len(c.consts)))


@deep
def _located(
    program: ClosedJaxpr, text: ClosedJaxpr, done: dict[ClosedJaxpr, ClosedJaxpr]
) -> ClosedJaxpr:
    """Return the program with the spans and names of its text; a jaxpr that occurs twice stays one object."""
    found = done.get(program)
    if found is None:
        ours, theirs = program.jaxpr, text.jaxpr
        names = _Names()
        consts = names.bind(ours.const_binders, theirs.const_binders)
        binders = names.bind(ours.in_binders, theirs.in_binders)
        pairs = zip(program.eqns, text.eqns, strict=True)
        jaxpr = ours.replace(
            const_binders=consts,
            in_binders=binders,
            eqns=[_at(a, b, names, done) for a, b in pairs],
            outs=names.read(ours.outs),
            span=theirs.span,
        )
        found = done[program] = program.replace(jaxpr=jaxpr)
    return found


class _Names:
    """Maps the variables of a jaxpr that have no names to new ones."""

    def __init__(self) -> None:
        self.named: dict[Atom, Var] = {}

    def bind(self, ours: Sequence[Var], texts: Sequence[Var]) -> list[Var]:
        """Return the binders, with the names that they have in the text."""
        for v, text in zip(ours, texts, strict=True):
            if v.name is None and text.name and not isinstance(text, DropVar):
                self.named[v] = Var(v.aval, text.name, v.span)
        return [self.named.get(v, v) for v in ours]

    def read(self, atoms: Sequence[Atom]) -> list[Atom]:
        """Return the atoms, with the named variables."""
        return [self.named.get(x, x) if isinstance(x, Var) else x for x in atoms]


def _at(
    eqn: JaxprEqn, text: JaxprEqn, names: _Names, done: dict[ClosedJaxpr, ClosedJaxpr]
) -> JaxprEqn:
    inputs, binders = names.read(eqn.inputs), names.bind(eqn.out_binders, text.out_binders)
    params = pair_jaxprs(eqn, text, lambda ours, theirs: _located(ours, theirs, done))
    return eqn.replace(params=params, inputs=inputs, out_binders=binders, span=text.span)

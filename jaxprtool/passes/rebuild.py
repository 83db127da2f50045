"""Rewrite a program with new variables: other types, names, params or origins, and the same operations."""

from __future__ import annotations

from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Value, Var
from jaxprtool.ir.origin import Origin
from jaxprtool.ir.walk import map_jaxprs

__all__ = ["Rebuild"]


class Rebuild:
    """A rewriting of a program; subclasses override what changes. A jaxpr that occurs several times is rewritten once."""

    def __init__(self) -> None:
        self._done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    def aval(self, aval: Aval) -> Aval:
        """Return the new type of a variable or literal."""
        return aval

    def name(self, v: Var) -> str | None:
        """Return the new name of a variable."""
        return v.name

    def params(self, eqn: JaxprEqn) -> dict[str, Any]:
        """Return the new params of an equation; the jaxprs in them are rewritten after that."""
        return eqn.params

    def literal(self, eqn: JaxprEqn) -> Lit | None:
        """Return the literal that replaces the only result of an equation; None where the equation stays."""
        return None

    def origin(self, eqn: JaxprEqn) -> Origin | None:
        """Return the new origin of an equation."""
        return eqn.origin

    def const(self, value: Value) -> Value:
        """Return the new value of a constant."""
        return value

    def interface(self, program: ClosedJaxpr) -> Interface | None:
        """Return the new interface of a program."""
        return program.interface

    @deep
    def closed(self, program: ClosedJaxpr) -> ClosedJaxpr:
        """Return the new program."""
        found = self._done.get(program)
        if found is None:
            found = self._done[program] = self._made(program)
        return found

    def _made(self, program: ClosedJaxpr) -> ClosedJaxpr:
        new: dict[Any, Any] = {}

        def binder(v: Var) -> Var:
            name = v.name if isinstance(v, DropVar) else self.name(v)
            made = new[v] = type(v)(self.aval(v.aval), name, v.span)
            return made

        def atom(x: Any) -> Any:
            if type(x) is not Lit:
                return new[x]
            aval = self.aval(x.aval)
            return x if aval is x.aval else Lit(x.val, aval, x.span)

        jaxpr = program.jaxpr
        consts, binders = [*map(binder, jaxpr.const_binders)], [*map(binder, jaxpr.in_binders)]
        eqns: list[JaxprEqn] = []
        for e in jaxpr.eqns:
            if (lit := self.literal(e)) is not None:
                new[e.out_binders[0]] = lit
                continue
            ins, outs = [*map(atom, e.inputs)], [*map(binder, e.out_binders)]
            params = {k: map_jaxprs(v, self.closed) for k, v in self.params(e).items()}
            eqns.append(
                JaxprEqn(e.primitive, ins, params, outs, e.span, e.comments, self.origin(e))
            )
        made = Jaxpr(binders, eqns, [*map(atom, jaxpr.outs)], consts, jaxpr.span)
        return ClosedJaxpr(made, [*map(self.const, program.consts)], self.interface(program))

"""Rewrite the jaxprs of a program one by one: each gets other equations and keeps its type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.interpreters.reuse.copies import is_pure
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import with_jaxprs

__all__ = ["NewBody", "in_each_body", "is_pure", "with_inner"]


@deep
def in_each_body(program: ClosedJaxpr, change: Callable[[ClosedJaxpr], ClosedJaxpr]) -> ClosedJaxpr:
    """Change the program and every jaxpr in params of its equations, inner ones first, each once.

    Args:
      change: takes a jaxpr whose inner jaxprs are done; returns one of the same type, the same
        object where nothing changes.
    """
    done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    def changed(closed: ClosedJaxpr) -> ClosedJaxpr:
        found = done.get(closed)
        if found is None:
            found = done[closed] = change(with_inner(closed, changed))
        return found

    return changed(program)


def with_inner(closed: ClosedJaxpr, changed: Callable[[ClosedJaxpr], ClosedJaxpr]) -> ClosedJaxpr:
    """Return the program with its inner jaxprs changed."""
    eqns = [with_jaxprs(eqn, changed) for eqn in closed.eqns]
    if all(new is old for new, old in zip(eqns, closed.eqns, strict=True)):
        return closed
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))


class NewBody:
    """A jaxpr that is rewritten, equation by equation.

    Attributes:
      program: the old jaxpr.
      eqns: the new equations so far.
      defined: for each variable that they bind the equation.
    """

    def __init__(self, program: ClosedJaxpr):
        self.program = program
        self.eqns: list[JaxprEqn] = []
        self.defined: dict[Var, JaxprEqn] = {}
        self._instead: dict[Any, Atom] = {}
        self._left_out: set[JaxprEqn] = set()
        self._consts: list[tuple[Var, Any]] = []
        self._changed = False

    def atom(self, x: Atom) -> Atom:
        """Return the atom that replaces an atom of the old jaxpr."""
        return x if type(x) is Lit else self._instead.get(x, x)

    def renamed(self, eqn: JaxprEqn) -> JaxprEqn:
        """Return an equation of the old jaxpr with the operands of the new one."""
        if not self._instead or self._instead.keys().isdisjoint(
            x for x in eqn.inputs if type(x) is not Lit
        ):
            return eqn
        return eqn.replace(inputs=map(self.atom, eqn.inputs))

    def keep(self, eqn: JaxprEqn) -> None:
        """Add an equation of the old jaxpr, renamed."""
        self.add(eqn)

    def add(self, eqn: JaxprEqn) -> None:
        """Add an equation."""
        self.eqns.append(eqn)
        self.defined.update(dict.fromkeys(eqn.out_binders, eqn))

    def leave_out(self, eqns: Sequence[JaxprEqn]) -> None:
        """Remove equations from the new jaxpr, whose results nothing reads any more."""
        self._left_out.update(eqns)

    def drop(self) -> None:
        """Note that an equation of the old jaxpr is not added."""
        self._changed = True

    def put_instead(self, v: Var, x: Atom) -> None:
        """Replace a result of the old jaxpr by an atom of the new one; their types have to be equal."""
        self._instead[v] = x
        self._changed = True

    def constant(self, value: Any, aval: Any) -> Var:
        """Add a constant, and return its variable."""
        v = Var(aval)
        self.add_constant(v, value)
        return v

    def add_constant(self, v: Var, value: Any) -> None:
        """Add a constant."""
        self._consts.append((v, value))
        self._changed = True

    def put(self, eqn: JaxprEqn, f: Callable[..., Any], operands: tuple[Atom, ...]) -> bool:
        """Replace an equation with one result by the equations of a function of atoms; return whether the types agree."""
        (binder,) = eqn.out_binders
        piece = stage(lambda *xs: [f(*xs)], [x.aval for x in operands])
        if piece.out_avals[0] != binder.aval:
            return False
        names: dict[Any, Atom] = dict(zip(piece.jaxpr.in_binders, operands, strict=True))
        for v, c in zip(piece.jaxpr.const_binders, piece.consts, strict=True):
            names[v] = self.constant(c, v.aval)
        for e in piece.eqns:
            new = [Var(v.aval) for v in e.out_binders]
            ins = [x if type(x) is Lit else names.get(x, x) for x in e.inputs]
            names.update(zip(e.out_binders, new, strict=True))
            self.add(e.replace(inputs=ins, out_binders=new, span=eqn.span, origin=eqn.origin))
        x = piece.jaxpr.outs[0]
        self.put_instead(binder, x if type(x) is Lit else names.get(x, x))
        return True

    def result(self) -> ClosedJaxpr:
        """Return the new jaxpr; the old one where nothing changed."""
        old = self.program
        if self._left_out:
            self.eqns = [eqn for eqn in self.eqns if eqn not in self._left_out]
        if not self._changed and len(self.eqns) == len(old.eqns):
            same = all(a is b for a, b in zip(self.eqns, old.eqns, strict=True))
            if same:
                return old
        binders = [*old.jaxpr.const_binders, *(v for v, _ in self._consts)]
        outs = [self.atom(x) for x in old.jaxpr.outs]
        jaxpr = old.jaxpr.replace(eqns=self.eqns, outs=outs, const_binders=binders)
        return old.replace(jaxpr=jaxpr, consts=[*old.consts, *(c for _, c in self._consts)])

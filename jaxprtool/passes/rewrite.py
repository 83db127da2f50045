"""Rewrite a program with other operations in the place of some of its equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.bind import interpreting, state
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.interpreters.dce import dce_closed
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.diagnostics import JaxprTypeError, UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import with_jaxprs
from jaxprtool.passes.scoped import Scoped

__all__ = ["Rule", "rewrite"]

Rule = Callable[[JaxprEqn], Callable[..., Any] | None]


@deep
def rewrite(program: ClosedJaxpr, rule: Rule) -> ClosedJaxpr:
    """Return a program in which a rule has replaced equations, at any depth of nested jaxprs.

        jt.rewrite(program, lambda eqn: jt.lax.cos if eqn.primitive.name == "sin" else None)

    The rule is applied to the equations of nested jaxprs (bodies of loops, branches, calls,
    derivative rules) before the equation that holds them, which it sees with its new jaxprs. It is
    not applied to the equations that replace another one, which keep the line of Python and the
    names of that one.

    Args:
      program: a well-typed program.
      rule: takes an equation; returns None for one that stays, else a function, written with
        `jaxprtool.lax`, of the equation's operands that returns its result (for several results a
        list or tuple of them).

    Returns:
      A program of the same type; the same object when nothing changed. Dead equations are not
      removed, but for those that the functions of the rule make themselves.

    Raises:
      JaxprTypeError: the program is ill-typed, or results have other types than those of the
        equation.
      UsageError: a function returns another number of results.
    """
    typecheck_jaxpr(program, allow_unknown=True)
    return _Rewriting(rule).scoped.closed(program)


class _Rewriting:
    """One run over a program."""

    def __init__(self, rule: Rule):
        self.rule = rule
        self.scoped = Scoped(lambda program: _Body(self, program).result())

    def inside(self, eqn: JaxprEqn) -> JaxprEqn:
        """Return the equation with its jaxprs rewritten."""
        with self.scoped.inside(eqn):
            return with_jaxprs(eqn, self.scoped.closed)


class _Body:
    """The rewriting of one jaxpr.

    Attributes:
      rewriting: the run.
      program: the old jaxpr.
      new: the atoms that replace results of equations that are gone.
      eqns: the new equations so far.
      consts: binders and values of the constants of the equations that replace others.
    """

    def __init__(self, rewriting: _Rewriting, program: ClosedJaxpr):
        self.rewriting, self.program = rewriting, program
        self.new: dict[Var, Any] = {}
        self.eqns: list[JaxprEqn] = []
        self.consts: list[tuple[Var, Any]] = []

    def result(self) -> ClosedJaxpr:
        jaxpr = self.program.jaxpr
        changed = False
        for old in jaxpr.eqns:
            eqn = self.rewriting.inside(self.renamed(old))
            made = self.rewriting.rule(eqn)
            if made is None:
                self.eqns.append(eqn)
            else:
                self.replace(eqn, made)
            changed = changed or made is not None or eqn is not old
        if not changed:
            return self.program
        outs = [self.atom(x) for x in jaxpr.outs]
        binders = [*jaxpr.const_binders, *(v for v, _ in self.consts)]
        body = jaxpr.replace(eqns=self.eqns, outs=outs, const_binders=binders)
        consts = [*self.program.consts, *(c for _, c in self.consts)]
        return self.program.replace(jaxpr=body, consts=consts)

    def atom(self, x: Any) -> Any:
        return x if type(x) is Lit else self.new.get(x, x)

    def renamed(self, eqn: JaxprEqn) -> JaxprEqn:
        if self.new.keys().isdisjoint(x for x in eqn.inputs if type(x) is not Lit):
            return eqn
        return eqn.replace(inputs=map(self.atom, eqn.inputs))

    def replace(self, eqn: JaxprEqn, f: Callable[..., Any]) -> None:
        """Replace an equation by the equations of a function of its operands."""
        several = eqn.primitive.multiple_results

        def flat(*operands: Any) -> list[Any]:
            out = f(*operands)
            return list(out) if several or isinstance(out, (list, tuple)) else [out]

        with interpreting():
            state.eqn = eqn  # recorded equations get its place and its origin
            piece = dce_closed(stage(flat, [x.aval for x in eqn.inputs]))
        _check_results(eqn, piece)
        self.splice(eqn, piece)

    def splice(self, eqn: JaxprEqn, piece: ClosedJaxpr) -> None:
        jaxpr = piece.jaxpr
        names: dict[Var, Any] = dict(zip(jaxpr.in_binders, eqn.inputs, strict=True))
        names.update(_kept_names(eqn.out_binders, jaxpr))
        self.consts += zip(jaxpr.const_binders, piece.consts, strict=True)

        def atom(x: Any) -> Any:
            return x if type(x) is Lit else names.get(x, x)

        comments = eqn.comments  # those of the old equation stand at the first one that replaces it
        for e in jaxpr.eqns:
            ins, outs = map(atom, e.inputs), map(atom, e.out_binders)
            here = e.span is not None and eqn.span is not None and e.span.source is eqn.span.source
            span = e.span if here else eqn.span  # one from a jaxpr in its params keeps its own
            self.eqns.append(e.replace(inputs=ins, out_binders=outs, span=span, comments=comments))
            comments = None
        for v, x in zip(eqn.out_binders, jaxpr.outs, strict=True):
            if atom(x) is not v:
                self.new[v] = atom(x)


def _kept_names(binders: Sequence[Var], jaxpr: Jaxpr) -> dict[Var, Var]:
    """Map the variables of new equations that are results to the binders of the old equation."""
    made = {v for e in jaxpr.eqns for v in e.out_binders}
    kept: dict[Var, Var] = {}
    for old, x in zip(binders, jaxpr.outs, strict=True):
        if type(x) is not Lit and x in made and not isinstance(old, DropVar):
            kept.setdefault(x, old)
    return kept


def _check_results(eqn: JaxprEqn, piece: ClosedJaxpr) -> None:
    given, wanted = [a.strong for a in piece.out_avals], [v.aval.strong for v in eqn.out_binders]
    what = f"what takes the place of `{eqn}`"
    if len(given) != len(wanted):
        message = f"{what} gives {len(given)} results, and {len(wanted)} are needed"
        fail(UsageError, message, "result-count", span=eqn.span)
    for i, (have, need) in enumerate(zip(given, wanted, strict=True)):
        if have != need:
            which = f"result {i}" if len(wanted) > 1 else "its result"
            message = f"{what} has another type: {which} is {have}, and {need} is needed"
            fail(JaxprTypeError, message, "result-type", span=eqn.span)

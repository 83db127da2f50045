"""Find what a program may do only once, effects and Python functions, and separate it from parts that can run again."""

from __future__ import annotations

import operator
from typing import NamedTuple

from jaxprtool.core.kinds.objects import FUNCTION
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.dce import has_effects
from jaxprtool.interpreters.discharge import has_refs
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Primitive
from jaxprtool.ir.walk import sub_jaxprs, with_jaxprs

__all__ = ["Cut", "calls_python", "cut", "runs_once", "takes_python"]


def takes_python(primitive: Primitive) -> bool:
    """Whether a primitive calls a Python function that a param holds, as its declaration says."""
    return not primitive.holds_jaxprs and any(
        FUNCTION in p.kind.parts for p in primitive.params.values()
    )


def calls_python(eqn: JaxprEqn) -> bool:
    """Whether an equation itself calls a Python function."""
    functions = [p.name for p in eqn.primitive.params.values() if FUNCTION in p.kind.parts]
    return not eqn.primitive.holds_jaxprs and any(eqn.params.get(n) for n in functions)


def runs_once(program: ClosedJaxpr) -> bool:
    """Whether a program has effects or calls Python functions."""
    return any(map(_runs_once, program.eqns))


@deep
def _runs_once(eqn: JaxprEqn) -> bool:
    """Whether an equation, or one inside it, has effects or calls a Python function."""
    if has_effects(eqn) or calls_python(eqn):
        return True
    return any(_runs_once(inner) for closed in sub_jaxprs(eqn) for inner in closed.eqns)


class Cut(NamedTuple):
    """A program of which parts can run again.

    Attributes:
      whole: the program; its results are followed by those of the equations that may run only once.
      rest: the program without these equations: its arguments are all binders, then the results of
        these equations.
      outs: how many results the program has.
    """

    whole: ClosedJaxpr
    rest: Jaxpr
    outs: int


def cut(program: ClosedJaxpr) -> Cut:
    """Separate the equations of a program that may run only once.

    Equations that have effects and no results, such as prints, are left out at any depth. The
    results of others become arguments; so do those of an equation that holds such equations. A
    program with references stays as it is.
    """
    jaxpr = program.jaxpr
    plain = Jaxpr(jaxpr.all_binders, jaxpr.eqns, jaxpr.outs, [])
    if has_refs(jaxpr):
        return Cut(program, plain, len(jaxpr.outs))
    quiet = _quiet(program, {}).eqns
    once = [eqn for eqn in quiet if _runs_once(eqn)]
    given = [v for eqn in once for v in eqn.out_binders if not isinstance(v, DropVar)]
    same = len(quiet) == len(jaxpr.eqns) and all(map(operator.is_, quiet, jaxpr.eqns))
    if same and not once:
        return Cut(program, plain, len(jaxpr.outs))
    if not all(isinstance(v.aval, ShapedArray) for v in given):
        return Cut(program, plain, len(jaxpr.outs))
    gone = set(once)
    left = [eqn for eqn in quiet if eqn not in gone]
    whole = ClosedJaxpr(jaxpr.replace(outs=[*jaxpr.outs, *given]), program.consts)
    rest = Jaxpr([*jaxpr.all_binders, *given], left, jaxpr.outs, [])
    return Cut(whole, rest, len(jaxpr.outs))


@deep
def _quiet(program: ClosedJaxpr, done: dict[ClosedJaxpr, ClosedJaxpr]) -> ClosedJaxpr:
    """Return the program without equations that have effects and no results."""
    found = done.get(program)
    if found is None:
        eqns = [_inside(e, done) for e in program.eqns if e.out_binders or not has_effects(e)]
        same = len(eqns) == len(program.eqns) and all(map(operator.is_, eqns, program.eqns))
        made = program if same else program.replace(jaxpr=program.jaxpr.replace(eqns=eqns))
        found = done[program] = made
    return found


def _inside(eqn: JaxprEqn, done: dict[ClosedJaxpr, ClosedJaxpr]) -> JaxprEqn:
    return with_jaxprs(eqn, lambda c: _quiet(c, done))

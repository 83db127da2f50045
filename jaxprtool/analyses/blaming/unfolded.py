"""Put the equations of small functions in the place of their calls, with a way back to the program as written.

To observe a jaxpr that runs costs more than to observe a few equations. A program that calls small
functions, or a loop whose body does, is observed in half the time when the equations of the
functions are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from typing import Any, NamedTuple, TypeVar

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.plans import bad_literals
from jaxprtool.analyses.levels import is_choice
from jaxprtool.analyses.places import Place, Step
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.origin import Origin
from jaxprtool.ir.walk import all_eqns, with_jaxprs
from jaxprtool.passes.inline import called

__all__ = ["Unfolded", "unfolded"]

T = TypeVar("T")

_MOST = 50  # equations of a function that is put in place, after calls inside it were
_MORE = 5_000  # equations that are put in place, besides as many as the program has


class _Way(NamedTuple):
    """An equation as written, and the calls around it that are gone, the outermost first."""

    eqn: JaxprEqn
    calls: tuple[Step, ...] = ()


class Unfolded(NamedTuple):
    """A program with the equations of functions in the place of calls.

    Attributes:
      program: the program; the one as written where there is nothing to put in place.
      ways: the way back, for each equation that is not one of the program as written.
    """

    program: ClosedJaxpr
    ways: dict[JaxprEqn, _Way]

    def eqn(self, eqn: JaxprEqn) -> JaxprEqn:
        """Return the equation as written."""
        return self.ways[eqn].eqn if eqn in self.ways else eqn

    def place(self, place: Place) -> Place:
        """Return a place in the program as written."""
        if not self.ways:
            return place
        path: list[Step] = []
        for step in place.path:
            way = self.ways.get(step.eqn, _Way(step.eqn))
            path += [*way.calls, step._replace(eqn=way.eqn)]
        way = self.ways.get(place.eqn, _Way(place.eqn))
        return Place(way.eqn, (*path, *way.calls))

    def in_answer(self, answer: T) -> T:
        """Return an answer with its places, also those in lists, as written."""
        if not self.ways or answer is None:
            return answer
        changes: dict[str, Any] = {}
        for name in vars(answer):
            value = getattr(answer, name)
            if isinstance(value, Place):
                changes[name] = self.place(value)
            elif isinstance(value, list):
                changes[name] = (
                    [*dict.fromkeys(map(self.place, value))] if _are_places(value) else value
                )
        return replace(answer, **changes)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _are_places(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(x, Place) for x in values)


_UNFOLDED = MemoTable[Unfolded]("with small calls in place")


def unfolded(program: ClosedJaxpr, sought: Sought) -> Unfolded:
    """Return a program with the equations of small functions, at any depth, in the place of their calls.

    Args:
      program: the program, whose equations have places; one that runs on several devices stays as
        it is.
      sought: what a bad value is: a call that takes one as a literal operand, or returns a literal
        one, stays.
    """
    return _UNFOLDED.of(program, sought.key, lambda: _unfold(program, sought))


@deep
def _unfold(program: ClosedJaxpr, sought: Sought) -> Unfolded:
    eqns = [*all_eqns(program.jaxpr)]
    if any(run.devices > 1 for eqn in eqns for run in runs_of(eqn)):
        return Unfolded(program, {})
    unfolding = _Unfolding(sought, _MORE + len(eqns))
    return Unfolded(unfolding.of(program), unfolding.ways)


class _Unfolding:
    """Puts equations in the place of calls, and records the ways back.

    Attributes:
      sought: what a bad value is.
      room: how many more equations may be put in place. Each is prepared to run and kept, while all
        calls of a function share its equations.
      ways: the way back for each new equation.
    """

    def __init__(self, sought: Sought, room: int):
        self.sought, self.room = sought, room
        self.ways: dict[JaxprEqn, _Way] = {}
        self._done: dict[ClosedJaxpr, ClosedJaxpr] = {}

    def of(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return a jaxpr with equations in the place of calls."""
        found = self._done.get(closed)
        if found is None:
            found = self._done[closed] = self._made(closed)
        return found

    def _made(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        env: dict[Any, Any] = {}
        eqns: list[JaxprEqn] = []
        for eqn in closed.eqns:
            inner = called(eqn)
            part = None if inner is None else self._part(eqn, inner)
            if part is not None:
                self._put(eqn, part, env, eqns)
                continue
            made = self._with_inner(eqn)
            if not env.keys().isdisjoint(x for x in eqn.inputs if type(x) is not Lit):
                made = made.replace(inputs=[_read(env, x) for x in eqn.inputs])
            if made is not eqn:
                self.ways[made] = _Way(eqn)
            eqns.append(made)
        if len(eqns) == len(closed.eqns) and all(map(is_, eqns, closed.eqns)):
            return closed
        outs = [_read(env, x) for x in closed.jaxpr.outs]
        return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns, outs=outs))

    def _with_inner(self, eqn: JaxprEqn) -> JaxprEqn:
        """Return an equation with the same done in the jaxprs that it runs."""
        made = {run.jaxpr: self.of(run.jaxpr) for run in runs_of(eqn)}
        if all(new is old for old, new in made.items()):
            return eqn
        return with_jaxprs(eqn, lambda c: made.get(c, c))

    def _part(self, eqn: JaxprEqn, inner: ClosedJaxpr) -> ClosedJaxpr | None:
        """Return the jaxpr whose equations are to be put in the place of a call; None where the call stays."""
        if inner.jaxpr.const_binders or bad_literals(eqn.inputs, self.sought):
            return None
        part = self.of(inner)
        # A choice between a value and a literal would look like one of a derivative, whose zero is a literal.
        if any(type(x) is Lit for x in eqn.inputs) and any(map(is_choice, part.eqns)):
            return None
        n = len(part.eqns)
        if n > min(_MOST, self.room) or bad_literals(part.jaxpr.outs, self.sought):
            return None
        self.room -= n
        return part

    def _put(
        self, eqn: JaxprEqn, part: ClosedJaxpr, env: dict[Any, Any], eqns: list[JaxprEqn]
    ) -> None:
        """Append the equations of a function to `eqns`, in the place of its call.

        env: the atoms that stand for the variables of the jaxpr around the call; the call's results
        are added.
        """
        (run,) = runs_of(eqn)
        ins = [_read(env, x) for x in eqn.inputs]
        inside: dict[Any, Any] = dict(zip(part.jaxpr.in_binders, ins, strict=True))
        for e in part.eqns:
            binders = [Var(v.aval, v.name, v.place) for v in e.out_binders]
            read = [_read(inside, x) for x in e.inputs]
            made = e.replace(inputs=read, out_binders=binders, origin=_origin(eqn, e))
            inside.update(zip(e.out_binders, binders, strict=True))
            way = self.ways.get(e, _Way(e))
            self.ways[made] = _Way(way.eqn, (Step(eqn, run.param), *way.calls))
            eqns.append(made)
        env.update(zip(eqn.out_binders, [_read(inside, x) for x in part.jaxpr.outs], strict=True))


def _origin(call: JaxprEqn, eqn: JaxprEqn) -> Origin | None:
    """Return the origin of an equation that is put in the place of a call.

    The call gives the line and the names that the equation's own origin does not have. Names tell
    what is part of a derivative: those of the call count even where the equation's own are not
    known, where `Origin.of_inner` knows none.
    """
    around, own = call.origin, eqn.origin
    if around is None or own is None:
        return around or own
    names = (*(around.names or ()), *(own.names or ()))
    return Origin(None, names or None, own.shown, lambda: own.frame or around.frame)


def _read(env: dict[Any, Any], x: Any) -> Any:
    return x if type(x) is Lit else env.get(x, x)

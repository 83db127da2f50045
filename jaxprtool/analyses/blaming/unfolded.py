"""A program whose loops hold the equations of small calls in the place of these, and the way back to the program as written.

What an observer keeps of a jaxpr that runs takes longer than a few equations do. The body of a loop that calls a small function in
each step is observed in half the time when the equations of the function are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.plans import bad_literals
from jaxprtool.analyses.places import Place, Step
from jaxprtool.core.stack import deep
from jaxprtool.interpreters.columns.runs import Run, runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.walk import all_eqns, with_jaxprs
from jaxprtool.passes.inline import called

__all__ = ["Unfolded", "unfolded"]

T = TypeVar("T")

_MOST = 50  # equations of a call, all calls inside it in their place


class _Way(NamedTuple):
    """An equation as written, and the calls around it whose equations stand in their place, the outermost first."""

    eqn: JaxprEqn
    calls: tuple[Step, ...] = ()


class Unfolded(NamedTuple):
    """A program with the equations of calls in their place.

    Attributes:
      program: the program; the one as written where there is nothing to put in place.
      ways: of each equation that is not one of the program as written what it is there.
    """

    program: ClosedJaxpr
    ways: dict[JaxprEqn, _Way]

    def eqn(self, eqn: JaxprEqn) -> JaxprEqn:
        """The equation as written."""
        return self.ways[eqn].eqn if eqn in self.ways else eqn

    def place(self, place: Place) -> Place:
        """A place in the program as written."""
        if not self.ways:
            return place
        path: list[Step] = []
        for step in place.path:
            way = self.ways.get(step.eqn, _Way(step.eqn))
            path += [*way.calls, step._replace(eqn=way.eqn)]
        way = self.ways.get(place.eqn, _Way(place.eqn))
        return Place(way.eqn, (*path, *way.calls))

    def in_answer(self, answer: T) -> T:
        """An answer with the places in it, in lists and in answers inside it too, as written."""
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
    """A program with the equations of small calls inside of loops in the place of the calls.

    Args:
      program: the program, whose equations have places; one that runs on several devices stays as it is.
      sought: what a bad value is: a call that is given one as a literal, or gives one, stays.
    """
    return _UNFOLDED.of(program, sought.key, lambda: _unfold(program, sought))


@deep
def _unfold(program: ClosedJaxpr, sought: Sought) -> Unfolded:
    if any(run.devices > 1 for eqn in all_eqns(program.jaxpr) for run in runs_of(eqn)):
        return Unfolded(program, {})
    unfolding = _Unfolding(sought)
    return Unfolded(unfolding.of(program, in_loop=False), unfolding.ways)


class _Unfolding:
    """The jaxprs that are done, and the ways back."""

    def __init__(self, sought: Sought):
        self.sought = sought
        self.ways: dict[JaxprEqn, _Way] = {}
        self._done: dict[tuple[ClosedJaxpr, bool], ClosedJaxpr] = {}

    def of(self, closed: ClosedJaxpr, *, in_loop: bool) -> ClosedJaxpr:
        """A jaxpr with calls in place."""
        found = self._done.get((closed, in_loop))
        if found is None:
            found = self._done[closed, in_loop] = self._made(closed, in_loop)
        return found

    def _made(self, closed: ClosedJaxpr, in_loop: bool) -> ClosedJaxpr:
        env: dict[Any, Any] = {}
        eqns: list[JaxprEqn] = []
        for eqn in closed.eqns:
            inner = called(eqn) if in_loop else None
            part = None if inner is None else self._part(eqn, inner)
            if part is not None:
                self._put(eqn, part, env, eqns)
                continue
            made = self._with_inner(eqn, in_loop)
            if not env.keys().isdisjoint(x for x in eqn.inputs if type(x) is not Lit):
                made = made.replace(inputs=[_read(env, x) for x in eqn.inputs])
            if made is not eqn:
                self.ways[made] = _Way(eqn)
            eqns.append(made)
        if len(eqns) == len(closed.eqns) and all(map(_is, eqns, closed.eqns)):
            return closed
        outs = [_read(env, x) for x in closed.jaxpr.outs]
        return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns, outs=outs))

    def _with_inner(self, eqn: JaxprEqn, in_loop: bool) -> JaxprEqn:
        """An equation with calls in place inside the jaxprs that it runs."""
        made: dict[ClosedJaxpr, ClosedJaxpr] = {}
        for run in runs_of(eqn):
            made[run.jaxpr] = self.of(run.jaxpr, in_loop=in_loop or _repeats(run))
        if all(new is old for old, new in made.items()):
            return eqn
        return with_jaxprs(eqn, lambda c: made.get(c, c))

    def _part(self, eqn: JaxprEqn, inner: ClosedJaxpr) -> ClosedJaxpr | None:
        """What a call calls, where its equations are put in place."""
        if inner.jaxpr.const_binders or bad_literals(eqn.inputs, self.sought):
            return None
        part = self.of(inner, in_loop=True)
        if len(part.eqns) > _MOST or bad_literals(part.jaxpr.outs, self.sought):
            return None
        return part

    def _put(
        self, eqn: JaxprEqn, part: ClosedJaxpr, env: dict[Any, Any], eqns: list[JaxprEqn]
    ) -> None:
        """Put the equations of what a call calls in its place."""
        (run,) = runs_of(eqn)
        ins = [_read(env, x) for x in eqn.inputs]
        inside: dict[Any, Any] = dict(zip(part.jaxpr.in_binders, ins, strict=True))
        for e in part.eqns:
            binders = [Var(v.aval, v.name, v.place) for v in e.out_binders]
            made = e.replace(inputs=[_read(inside, x) for x in e.inputs], out_binders=binders)
            inside.update(zip(e.out_binders, binders, strict=True))
            way = self.ways.get(e, _Way(e))
            self.ways[made] = _Way(way.eqn, (Step(eqn, run.param), *way.calls))
            eqns.append(made)
        env.update(zip(eqn.out_binders, [_read(inside, x) for x in part.jaxpr.outs], strict=True))


def _read(env: dict[Any, Any], x: Any) -> Any:
    return x if type(x) is Lit else env.get(x, x)


def _is(a: Any, b: Any) -> bool:
    return a is b


def _repeats(run: Run) -> bool:
    """Whether a jaxpr may run several times, one time after the other."""
    return run.times > 1 or run.turns > 0

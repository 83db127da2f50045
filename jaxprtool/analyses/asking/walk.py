"""The jaxprs of a program in which patterns are searched, with how often each is used and where it stands in the order.

These are the jaxprs that equations run, and all jaxprs of equations with undeclared primitives.
Rules of derivatives and bodies of reductions are parts of their equations, and not searched. A
jaxpr that is used many times is searched once, or once for each scope that it is used in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.counting.tally import Count, after_nested, times_of
from jaxprtool.analyses.places import Place, Step
from jaxprtool.interpreters.columns.runs import Run, runs_of
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn
from jaxprtool.ir.walk import jaxprs_in

__all__ = ["Context", "Level", "levels_of"]

_MOST = 20_000  # contexts of one program, at most


class Context(NamedTuple):
    """What surrounds a jaxpr, as far as filters ask for it.

    Attributes:
      scopes: the names around the operations, those of enclosing equations.
      inside: the primitives of enclosing equations.
      depth: the depth of nesting; 1 for the program.
    """

    scopes: tuple[str, ...] = ()
    inside: frozenset[str] = frozenset()
    depth: int = 1


class Level:
    """A jaxpr of a program, in one context.

    Attributes:
      jaxpr: the jaxpr.
      context: what surrounds it.
      step: the equation that holds it, on the first way; None for the program.
      above: the level of that equation; None for the program.
      times: how often it is used.
      executed: how often it runs.
      first, last: the positions of the beginning of its first and its last use in the program
        written out.
      offsets: for each equation its distance from the beginning; the last number is the length.
    """

    __slots__ = (
        "above",
        "context",
        "executed",
        "first",
        "jaxpr",
        "last",
        "offsets",
        "step",
        "times",
    )

    def __init__(self, jaxpr: Jaxpr, offsets: Sequence[int], context: Context):
        self.jaxpr, self.offsets, self.context = jaxpr, offsets, context
        self.step: Step | None = None
        self.above: Level | None = None
        self.times, self.executed = 0, Count()
        self.first = self.last = -1

    @property
    def path(self) -> tuple[Step, ...]:
        """The way to it, the outermost enclosing equation first."""
        found: list[Step] = []
        level: Level | None = self
        while level is not None and level.step is not None:
            found.append(level.step)
            level = level.above
        return tuple(reversed(found))

    def place(self, eqn: JaxprEqn) -> Place:
        """The place of an equation of it."""
        return Place(eqn, self.path)

    def used(self, times: int, executed: Count, first: int, last: int) -> None:
        """Add one use of it, or as many as `times` says."""
        self.times += times
        self.executed += executed
        self.first = first if self.first < 0 else min(first, self.first)
        self.last = max(last, self.last)


Held = Sequence[tuple[int, JaxprEqn, Sequence[Run]]]  # index in the jaxpr, equation, what it holds


def held_in(jaxpr: Jaxpr) -> Held:
    """Return the equations of a jaxpr that hold jaxprs in which patterns are searched: index, equation, what it holds."""
    found: list[tuple[int, JaxprEqn, Sequence[Run]]] = []
    for i, eqn in enumerate(jaxpr.eqns):
        if eqn.primitive.holds_jaxprs:
            runs = runs_of(eqn) or (() if eqn.primitive.known else _all_in(eqn))
            if runs:
                found.append((i, eqn, runs))
    return found


def _all_in(eqn: JaxprEqn) -> list[Run]:
    """Return all jaxprs of an equation for which it is not known what it runs."""
    return [Run(key, closed) for key, value in eqn.params.items() for closed in jaxprs_in(value)]


def in_order(root: Jaxpr) -> dict[Jaxpr, Held]:
    """Return the jaxprs of a program, each once and after those that it holds."""
    return after_nested(root, held_in)


def _offsets(order: dict[Jaxpr, Held]) -> dict[Jaxpr, list[int]]:
    """Return for each jaxpr the positions of its equations when nested jaxprs are written out after them, and its length."""
    found: dict[Jaxpr, list[int]] = {}
    for jaxpr, held in order.items():
        if not held:
            found[jaxpr] = [*range(len(jaxpr.eqns) + 1)]
            continue
        inside = {i: sum(found[r.jaxpr.jaxpr][-1] for r in runs) for i, _, runs in held}
        offsets, at = [0], 0
        for i in range(len(jaxpr.eqns)):
            at += 1 + inside.get(i, 0)
            offsets.append(at)
        found[jaxpr] = offsets
    return found


def levels_of(root: Jaxpr, trips: int | None, *, contexts: bool) -> list[Level]:
    """Return the jaxprs of a program, the program first and each before those that it holds.

    Args:
      root: the program.
      trips: the iterations of a loop whose length is not known; None: unknown.
      contexts: whether a jaxpr comes once for each context; else once, without one.

    Raises:
      UnsupportedError: it is used in more than 20,000 contexts.
    """
    order = in_order(root)
    offsets = _offsets(order)
    levels: dict[Jaxpr, dict[Any, Level]] = {jaxpr: {} for jaxpr in order}
    top = Level(root, offsets[root], Context())
    top.used(1, Count(1, 1), 0, 0)
    levels[root][None] = top
    count = 1
    for jaxpr in reversed(order):
        for level in levels[jaxpr].values():
            for i, eqn, runs in order[jaxpr]:
                at = level.offsets[i] + 1
                for run in runs:
                    inner = run.jaxpr.jaxpr
                    context = _within(level.context, eqn) if contexts else level.context
                    there = levels[inner]
                    key = context if contexts else None
                    below = there.get(key)
                    if below is None:
                        below = there[key] = Level(inner, offsets[inner], context)
                        below.step, below.above = Step(eqn, run.param, run.branch), level
                        count += 1
                        if count > _MOST + len(order):
                            message = f"jaxprs are used in more than {_MOST:,} scopes"
                            fail(UnsupportedError, message, "too-large", span=eqn.span)
                    executed = level.executed * times_of(run, trips)
                    below.used(level.times, executed, level.first + at, level.last + at)
                    at += offsets[inner][-1]
    return [level for jaxpr in reversed(order) for level in levels[jaxpr].values()]


def _within(context: Context, eqn: JaxprEqn) -> Context:
    names = () if eqn.origin is None else eqn.origin.names or ()
    inside = context.inside
    if eqn.primitive.name not in inside:
        inside = inside | {eqn.primitive.name}
    return Context((*context.scopes, *names), inside, context.depth + 1)

"""Find the `_` binder that each result or operand `_` of a jaxpr reads, which the text does not say.

JAX prints a result in the body of a jit as `_` where nothing reads the result of the call (0.5.3 to
0.10.0), even where the body itself reads it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaxprtool.core.identity import identity_rules
from jaxprtool.ir.diagnostics import JaxprToolWarning
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Var
from jaxprtool.ir.spans import Span
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.building.atoms import Scope, undrop
from jaxprtool.syntax.infer import fits, likeliest, result_types
from jaxprtool.syntax.patterns import BLANK

__all__ = ["AmbiguousResultWarning", "Drops", "decide_reads"]

_MOST_TRIES = 60  # choices of binders that are tried for one equation


class AmbiguousResultWarning(JaxprToolWarning):
    """An operand `_` may be one of several results, and the text does not say which."""

    code = "ambiguous-result"


class Drops:
    """The jaxprs with results `_`, until the equation around them gives the types of these results.

    Attributes:
      found: for each jaxpr the positions of these results, and its scope.
      around: each binder that was chosen for such a result, with the binder of the equation around.
      doubtful: the chosen binders where the text allows others too.
    """

    def __init__(self) -> None:
        self.found: dict[Jaxpr, tuple[list[int], Scope]] = {}
        self.around: list[tuple[Var, Var]] = []
        self.doubtful: list[Var] = []

    def add(
        self, jaxpr: Jaxpr, outs: list[Atom | None], places: list[int], scope: Scope
    ) -> tuple[Atom | None, ...]:
        """Return the results of a jaxpr with `_` binders, for now in their order, at the positions `places`."""
        self.found[jaxpr] = places, scope
        found = [*outs]
        for n, i in enumerate(places):
            found[i] = scope.drops[min(n, len(scope.drops) - 1)]
        return tuple(found)

    def resolve(self, eqn: JaxprEqn) -> None:
        """Choose the binders in the jaxprs of an equation, whose own binders give the types of the results."""
        for value in eqn.params.values():
            if isinstance(value, ClosedJaxpr) and value.jaxpr in self.found:
                self._read(value.jaxpr, eqn.out_binders)
                del self.found[value.jaxpr]

    def finish(self, programs: Iterable[ClosedJaxpr]) -> None:
        """Choose the binders in jaxprs without an equation around; warn of doubtful choices that
        affect a value which is read.
        """
        for jaxpr in self.found:
            self._read(jaxpr, ())
        if not self.doubtful:
            return
        programs = [*programs]
        read = {x for p in programs for eqn in all_eqns(p.jaxpr) for x in eqn.inputs}
        read.update(x for p in programs for x in p.jaxpr.outs)
        live: set[Any] = set()
        for v, binder in reversed(self.around):  # binders of surrounding jaxprs come last
            if binder in read or binder in live:
                live.add(v)
        for v in self.doubtful:
            if v in live:
                _warn(v.span, "value the result _ of a jaxpr is, and the last of its type is taken")

    def _read(self, jaxpr: Jaxpr, around: Sequence[Var]) -> None:
        """Choose for each such result a `_` binder of its type (of any type, if it is not known).

        Those that the body reads are results, or JAX would not print them as `_`. Next come the
        binders adjacent to a result with a name, in the equation as among the results, and then the
        last ones: an equation gives by-products (such as the sorted keys where positions are asked
        for) before its proper result.
        """
        places, scope = self.found[jaxpr]
        of_type: dict[Any, list[int]] = {}
        for i in places:
            of_type.setdefault(around[i].aval if i < len(around) else None, []).append(i)
        outs: list[Any] = [None if i in places else x for i, x in enumerate(jaxpr.outs)]
        for aval, wanted in of_type.items():
            fits = [v for v in scope.drops if aval is None or v.aval == aval] or scope.drops
            read = [v for v in fits if scope.reads.get(v)]
            unread = [v for v in fits if not scope.reads.get(v)]
            beside = _beside(outs, wanted, fits)
            likely = dict.fromkeys((*read, *beside.values(), *reversed(unread)))
            chosen = {*itertools.islice(likely, len(wanted))}
            beside = {i: v for i, v in beside.items() if v in chosen}
            own = [v for v in fits if v in chosen and v not in beside.values()] or fits
            for n, i in enumerate([i for i in wanted if i not in beside]):
                beside[i] = own[min(n, len(own) - 1)]
            for i in wanted:
                v = outs[i] = undrop(beside[i])
                self.around += [(v, u) for u in around[i : i + 1]]
                if not chosen.issuperset(unread) and not chosen.issubset(read):
                    self.doubtful.append(v)
        amend(jaxpr, outs=tuple(outs))


def _beside(
    outs: Sequence[Atom | None], places: Sequence[int], drops: Sequence[Var]
) -> dict[int, Var]:
    """Return for positions of results the `_` binders that are adjacent to the binder of a
    neighbouring result, in order.
    """
    found: dict[int, Var] = {}
    for step, order in ((1, reversed(places)), (-1, places)):
        for i in order:
            other = found.get(i + step) or (outs[i + step] if 0 <= i + step < len(outs) else None)
            if i in found or not isinstance(other, Var):
                continue
            pairs = ((v, other) if step > 0 else (other, v) for v in drops)
            near = [v for v, pair in zip(drops, pairs, strict=True) if _adjacent(*pair)]
            found.update((i, v) for v in near if v not in found.values())
    return found


def _warn(span: Span | None, which: str) -> None:
    where = f"{span}: " if span else ""
    warnings.warn(
        AmbiguousResultWarning(f"{where}the text does not say which {which}"), stacklevel=3
    )


def decide_reads(eqn: JaxprEqn, scope: Any, wide: bool) -> None:
    """Choose the binders that the operands `_` of an equation read, by the types that the equation accepts.

    Adjacent operands are adjacent results of one equation, where there are such, since values
    computed together are used together. Otherwise the first choice is taken with which the equation
    computes something that no earlier equation does, preferably of an element type that the
    equation has elsewhere. Where the types allow several, a warning says so.

    Args:
      eqn: the equation, just read; its operands are those of `next_drop`.
      scope: the jaxpr that it is in.
      wide: whether a number without a type has 64 bits where nothing else determines it.
    """
    own = set(eqn.out_binders)
    bound = [v for v in scope.drops if v not in own]
    places = [i for i, x in enumerate(eqn.inputs) if x in scope.reads]
    if not places:
        return
    before: list[Any] = [eqn.inputs[i] for i in places]
    for v in before:
        scope.reads[v] -= 1
    tried = itertools.chain(_in_a_row(scope, bound, places), _in_order(bound, len(places)))
    written = _written(eqn)
    choices = _likely(eqn, places, _fitting(eqn, places, tried, wide))
    first, second = next(choices, None), next(choices, None)
    likely = itertools.chain(filter(None, (first, second)), choices)
    new = (choice for choice in likely if (written, choice) not in scope.decided)
    chosen = next(new, first or tuple(before))
    if second is not None:
        _warn(eqn.span, "result the operand _ is, and the first that gives another value is taken")
    scope.decided.add((written, chosen))
    for v in chosen:
        scope.reads[v] = scope.reads.get(v, 0) + 1
    amend(eqn, inputs=_with_operands(eqn, places, map(undrop, chosen)))
    for v in before:
        if not scope.reads[v]:
            amend(v, __class__=DropVar)


def _likely(
    eqn: JaxprEqn, places: list[int], choices: Iterator[tuple[Var, ...]]
) -> Iterator[tuple[Var, ...]]:
    """Yield the choices in order, with the unlikely ones last.

    Unlikely are those that make the equation return its operand, or that mix in another element
    type.
    """
    idle = _may_be_idle(eqn, places)
    around = {x.aval for i, x in enumerate(eqn.inputs) if i not in places}
    around.update(v.aval for v in eqn.out_binders)
    dtypes = {getattr(aval, "dtype", None) for aval in around}

    def unlikely(choice: tuple[Var, ...]) -> tuple[bool, int]:
        returned = idle and choice[0].aval == eqn.out_binders[0].aval
        return returned, sum(getattr(v.aval, "dtype", None) not in dtypes for v in choice)

    behind: list[tuple[Var, ...]] = []
    for choice in choices:
        if any(unlikely(choice)):
            behind.append(choice)
        else:
            yield choice
    yield from sorted(behind, key=unlikely)


def _may_be_idle(eqn: JaxprEqn, places: list[int]) -> bool:
    """Whether an equation returns its first operand, which is `_`, if that has the type of the result.

    JAX makes no such equation unless it has to make the value strongly typed.
    """
    same = identity_rules.find(eqn.primitive) if places[0] == 0 else None
    return same is not None and same(eqn.params)


def _in_a_row(scope: Any, bound: list[Var], places: list[int]) -> Iterator[tuple[Var, ...]]:
    """Yield runs of adjacent results of one equation for adjacent operands, the last runs first."""
    n = len(places)
    if n < 2 or places != [*range(places[0], places[0] + n)]:
        return
    for start in range(len(bound) - n, -1, -1):
        run = bound[start : start + n]
        if all(itertools.starmap(_adjacent, itertools.pairwise(run))):
            yield tuple(run)


def _adjacent(u: Var, v: Var) -> bool:
    """Whether two binders follow each other in the text, with nothing between them."""
    a, b = u.span, v.span
    if a is None or b is None or a.end > b.start:
        return False
    return BLANK.match(a.source.text, a.end).end() >= b.start


def _in_order(bound: list[Var], count: int) -> Iterator[tuple[Var, ...]]:
    """Yield choices of `count` binders, the first binders first; a limited number of them."""
    distinct = itertools.permutations(bound, count)
    every = itertools.product(bound, repeat=count)
    return itertools.islice(itertools.chain(distinct, every), _MOST_TRIES)


def _written(eqn: JaxprEqn) -> str:
    """Return the text of an equation without its binders.

    Equations with equal texts compute the same, apart from operands `_`.
    """
    span = eqn.span
    text = span.source.text[span.start : span.end] if span else ""
    return text.split(" = ", 1)[-1]


def _with_operands(eqn: JaxprEqn, places: list[int], chosen: Iterable[Var]) -> tuple[Atom, ...]:
    """Return the operands of an equation with others at some positions."""
    given = dict(zip(places, chosen, strict=True))
    return tuple(given.get(i, x) for i, x in enumerate(eqn.inputs))


def _fitting(
    eqn: JaxprEqn, places: list[int], choices: Iterator[tuple[Var, ...]], wide: bool
) -> Iterator[tuple[Var, ...]]:
    """Yield the choices of operands with which an equation has results of the types of its binders."""
    known: dict[Any, bool] = {}
    for choice in dict.fromkeys(choices):
        avals = tuple(v.aval for v in choice)
        if avals not in known:
            operands: list[Any] = [*eqn.inputs]
            for i, v in zip(places, choice, strict=True):
                operands[i] = v
            around = [x.aval for x in (*operands, *eqn.out_binders) if x.aval is not None]
            typed = [likeliest(x, wide, around) for x in operands]
            known[avals] = fits(eqn, result_types(eqn, typed))
        if known[avals]:
            yield choice

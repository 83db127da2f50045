"""What a program consists of: its equations by kind, place and type, its largest values, and its dead equations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import Any, NamedTuple

from jaxprtool.analyses.counting.tally import (
    ALL,
    Count,
    Entry,
    Nested,
    Site,
    Table,
    Within,
    in_order,
    sites,
    tally,
)
from jaxprtool.analyses.places import Place
from jaxprtool.interpreters.columns.ordering import order_rules
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.interpreters.dce import effect_facts, has_effects
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive
from jaxprtool.ir.origin import Frame, stack_of
from jaxprtool.ir.walk import count_eqns, nesting

__all__ = [
    "KEYS",
    "Effect",
    "Figures",
    "LargeValue",
    "collect",
    "dead_equations",
    "grouped",
    "grouping",
]

KEYS = ("primitive", "source", "scope", "shape", "dtype", "depth")


class LargeValue(NamedTuple):
    """A result of an equation.

    Attributes:
      place: the equation.
      name: the variable, or "" where the text has no name for it.
      type: its type.
      nbytes: its size; None where it has symbolic dimensions.
    """

    place: Place
    name: str
    type: str
    nbytes: int | None


class Effect(NamedTuple):
    """An equation with a side effect, and whether effects of its kind keep the order of the program."""

    place: Place
    ordered: bool


class Figures(NamedTuple):
    """What a program consists of.

    Attributes:
      written: how many equations there are, those of a nested jaxpr as often as it is used.
      executed: how many equations are executed.
      aside: how many equations are in jaxprs that are not evaluated as they stand: rules of
        derivatives, bodies of reductions.
      depth: how deep jaxprs are nested; 1 for a program without nested ones.
      groups: the equations by key, written and executed; keys are strings or None ("not known"),
        and numbers for depth.
      largest: the largest results of equations, the largest first.
      constants: how many arrays the program holds.
      constant_bytes: their size.
      dead: the places of equations whose results nobody reads, and which have no effects.
      effects: the equations with effects.
    """

    written: int
    executed: Count
    aside: int
    depth: int
    groups: dict[Any, tuple[int, Count]]
    largest: list[LargeValue]
    constants: int
    constant_bytes: int
    dead: list[Place]
    effects: list[Effect]


def collect(program: ClosedJaxpr, by: str, top: int, trips: int | None = None) -> Figures:
    """Return what a program consists of.

    Args:
      program: the program.
      by: one of `KEYS`.
      top: how many of the largest values are named.
      trips: the iterations of a loop whose length is not known; None: unknown.
    """
    order = in_order(program.jaxpr)
    table = grouped(order, by, trips)
    total = table.pop(ALL)
    where = sites(order, trips)
    held = _constants(program, order)
    groups = {key: (e.written, e.counts[0]) for key, e in table.items()}
    return Figures(
        total.written,
        total.counts[0],
        count_eqns(program.jaxpr) - total.written,
        nesting(program.jaxpr),
        dict(sorted(groups.items(), key=_most_first)),
        _largest(where, top),
        len(held),
        sum(held.values()),
        [site.place(eqn) for site in where for eqn in dead_equations(site.jaxpr)],
        [*_effects(where)],
    )


def _most_first(item: tuple[Any, tuple[int, Count]]) -> Any:
    key, (written, executed) = item
    return -(executed.high if executed.high is not None else executed.low), -written, str(key)


# -- equations by key ---------------------------------------------------------------------------------


def grouped(order: dict[Jaxpr, Nested], by: str, trips: int | None) -> Table:
    """Return sums over the equations by key, and under the key `ALL` over all of them."""
    key, within, spell = grouping(by)

    def measure(jaxpr: Jaxpr) -> Table:
        found: Counter[Any] = Counter()
        for k, n in Counter(map(key, jaxpr.eqns)).items():
            found[spell(k)] += n
        table = {k: Entry(n, (Count(n, n),)) for k, n in found.items()}
        n = len(jaxpr.eqns)
        table[ALL] = Entry(n, (Count(n, n),))
        return table

    return tally(order, measure, within, trips)


class Grouping(NamedTuple):
    """A kind of key.

    Attributes:
      read: returns what is read of an equation; that is quick to compare.
      within: what becomes of the key of an equation inside another one (see `tally`).
      spell: returns the key that is shown.
    """

    read: Callable[[JaxprEqn], Any]
    within: Within
    spell: Callable[[Any], Any]


def grouping(by: str) -> Grouping:
    """Return the kind of key that `KEYS` names."""
    return _KEYS[by]


def _primitive(eqn: JaxprEqn) -> Any:
    return eqn.primitive


def _frame(eqn: JaxprEqn) -> Any:
    return None if eqn.origin is None else eqn.origin.frame


def _names(eqn: JaxprEqn) -> Any:
    return None if eqn.origin is None else eqn.origin.names


def _first_type(eqn: JaxprEqn) -> Any:
    return eqn.out_binders[0].aval if eqn.out_binders else None


def _line(frame: Frame | None) -> str | None:
    return None if frame is None else f"{frame.file}:{frame.line}"


def _call(eqn: JaxprEqn) -> str | None:
    """Return the line of an equation, which equations inside it get that have none."""
    return _line(_frame(eqn))


def _scope(names: Any) -> str | None:
    return stack_of(names) if names else None


def _shape(aval: Any) -> str | None:
    shape = getattr(aval, "shape", None)
    return None if shape is None else f"[{','.join(map(str, shape))}]"


def _dtype(aval: Any) -> str | None:
    dtype = getattr(aval, "dtype", None)
    return None if dtype is None else dtype.short


def _same(_: JaxprEqn) -> None:
    return None


def _below(eqn: JaxprEqn) -> Callable[[Any], Any] | None:
    """Return the function that puts the scope of an equation before those of the equations that it runs."""
    outer = _scope(_names(eqn))
    if outer is None:
        return None

    def rename(key: Any) -> Any:
        return key if key is ALL else outer if key is None else f"{outer}/{key}"

    return rename


def _deeper(_: JaxprEqn) -> int:
    return 1


_KEYS: dict[str, Grouping] = {
    "primitive": Grouping(_primitive, _same, str),
    "source": Grouping(_frame, _call, _line),
    "scope": Grouping(_names, _below, _scope),
    "shape": Grouping(_first_type, _same, _shape),
    "dtype": Grouping(_first_type, _same, _dtype),
    "depth": Grouping(lambda _: 1, _deeper, lambda depth: depth),
}


# -- values, constants, dead equations, effects -------------------------------------------------------


def _largest(where: Sequence[Site], top: int) -> list[LargeValue]:
    """Return the largest results of equations; the results of a call are also results inside it, and of equal size."""
    types: dict[Any, list[tuple[Site, JaxprEqn]]] = {}
    for site in where:
        for eqn in site.jaxpr.eqns:
            for v in eqn.out_binders:
                found = types.get(v.aval)
                if found is None:
                    types[v.aval] = [(site, eqn)]
                elif len(found) < top:
                    found.append((site, eqn))
    sizes = nlargest(top, types, key=lambda aval: getattr(aval, "nbytes", 0))
    largest: list[LargeValue] = []
    for aval in sizes:
        for site, eqn in dict.fromkeys(types[aval]):
            for v in eqn.out_binders:
                if v.aval is aval:
                    symbolic = getattr(aval, "size", 0) < 0
                    nbytes = None if symbolic else getattr(aval, "nbytes", 0)
                    largest.append(LargeValue(site.place(eqn), v.name or "", str(aval), nbytes))
        if len(largest) >= top:
            break
    return largest[:top]


def _constants(program: ClosedJaxpr, order: dict[Jaxpr, Nested]) -> dict[int, int]:
    """Return the bytes of each constant that has a value, by the identity of the value."""
    closed = [program, *(r.jaxpr for nested in order.values() for _, runs in nested for r in runs)]
    pairs = [zip(c.jaxpr.const_binders, c.consts, strict=True) for c in dict.fromkeys(closed)]
    return {id(c): getattr(v.aval, "nbytes", 0) for some in pairs for v, c in some if c is not None}


def dead_equations(jaxpr: Jaxpr) -> list[JaxprEqn]:
    """Return the equations that no result or effect depends on; all results of the jaxpr count as read."""
    read, dead = set(jaxpr.outs), []
    for eqn in reversed(jaxpr.eqns):
        if read.isdisjoint(eqn.out_binders) and not has_effects(eqn):
            dead.append(eqn)
        else:
            read.update(eqn.inputs)
    dead.reverse()
    return dead


def _effects(where: Sequence[Site]) -> list[Effect]:
    """Return the equations that have effects of their own, in the order of the program."""
    having: dict[Primitive, bool] = {}
    found: list[Effect] = []
    for site in where:
        for eqn in site.jaxpr.eqns:
            primitive = eqn.primitive
            has = having.get(primitive)
            if has is None:
                effects = effect_facts[primitive]
                has = having[primitive] = not primitive.known or effects in (True, "inside")
            if has or (not eqn.out_binders and not runs_of(eqn)):
                rule = order_rules.find(primitive)
                found.append(Effect(site.place(eqn), rule is not None and rule(eqn.params)))
    return found

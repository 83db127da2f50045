"""Blame: the equation that first makes a bad value, and what becomes of the value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, TypeVar

from jaxprtool.analyses.answer import Answer, json_number
from jaxprtool.analyses.blaming.bad_values import Range
from jaxprtool.analyses.blaming.derived import is_named, original_of
from jaxprtool.analyses.blaming.double_where import (
    Unguarded,
    goes_by_indices,
    unguarded_of,
    unguarded_on_way,
)
from jaxprtool.analyses.blaming.flow import Flow
from jaxprtool.analyses.blaming.provenance import Context, Event, Made, Mark, Origin, Source
from jaxprtool.analyses.blaming.reach import Reach, all_made
from jaxprtool.analyses.blaming.unfolded import Unfolded
from jaxprtool.analyses.levels import level_of
from jaxprtool.analyses.on_devices import Local, local_of
from jaxprtool.analyses.places import Place, device_text
from jaxprtool.analyses.sites import Sites
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.interface import argument_label, result_labels
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit

__all__ = ["Appearance", "Blame", "Output", "as_written", "blame_of"]

T = TypeVar("T")

_FEW = 4  # places at each end of a list for people
_FEW_BITS = 16  # origins of a value up to which each is looked at
_WIDTH = 100
_TRIED = 20  # origins for which an unguarded choice is looked for
_MOST_ZEROS = 50  # products of a bad value and a 0 for which one is


@dataclass
class Appearance:
    """A place where bad values begin.

    Attributes:
      place: the equation that makes them; for an argument, a constant or a literal, the first
        equation that takes it; None where a result of the program is that argument.
      source: the argument, constant or literal; None where an equation makes them.
      label: what to call the source.
      origin: what was recorded (ranges of operands, indices).
      written: the equation of the program, as written, in whose place the one of `origin` ran.
    """

    place: Place | None
    source: Source | None
    label: str
    origin: Origin
    written: JaxprEqn | None = None

    @property
    def kind(self) -> str:
        """Which bad values they are: `nan`, `inf`, `denormal` or `above`."""
        return self.origin.kind

    @property
    def local(self) -> Local | None:
        """What was recorded of single devices, where the equation runs on several at once; else None."""
        return None if self.written is None else local_of(self.origin, self.written)

    @property
    def passes(self) -> bool:
        return self.origin.flows

    def json(self) -> dict[str, Any]:
        """The appearance with the keys place, kind, from, result and operands."""
        o = self.origin.described
        source = None
        if self.source is not None:
            source = {
                "kind": self.source.kind,
                "index": self.source.index,
                "name": self.source.name,
            }
        result = None
        if o.type:
            local = self.local
            result = {
                "index": o.result,
                "type": o.type if local is None else local.type,
                "count": o.n_bad,
                "indices": [list(i) for i in (o.indices if local is None else local.indices)],
                "values": [json_number(x) for x in o.values],
                **({} if local is None else {"devices": local.devices}),
            }
        return {
            "place": None if self.place is None else self.place.json(),
            "kind": self.kind,
            "from": source,
            "times": self.origin.made.times,
            "result": result,
            "operands": [None if r is None else r.json() for r in self.operands],
        }

    @property
    def operands(self) -> list[Range | None]:
        """The range of each operand, with its type on one device."""
        ranges, local = self.origin.described.operands, self.local
        if local is None:
            return [*ranges]
        pairs = zip(ranges, local.operands, strict=True)
        return [None if r is None else r._replace(type=t) for r, t in pairs]


@dataclass
class Output:
    """What becomes of bad values at a result of the program.

    Attributes:
      index: the position of the result.
      label: what to call it.
      reached: `reaching` (it holds bad values), `deciding` (it is good, and was computed by a
        decision that depends on a bad value), `masked` (it is good, and depends on a bad value in
        no other way), or None (it depends on none).
      chain: the equations through which the bad value comes, from the one that makes it.
    """

    index: int
    label: str
    reached: str | None
    chain: list[Place] = field(default_factory=list[Place])

    def json(self) -> dict[str, Any]:
        """The output with the keys index, reached and chain."""
        return {
            "index": self.index,
            "reached": self.reached,
            "chain": [place.json() for place in self.chain],
        }


@dataclass(repr=False)
class Blame(Answer):
    """Where bad values begin in a program, and where they end.

    Attributes:
      appearances: where they begin, the first one first.
      outputs: what becomes of them at each result of the program.
      chain: the equations from the first appearance to the first result that it reaches; only the
        appearance where it reaches none.
      masked_by: equations with a bad operand and good results, in the order in which they ran.
      deciding: equations that decide something by a value which depends on a bad one.
      original: where the program is a derivative, the equation from which the first appearance was
        derived.
      unguarded: where the program is a derivative, the choice whose untaken side makes the bad
        value.
      compiled: where the program is clean on NumPy, what was found when it was compiled; None where
        that was not asked.
      stopped: why the run did not come to its end (a step limit, say), or "".
      dropped: bad literals that the program only moves and drops: they are there on purpose, and
        are no appearances.
      notes: what else there is to say.
    """

    appearances: list[Appearance]
    outputs: list[Output]
    chain: list[Place]
    masked_by: list[Place]
    deciding: list[Place]
    original: Place | None = None
    unguarded: Unguarded | None = None
    compiled: Any = None
    stopped: str = ""
    dropped: list[Appearance] = field(default_factory=list[Appearance])
    notes: list[str] = field(default_factory=list[str])

    @property
    def found(self) -> bool:
        """Whether there is a bad value."""
        return bool(self.appearances) or self.compiled is not None

    @property
    def kind(self) -> str | None:
        """The kind of the first bad value; None where there is none."""
        if self.compiled is not None:
            return self.compiled.kind
        return self.appearances[0].kind if self.appearances else None

    @property
    def first(self) -> Place | None:
        """The place of the first equation whose result is bad; None where there is none."""
        if self.compiled is not None:
            return self.compiled.place
        return self.appearances[0].place if self.appearances else None

    def json(self) -> dict[str, Any]:
        first = self.appearances[0].json() if self.appearances else {}
        return {
            "schema": 1,
            "found": self.found,
            "kind": self.kind,
            "first": None if self.first is None else self.first.json(),
            "from": first.get("from"),
            "result": first.get("result"),
            "operands": first.get("operands", []),
            "chain": [p.json() for p in self.chain],
            "outputs": [o.json() for o in self.outputs],
            "masked_by": [p.json() for p in self.masked_by],
            "deciding": [p.json() for p in self.deciding],
            "appearances": [a.json() for a in self.appearances],
            "original": self.original
            and {**self.original.json(), "certain": self._is_derivative()},
            "unguarded": None if self.unguarded is None else self.unguarded.json(),
            "dropped": [a.json() for a in self.dropped],
            "stopped": self.stopped or None,
            "only_compiled": None if self.compiled is None else self.compiled.json(),
            "notes": self.notes,
        }

    def lines(self) -> Sequence[str]:
        if not self.found:
            return ["no bad value", *self._last_lines()]
        lines = [] if self.compiled is None else [*self.compiled.lines()]
        if self.appearances:
            lines += _told(self.appearances[0])
            if self.original is not None:
                if_so = "" if self._is_derivative() else "if the program is a derivative, "
                lines.append(f"  {if_so}derived from {located(self.original)}")
            if self.unguarded is not None:
                lines += self.unguarded.lines()
            lines += _listed("goes on through", self.chain[1:], located)
            lines += _listed("masked by", self.masked_by, located)
            lines += _listed("decides at", self.deciding, located)
            lines += _listed("also begins at", self.appearances[1:], _short)
        if self.outputs:  # all of them, however many
            lines += ["results", *[f"  {o.label}: {self._what_reaches(o)}" for o in self.outputs]]
        if self.stopped:
            lines.append(f"the run did not come to its results: {self.stopped}")
        return [*filter(None, lines), *self._last_lines()]

    def _last_lines(self) -> list[str]:
        """The lines on literals that are no fault, and the notes."""
        dropped = _listed("bad literals that are only moved, and dropped", self.dropped, _short)
        return [*dropped, *[f"note: {n}" for n in self.notes]]

    def _is_derivative(self) -> bool:
        """Whether the names of the first equation say that the program is a derivative."""
        return self.first is not None and is_named(self.first)

    def _what_reaches(self, output: Output) -> str:
        """What becomes of bad values at a result, and where these begin if that is not the first appearance."""
        what = output.reached or "not reached"
        begin = output.chain[0] if output.chain else None
        if begin is None or (first := self.first) is None or begin.eqn is first.eqn:
            return what
        return f"{what}, from {begin}"


def located(place: Place) -> str:
    """Return a place for people: `file:line:col`, the way in, and the line of Python."""
    at = place.located()
    parts = [f"{at}: {place}" if at else str(place)]
    if place.source and place.source != at:
        parts.append(f"({place.source})")
    if place.names:
        parts.append(f"[{place.names}]")
    return "  ".join(parts)


def _told(appearance: Appearance) -> list[str]:
    """Return lines on the first appearance, with its text and its operands."""
    origin, place = appearance.origin.described, appearance.place
    if place is None:
        return [f"{appearance.kind} in {appearance.label}, which is a result"]
    head = located(place)
    lines = [f"{appearance.kind} first at {head}"]
    if appearance.source is not None:
        how = "takes it from" if appearance.passes else "is the first to read it, in"
        lines.append(f"  which {how} {appearance.label}")
    if text := _text(place):
        lines.append(f"  {text}")
    if origin.type:
        lines.append(f"  result   {_told_result(appearance)}")
    for i, (found, x) in enumerate(zip(appearance.operands, place.eqn.inputs, strict=False)):
        if found is None:
            continue
        name = "literal" if type(x) is Lit else getattr(x, "name", None) or str(i)
        there = f"; there {', '.join(map(_value, found.values))}" if found.values else ""
        lines.append(f"  operand  {name}:{found.type}: {found}{there}")
    return lines


def _told_result(appearance: Appearance) -> str:
    """Return the type of a bad result, how many of its elements are bad, and the first of them, for people."""
    origin, local = appearance.origin.described, appearance.local
    if local is not None and not local.devices:
        return f"{local.type}: {', '.join(map(_value, origin.values))}"
    indices = origin.indices if local is None else local.indices
    at = [f" at {_index(i)}" if i else "" for i in indices]
    if local is not None:
        at = [f"{x} of {device_text(d)}" for x, d in zip(at, local.devices, strict=True)]
    where = ", ".join(f"{_value(x)}{i}" for x, i in zip(origin.values, at, strict=True))
    more = ", ..." if origin.n_bad > len(indices) else ""
    on = "" if local is None else f" of {local.n_devices} devices"
    of = f"{origin.n_bad:,} of {counted(origin.size, 'element')}{on}: " if origin.size > 1 else ""
    return f"{origin.type if local is None else local.type}: {of}{where}{more}"


def _text(place: Place) -> str:
    """Return the first line of the text of an equation."""
    span = place.eqn.span
    if span is None:
        return ""
    text = span.source.text[span.start : span.end].split("\n")[0].strip()
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _value(x: Any) -> str:
    return f"{x:.6g}" if isinstance(x, float) else str(x)


def _index(index: Sequence[int]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _short(appearance: Appearance) -> str:
    of = f"  from {appearance.label}" if appearance.source is not None else ""
    place = "a result" if appearance.place is None else located(appearance.place)
    return f"{appearance.kind}: {place}{of}"


def _listed(title: str, items: Sequence[T], text: Callable[[T], str]) -> list[str]:
    """Return a title and the texts of items below it; of many items the first and the last ones."""
    if not items:
        return []
    if len(items) <= 2 * _FEW + 1:
        told = [*map(text, items)]
    else:
        more = f"... {len(items) - 2 * _FEW:,} more ..."
        told = [*map(text, items[:_FEW]), more, *map(text, items[-_FEW:])]
    return [title, *[f"  {item}" for item in told]]


# -- what an observer has seen -----------------------------------------------------------------


def blame_of(flow: Flow, program: ClosedJaxpr, stopped: str = "") -> Blame:
    """Return the answer from what an observer has found in a whole run.

    Args:
      flow: the observer.
      program: the program that ran, with places.
      stopped: why the run did not come to its end, or "".
    """
    sites = Sites(program)
    reached = {made for mark in flow.outs if mark.bad for made in mark.made}
    reach = Reach(flow)
    met = [o for o in flow.origins if o.order is not None or o.made in reached]
    met.sort(key=lambda o: (reach.masks(o), not o.flows, o.order is None, o.order or 0))
    idle = reach.idle
    origins = [o for o in met if not o.bit & idle] if idle else met
    appearances = [_appearance(o, program, sites) for o in origins]
    first = origins[0] if origins else None
    makes_it = first is not None and first.source is None
    place = appearances[0].place if appearances else None
    marks = [_without(m, reach.idle) for m in flow.outs] if reach.idle else flow.outs
    chains = _Chains(sites)
    labels = result_labels(len(marks), program.interface)
    pairs = enumerate(zip(labels, marks, strict=False))  # a run that was stopped has no results
    first_of = _First(origins)
    outputs = [_output(i, label, mark, first_of, chains) for i, (label, mark) in pairs]
    masks, deciding = (
        _events(flow, what, sites, lambda event: bool(event.bits & ~reach.idle))
        for what in ("masks", "deciding")
    )
    way = next((o.chain for o in outputs if o.reached == "reaching" and o.chain), [])
    chain = [] if first is None else _chain_of_first(flow, first, chains)
    return Blame(
        appearances,
        outputs,
        chain,
        masks,
        deciding,
        original=original_of(place, program) if place is not None and makes_it else None,
        unguarded=_unguarded(flow, reach, appearances[:_TRIED], way or chain, program, sites),
        stopped=stopped,
        dropped=[_appearance(o, program, sites) for o in met if o.bit & reach.idle],
    )


def as_written(found: Blame, flat: Unfolded) -> Blame:
    """Return an answer about a program with calls in place, with the places of the program as written."""
    if not flat.ways:
        return found
    return replace(
        flat.in_answer(found),
        appearances=[*map(flat.in_answer, found.appearances)],
        outputs=[*map(flat.in_answer, found.outputs)],
        dropped=[*map(flat.in_answer, found.dropped)],
        unguarded=flat.in_answer(found.unguarded),
    )


def _appearance(o: Origin, program: ClosedJaxpr, sites: Sites) -> Appearance:
    place, label = sites.place(o.place), "" if o.source is None else _label(o.source, o, program)
    return Appearance(place, o.source, label, o, None if place is None else place.eqn)


def _without(mark: Mark, bits: int) -> Mark:
    """Return the mark of a result without some origins."""
    return Mark(mark.made, *(x & ~bits for x in mark[1:]))


def _unguarded(
    flow: Flow,
    reach: Reach,
    appearances: Sequence[Appearance],
    way: Sequence[Place],
    program: ClosedJaxpr,
    sites: Sites,
) -> Unguarded | None:
    """Find the choice whose untaken side makes a bad value that reaches a result; None where there is none.

    way: the equations from the first origin to the first result that it reaches.
    """
    for a in appearances:
        zeros, place = a.origin.made.zeros, a.place
        if a.source is None and zeros and place is not None and reach.has(a.origin.made):
            found = unguarded_of(place, zeros, program)
            bits = a.origin.bit | a.origin.earlier
            if found and not _is_triangle(found, program, flow, bits, sites):
                return found
    dropping = _events(flow, "masks", sites, reach.drops)
    if dropping and way:
        bad = {sites.written(made.eqn) for made in all_made(flow) if made.eqn is not None}
        found = unguarded_on_way(way, dropping, bad, program)
        if found is not None:
            return found
    return _unguarded_of_zeros(flow, program, sites, reach)


def _unguarded_of_zeros(
    flow: Flow, program: ClosedJaxpr, sites: Sites, reach: Reach
) -> Unguarded | None:
    """Find the choice whose derivative multiplies a 0, its cotangent, by a bad value; None where there is none.

    Where the bad value is an argument, constant or literal, the choice only counts if names say
    that the program is a derivative.
    """
    made_here = reduce(or_, [o.bit for o in flow.origins if o.source is None], 0)
    met = [(made, zeros) for made in all_made(flow) if (zeros := made.zeros) and reach.has(made)]
    for made, zeros in met[:_MOST_ZEROS]:
        place = made.place
        found = place and unguarded_of(sites.of(place), zeros, program)
        known = found and (found.certain or made.origins & made_here)
        if found and known and not _is_triangle(found, program, flow, made.origins, sites):
            return found
    return None


def _is_triangle(
    found: Unguarded, program: ClosedJaxpr, flow: Flow, bits: int, sites: Sites
) -> bool:
    """Whether a choice depends on indices alone and makes bad values of these origins: the triangle of a decomposition.

    To guard its input would not help.
    """
    place = found.place
    if not found.kept or not goes_by_indices(place.eqn, level_of(program, place.path)):
        return False
    made = [x for x in all_made(flow) if x.eqn is not None and x.origins & bits]
    return any(sites.written(x.eqn) is place.eqn for x in made if x.eqn is not None)


def _label(source: Source, origin: Origin, program: ClosedJaxpr) -> str:
    """Return what to call the source of an origin."""
    if source.kind == "argument" and not (origin.eqn is None and origin.path):
        return argument_label(source.index, source.name or None, program.interface)
    name = f" ({source.name})" if source.name else ""
    return f"{source.kind} {source.index}{name}"


def _output(i: int, label: str, mark: Mark, first_of: _First, chains: _Chains) -> Output:
    if mark.bad:
        return Output(i, label, "reaching", chains.to(mark.made, first_of(mark.bad)))
    reached = "deciding" if mark.decided else "masked" if mark.taint else None
    return Output(i, label, reached)


class _First:
    """Finds the first of some origins, in the order in which they are reported."""

    def __init__(self, origins: Sequence[Origin]):
        self._origins = origins
        self._rank = {o.bit.bit_length(): i for i, o in enumerate(origins)}

    def __call__(self, bits: int) -> Origin:
        """Return the first of the origins with these bits; there is one."""
        if bits.bit_count() > _FEW_BITS:  # so one is soon met
            return next(o for o in self._origins if o.bit & bits)
        ranks: list[int] = []
        while bits:
            ranks.append(self._rank.get(bits.bit_length(), len(self._origins)))
            bits ^= 1 << bits.bit_length() - 1
        return self._origins[min(ranks)]


def _chain_of_first(flow: Flow, first: Origin, chains: _Chains) -> list[Place]:
    """Return the equations from the first origin to the first result that it reaches; only the origin where it reaches none."""
    for mark in flow.outs:
        if mark.bad & first.bit:
            chain = chains.to(mark.made, first)
            if chain:
                return chain
    place = None if first.eqn is None else chains.sites.place(first.place)
    return [] if place is None else [place]


class _Chains:
    """The chains of equations from origins to what they reach; each is searched once."""

    def __init__(self, sites: Sites):
        self.sites = sites
        self._found: dict[tuple[tuple[Made, ...], int], list[Place]] = {}

    def to(self, ends: tuple[Made, ...], origin: Origin) -> list[Place]:
        """Return the `_chain` from an origin to one of some equations."""
        key = ends, origin.bit
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = _chain(ends, origin, self.sites)
        return found


def _chain(ends: Sequence[Made], origin: Origin, sites: Sites) -> list[Place]:
    """Return the shortest chain of equations, as written, from an origin to one of `ends`; an empty list where there is none."""
    if len(ends) == 1 and ends[0] is origin.made and origin.source is None:
        return [sites.of(place) for place in (ends[0].place,) if place is not None]
    after: dict[Made, Made | None] = {m: None for m in ends if m.origins & origin.bit}
    queue = list(after)
    bit, first = origin.bit, origin.made
    for made in queue:
        if made is first:
            break
        for parent in made.parents:
            if parent not in after and parent.origins & bit:
                after[parent] = made
                queue.append(parent)
    else:
        return []
    chain: list[Place] = []
    current: Made | None = first
    while current is not None:
        place = current.place
        if place is not None:
            chain.append(sites.of(place))
        current = after[current]
    return [*dict.fromkeys(chain)]  # several equations may run in the place of a written one


def _events(flow: Flow, what: str, sites: Sites, counts: Callable[[Event], bool]) -> list[Place]:
    """Return the places of the equations that contexts have as `masks` or `deciding` and that count, in the order in which they ran."""
    found = [
        (event.order, sites.of(Place(eqn, event.path)))
        for context in flow.root.context().all_inside()
        for eqn, event in getattr(context, what).items()
        if counts(event) and (what != "masks" or not _goes_on_in_part(eqn, context, sites))
    ]
    return [*dict.fromkeys(place for _, place in sorted(found, key=lambda pair: pair[0]))]


def _goes_on_in_part(eqn: JaxprEqn, context: Context, sites: Sites) -> bool:
    """Whether an equation is one of several that run for a single written one, and a later one of these has a bad result.

    A collective over devices takes values apart, and puts them together.
    """
    written = sites.written(eqn)
    if written is eqn:
        return False
    ran = [e for e in (*context.entries, *context.made) if isinstance(e, JaxprEqn)]
    parts = [e for e in dict.fromkeys(ran) if sites.written(e) is written]
    reached, before = {*eqn.out_binders}, 0
    while len(reached) > before:
        before = len(reached)
        for part in parts:
            if not reached.isdisjoint(part.inputs):
                if part in context.made:
                    return True
                reached.update(part.out_binders)
    return False

"""Record the values of equations as they are computed: which equations, in which iterations of loops.

A `Record` has a key that identifies the equation in other runs, too, on another machine, release or
backend. It is made of the line of Python and the scopes of the equation, its position among those
of its jaxpr with the same, and the like for the equations that hold it, with the iteration of each
loop. The primitive is no part of it, so that an equation that replaces another one has the same
key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.on_devices import shares_of
from jaxprtool.analyses.places import Place, Step, Watch, position
from jaxprtool.interpreters.evaluation.limits import running_loops
from jaxprtool.interpreters.evaluation.state_values import snapshot
from jaxprtool.ir.diagnostics import UsageError, fail, place_of
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn
from jaxprtool.ir.origin import stack_of

__all__ = ["ALL", "HOW_TO_SELECT", "Record", "Recorder", "Selection", "selection_of"]


class Record(NamedTuple):
    """An equation that has run.

    Attributes:
      place: its place.
      key: identifies it in other runs.
      ins: the values of its operands. Cells hold what they held then.
      outs: the values of its results, likewise.
    """

    place: Place
    key: str
    ins: Sequence[Any]
    outs: Sequence[Any]


class Selection(NamedTuple):
    """Which equations are recorded: those that fulfil each condition that is given.

    Attributes:
      primitives: the primitive is one of these.
      lines: the line in the text is in one of these ranges.
      names: a scope, the line of Python or its function contains one of these texts.
    """

    primitives: tuple[str, ...] = ()
    lines: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()

    def takes(self, place: Place) -> bool:
        """Whether an equation is among them."""
        if self.primitives and place.eqn.primitive.name not in self.primitives:
            return False
        line, _ = position(place.eqn)
        if self.lines and not any(a <= (line or 0) <= b for a, b in self.lines):
            return False
        if not self.names:
            return True
        function = "" if place.frame is None else place.frame.function
        text = f"{place.names or ''} {place.source or ''} {function}"
        return any(name in text for name in self.names)

    def __str__(self) -> str:
        """The text of it, as an option has it."""
        lines = [f"{a}-{b}" if b > a else str(a) for a, b in self.lines]
        parts = ("primitive", self.primitives), ("line", lines), ("name", self.names)
        return ",".join(f"{key}={value}" for key, values in parts for value in values)


ALL = Selection()
HOW_TO_SELECT = (
    "--select 'primitive=exp,line=10-40,name=attn': equations of which all of these hold"
)


def selection_of(text: str) -> Selection:
    """Read a selection: `primitive=exp,line=10-40,name=attn`; a repeated key gives alternatives.

    Raises:
      UsageError: the text is no selection.
    """
    found: dict[str, list[Any]] = {"primitive": [], "line": [], "name": []}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key not in found or not value:
            _no_selection(part)
        if key == "line":
            first, _, last = value.partition("-")
            if not first.isdigit() or not (last or first).isdigit():
                _no_selection(part)
            if int(first) > int(last or first):
                _no_selection(part)
            found[key].append((int(first), int(last or first)))
        else:
            found[key].append(value)
    return Selection(*(tuple(x) for x in found.values()))


def _no_selection(part: str) -> None:
    fail(UsageError, f"--select: {part!r} selects nothing", "bad-value", help=HOW_TO_SELECT)


class _Loop:
    """A loop whose iterations are recorded.

    Attributes:
      depth: the depth of nesting of its body.
      param: which of its jaxprs runs: a while loop's condition runs once more than its body.
      kept: whether the records of this iteration are kept.
      maybe: whether they are kept only if it turns out to be the last iteration.
      held: the records of the last iteration of each of its jaxprs, until that is known.
    """

    __slots__ = ("depth", "held", "kept", "maybe", "param")

    def __init__(self, depth: int):
        self.depth, self.param, self.kept, self.maybe = depth, "", True, False
        self.held: dict[str, list[Record]] = {}


class Recorder(Watch):
    """Records what equations compute; in loops, in the first iteration, the last one and every n-th."""

    def __init__(
        self,
        tell: Callable[[Record], None],
        selection: Selection = ALL,
        every: int = 0,
        only: frozenset[JaxprEqn] | None = None,
    ):
        """Prepare to record.

        Args:
          tell: called with each record, in the order of the run.
          selection: which equations are recorded.
          every: every how many iterations of a loop are kept between the first and the last; 0:
            none.
          only: the only equations that are recorded; None for all.
        """
        super().__init__()
        self.tell, self.selection, self.every, self.only = tell, selection, every, only
        self._loops: list[_Loop] = []
        self._labels: dict[Jaxpr, dict[JaxprEqn, str]] = {}
        self._taken: dict[tuple[Any, ...], bool] = {}
        self._ways: list[str] = []  # the beginning of keys at each level, as far as it was needed

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool:
        followed = super().enter(jaxpr, args)
        step = self.levels[-1].step if followed else None
        if step is not None and step.step is not None and step.mesh is None:
            self._begin_step(len(self.levels), step.param)
        return followed

    def _begin_step(self, depth: int, param: str) -> None:
        loop = self._loops[-1] if self._loops else None
        if loop is None or loop.depth < depth:
            loop = _Loop(depth)
            self._loops.append(loop)
        now = running_loops()[-1]
        loop.param = param
        loop.held.pop(param, None)  # so that new records come after those of the other jaxprs
        first, last = now.step == 1, now.step == now.total
        nth = bool(self.every) and (now.step - 1) % self.every == 0
        loop.kept = first or last or nth
        loop.maybe = now.total is None and not loop.kept

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        if eqn.primitive.holds_jaxprs:
            self._end_loops()
        if self.only is not None and self.written(eqn) not in self.only:
            return
        if any(not (loop.kept or loop.maybe) for loop in self._loops):
            return
        if not self._takes(eqn):
            return
        place, key = self.place(eqn), self._key(eqn)
        if not any(step.mesh for step in place.path):
            record = Record(place, key, [*map(snapshot, ins)], [*map(snapshot, outs)])
            self._hand_on(record, len(self._loops))
            return
        shares = shares_of(eqn, place)
        if shares is None:
            return
        for i, where in enumerate(shares.places):
            mine = [shares.of(ins, shares.ins, i), shares.of(outs, shares.outs, i)]
            device = f"@{i}" if len(shares.places) > 1 else ""
            record = Record(where, f"{key}{device}", *[[*map(snapshot, x)] for x in mine])
            self._hand_on(record, len(self._loops))

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None:
        super().leave(jaxpr, outs)
        del self._ways[len(self.levels) :]
        if not self.levels:
            self._end_loops()

    def _end_loops(self) -> None:
        """End the loops inside the innermost running jaxpr: their last iterations are known now."""
        while self._loops and self._loops[-1].depth > len(self.levels):
            loop = self._loops.pop()
            for held in loop.held.values():
                for record in held:
                    self._hand_on(record, len(self._loops))

    def _hand_on(self, record: Record, inside: int) -> None:
        """Tell of a record, or hold it back in the innermost loop for which it is not known yet whether the iteration is kept.

        inside: how many of the loops, from the outermost, the record is in.
        """
        for loop in reversed(self._loops[:inside]):
            if loop.maybe:
                loop.held.setdefault(loop.param, []).append(record)
                return
        self.tell(record)

    def _takes(self, eqn: JaxprEqn) -> bool:
        if self.selection == ALL:
            return True
        key = (eqn, *[level.step.eqn for level in self.levels if level.step is not None])
        found = self._taken.get(key)
        if found is None:
            found = self._taken[key] = self.selection.takes(self.place(eqn))
        return found

    def _key(self, eqn: JaxprEqn) -> str:
        """Return the key of an equation: the labels of the equations around it, with iterations and branches, and its own."""
        ways = self._ways
        while len(ways) < len(self.levels):
            level = self.levels[len(ways)]
            if level.step is None:
                ways.append("")
                continue
            if len(ways) % _MOST_LABELS == 0:
                ways[-1] = _hashed(ways[-1])
            label = self._label(self.levels[len(ways) - 1].jaxpr, level.step.eqn)
            ways.append(f"{ways[-1]}{_with_step(label, level.step)}/")
        return ways[-1] + self._label(self.levels[-1].jaxpr, eqn)

    def _label(self, jaxpr: Jaxpr, eqn: JaxprEqn) -> str:
        labels = self._labels.get(jaxpr)
        if labels is None:
            labels = self._labels[jaxpr] = labels_of(jaxpr)
        return labels[eqn]


_MOST_LABELS = 200  # labels in a key; those of further enclosing equations are hashed


def _hashed(way: str) -> str:
    from hashlib import blake2b  # noqa: PLC0415 (5 ms, and only deep programs need it)

    return f"~{blake2b(way.encode(), digest_size=8).hexdigest()}/"


def _with_step(label: str, step: Step) -> str:
    inside = step.param if step.branch is None else f"{step.param}:{step.branch}"
    return f"{label}.{inside}" if step.step is None else f"{label}.{inside}[{step.step}]"


def labels_of(jaxpr: Jaxpr) -> dict[JaxprEqn, str]:
    """Return a label for each equation of a jaxpr: `model.py:12:4 attn#0`, the first of those with this line and scope."""
    seen: Counter[str] = Counter()
    labels: dict[JaxprEqn, str] = {}
    for eqn in jaxpr.eqns:
        source = place_of(eqn).replace("\\", "/").rpartition("/")[2]
        names = eqn.origin.names if eqn.origin is not None else None
        origin = " ".join(filter(None, (source, stack_of(tuple(names or ())))))
        labels[eqn] = f"{origin}#{seen[origin]}"
        seen[origin] += 1
    return labels

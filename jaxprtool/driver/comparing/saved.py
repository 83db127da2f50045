"""Read the saved results of other runs (folders of values, files of digests) and compare them, also
with a running program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from jaxprtool.analyses.comparing.comparison import (
    EXACT,
    Comparison,
    First,
    Output,
    Tolerance,
    Written,
)
from jaxprtool.analyses.recording import Record, Recorder
from jaxprtool.driver.comparing.in_step import Limits, differences
from jaxprtool.driver.comparing.saved_pairs import (
    Kind,
    Kinds,
    by_order,
    kinds_of,
    paired,
)
from jaxprtool.driver.run import evaluated, ready
from jaxprtool.driver.running.prints import printing_aside
from jaxprtool.driver.running.record import INDEX, digest_lines, digests, literals_of
from jaxprtool.driver.words.shapes import parse_shape
from jaxprtool.interpreters.evaluation.state_values import Cell, Token
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Value, Var
from jaxprtool.passes.once import runs_once

__all__ = ["Saved", "compare_saved", "compare_with_run", "is_saved", "load_saved"]


Ins = list[str | None] | None


class Saved(NamedTuple):
    """The saved results of a run.

    Attributes:
      name: the name of the folder or file.
      results: the entry of each result, by the key of its equation and its position, in the order
        of the run.
      places: the place of each equation, by its key.
      folder: whether they are values, in files, not digests.
      ins: the hashes of the operands of each equation, by its key, with None for a literal: an
        equation with another literal is another equation. None where they are not known.
    """

    name: str
    results: dict[tuple[str, int], dict[str, Any]]
    places: dict[str, Written]
    folder: bool
    ins: dict[str, Ins]

    def kinds(self) -> Kinds:
        """Return primitive and result types of each equation, by its key."""
        types: dict[str, list[str]] = {}
        for (key, _), entry in self.results.items():
            types.setdefault(key, []).append(str(entry.get("type")))
        return kinds_of(self.places, types)

    def made_alone(self, paired_keys: set[str]) -> dict[str, Ins]:
        """Return, for digests, hash -> operands' hashes for the results of equations that only this run has."""
        if self.folder:
            return {}
        items = self.results.items()
        return {str(x["hash"]): self.ins[k] for (k, _), x in items if k not in paired_keys}

    def value(self, entry: dict[str, Any]) -> Any:
        """Return the value of a result in a folder."""
        from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

        file = str(entry.get("file", ""))
        if os.path.basename(file) != file:
            _damaged(self.name)
        path = os.path.join(self.name, file)
        aval = parse_shape(str(entry.get("type")), f"the type in {self.name}")
        return arrays.fit(arrays.load_npy(path), arrays.Slot(-1, Var(aval), path), path)


_FIRST = b'{"key": '  # the beginning of a line of digests


def is_saved(path: str) -> bool:
    """Whether a path is that of a folder of values, or of a file of digests."""
    return path.endswith(".jsonl") or os.path.isdir(path) or _begins_as_digests(path)


def _begins_as_digests(path: str) -> bool:
    """Whether a file begins like a file of digests, whatever its name."""
    if not os.path.isfile(path):  # reading from a pipe would consume it
        return False
    try:
        with open(path, "rb") as f:
            return f.read(len(_FIRST)) == _FIRST
    except OSError:
        return False


def load_saved(path: str) -> Saved:
    """Read a folder that `run --save-values` wrote, or a file that `run --digest` wrote.

    Raises:
      UsageError: it is neither, or damaged.
    """
    folder = os.path.isdir(path)
    file = os.path.join(path, INDEX) if folder else path
    try:
        with open(file, encoding="utf-8") as f:
            text = f.read()
        lines = json.loads(text)["values"] if folder else [*map(json.loads, text.splitlines())]
        return _read(path, lines, folder)
    except OSError as e:
        fail(UsageError, f"cannot read {file}: {(e.strerror or str(e)).lower()}", "unreadable-file")
    except (ValueError, KeyError, TypeError, AttributeError):
        _damaged(file)


def _damaged(file: str) -> NoReturn:
    help = (
        "`jaxprtool run --save-values DIR` writes folders of values, and `--digest` lines of JSON"
    )
    fail(UsageError, f"cannot read {file}: not what a run has saved", "unreadable-file", help=help)


def _read(path: str, lines: Sequence[dict[str, Any]], folder: bool) -> Saved:
    results: dict[tuple[str, int], dict[str, Any]] = {}
    places: dict[str, Written] = {}
    ins: dict[str, Ins] = {}
    for line in lines:
        key = str(line["key"])
        places[key] = Written(dict(line["place"]))
        ins[key] = (
            _without_literals(line["ins"], line.get("literals", ())) if "ins" in line else None
        )
        if folder:
            results[key, int(line["result"])] = line
            continue
        for k, out in enumerate(line["outs"]):
            results[key, k] = dict(out)
    return Saved(path, results, places, folder, ins)


def _without_literals(ins: Sequence[Any], literals: Sequence[int]) -> list[str | None]:
    return [None if i in literals else str(x) for i, x in enumerate(ins)]


def compare_saved(a: Saved, b: Saved, tolerance: Tolerance) -> Comparison:
    """Compare the saved results of two runs, result by result of each equation that both have."""
    if a.folder != b.folder:
        message = f"{a.name} and {b.name}: one is a folder of values, and one a file of digests"
        fail(UsageError, message, "bad-usage", help="save the same of both runs")
    found = _Table(a.name, b.name, tolerance)
    partner, moved = _partners(a, b)
    found.alone = (a.made_alone(set(partner)), b.made_alone({*partner.values()}))
    for key, entry in a.results.items():
        theirs = partner.get(key[0])
        other = None if theirs is None else b.results.get((theirs, key[1]))
        if theirs is None or other is None:
            continue
        places = a.places[key[0]], b.places[theirs]
        ins = a.ins[key[0]], b.ins[theirs]
        if a.folder:
            found.values(key, a.value(entry), b.value(other), *places, *ins)
        else:
            found.digests(key, entry, other, *places, *ins)
    notes = [
        moved,
        _alone(a, b, found.count),
        _alone(b, a, found.count),
        _between(found.first, a, b),
    ]
    return found.comparison(_of_digests(a), *notes)


def _partners(a: Saved, b: Saved) -> tuple[dict[str, str], str]:
    """Return the key in B of the counterpart of each equation of A, and a note on how they were found, or ""."""
    kinds = a.kinds(), b.kinds()
    found = paired(*kinds)
    ordered = by_order(found, *kinds, (a.places, b.places))
    return (found, "") if ordered is None else (ordered, _IN_ORDER)


def _of_digests(saved: Saved) -> str:
    return "" if saved.folder else "digests say whether results differ, and not by how much"


def _alone(a: Saved, b: Saved, common: int) -> str:
    n = len(a.results) - common
    return f"{n} of {len(a.results)} results of {a.name} are not in {b.name}" if n else ""


def _between(first: First | None, *runs: Saved) -> str:
    """Return advice where the first difference is a loop of which a run has not saved all steps."""
    if first is None or first.a is None:
        return ""
    place = first.a.json()
    depth, loop = len(place.get("path", ())), (place.get("line"), place.get("primitive"))
    for run in runs:
        steps: dict[Any, set[int]] = {}
        for written in run.places.values():
            path: Sequence[dict[str, Any]] = written.json().get("path", ())
            step: dict[str, Any] = path[depth] if len(path) > depth else {}
            if (step.get("line"), step.get("primitive")) == loop and step.get("step") is not None:
                steps.setdefault(step.get("param"), set()).add(step["step"])
        if any(max(found) >= len(found) for found in steps.values()):
            return f"{run.name} has not all steps of {first.a}: `--every 1` keeps those between too"
    return ""


def compare_with_run(
    a: ClosedJaxpr,
    args: Sequence[Value],
    saved: Saved,
    tolerance: Tolerance,
    name: str,
    limits: Limits,
    *,
    swap: bool = False,
) -> Comparison:
    """Run a program on NumPy and compare its results with those saved by another run, as they are computed.

    It runs once more where lines of Python have other numbers than in the run that was saved, unless it has effects.
    """
    names = (saved.name, name) if swap else (name, saved.name)
    program = ready(a, args, limits.max_bytes)
    beside = _Beside(saved, _Table(*names, tolerance), swap=swap)
    moved = ""
    with printing_aside():
        evaluated(program, args, *limits, Recorder(beside.take, every=1))
        partner = beside.partner_by_order()
        if partner is not None:
            moved = "the lines of Python are others: save both runs to have their equations aligned"
        if partner is not None and not runs_once(program):
            beside, moved = _Beside(saved, _Table(*names, tolerance), partner, swap=swap), _IN_ORDER
            evaluated(program, args, *limits, Recorder(beside.take, every=1))
    left, found = beside.left, beside.found
    alone = f"{counted(len(left), 'equation')} of {saved.name} did not run" if left else ""
    return found.comparison(moved, _of_digests(saved), alone, _between(found.first, saved))


class _Beside:
    """Compares what a program computes with what another run has saved.

    Attributes:
      found: the differences.
      left: the keys of the saved equations that have not run yet.
      kinds, places: of the equations that have run, by key; as many as matter.
    """

    def __init__(
        self,
        saved: Saved,
        found: _Table,
        partner: Mapping[str, str] | None = None,
        *,
        swap: bool = False,
    ):
        """Prepare to compare; partner: the key of the saved equation for that of one that runs; None: the same."""
        self._saved, self.found, self._partner, self._swap = saved, found, partner, swap
        self.left = {key for key, _ in saved.results}
        self.kinds: Kinds = {}
        self.places: dict[str, Any] = {}
        self._theirs, self._hashes = saved.kinds(), digests().Hashes()
        self._digested = digest_lines()

    def partner_by_order(self) -> dict[str, str] | None:
        """Return the keys of saved equations, by those that ran, where lines of Python have other numbers; else None."""
        common = {k: k for k in self.kinds if k in self._theirs}
        return by_order(common, self.kinds, self._theirs, (self.places, self._saved.places))

    def take(self, record: Record) -> None:
        """Compare the results of an equation that has run."""
        saved, found = self._saved, self.found
        line = None if saved.folder else self._digested(record)
        hashed = map(self._hashes.of, record.ins) if line is None else line["ins"]
        now_in = _without_literals([*hashed], literals_of(record))
        self._note(record)
        theirs = record.key if self._partner is None else self._partner.get(record.key)
        if theirs is None or _is_another(record, self._theirs.get(theirs)):
            return
        self.left.discard(theirs)
        for k, x in enumerate(record.outs):
            key = theirs, k
            entry = saved.results.get(key)
            if entry is None:
                continue
            places: tuple[Any, Any] = record.place, saved.places[theirs]
            now = x.value if isinstance(x, Cell) else x
            pair = (now, saved.value(entry)) if line is None else (line["outs"][k], entry)
            ins: tuple[Ins, Ins] = now_in, saved.ins[theirs]
            if self._swap:
                places, pair, ins = (places[1], places[0]), (pair[1], pair[0]), (ins[1], ins[0])
            add = found.values if line is None else found.digests
            add(key, *pair, *places, *ins)

    def _note(self, record: Record) -> None:
        """Keep the kind of an equation, unless far more have run than were saved."""
        if self._partner is None and len(self.kinds) < _NOTED * len(self._theirs) + 1000:
            self.kinds[record.key] = record.place.eqn.primitive.name, _types_of(record)
            self.places[record.key] = record.place


_NOTED = 4  # how many equations of a run are noted for each that was saved
_IN_ORDER = "the lines of Python are others: equations are paired in their order"


def _is_another(record: Record, theirs: Kind | None) -> bool:
    """Whether an equation that ran is not the one saved with its key: it has another primitive, with other types."""
    if theirs is None:
        return True
    if theirs[0] == record.place.eqn.primitive.name:
        return False
    return theirs[1] != _types_of(record)


def _types_of(record: Record) -> tuple[str, ...]:
    values: list[Value] = [x.value if isinstance(x, Cell) else x for x in record.outs]
    name = differences().type_name
    return tuple(name(x) for x in values if not isinstance(x, Token))


class _Table:
    """The differences so far.

    Attributes:
      outputs: the results that differ.
      first: the first of them whose operands agree.
      perhaps: the first of them for which that is not known.
      alike: by the hashes of two values that were compared and are not identical, whether they
        agree within the tolerance.
      common: the hashes of values that both runs have in the same place.
      alone: for each run, hash -> operands' hashes for values of equations without a counterpart.
    """

    def __init__(self, a: str, b: str, tolerance: Tolerance):
        self.names, self.tolerance = (a, b), tolerance
        self.outputs: list[Output] = []
        self.first: First | None = None
        self.perhaps: First | None = None
        self.alike: dict[tuple[str | None, str | None], bool] = {}
        self.flips: First | None = None
        self.count = 0
        self.common: set[str | None] = {None}
        self.alone: tuple[dict[str, Ins], dict[str, Ins]] = {}, {}

    def values(self, key: tuple[str, int], x: Any, y: Any, a: Any, b: Any, p: Ins, q: Ins) -> None:
        """Compare two values; p, q: the hashes of the operands on both sides."""
        found = differences().difference(x, y, **self.tolerance._asdict())
        if not differences().same(x, y):
            pair = digests().hash_of(x), digests().hash_of(y)
            self.alike[pair] = not found.n_different
        elif not self.outputs:
            self.common.add(digests().hash_of(x))
        self._add(key, found, a, b, agree=self._agree(p, q))

    def _agree(self, p: Ins, q: Ins) -> bool | None:
        """Whether operands agree; None where it is not known."""
        if p is None or q is None:
            return None
        if len(p) != len(q):  # different numbers of results: it is another operation
            return True if self._are_others(p, q) else None
        self.common |= {s for s, t in zip(p, q, strict=True) if s == t}
        if self._are_others(p, q):
            return True
        pairs = zip(p, q, strict=True)
        unlike = False if self.tolerance == EXACT else None
        found = [s == t or None in (s, t) or self.alike.get((s, t), unlike) for s, t in pairs]
        return False if False in found else None if None in found else True

    def _are_others(self, p: Sequence[str | None], q: Sequence[str | None]) -> bool:
        """Whether operands are other values of those that both runs have, or in another order: then
        the equation was changed.
        """
        if self.outputs or p == q:
            return False
        pairs = (({*p} - {*q}, self.alone[0]), ({*q} - {*p}, self.alone[1]))
        return all(self._is_of_common(hashes, made) for hashes, made in pairs)

    def _is_of_common(self, hashes: set[str | None], made: dict[str, Ins]) -> bool:
        """Whether both runs have these values, or they are made of such values by equations that
        the other run lacks.
        """
        left, seen = [*hashes], set[str]()
        while left:
            one = left.pop()
            if one is None or one in self.common or one in seen:
                continue
            ins = made.get(one)
            if ins is None:
                return False
            seen.add(one)
            left += ins
        return True

    def digests(
        self,
        key: tuple[str, int],
        x: dict[str, Any],
        y: dict[str, Any],
        a: Any,
        b: Any,
        p: Ins,
        q: Ins,
    ) -> None:
        """Compare two digests; p, q: as for `values`. The operands agree where their hashes do."""
        made = differences().Found
        n = int(x["hash"] != y["hash"] or x["type"] != y["type"])
        agree = p == q or self._agree(p, q) is True
        if not n:
            self.common.add(x["hash"])
        self._add(key, made(x["type"], y["type"], 1, n), a, b, agree=agree)

    def _add(self, key: tuple[str, int], found: Any, a: Any, b: Any, *, agree: bool | None) -> None:
        self.count += 1
        if not found.n_different:
            return
        label = str(a) if key[1] == 0 else f"{a}, result {key[1]}"
        self.outputs.append(Output(len(self.outputs), label, found))
        here = First(a, b, found, key[1])
        if self.first is None and agree:
            self.first = here
        if self.perhaps is None and agree is None:
            self.perhaps = here
        if self.flips is None and found.exact:
            self.flips = here

    def comparison(self, *notes: str) -> Comparison:
        """Return the answer. Raises UsageError where nothing could be compared."""
        if not self.count:
            message = f"{self.names[0]} and {self.names[1]} have no equation in common"
            fail(UsageError, message, "nothing-common")
        first, unsure = self.first, ""
        if first is None and self.perhaps is not None:
            first = self.perhaps
            unsure = "whether the operands of the first difference agree is not known"
        return Comparison(
            not self.outputs,
            self.names,
            self.outputs,
            self.tolerance,
            first,
            True,
            self.flips,
            [*filter(None, (*notes, unsure))],
            self.count,
        )

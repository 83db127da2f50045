"""The answer of a comparison of two runs: a table of the outputs, and the place of the first difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxprtool.analyses.answer import Answer, json_number
from jaxprtool.analyses.places import Place, device_text
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.origin import Frame

__all__ = ["EXACT", "Comparison", "First", "Output", "Tolerance", "Written", "short"]


class Tolerance(NamedTuple):
    """Which differences of floats are tolerated; integers, booleans and keys are compared exactly.

    Attributes:
      rtol, atol: differences up to `atol + rtol * max(|a|, |b|)` are.
      ulp: differences up to this many steps from float to float are.
      rounding: differences that rounding explains are, eps^(2/3) of the type, relative to the
        larger element or to the largest of the array; only where none of the others is given.
    """

    rtol: float | None = None
    atol: float | None = None
    ulp: float | None = None
    rounding: bool = False

    def __str__(self) -> str:
        if self.ulp is not None:
            return f"up to {short(self.ulp)} ulp"
        if self.rtol is not None or self.atol is not None:
            return f"rtol {short(self.rtol or 0.0)}, atol {short(self.atol or 0.0)}"
        return "what rounding explains, eps^(2/3)" if self.rounding else "none"


EXACT = Tolerance()


@dataclass(frozen=True)
class Output:
    """One result of both runs.

    Attributes:
      index: its position.
      label: what it is called: its path in the tree of the results, or its position.
      found: how the two values differ, as `backends.differences.Found` has it.
      judgement: what an arbiter says: `A worse`, `B worse`, `both equally far` or
        `both within rounding`; None without one.
      error_a, error_b: the distances of both from the arbiter's value, in ulps; None without one.
    """

    index: int
    label: str
    found: Any
    judgement: str | None = None
    error_a: float | None = None
    error_b: float | None = None

    def json(self) -> dict[str, Any]:
        """The output with the keys that the help of `compare` names."""
        f = self.found
        return {
            "index": self.index,
            "name": self.label,
            "type": f.type_a,
            "type_b": f.type_b,
            "size": f.size,
            "n_different": f.n_different,
            "max_abs": json_number(f.max_abs),
            "max_rel": json_number(f.max_rel),
            "max_ulp": json_number(f.max_ulp),
            "where": None if f.where is None else list(f.where),
            "a": json_number(f.a),
            "b": json_number(f.b),
            "n_nan": f.n_nan,
            "n_zero_signs": f.n_zero_signs,
            "exact": f.exact,
            "judgement": self.judgement,
            "error_a": json_number(self.error_a),
            "error_b": json_number(self.error_b),
        }

    def cells(self) -> list[str]:
        """The row of a table: label, type, differing elements, max abs, max rel, max ulp, where."""
        f = self.found
        kind = f.type_a if f.type_a == f.type_b else f"{f.type_a} / {f.type_b}"
        at = ""
        if f.where is not None:
            index = f"[{','.join(map(str, f.where))}]" if f.where else ""
            at = f"{index} {_element(f.a)} / {_element(f.b)}".strip()
        worst = [short(x) for x in (f.max_abs, f.max_rel, f.max_ulp)]
        return [self.label, kind, f"{f.n_different} of {f.size}", *worst, at]

    def notes(self) -> list[str]:
        """What the row cannot say."""
        f, said = self.found, []
        if f.n_zero_signs:
            said.append(f"{self.label}: {counted(f.n_zero_signs, 'element')} 0.0 / -0.0, ulp 0")
        if f.n_nan:
            said.append(f"{self.label}: {counted(f.n_nan, 'element')} NaN on one side alone")
        if f.exact and f.n_different:
            said.append(f"{self.label}: {f.type_a} is compared exactly")
        if self.judgement:
            a, b = short(self.error_a), short(self.error_b)
            off = "" if f.exact else f" (A is {a} ulp off, B {b})"
            said.append(f"{self.label}: {self.judgement}{off}")
        return said


class Written(NamedTuple):
    """A place that another run has saved as a document, with the properties of a `Place`."""

    document: dict[str, Any]

    @property
    def source(self) -> str | None:
        """The line of Python."""
        found: Any = self.document.get("source")
        if not isinstance(found, dict):  # a string in documents of earlier releases
            return found
        fields: list[Any] = [found.get(key) for key in Frame._fields]
        return Frame(*fields).located()

    @property
    def names(self) -> str | None:
        """The scopes."""
        return self.document.get("names")

    def located(self) -> str:
        """`file:line:column`."""
        found = [self.document.get(key) for key in ("file", "line", "column")]
        return ":".join(str(x) for x in found if x is not None)

    def json(self) -> dict[str, Any]:
        """The place as it was written."""
        return self.document

    def __str__(self) -> str:
        steps = [
            f"{step.get('primitive')} at {step.get('line')}"
            + ("" if step.get("branch") is None else f", branch {step['branch']}")
            + ("" if step.get("step") is None else f" > step {step['step']}")
            for step in self.document.get("path", [])
        ]
        if device := self.document.get("device"):
            steps.append(device_text(device))
        return " > ".join(
            [*steps, f"{self.document.get('primitive')} at {self.document.get('line')}"]
        )


@dataclass(frozen=True)
class First:
    """The first equation whose results differ although its operands agree.

    Attributes:
      a, b: its place in each program; None where the program has nothing there. For a run whose
        values were saved, the place that was written with them.
      found: how the results differ; None where only the places are known.
      result: the position of the result that differs.
      given: for an elementwise equation, its operands where the results differ most, in A and in B.
      among: other equations of A, and of B, that may be to blame: those that compute the same,
        where the other program computes it once, and those that compute a constant, where the other
        program has it.
      device: of a result of all devices of a mesh, that on which it differs most; {} of others.
    """

    a: Place | Written | None
    b: Place | Written | None
    found: Any = None
    result: int = 0
    given: Sequence[tuple[Any, Any]] = ()
    among: tuple[Sequence[Place], Sequence[Place]] = ((), ())
    device: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Comparison(Answer):
    """How the results of two runs differ.

    Attributes:
      equal: whether no output differs by more than the tolerance.
      names: what A and B are called, for people.
      outputs: the outputs, in order.
      tolerance: which differences count as none.
      first: the first difference; None where it was not searched, or there is none.
      searched: whether it was searched.
      flips: the first comparison, or other result that is no float, which differs; None as for
        `first`.
      notes: remarks: excess precision, say.
      compared: for saved values, how many results were compared: `outputs` then has only those that
        differ.
    """

    equal: bool
    names: tuple[str, str]
    outputs: Sequence[Output]
    tolerance: Tolerance = EXACT
    first: First | None = None
    searched: bool = False
    flips: First | None = None
    notes: Sequence[str] = field(default_factory=list[str])
    compared: int | None = None

    @property
    def first_b(self) -> Place | Written | None:
        """The place of the first difference in B."""
        return None if self.first is None else self.first.b

    def json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "equal": self.equal,
            "a": self.names[0],
            "b": self.names[1],
            "outputs": [x.json() for x in self.outputs],
            "first": _place(self.first, "a"),
            "first_b": _place(self.first, "b"),
            "among": _among(self.first, 0),
            "among_b": _among(self.first, 1),
            "flips": _place(self.flips, "a"),
            "flips_b": _place(self.flips, "b"),
            "notes": list(self.notes),
            "compared": len(self.outputs) if self.compared is None else self.compared,
        }

    def lines(self) -> list[str]:
        differing = sum(1 for x in self.outputs if x.found.n_different)
        n, noun = len(self.outputs), "output"
        if self.compared is not None:
            n, noun = self.compared, "result"
        of = f"{differing} of {counted(n, noun)}"
        verdict = f"{of} {'differs' if differing == 1 else 'differ'}"
        if not self.equal and not n:
            verdict = "not known to be equal: there are no results to compare"
        if self.equal:
            verdict = "equal" if self.compared is None else f"equal: {counted(n, noun)}"
        found = [f"A: {self.names[0]}", f"B: {self.names[1]}", f"tolerance: {self.tolerance}"]
        if self.outputs:
            found += ["", *_table([_HEADER, *(x.cells() for x in self.outputs)])]
        said = [note for x in self.outputs for note in x.notes()]
        found += ["", *said, *self.notes] if [*said, *self.notes] else []
        if self.first is not None:
            found += ["", *_first_lines("first difference", self.first)]
        elif self.searched and not self.equal:
            found += ["", "first difference: none of a single equation"]
        if self.flips is not None and self.flips != self.first:
            found += ["", *_first_lines("first comparison that flips", self.flips)]
        return [*found, "", verdict]


_HEADER = ["output", "type", "differ", "max abs", "max rel", "max ulp", "where, A / B"]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _place(first: First | None, side: str) -> dict[str, Any] | None:
    place = None if first is None else getattr(first, side)
    return None if place is None else place.json()


def _among(first: First | None, side: int) -> list[dict[str, Any]]:
    return [] if first is None else [place.json() for place in first.among[side]]


def _first_lines(title: str, first: First) -> list[str]:
    lines = [f"{title}:"]
    for side, place in (("A", first.a), ("B", first.b)):
        if place is None:
            lines.append(f"  {side}: nothing stands in its place")
            continue
        lines.append(f"  {side}: {_line(place)}")
        where = [x for x in (place.source, place.names and f"in {place.names}") if x]
        if where:
            lines.append(f"     {' '.join(where)}")
        others = first.among[side == "B"]
        lines += [f"     or {_line(other)}" for other in others[:_FEW]]
        if len(others) > _FEW:
            lines.append(f"     or one of {len(others) - _FEW} others")
    f = first.found
    if f is not None:
        at = "" if not f.where else f" at [{','.join(map(str, f.where))}]"
        at += f" of {device_text(first.device)}" if first.device else ""
        values = "" if f.where is None else f": {_element(f.a)} / {_element(f.b)}{at}"
        kind = f.type_a if f.type_a == f.type_b else f"{f.type_a} / {f.type_b}"
        which = f"result {first.result}, " if first.result else ""
        lines.append(f"  {which}{kind}, {f.n_different} of {f.size} differ{values}")
    if first.given:
        pairs = [(_element(x), _element(y)) for x, y in first.given]
        operands = ", ".join(x if x == y else f"{x} / {y}" for x, y in pairs)
        lines.append(f"  operands there: {operands}")
    return lines


_FEW = 5  # of other equations that may be to blame are shown


def _line(place: Place | Written) -> str:
    return f"{place.located()}: {place}".replace(": : ", ": ")


def _element(x: Any) -> str:
    """An element, with the digits that tell floats apart."""
    if isinstance(x, complex):
        return f"{x.real:.9g}{x.imag:+.9g}j"
    return f"{x:.9g}" if isinstance(x, float) else str(x)


def short(x: Any) -> str:
    """A number in few digits, `-` for none."""
    if x is None:
        return "-"
    if isinstance(x, complex):
        return f"{x.real:.6g}{x.imag:+.6g}j"
    return f"{x:.6g}" if isinstance(x, float) else str(x)

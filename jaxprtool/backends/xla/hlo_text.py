"""Read the text of an HLO module: its computations, its loops with their trip counts, and which
buffers share memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["Alias", "HloLoop", "HloText", "unescaped", "with_turns"]

_COMPUTATION = re.compile(r"^(ENTRY )?%?([^\s(]+) \(.*?^\}", re.MULTILINE | re.DOTALL)
_INSTRUCTION = re.compile(r"^ +(?:ROOT )?%?(\S+) = (?:\(.*?\)|\S+) ([\w-]+)\((.*)$", re.MULTILINE)
_CALLED = re.compile(r"\b(\w+)=(\{%[^}]*\}|%[\w.-]+)")
_NAME = re.compile(r"%?([\w.-]+)")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_FRAME = re.compile(r" ?\bstack_frame_id=\d+")
_TURNS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_ALIASES = re.compile(r"input_output_alias=\{(.*?)\}(?:, \w+=|\n|$)", re.DOTALL)
_ALIAS = re.compile(r"\{([\d, ]*)\}: \((\d+), \{[\d, ]*\}, (may|must)-alias\)")


class HloLoop(NamedTuple):
    """A while loop of a module.

    Attributes:
      name: the name of the instruction.
      trips: the number of its iterations; None where XLA does not know it.
      op_name: its origin, from its metadata; "" without any.
      body, condition: the names of its computations.
    """

    name: str
    trips: int | None
    op_name: str
    body: str
    condition: str


class Alias(NamedTuple):
    """A result that shares memory with an argument, or that is the argument.

    Attributes:
      output: the position of the result.
      input: the position of the argument.
      kind: `may` or `must`, for memory that is reused; `same` for an argument that is returned.
    """

    output: int
    input: int
    kind: str


class _Call(NamedTuple):
    """An instruction that runs other computations: its kind, and the names of these by attribute."""

    kind: str
    computations: dict[str, list[str]]
    loop: HloLoop | None


class HloText:
    """A module, as text.

    Attributes:
      computations: name -> text of each computation, without `ENTRY`.
      calls: name -> the calls by the instructions of a computation.
      entry: the name of the computation that runs first.
    """

    def __init__(self, text: str):
        self.text = text
        self.computations: dict[str, str] = {}
        self.calls: dict[str, list[_Call]] = {}
        self.entry = ""
        for m in _COMPUTATION.finditer(text):
            name = m[2]
            self.computations[name] = m[0].removeprefix("ENTRY ")
            self.calls[name] = [*_calls_in(m[0])]
            self.entry = name if m[1] else self.entry

    @property
    def loops(self) -> list[HloLoop]:
        """All loops."""
        return [c.loop for calls in self.calls.values() for c in calls if c.loop is not None]

    def alone(self, name: str) -> str:
        """Return a module that consists of one computation and those that it runs."""
        needed, stack = dict.fromkeys([name]), [name]
        while stack:
            for call in self.calls[stack.pop()]:
                for inner in (n for names in call.computations.values() for n in names):
                    if inner not in needed and inner in self.computations:
                        needed[inner] = None
                        stack.append(inner)
        # a computation stands before those that run it
        parts = [text for n, text in self.computations.items() if n in needed and n != name]
        whole = "\n\n".join(["HloModule part", *parts, f"ENTRY {self.computations[name]}"])
        return _FRAME.sub("", whole)  # the table of frames is not there, and XLA warns of each

    @property
    def aliases(self) -> list[Alias]:
        """Return which results share memory with arguments."""
        head = self.text.partition("\n")[0]
        found = []
        if m := _ALIASES.search(head):
            for output, argument, kind in _ALIAS.findall(m[1]):
                found.append(Alias(int(output.split(",")[0] or 0), int(argument), kind))
        return found


def _calls_in(computation: str) -> Iterator[_Call]:
    for name, kind, rest in _INSTRUCTION.findall(computation):
        named = {k: _names(v) for k, v in _CALLED.findall(rest)}
        if not named:
            continue
        loop = None
        if kind == "while":
            turns, op = _TURNS.search(rest), _OP_NAME.search(rest)
            said = unescaped(op[1]) if op else ""
            trips = int(turns[1]) if turns else None
            loop = HloLoop(name, trips, said, named["body"][0], named["condition"][0])
        yield _Call(kind, named, loop)


def unescaped(text: str) -> str:
    """Return the contents of a quoted text in HLO: control characters and bytes beyond ASCII are escaped as in C."""
    return _ESCAPE.sub(_unescape, text.encode()).decode(errors="replace")


_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_CONTROLS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def _unescape(m: re.Match[bytes]) -> bytes:
    if len(m[1]) == 3:
        return bytes([int(m[1], 8) & 0xFF])
    return _CONTROLS.get(m[1], m[1])


def _names(text: str) -> list[str]:
    return _NAME.findall(text)


class _NotRead(Exception):
    """XLA has no figures for a computation."""


Costs = Callable[[str], dict[str, float] | None]


def with_turns(
    hlo: HloText, cost: Costs, unknown: int | None
) -> tuple[dict[str, float], bool] | None:
    """Return XLA's figures with each loop counted for all its iterations; XLA counts its body and its condition once.

    Args:
      hlo: the module.
      cost: the name of a computation -> XLA's figures for it, or None.
      unknown: the number of iterations of loops for which XLA does not know it; None: unknown.

    Returns:
      The figures, and whether they are complete; if not, loops of unknown length count with no
        iteration. None where XLA does not give the cost of a computation.
    """
    counter = _Turns(hlo, cost, unknown)
    try:
        return counter.of(hlo.entry), counter.known
    except _NotRead:
        return None


_FIGURES = ("flops", "transcendentals", "bytes accessed")


class _Turns:
    def __init__(self, hlo: HloText, cost: Costs, unknown: int | None):
        self.hlo, self.cost, self.unknown = hlo, cost, unknown
        self.once: dict[str, dict[str, float]] = {}
        self.found: dict[str, dict[str, float]] = {}
        self.known = True

    def of(self, name: str) -> dict[str, float]:
        """Return the figures of one run of a computation."""
        if name not in self.found:
            total = dict(self._once(name))
            for call in self.hlo.calls[name]:
                if self._has_loop(call):
                    for figure, more in self._more(call).items():
                        total[figure] += more
            self.found[name] = total
        return self.found[name]

    def _once(self, name: str) -> dict[str, float]:
        if name not in self.once:
            found = self.cost(name)
            if found is None:
                raise _NotRead
            self.once[name] = {figure: found.get(figure, 0.0) for figure in _FIGURES}
        return self.once[name]

    def _has_loop(self, call: _Call) -> bool:
        inner = [n for names in call.computations.values() for n in names]
        return call.loop is not None or any(
            self._has_loop(c) for n in inner for c in self.hlo.calls.get(n, ())
        )

    def _more(self, call: _Call) -> dict[str, float]:
        """Return the figures of an instruction beyond those that XLA counts."""
        if call.loop is not None:
            trips = call.loop.trips if call.loop.trips is not None else self.unknown
            self.known = self.known and trips is not None
            n = trips or 0
            return self._difference([(call.loop.body, n), (call.loop.condition, n + 1)])
        names = [n for found in call.computations.values() for n in found]
        if call.kind == "conditional":
            parts = [self._difference([(n, 1)]) for n in names]
            return {figure: max(p[figure] for p in parts) for figure in _FIGURES}
        return self._difference([(n, 1) for n in names])

    def _difference(self, parts: Sequence[tuple[str, int]]) -> dict[str, float]:
        return {
            figure: sum(n * self.of(name)[figure] - self._once(name)[figure] for name, n in parts)
            for figure in _FIGURES
        }

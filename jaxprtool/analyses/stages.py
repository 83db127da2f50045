"""Compare the stages of compilation: texts of StableHLO and of HLO, and the buffers.

Two texts are equal when they are so up to names of values and of modules, and up to what only says
where an operation comes from. Differing operations are counted by their kinds, operands aside, so
that an inserted one counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import zip_longest
from typing import NamedTuple

__all__ = ["Buffers", "buffers_of", "operations_that_differ", "same_hlo", "same_stablehlo"]

_VALUE = re.compile(r"%[\w$.-]+")
_LOCATION = re.compile(r"\s*\bloc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()\"]|\"[^\"]*\")*\))*\)")
_MLIR_NAME = re.compile(r"^(\s*(?:builtin\.)?module) @[\w$.-]+")
_JAX_ATTRIBUTE = re.compile(r"jax\.\w+ = (?:\"[^\"]*\"|\w+)(?:, )?|, jax\.\w+ = (?:\"[^\"]*\"|\w+)")
_MLIR_OPERATION = re.compile(r"(?:^|= |applies )\"?([a-z_]\w*\.[\w.]+)")
_METADATA = re.compile(r", metadata=\{(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\"|\{[^{}]*\})*\}")
_HLO_MODULE = re.compile(r"^HloModule [^,\n]+(?:, is_scheduled=\w+)?")
_HLO_KEPT = re.compile(
    r"(input_output_alias=\{.*?\}(?=, \w+=|$)|entry_computation_layout=\{.*\}\)?\})"
)
_ALIASES = re.compile(r"^HloModule .*input_output_alias=(\{.*?\})(?=, \w+=|$)", re.MULTILINE)
_HLO_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_MOST_KINDS = 6  # kinds of operations that are reported
_HLO_OPERATION = re.compile(r" = (?:\([^=]*?\)|\S+) ([a-z][\w-]*)\(")


def same_stablehlo(a: str, b: str) -> bool:
    """Whether two texts of StableHLO are equal up to names and locations."""
    return _same(_mlir_lines(a), _mlir_lines(b))


def same_hlo(a: str, b: str) -> bool:
    """Whether two texts of HLO are equal up to names and metadata."""
    return _same(_hlo_lines(a), _hlo_lines(b))


def _same(a: Iterator[str], b: Iterator[str]) -> bool:
    """Whether lines are equal up to names of values. Holds one line of each at a time, as a text may have 100 MB."""
    return all(x == y for x, y in zip_longest(_renamed(a), _renamed(b)))


def operations_that_differ(a: str, b: str, *, is_hlo: bool) -> str:
    """Return in one line how many operations of each kind differ: `2 stablehlo.add more; 1 stablehlo.sine fewer`."""
    lines: Callable[[str], Iterator[str]] = _hlo_lines if is_hlo else _mlir_lines
    pattern = _HLO_OPERATION if is_hlo else _MLIR_OPERATION
    before, after = (Counter(_kinds(lines(text), pattern)) for text in (a, b))
    more, fewer = (_by_kind(x) for x in (after - before, before - after))
    changed = more & fewer
    groups = ((changed, "changed"), (more - changed, "more"), (fewer - changed, "fewer"))
    said = [f"{_counted(kinds)} {what}" for kinds, what in groups if kinds]
    if is_hlo and _ALIASES.findall(a) != _ALIASES.findall(b):
        said.append("results lie where other arguments did")
    return "; ".join(said) or "the same operations, on other operands or in another order"


def _by_kind(lines: Counter[tuple[str, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (kind, _), n in lines.items():
        found[kind] += n
    return found


def _counted(kinds: Counter[str]) -> str:
    most = kinds.most_common(_MOST_KINDS)
    rest = kinds.total() - sum(n for _, n in most)
    more = [f"{rest} others"] if rest else []
    return ", ".join([*(f"{n} {kind}" for kind, n in most), *more])


def _kinds(lines: Iterator[str], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the operations of a text: the name of each, and its line without names of values."""
    for line in lines:
        found = pattern.search(line.strip())
        if found is not None:
            yield found[1], _VALUE.sub("%", line.strip())


def _renamed(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines with values numbered in the order in which they are first named."""
    numbers: dict[str, str] = {}

    def number(m: re.Match[str]) -> str:
        return numbers.setdefault(m[0], f"%{len(numbers)}")

    for line in lines:
        yield _VALUE.sub(number, line)


def _mlir_lines(text: str) -> Iterator[str]:
    for line in StringIO(text):
        if line.startswith("#loc"):
            continue
        line = _MLIR_NAME.sub(r"\1", _LOCATION.sub("", line))
        line = _JAX_ATTRIBUTE.sub("", line).replace(" {}", "").rstrip()
        if line:
            yield line


def _hlo_lines(text: str) -> Iterator[str]:
    in_table = False
    for line in StringIO(text):
        line = line.rstrip("\n")
        if not line.strip():
            in_table = False
        elif line in _HLO_TABLES:
            in_table = True
        elif line.startswith("HloModule"):
            yield from _HLO_KEPT.findall(line)
        elif not in_table:
            yield _METADATA.sub("", line).rstrip()


# -- buffers ------------------------------------------------------------------------------------------


class Buffers(NamedTuple):
    """The memory of a compiled program, in bytes.

    Attributes:
      arguments: the bytes of all arguments.
      results: the bytes of all results.
      aliased: the bytes of results that reuse the memory of arguments, which count once in `total`.
      temporaries: the bytes of intermediate values.
      constants: the bytes of constants in the code.
    """

    arguments: int
    results: int
    aliased: int
    temporaries: int
    constants: int = 0

    @property
    def total(self) -> int:
        """All bytes; aliased ones count once."""
        return sum(self) - 2 * self.aliased


_ALLOCATION = re.compile(r"^allocation \d+: size (\d+),(.*)$", re.MULTILINE)


def buffers_of(text: str) -> Buffers:
    """Read the buffers from a dump of XLA's, `...-buffer-assignment.txt`. Raises ValueError for any other text."""
    sums: Counter[str] = Counter()
    rows = _ALLOCATION.findall(text)
    if not rows:
        raise ValueError("no allocation is in it")
    for size, said in rows:
        n = int(size)
        if " parameter " in said:
            sums["arguments"] += n
            if "maybe-live-out" in said:
                sums["aliased"] += n
                sums["results"] += n
        elif "maybe-live-out" in said:
            sums["results"] += n
        elif " constant" in said:
            sums["constants"] += n
        elif "thread-local" not in said:
            sums["temporaries"] += n
    return Buffers(*(sums[key] for key in Buffers._fields))

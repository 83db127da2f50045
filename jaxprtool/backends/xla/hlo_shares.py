"""What went into each instruction of an optimised module: operations, by the places in the metadata that lowering wrote."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from jaxprtool.backends.xla.hlo_text import HloText, unescaped

__all__ = ["Shares", "shares_of"]

_INSTRUCTION = re.compile(
    r"^ +(?:ROOT )?%?(\S+) = (\((?:[^()]|\([^()]*\))*\)|\S+) ([\w-]+)\((.*)$", re.MULTILINE
)
_SHAPE = re.compile(r"\b[a-z]\w*\[([\d,<=]*)\]")
_OPERAND = re.compile(r"%([\w.-]+)")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_TURNS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_RUN = frozenset({"fusion", "call", "while", "conditional"})
_FREE = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})

Shares = dict[str, float]


def shares_of(text: str) -> dict[str, tuple[str, Shares]]:
    """The name of each instruction's operation, and what went into it.

    Args:
      text: the module.

    Returns:
      By the name of the instruction the `op_name` of its metadata, and those of the operations in the computations that it
      runs, each with its work: the number of elements that it takes or gives, whichever is more (the multiplications of a
      matrix product), in all turns of loops of known length. Of one that runs no computation its own. What XLA put in has
      the name of what it was put into, or "".
    """
    reader = _Reader(HloText(text))
    return {name: found for c in reader.hlo.computations for name, *found in reader.of(c)}  # type: ignore[misc]


class _Reader:
    def __init__(self, hlo: HloText):
        self.hlo = hlo
        self.done: dict[str, list[tuple[str, str, Shares]]] = {}

    def of(self, computation: str) -> list[tuple[str, str, Shares]]:
        """The instructions of a computation: name, op_name, and what went into each."""
        found = self.done.get(computation)
        if found is None:
            found = self.done[computation] = [*self._read(self.hlo.computations[computation])]
        return found

    def _read(self, text: str) -> Iterator[tuple[str, str, Shares]]:
        sizes: dict[str, int] = {}
        for name, shape, kind, rest in _INSTRUCTION.findall(text):
            size = sizes[name] = _elements(shape)
            said = _OP_NAME.search(rest)
            op_name = unescaped(said[1]) if said else ""
            shares: Shares = {}
            if kind in _RUN:
                shares = _sum((op or op_name, n) for op, n in self._inside(rest))
            if not shares and kind not in _FREE:
                taken = [sizes.get(x, 0) for x in _OPERAND.findall(rest)]
                shares = {op_name: _work(kind, size, taken)}
            yield name, op_name, shares

    def _inside(self, rest: str) -> Iterator[tuple[str, float]]:
        """What the computations that an instruction runs come to."""
        turns = _TURNS.search(rest)
        times = int(turns[1]) if turns else 1
        called = [x for x in _OPERAND.findall(rest) if x in self.hlo.computations]
        for computation in dict.fromkeys(called):
            for _, _, shares in self.of(computation):
                yield from ((op, n * times) for op, n in shares.items())


def _work(kind: str, size: int, taken: list[int]) -> float:
    if kind == "dot" and len(taken) >= 2:
        return max(math.sqrt(size * taken[0] * taken[1]), 1.0)  # [m, k] and [k, n] give [m, n]
    return float(max(size, *taken, 1)) if taken else float(max(size, 1))


def _sum(pairs: Iterator[tuple[str, float]]) -> Shares:
    found: Shares = {}
    for op, n in pairs:
        found[op] = found.get(op, 0.0) + n
    return found


def _elements(shape: str) -> int:
    """The elements of an array, or of all arrays of a tuple."""
    shapes = [re.findall(r"\d+", dims) for dims in _SHAPE.findall(shape)]
    return sum(math.prod(map(int, dims)) for dims in shapes)

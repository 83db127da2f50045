"""Attribute each instruction of an optimised module to operations, by the origins in the metadata
that lowering wrote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

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
_PART = "get-tuple-element"
_VIEWS = frozenset({"bitcast", "reshape"})
_FREE = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})

Shares = dict[str, float]


def shares_of(text: str) -> dict[str, tuple[str, Shares]]:
    """Return for each instruction the name of its operation, and the operations fused into it with their work.

    Args:
      text: the module.

    Returns:
      By the name of the instruction: the `op_name` of its metadata, and the op_names of the
        operations in the computations that it runs, each with its work. The work is the number of
        elements that the operation takes or returns, whichever is more (for a matrix product the
        multiplications), in all iterations of loops of known length. An instruction that runs no
        computation has its own name and work. One that XLA inserted has the name of the operation
        for which it was inserted, or "".
    """
    reader = _Reader(HloText(text))
    return {name: found for c in reader.computations for name, *found in reader.of(c)}  # type: ignore[misc]


class _Instruction(NamedTuple):
    """An instruction of a computation: its operands by name, and the text after them."""

    name: str
    kind: str
    size: int
    operands: list[str]
    op_name: str
    rest: str


def _instructions(text: str) -> dict[str, _Instruction]:
    found: dict[str, _Instruction] = {}
    for name, shape, kind, rest in _INSTRUCTION.findall(text):
        said = _OP_NAME.search(rest)
        op_name = unescaped(said[1]) if said and "[" in said[1] else ""  # else XLA named it
        given, _, after = rest.partition(")")
        operands = [given] if kind == "parameter" else _OPERAND.findall(given)
        found[name] = _Instruction(name, kind, _elements(shape), operands, op_name, after)
    return found


class _Reader:
    def __init__(self, hlo: HloText):
        self.computations = {name: _instructions(text) for name, text in hlo.computations.items()}
        self.users = {name: _users(inside) for name, inside in self.computations.items()}
        self.done: dict[str, list[tuple[str, str, Shares]]] = {}

    def of(self, computation: str) -> list[tuple[str, str, Shares]]:
        """Return the instructions of a computation: name, op_name, and the shares of operations."""
        found = self.done.get(computation)
        if found is None:
            found = self.done[computation] = [*self._read(computation)]
        return found

    def _read(self, computation: str) -> Iterator[tuple[str, str, Shares]]:
        inside = self.computations[computation]
        for x in inside.values():
            op_name = x.op_name or self._seen_as(computation, x)
            shares: Shares = {}
            if x.kind in _RUN:
                shares = _sum((op or op_name, n) for op, n in self._inside(x))
            elif x.kind not in _FREE:
                shares = self._parts(computation, x)
            if not shares and x.kind not in _FREE:
                taken = [inside[o].size for o in x.operands if o in inside]
                shares = {op_name: _work(x.kind, x.size, taken)}
            yield x.name, op_name, shares

    def _inside(self, x: _Instruction) -> Iterator[tuple[str, float]]:
        """Yield the operations, with their work, in the computations that an instruction runs."""
        turns = _TURNS.search(x.rest)
        times = int(turns[1]) if turns else 1
        for computation in self._called(x):
            for _, _, shares in self.of(computation):
                yield from ((op, n * times) for op, n in shares.items())

    def _called(self, x: _Instruction) -> list[str]:
        names = (name for name in _OPERAND.findall(x.rest) if name in self.computations)
        return [*dict.fromkeys(names)]

    def _parts(self, computation: str, x: _Instruction) -> Shares:
        """Return the names of the results of an instruction that combines several, such as a
        collective of a few arrays.
        """
        parts = [u for u in self.users[computation].get(x.name, ()) if u.kind == _PART]
        named = {u.op_name for u in parts} - {""}
        return (
            _sum((u.op_name, float(u.size)) for u in parts if u.op_name) if len(named) > 1 else {}
        )

    def _seen_as(self, computation: str, x: _Instruction) -> str:
        """Return the operation of an instruction without a name: that of a view of its result,
        where there is only one.

        For the product with a vector the name stays with the reshape of the result, which may be in
        the fusion that takes it.
        """
        if x.kind in _FREE or x.kind == "copy":
            return ""
        named: set[str] = set()
        for user in self.users[computation].get(x.name, ()):
            if user.kind in _VIEWS:
                named.add(user.op_name)
            elif user.kind == "fusion":
                for inner in self._called(user):
                    named |= self._views_inside(inner, user.operands.index(x.name))
        named.discard("")
        return named.pop() if len(named) == 1 else ""

    def _views_inside(self, computation: str, position: int) -> set[str]:
        """Return the operations of the views of a parameter."""
        return {
            user.op_name
            for x in self.computations[computation].values()
            if x.kind == "parameter" and x.operands == [str(position)]
            for user in self.users[computation].get(x.name, ())
            if user.kind in _VIEWS
        }


def _users(inside: dict[str, _Instruction]) -> dict[str, list[_Instruction]]:
    found: dict[str, list[_Instruction]] = {}
    for x in inside.values():
        for operand in dict.fromkeys(x.operands):
            found.setdefault(operand, []).append(x)
    return found


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
    """Return the number of elements of an array, or of all arrays of a tuple."""
    shapes = [re.findall(r"\d+", dims) for dims in _SHAPE.findall(shape)]
    return sum(math.prod(map(int, dims)) for dims in shapes)

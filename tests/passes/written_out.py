"""Random programs that say the same several times: loops that are written out, and parts that stand in several places."""

from __future__ import annotations

import random
from typing import NamedTuple

__all__ = ["Written", "copied_parts", "written_loop"]

UNARY = ("sin", "cos", "tanh", "neg", "exp2", "logistic", "integer_pow[y=2]")
BINARY = ("add", "sub", "mul", "max", "atan2")


class Written(NamedTuple):
    """A program as text.

    Attributes:
      text: of type (f64[2], f64[2], f64[n, 2]) -> ...
      rows: n.
      turns: how many turns the loop has, or in how many places the part stands.
      equations: the equations of all turns, or places.
    """

    text: str
    rows: int
    turns: int
    equations: int


class Lines:
    """Equations, whose results have names in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, right: str, of: str = "f64[2]") -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"    {name}:{of} = {right}")
        return name

    def program(self, rows: int, *outs: str) -> str:
        body = "\n".join(self.lines)
        return f"{{ lambda ; a:f64[2] b:f64[2] x:f64[{rows},2]. let\n{body}\n  in ({', '.join(outs)},) }}"


def row(lines: Lines, i: int) -> str:
    """x[i]"""
    cut = f"slice[limit_indices=({i + 1}, 2) start_indices=({i}, 0) strides=None] x"
    return lines.add(f"squeeze[dimensions=(0,)] {lines.add(cut, 'f64[1,2]')}")


def step(rng: random.Random, size: int, depth: int) -> list[tuple[str, list[str]]]:
    """Random equations of a turn: an operation, and what its operands are.

    `before k` is the result of the turn k before, `row` a row, `number` a literal of its own, `same` an argument, and a number is the
    equation of the turn whose result it is.
    """
    kinds = [f"before {k}" for k in range(1, depth + 1)] + ["row", "number", "same"]
    eqns: list[tuple[str, list[str]]] = []
    for j in range(size):
        inside = [str(i) for i in range(j)]
        first = "before 1" if j == 0 else str(j - 1)
        if rng.random() < 0.4:
            eqns.append((rng.choice(UNARY), [first]))
        else:
            other = rng.choice([*kinds, *inside])
            eqns.append((rng.choice(BINARY), [first, other]))
    return eqns


def written_loop(seed: int) -> Written:
    """A loop of random equations that is written out, with other equations before and behind it."""
    rng = random.Random(seed)
    size, depth, turns = rng.randint(3, 9), rng.randint(1, 3), rng.randint(8, 20)
    eqns = step(rng, size, depth)
    lines, results = Lines(), [*["a", "b", "a"][:depth], "b"]
    every, backwards = rng.choice((1, 1, 2, 3)), rng.random() < 0.3
    for op in rng.choices(UNARY, k=rng.randint(0, 3)):
        results.append(lines.add(f"{op} {results[-1]}"))
    begin = len(lines.lines)
    steps: list[str] = []
    for t in range(turns):
        inside: list[str] = []
        for op, operands in eqns:
            names: list[str] = []
            for x in operands:
                if x == "row":
                    names.append(row(lines, every * (turns - 1 - t if backwards else t)))
                elif x.startswith("before"):
                    names.append(results[-int(x.split()[1])])
                else:
                    other = {"number": f"{t}.25:f64[]", "same": "b"}
                    names.append(other[x] if x in other else inside[int(x)])
            inside.append(lines.add(f"{op} {' '.join(names)}"))
        results.append(inside[-1])
        steps.append(inside[-1])
    end = len(lines.lines)
    last = lines.add(f"cos {results[-1]}")
    outs = [last, *rng.choice(([], [steps[-2]], [steps[-1], steps[0]], rng.sample(steps, 3)))]
    if rng.random() < 0.5:
        wide = [
            lines.add(f"broadcast_in_dim[shape=(1, 2) broadcast_dimensions=(1,)] {v}", "f64[1,2]")
            for v in steps
        ]
        outs.append(lines.add(f"concatenate[dimension=0] {' '.join(wide)}", f"f64[{turns},2]"))
    rows = every * turns
    return Written(lines.program(rows, *outs), rows, turns, end - begin)


def copied_parts(seed: int) -> Written:
    """A random part that stands in several places, with other equations between them."""
    rng = random.Random(seed)
    size, places = rng.randint(5, 12), rng.randint(3, 6)
    eqns = step(rng, size, 2)
    lines, known, outs = Lines(), ["a", "b"], []
    for t in range(places):
        for op in rng.choices(UNARY, k=rng.randint(1, 4)):
            known.append(lines.add(f"{op} {rng.choice(known)}"))
        before = rng.sample(known, 2)
        inside: list[str] = []
        for op, operands in eqns:
            other = {"row": "a", "number": f"{t}.5:f64[]", "same": "b"}
            other |= {f"before {k + 1}": v for k, v in enumerate(before)}
            names = [other[x] if x in other else inside[int(x)] for x in operands]
            inside.append(lines.add(f"{op} {' '.join(names)}"))
        known.append(inside[-1])
        if rng.random() < 0.3:
            outs.append(rng.choice(inside))
    return Written(lines.program(1, known[-1], *outs), 1, places, size * places)

"""XLA's figures of a compiled program, beside the program's own: operations, bytes, loops, and shared memory."""

from __future__ import annotations

from typing import Any

from jaxprtool.analyses.counting.cost import Estimate
from jaxprtool.analyses.table import Report
from jaxprtool.driver.compile import Compiled
from jaxprtool.ir.diagnostics import MissingRuleError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit

__all__ = ["CompiledFigures", "figures"]

_COSTS = ("flops", "transcendentals", "bytes accessed")


class CompiledFigures(Report):
    """The figures of a compiled program.

    Attributes:
      once: XLA's estimates, each of `flops`, `transcendentals` and `bytes accessed`, where the body
        of a loop counts once.
      turns: the same, where it counts once for each iteration; None where XLA has none.
      known: whether the numbers of iterations of all loops are known.
      loops: the loops of the optimised HLO (`Compiled.loops`).
      memory: bytes for `arguments`, `results`, `temporaries`, the `peak`, and those of results that
        share memory with arguments.
      aliases: (result, argument or None, other result or None, kind): which values are the same, or
        share memory.
      before: `total` of `jaxprtool cost`, before XLA optimises; None where a primitive has no cost
        rule.
    """

    __slots__ = ("aliases", "before", "known", "loops", "memory", "once", "turns")

    def __init__(self, compiled: Compiled, program: ClosedJaxpr, trips: int | None):
        costs = compiled.cost_analysis()
        self.once = {name: costs.get(name, 0.0) for name in _COSTS}  # XLA leaves out costs of zero
        self.turns, self.known = compiled.cost_with_turns(trips) or (None, False)
        self.loops = compiled.loops()
        self.memory = {
            **compiled.memory_analysis()._asdict(),
            "aliased": compiled.alias_bytes(),
        }
        shared = [(a.output, a.input, None, a.kind) for a in compiled.aliases()]
        self.aliases = [*shared, *_same_values(program)]
        self.before = _before(program, trips)

    def parts(self) -> list[str]:
        found = [self._cost(name) for name in self.once]
        found += [
            f"loop {x.name}: {_turns(x.trips)}{'  ' + x.op_name if x.op_name else ''}"
            for x in self.loops
        ]
        found += [_alias(*a) for a in self.aliases]
        found += [f"{name}: {size:,} bytes" for name, size in self.memory.items()]
        if self.before is not None:
            said = [f"{k} {_number(self.before[k])}" for k in ("flops", "transcendentals", "bytes")]
            found.append(f"before optimisation: {', '.join(said)}")
        return found

    def _cost(self, name: str) -> str:
        once = f"{self.once[name]:,.0f}"
        if not self.loops:
            return f"{name}: {once}"
        if self.turns is None or not self.known:
            more = "" if self.turns is None else f"{self.turns[name]:,.0f} + unknown; "
            return f"{name}: {more}{once} with the body of each loop once"
        return f"{name}: {self.turns[name]:,.0f}; {once} with the body of each loop once"

    def json(self) -> dict[str, Any]:
        known = self.turns if self.known else None
        return {
            "schema": 1,
            "total": {_key(k): None if known is None else known[k] for k in self.once},
            "bodies_once": {_key(k): v for k, v in self.once.items()},
            "loops": [{"name": x.name, "trips": x.trips, "op_name": x.op_name} for x in self.loops],
            "memory": self.memory,
            "aliases": [
                {"result": r, "argument": a, "other_result": o, "kind": kind}
                for r, a, o, kind in self.aliases
            ],
            "before_optimisation": self.before,
        }


def figures(compiled: Compiled, program: ClosedJaxpr, trips: int | None = None) -> CompiledFigures:
    """Return XLA's figures of a compiled program.

    Args:
      compiled: the compiled program.
      program: the program.
      trips: the number of iterations of loops for which neither XLA nor the program knows it; None:
        unknown.
    """
    return CompiledFigures(compiled, program, trips)


def _same_values(program: ClosedJaxpr) -> list[tuple[int, int | None, int | None, str]]:
    """Return the results that are arguments, or other results."""
    jaxpr = program.jaxpr
    arguments = {v: i for i, v in enumerate(jaxpr.in_binders)}
    first: dict[Any, int] = {}
    found: list[tuple[int, int | None, int | None, str]] = []
    for i, x in enumerate(jaxpr.outs):
        if isinstance(x, Lit):
            continue
        if x in arguments:
            found.append((i, arguments[x], None, "same"))
        elif x in first:
            found.append((i, None, first[x], "same"))
        first.setdefault(x, i)
    return found


def _before(program: ClosedJaxpr, trips: int | None) -> dict[str, int | None] | None:
    try:
        total = Estimate(program, trips=trips).total
    except MissingRuleError:
        return None
    return {
        "flops": total.flops.high,
        "transcendentals": total.transcendentals.high,
        "bytes": total.nbytes.high,
    }


def _alias(result: int, argument: int | None, other: int | None, kind: str) -> str:
    what = f"argument {argument}" if argument is not None else f"result {other}"
    return f"result {result} {'is' if kind == 'same' else 'lies where'} {what}"


def _turns(trips: int | None) -> str:
    return "turns unknown" if trips is None else f"{trips:,} turn{'s' * (trips != 1)}"


def _key(name: str) -> str:
    return name.replace(" ", "_")


def _number(n: int | None) -> str:
    return "unknown" if n is None else f"{n:,}"

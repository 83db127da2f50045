"""Attribute the time of a compiled program's instructions to equations, by the places that lowering put into their metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jaxprtool.analyses.counting.tally import in_order, sites
from jaxprtool.analyses.places import Place, Step
from jaxprtool.analyses.profiling.profile import Instruction
from jaxprtool.analyses.profiling.timing import Node
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["attributed"]


def attributed(
    program: ClosedJaxpr,
    own: Mapping[str, float],
    calls: Mapping[str, int],
    shares: Mapping[str, Mapping[str, float]],
    runs: int,
) -> tuple[Node, list[Instruction], float]:
    """Distribute the time of each instruction over the equations that it was made of, in proportion to their work.

    Args:
      program: the program.
      own: the nanoseconds of each instruction, in all runs.
      calls: how often each instruction was executed.
      shares: for each instruction the names of the operations that went into it, as lowering wrote
        them (`[loss.jaxpr:12:5]/scan/[loss.jaxpr:14:9]/sin`), with the work of each.
      runs: how many runs there were.

    Returns:
      The tree of what ran; the instructions, the longest time first; and the nanoseconds of those
      that come from no equation.
    """
    ways = _Ways(program)
    root, unknown = Node(None), 0.0
    instructions: list[Instruction] = []
    for name, time in own.items():
        found: dict[Place, float] = {}
        whole = sum(shares[name].values()) or 1.0
        for op_name, work in shares[name].items():
            place = ways.place(op_name)
            if place is not None:
                found[place] = found.get(place, 0.0) + work / whole
        for place, share in found.items():
            node = root.at(place)
            node.own += time * share
            node.calls = max(node.calls, calls[name])
        left = 1 - sum(found.values())
        unknown += time * left if left > 1e-9 else 0.0  # less is a rounding error
        ordered = sorted(found.items(), key=lambda x: -x[1])
        instructions.append(Instruction(name, calls[name] / runs, time / runs / 1e9, ordered))
    return root, sorted(instructions, key=lambda x: -x.seconds), unknown


class _Ways:
    """Finds the equations of a program, and the ways to them, by their places in its text."""

    def __init__(self, program: ClosedJaxpr):
        self.known: dict[str, tuple[Place, Jaxpr]] = {}
        files: dict[str, None] = {}
        order = in_order(program.jaxpr)
        for site in sites(order, None):
            for eqn in site.jaxpr.eqns:
                # the body of a reduction or a scatter is a part of it
                held = [c.jaxpr for c in sub_jaxprs(eqn) if c.jaxpr not in order]
                for part in (eqn, *(inner for jaxpr in held for inner in all_eqns(jaxpr))):
                    if part.span is not None:
                        self.known.setdefault(str(part.span), (site.place(eqn), site.jaxpr))
                        files[part.span.source.name] = None
        # the name of a file may hold any characters, and that of one file begin with another's
        names = "|".join(map(re.escape, sorted(files, key=len, reverse=True)))
        self.written = re.compile(rf"\[((?:{names}):\d+:\d+)\]")

    def place(self, op_name: str) -> Place | None:
        """Return the place of the innermost equation that the name of an operation mentions; None where it mentions none.

        The way to it leads through the other equations mentioned, as far as each of them runs the
        one after it: XLA keeps the places of calls, and not those of loops. Else it is the first
        way.
        """
        texts = self.written.findall(op_name)
        named = [self.known[text] for text in texts if text in self.known]
        if not named:
            return None
        found = named[0][0]
        for place, home in named[1:]:
            steps = [
                Step(found.eqn, run.param, run.branch)
                for run in runs_of(found.eqn)
                if run.jaxpr.jaxpr is home
            ]
            found = Place(place.eqn, (*found.path, steps[0])) if steps else place
        return found

"""From the instructions of a compiled program back to equations, by the places that lowering put into their metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jaxprtool.analyses.places import Place
from jaxprtool.analyses.profile import Instruction
from jaxprtool.analyses.tally import in_order, sites
from jaxprtool.analyses.timing import Node
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["attributed"]


def attributed(
    program: ClosedJaxpr,
    own: Mapping[str, float],
    calls: Mapping[str, int],
    shares: Mapping[str, Mapping[str, float]],
    places_in: Callable[[str], Sequence[str]],
    runs: int,
) -> tuple[Node, list[Instruction], float]:
    """Give the time of each instruction to the equations that it was made of, each as much as its share.

    Args:
      program: the program.
      own: the nanoseconds of each instruction, in all runs.
      calls: how often each was executed.
      shares: for each the names of the operations that went into it, with the work of each.
      places_in: the places in such a name, the outermost first.
      runs: how many runs there were.

    Returns:
      The tree of what ran; the instructions, the longest time first; and the nanoseconds of those that come from no equation.
    """
    known: dict[str, Place] = {}
    for site in sites(in_order(program.jaxpr), None):
        for eqn in site.jaxpr.eqns:
            if eqn.span is not None:
                known.setdefault(str(eqn.span), site.place(eqn))
    root, unknown = Node(None), 0.0
    instructions: list[Instruction] = []
    for name, time in own.items():
        found: dict[Place, float] = {}
        whole = sum(shares[name].values()) or 1.0
        for op_name, work in shares[name].items():
            at = [known[p] for p in reversed(places_in(op_name)) if p in known]
            if at:
                found[at[0]] = found.get(at[0], 0.0) + work / whole
        for place, share in found.items():
            node = root.at(place)
            node.own += time * share
            node.calls = max(node.calls, calls[name])
        unknown += time * (1 - sum(found.values()))
        ordered = sorted(found.items(), key=lambda x: -x[1])
        instructions.append(Instruction(name, calls[name] / runs, time / runs / 1e9, ordered))
    return root, sorted(instructions, key=lambda x: -x.seconds), unknown

"""Orders of the equations of a jaxpr that take less memory.

To find the best one is NP-hard (Sethi 1975, "Complete register allocation problems"). Two rules are
tried, in time that is nearly linear: `_freeing_most` takes next, of the equations that can come,
the one that frees most; `_results_apart` computes each result with what it needs just before it,
the part that needs most memory first (after Sethi and Ullman 1970, for trees).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from jaxprtool.interpreters.dce import has_effects
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import Jaxpr

__all__ = ["Graph", "bytes_in_order", "is_ordered", "least_bytes", "orders"]


class Graph:
    """How equations depend on each other.

    Attributes:
      needs: for each equation the equations that have to come before it.
      readers: for each equation the equations that have to come after it.
      values: for each equation, and each of its results, how many equations read it, and its size;
        to be a result of the jaxpr counts as one more reader.
      reads: for each equation the results of others that it reads: (equation, position).
    """

    def __init__(self, jaxpr: Jaxpr, sizes: Any):
        n = len(jaxpr.eqns)
        made: dict[Any, tuple[int, int]] = {}
        self.needs: list[list[int]] = [[] for _ in range(n)]
        self.readers: list[list[int]] = [[] for _ in range(n)]
        self.values: list[list[list[int]]] = []
        self.reads: list[list[tuple[int, int]]] = []
        ordered = -1  # the last equation whose order is that of the program
        for i, eqn in enumerate(jaxpr.eqns):
            reads = [made[x] for x in dict.fromkeys(eqn.inputs) if x in made]
            before = {j for j, _ in reads}
            for j, k in reads:
                self.values[j][k][0] += 1
            if is_ordered(eqn):
                if ordered >= 0:
                    before.add(ordered)
                ordered = i
            self.reads.append(reads)
            self.values.append([[0, sizes[v.aval]] for v in eqn.out_binders])
            for k, v in enumerate(eqn.out_binders):
                made[v] = i, k
            self.needs[i] = sorted(before)
            for j in before:
                self.readers[j].append(i)
        for x in jaxpr.outs:
            if x in made:
                i, k = made[x]
                self.values[i][k][0] += 1


def is_ordered(eqn: Any) -> bool:
    """Whether an equation has effects, or sees those of others: what reads a cell has to stay after what writes it."""
    for atoms in (eqn.inputs, eqn.out_binders):
        for x in atoms:
            if type(x.aval) is RefType:
                return True
    return has_effects(eqn)


def least_bytes(jaxpr: Jaxpr, own: Sequence[int], extra: Sequence[int], sizes: Any) -> int:
    """Return the bytes at the peak in the best order that is found.

    Args:
      jaxpr: the jaxpr.
      own: for each equation the bytes of its results.
      extra: for each equation the bytes that it takes while it runs, besides its results.
      sizes: type -> bytes, as `liveness.Sizes`.
    """
    graph = Graph(jaxpr, sizes)
    found = [bytes_in_order(graph, order, own, extra) for order in orders(graph, own, extra)]
    return min(found)


def orders(graph: Graph, own: Sequence[int], extra: Sequence[int]) -> list[list[int]]:
    """Return the orders that are tried."""
    return [_freeing_most(graph, own), _results_apart(graph, own, extra)]


def bytes_in_order(
    graph: Graph, order: Sequence[int], own: Sequence[int], extra: Sequence[int]
) -> int:
    """Return the bytes at the peak where the equations are in an order."""
    left = [[count for count, _ in values] for values in graph.values]
    alive = peak = 0
    for i in order:
        alive += own[i]
        peak = max(peak, alive + extra[i])
        for j, k in graph.reads[i]:
            left[j][k] -= 1
            if not left[j][k]:
                alive -= graph.values[j][k][1]
        for count, size in graph.values[i]:
            if not count:
                alive -= size
    return peak


def _freeing_most(graph: Graph, own: Sequence[int]) -> list[int]:
    """Take next, of the equations that can come, the one after which least memory is taken; of several, the first."""
    n = len(own)
    waits = [len(needs) for needs in graph.needs]
    left = [[count for count, _ in values] for values in graph.values]
    lasting = [sum(size for count, size in values if count) for values in graph.values]
    score = [*lasting]
    readers: list[dict[int, set[int]]] = [{} for _ in range(n)]
    for i, reads in enumerate(graph.reads):
        for j, k in reads:
            readers[j].setdefault(k, set()).add(i)
            if left[j][k] == 1:
                score[i] -= graph.values[j][k][1]
    heap = [(score[i], i) for i in range(n) if not waits[i]]
    heap.sort()
    done, order = [False] * n, []
    while heap:
        found, i = heappop(heap)
        if done[i] or found != score[i]:
            continue
        done[i] = True
        order.append(i)
        for j, k in graph.reads[i]:
            left[j][k] -= 1
            those = readers[j][k]
            those.discard(i)
            if left[j][k] == 1 and those:
                (last,) = those
                score[last] -= graph.values[j][k][1]
                if not waits[last]:
                    heappush(heap, (score[last], last))
        for j in graph.readers[i]:
            waits[j] -= 1
            if not waits[j]:
                heappush(heap, (score[j], j))
    return order


def _results_apart(graph: Graph, own: Sequence[int], extra: Sequence[int]) -> list[int]:
    """Put what each equation needs just before it, the part that takes most memory first."""
    n = len(own)
    most = [0] * n  # the bytes that computing an equation's result takes, as if nothing were shared
    for i in range(n):
        held = peak = 0
        for j in sorted(graph.needs[i], key=lambda j: own[j] - most[j]):
            peak = max(peak, held + most[j])
            held += own[j]
        most[i] = max(peak, held + own[i] + extra[i])
    done, order = [False] * n, []
    roots = [i for i in range(n) if not graph.readers[i]]
    for root in sorted(roots, key=lambda i: own[i] - most[i]):
        stack = [root]
        while stack:
            i = stack[-1]
            if done[i]:
                stack.pop()
                continue
            waiting = [j for j in graph.needs[i] if not done[j]]
            if not waiting:
                done[i] = True
                order.append(i)
                stack.pop()
            else:
                stack += sorted(waiting, key=lambda j: most[j] - own[j])
    return order

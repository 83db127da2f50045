"""Measure the time of equations on NumPy: the tree of what a run does, and the observer that fills it.

Times are in nanoseconds. The time of an equation that holds jaxprs is what passes outside of their
equations: reading operands, going from iteration to iteration. An equation's time includes that of
reading its operands, and of freeing values that nobody reads after the equation before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

from jaxprtool.analyses.places import Place, Step, Watch
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn

__all__ = ["Node", "Slice", "Timer"]

# Which jaxpr of an equation runs: the param that holds it, and its position there if there are several.
_Which = tuple[str, int | None]


class Node:
    """An equation on one way to it, with what it runs.

    Attributes:
      eqn: the equation; None for the program as a whole.
      above: the node of the equation that runs it; None for the program.
      which: the param of that equation, and the branch, of the jaxpr that it is in.
      calls: how often it was executed.
      own: the time that passed in it and not in what it runs.
      below: the equations that it runs, by the jaxpr that they are in.
    """

    __slots__ = ("above", "below", "calls", "eqn", "own", "which")

    def __init__(self, eqn: JaxprEqn | None, above: Node | None = None, which: _Which = ("", None)):
        self.eqn, self.above, self.which = eqn, above, which
        self.calls: float = 0
        self.own: float = 0
        self.below: dict[_Which, dict[JaxprEqn, Node]] = {}

    def inside(self, which: _Which) -> dict[JaxprEqn, Node]:
        """Return the nodes of the equations of one of its jaxprs that were seen so far."""
        found = self.below.get(which)
        if found is None:
            found = self.below[which] = {}
        return found

    def child(self, which: _Which, eqn: JaxprEqn) -> Node:
        """Return the node of an equation of one of its jaxprs."""
        inside = self.inside(which)
        found = inside.get(eqn)
        if found is None:
            found = inside[eqn] = Node(eqn, self, which)
        return found

    def at(self, place: Place) -> Node:
        """Return the node of a place; only for the node of the program."""
        node, which = self, ("", None)
        for step in place.path:
            node, which = node.child(which, step.eqn), (step.param, step.branch)
        return node.child(which, place.eqn)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, each after the one above it. Not recursive."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield node
            for nodes in reversed(node.below.values()):
                stack += reversed(nodes.values())

    def inclusive(self) -> dict[Node, float]:
        """Return for each node the time of it and of all below it."""
        order = [*self.walk()]
        found = {node: node.own for node in order}
        for node in reversed(order):
            if node.above is not None and node is not self:
                found[node.above] += found[node]
        return found

    def way(self) -> list[JaxprEqn]:
        """Return the equations that lead to it, the outermost first, and its own."""
        found: list[JaxprEqn] = []
        node: Node | None = self
        while node is not None and node.eqn is not None:
            found.append(node.eqn)
            node = node.above
        return found[::-1]

    def place(self) -> Place:
        """Return its place; not for the program itself."""
        steps: list[Step] = []
        node = self
        while node.above is not None and node.above.eqn is not None:
            steps.append(Step(node.above.eqn, *node.which))
            node = node.above
        assert self.eqn is not None
        return Place(self.eqn, tuple(reversed(steps)))


class Slice(NamedTuple):
    """A piece of the time of a run.

    Attributes:
      eqn: the equation that ran; None for something else.
      name: what ran.
      thread: a number for each thread.
      start: when it began, in nanoseconds.
      duration: how long it took.
    """

    eqn: JaxprEqn | None
    name: str
    thread: int
    start: float
    duration: float


class Timer(Watch):
    """An observer that measures how long each equation takes.

    Attributes:
      root: the node of the program.
      inside: how long the program ran, from before its first equation to after its last one,
        measuring included.
      slices: what ran when in the last run.
      room: how many slices are kept, at most; 0 where they are not asked for.
      left_out: how many slices there was no room for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Node(None)
        self.slices: list[Slice] = []
        self.room = self.left_out = self.inside = 0
        self._nodes: list[dict[JaxprEqn, Node]] = []
        self._holders: list[tuple[Node, int]] = []  # what runs the jaxprs, and when it began
        self._began = 0
        self._last = 0

    def begin_run(self) -> None:
        """Prepare for a run: forget the slices of the last one."""
        self.slices.clear()
        self.left_out = 0

    def reset(self, room: int) -> None:
        """Forget what was measured, and keep up to `room` slices from now on."""
        self.root, self.room, self.inside = Node(None), room, 0

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool:
        now = perf_counter_ns()
        if not super().enter(jaxpr, args):
            return False
        step = self.levels[-1].step
        if step is None:
            holder, began = self.root, now
            holder.calls += 1
        else:
            holder, began = self._node(step.eqn), self._began
            holder.own += now - self._last
        which = ("", None) if step is None else (step.param, step.branch)
        self._nodes.append(holder.inside(which))
        self._holders.append((holder, began))
        self._last = perf_counter_ns()
        return True

    def begin(self, eqn: JaxprEqn, ins: Sequence[Any]) -> None:
        super().begin(eqn, ins)
        self._began = self._last

    def see(self, eqn: JaxprEqn, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        now = perf_counter_ns()
        node = self._nodes[-1].get(eqn) or self._node(eqn)
        node.own += now - self._last
        node.calls += 1
        if self.room:
            began = self._began if node.below else self._last
            self._note(Slice(eqn, eqn.primitive.name, 0, began, now - began))
        self._last = perf_counter_ns()

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Any]) -> None:
        now = perf_counter_ns()
        super().leave(jaxpr, outs)
        self._nodes.pop()
        holder, self._began = self._holders.pop()
        holder.own += now - self._last
        self._last = perf_counter_ns()
        if holder is self.root:
            self.inside += self._last - self._began

    def _node(self, eqn: JaxprEqn) -> Node:
        """Return the node of an equation of the innermost jaxpr."""
        nodes = self._nodes[-1]
        found = nodes.get(eqn)
        if found is None:
            holder = self._holders[-1][0]
            step = self.levels[len(self._nodes) - 1].step
            which = ("", None) if step is None else (step.param, step.branch)
            found = nodes[eqn] = Node(eqn, holder, which)
        return found

    def _note(self, piece: Slice) -> None:
        if len(self.slices) < self.room:
            self.slices.append(piece)
        else:
            self.left_out += 1

"""A normal form of equations on references: literals among the operands of an index become numbers in the index.

JAX and the text print both forms alike, so two programs that differ only in this are the same
program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Lit
from jaxprtool.ir.references import Fragments, Indexer, Item, Operand, RefIndex, Slice, Step
from jaxprtool.ir.walk import map_programs, with_eqns

__all__ = ["number_of", "settled", "settled_programs", "slice_of"]


def settled_programs(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program with `settled` applied to every equation, at any depth; the same object
    where nothing changes.
    """

    def change(closed: ClosedJaxpr) -> ClosedJaxpr:
        eqns = [settled(e) if e.primitive.notation else e for e in closed.eqns]
        same = all(a is b for a, b in zip(eqns, closed.eqns, strict=True))
        return closed if same else with_eqns(closed, eqns)

    return map_programs(program, change)


def settled(eqn: JaxprEqn) -> JaxprEqn:
    """Return an equation on a reference with its literal operands moved into the index as numbers.

    An operand out of range selects the nearest element, but a number in an index has to be in
    range; so the number is that of the element selected. Returns the same object where no operand
    of the index is a literal.
    """
    index = eqn.params.get("index")
    if not isinstance(index, RefIndex):
        return eqn
    first = 1 if eqn.primitive.notation == "read" else 2
    after = first + sum(1 for _ in index.operands())
    operands = eqn.inputs[first:after]
    if all(type(x) is not Lit for x in operands):
        return eqn
    numbers = _Numbers(operands)
    shape: Sequence[Any] = getattr(getattr(eqn.inputs[0].aval, "inner", None), "shape", ())
    steps: list[Step] = []
    for step in index.steps:
        steps.append(numbers.step(step, shape) if isinstance(step, Indexer) else step)
        shape = ()  # later steps index the selection of the first one, whose shape is not needed
    inputs = [*eqn.inputs[:first], *numbers.kept, *eqn.inputs[after:]]
    return eqn.replace(inputs=inputs, params={**eqn.params, "index": RefIndex(*steps)})


def number_of(number: int | Operand, size: Any) -> int | Operand:
    """Return an index along a dimension of a size, with a literal out of range clamped to the nearest element.

    Only a literal that was an operand can be out of range.
    """
    if not isinstance(number, int) or not isinstance(size, int) or -size <= number < size:
        return number
    return _selected(number, 0, size)


def slice_of(start: int | Operand, length: int | Operand, stride: int, size: Any) -> Slice:
    """Return a slice of a dimension of a size.

    A slice to the end has size None, as it is printed.
    """
    if not isinstance(start, int):
        return Slice(start, length, stride)
    start = _selected(start, Slice(0, length, stride), size)
    return Slice(start) if stride == 1 and length == size - start else Slice(start, length, stride)


def _selected(number: int, item: Item, size: Any) -> int:
    """Return where an index or a slice begins whose operand has this value; `number` itself for a
    size that is not known.

    Negative values count from the end; the result is clamped so that the item lies inside the
    dimension.
    """
    if not isinstance(size, int):
        return number
    length = 1
    if isinstance(item, Slice):
        known = item.size if isinstance(item.size, int) else 1
        length = (known - 1) * item.stride + 1 if known else 0
    return min(max(number + size if number < 0 else number, 0), max(size - length, 0))


class _Numbers:
    """Replaces the literals among the operands of an index by numbers, and renumbers the other operands.

    Attributes:
      operands: the operands of the index before.
      kept: those that are operands still, in the order of the new index.
    """

    def __init__(self, operands: Sequence[Atom]):
        self.operands = operands
        self.kept: list[Atom] = []

    def step(self, step: Indexer, shape: Sequence[Any]) -> Indexer:
        """Return a new step of the index, for a cell of that shape; the shape () means that it is not known."""
        sizes = [*shape] if len(shape) == len(step.items) else [None] * len(step.items)
        return Indexer(
            tuple([self._item(x, size) for x, size in zip(step.items, sizes, strict=True)])
        )

    def _item(self, item: Item, size: Any) -> Item:
        if isinstance(item, Operand):
            return self._number(item, item, size)
        if isinstance(item, Fragments):
            return Fragments(*[p if isinstance(p, str) else self._kept(p) for p in item.pieces])
        if not isinstance(item, Slice):
            return item
        start, length = item.start, item.size
        if isinstance(start, Operand):
            start = self._number(start, item, size)
        return Slice(
            start, self._kept(length) if isinstance(length, Operand) else length, item.stride
        )

    def _number(self, operand: Operand, item: Item, size: Any) -> int | Operand:
        atom = self.operands[operand.position]
        if type(atom) is not Lit or getattr(atom.aval, "shape", ()):
            return self._kept(operand)
        return _selected(int(atom.val), item, size)

    def _kept(self, operand: Operand) -> Operand:
        self.kept.append(self.operands[operand.position])
        return Operand(len(self.kept) - 1)

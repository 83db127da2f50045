"""Infer shapes from uses: values whose shapes no earlier equation determines get the shape on which
their uses agree.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.bind import state
from jaxprtool.core.inner import inner_arguments
from jaxprtool.ir.avals import OpaqueType, ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.syntax.infer import FAULTS, UntypedWarning
from jaxprtool.syntax.inference.backwards import (
    Awaited,
    awaited,
    decided_shape,
    least_shapes,
    open_operands,
    unused_shapes,
    with_result,
)
from jaxprtool.syntax.types import UNTYPED

__all__ = ["OpenShapes"]

_LONGEST_CHAIN = 200  # values that share one shape, which a use decides


class OpenShapes:
    """The values of a program whose shapes are open, and the shapes that their uses imply.

    Attributes:
      change: sets fields of a variable or an equation, recording the old ones.
      awaited: the values whose shapes are open.
      decided: the number of types that were decided so far.
      uses: the number of uses of each variable; a use by a call counts as the uses inside of it.
      votes: for each variable, use -> (shape that the use implies, number of operands of the use
        that are the variable).
      entered: the equations whose inner jaxprs take such values.
      taken: those values.
    """

    def __init__(self, change: Callable[..., None]):
        self.change = change
        self.awaited: dict[Any, Awaited] = {}
        self.decided = 0
        self.uses: Counter[Var] = Counter()
        self.votes: dict[Var, dict[Any, tuple[Any, int]]] = {}
        self.counted: set[Jaxpr] = set()
        self.entered: set[JaxprEqn] = set()
        self.taken: set[Var] = set()

    def count_uses(self, jaxpr: Jaxpr) -> None:
        if jaxpr not in self.counted:
            self.counted.add(jaxpr)
            self.uses.update(x for eqn in jaxpr.eqns for x in eqn.inputs if type(x) is Var)
            self.uses.update(x for x in jaxpr.outs if type(x) is Var)

    def await_result(self, eqn: JaxprEqn) -> None:
        """Register a result whose shape is open, and depends on its uses."""
        out = eqn.out_binders[0] if eqn.out_binders else None
        if out is not None and out.aval is UNTYPED and out not in self.awaited:
            found = awaited(eqn, self.awaited)
            if found is not None:
                self.awaited[out] = found

    def decide_operands(self, eqn: JaxprEqn, open_: Sequence[Var]) -> None:
        """Give types to operands whose shapes the equation decides, and to results that do not depend on them."""
        found = decided_shape(eqn, {x: self.awaited[x].dtype for x in open_})
        if found is None:
            return
        for v, aval in zip(eqn.out_binders, found.results, strict=True):
            if v.aval is UNTYPED:
                self.change(v, aval=aval)
                self.decided += 1
        for x in open_:
            self.settle(x, found.shape, found.sure, eqn)

    def enter(self, eqn: JaxprEqn) -> Sequence[tuple[ClosedJaxpr, Any]]:
        """Return the inner jaxprs of an equation, after giving types to their arguments.

        The arguments get the types of the operands; an argument for an open operand is open too.
        """
        marks = {x: OpaqueType(f"?{i}") for i, x in enumerate(eqn.inputs) if x in self.awaited}
        try:
            avals = [marks.get(x, x.aval) for x in eqn.inputs]
            found = inner_arguments(eqn.primitive, avals, eqn.params)
        except FAULTS:
            return []
        variables = {id(mark): x for x, mark in marks.items()}
        if eqn not in self.entered:  # where jaxprs take an operand, its uses are inside them
            self.entered.add(eqn)
            taken = {variables.get(id(aval)) for _, types in found for aval in types}
            self.uses.subtract([x for x in eqn.inputs if isinstance(x, Var) and x in taken])
            self.taken.update([x for x in marks if isinstance(x, Var) and x in taken])
        for closed, types in found:
            for v, aval in zip(closed.jaxpr.in_binders, types, strict=False):
                x = variables.get(id(aval))
                if x is not None and v.aval is UNTYPED:
                    self.count_uses(closed.jaxpr)
                    if v not in self.awaited and self.uses[v] and isinstance(x, Var):
                        self.uses[x] += 1
                    self.awaited[v] = self.awaited[x]._replace(source=x)
                elif x is not None and isinstance(v.aval, ShapedArray):
                    self.settle(x, v.aval.shape, True, v)
                elif v.aval is UNTYPED and isinstance(aval, ShapedArray):
                    self.change(v, aval=aval.strong)
        return found

    def unite(self, eqn: JaxprEqn) -> None:
        """Give shapes to variables that share a type with others inside an equation: the carry of a
        loop, results of branches.
        """
        if eqn.primitive.unites is None:
            return
        try:
            found = [*eqn.primitive.unites(**eqn.params)]
        except FAULTS:  # params that do not fit
            return
        for atoms, leading in found:
            shapes = [x.aval.shape for x in atoms if isinstance(x.aval, ShapedArray)]
            votes = [s for x in atoms for s, _ in self.votes.get(x, {}).values()]
            shapes += [s for s in votes if s == leading and s]
            for x in atoms:
                if shapes and x.aval is UNTYPED and x in self.awaited:
                    self.settle(x, shapes[0], True, eqn)

    def settle(self, x: Any, shape: tuple[Any, ...], sure: bool, use: Any) -> None:
        """Give a shape to a variable, and to the values it is made of.

        Where the shape is not sure, since an axis might have size 1 with the same meaning in this
        equation, all uses have to agree on it.

        Args:
          x: the variable.
          shape: the shape that a use implies.
          sure: whether the use accepts no other.
          use: the equation, or the variable of an inner jaxpr, that uses it.
        """
        pending, chain = [(x, shape, sure, use)], list[Any]()
        while pending and len(chain) < _LONGEST_CHAIN:
            x, shape, sure, use = pending.pop()
            at = self.awaited.get(x)
            if at is None or x.aval is not UNTYPED or not (sure or self.agreed(x, shape, use)):
                continue
            if isinstance(at.source, Var):
                pending.append((at.source, shape, sure, x))
            elif open_ := open_operands(at.source):
                if at.alike:
                    chain.append(x)
                    alone = sure and len(open_) == 1
                    pending += [(y, shape, alone, at.source) for y in open_]
                else:
                    self.decide(x, shape)
            else:
                params = with_result(at.source, ShapedArray(shape, at.dtype))
                if params is not None:
                    self.change(at.source, params=type(at.source.params)(params))
                    self.decide(x, shape)
        for y in reversed(chain):
            source = self.awaited[y].source
            if isinstance(source, JaxprEqn) and not open_operands(source):
                self.decide(y, shape)

    def presume(self, jaxpr: Jaxpr, left: Sequence[JaxprEqn], axes: Any) -> bool:
        """Presume shapes where no use decides them.

        Values that nothing uses come first; if there are none, arrays with new axes, which get size
        1.

        Args:
          jaxpr: the jaxpr, after its uses were examined.
          left: its equations whose operands have no types.
          axes: the named axes in scope.

        Returns:
          Whether a shape was decided.
        """
        decided = self.decided
        for eqn in jaxpr.eqns:
            for x in eqn.out_binders:
                if x.aval is UNTYPED and x in self.awaited and not self.uses[x]:
                    for shape in unused_shapes(self.awaited, x):
                        if x.aval is UNTYPED:
                            self.settle(x, shape, True, None)
        state.axes = axes
        known = not any(v.aval is UNTYPED for v in jaxpr.all_binders)
        if not known or self.decided != decided:
            return self.decided != decided
        for eqn in left:
            if self.taken.isdisjoint(open_operands(eqn)):
                for x, shape in (least_shapes(eqn, self.awaited) or {}).items():
                    self.settle(x, shape, True, eqn)
                    _warn_of_least(x)
        return self.decided != decided

    def decide(self, x: Var, shape: tuple[Any, ...]) -> None:
        self.change(x, aval=ShapedArray(shape, self.awaited[x].dtype))
        self.decided += 1

    def agreed(self, x: Var, shape: tuple[Any, ...], use: Any) -> bool:
        """Whether all uses of a variable, the current one included, imply this shape."""
        votes = self.votes.setdefault(x, {})
        votes[use] = shape, use.inputs.count(x) if isinstance(use, JaxprEqn) else 1
        said = {s for s, _ in votes.values()}
        return len(said) == 1 and sum(n for _, n in votes.values()) == self.uses[x]


def _warn_of_least(x: Var) -> None:
    """Warn of a shape that the text does not determine."""
    if x.aval is not UNTYPED:
        place = f"{x.span}: " if x.span else ""
        message = f"{place}the type of {x.name} is not in the text, and is taken to be {x.aval}"
        warnings.warn(message, UntypedWarning, stacklevel=2)

"""Results and operands `_` of a jaxpr: which of its `_` binders each of them reads, which the text does not say.

JAX prints a result of the body of a jit as `_` where nobody reads the result of the call (0.5.3 to 0.10.0), also where the
body itself reads it.
"""

from __future__ import annotations

import itertools
import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any

from jaxprtool.ir.diagnostics import JaxprToolWarning
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import Atom, Aval, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Var
from jaxprtool.syntax.atoms import Scope, undrop
from jaxprtool.syntax.infer import fits, likeliest, result_types

__all__ = ["AmbiguousResultWarning", "Drops", "decide_reads"]

_MOST_TRIES = 60  # choices of binders that are tried for one equation


class AmbiguousResultWarning(JaxprToolWarning):
    """An operand `_` may be one of several results, and the text does not say which."""

    code = "ambiguous-result"


class Drops:
    """The jaxprs that have such results, until the equation around them tells the types of those.

    Attributes:
      found: for each of them the places of these results, and its scope.
    """

    def __init__(self) -> None:
        self.found: dict[Jaxpr, tuple[list[int], Scope]] = {}

    def add(
        self, jaxpr: Jaxpr, outs: list[Atom | None], places: list[int], scope: Scope
    ) -> tuple[Atom | None, ...]:
        """The results of a jaxpr with those at some places read from its `_` binders, for now in their order."""
        self.found[jaxpr] = places, scope
        return self._read(jaxpr, outs, [])

    def resolve(self, eqn: JaxprEqn) -> None:
        """Read them again in the jaxprs of an equation, now that its binders tell the types of the results."""
        avals = [v.aval for v in eqn.out_binders]
        for value in eqn.params.values():
            if isinstance(value, ClosedJaxpr) and value.jaxpr in self.found:
                outs = self._read(value.jaxpr, [*value.jaxpr.outs], avals)
                amend(value.jaxpr, outs=outs)
                del self.found[value.jaxpr]

    def _read(
        self, jaxpr: Jaxpr, outs: list[Atom | None], avals: list[Aval]
    ) -> tuple[Atom | None, ...]:
        """The results, each `_` among them the next `_` binder of its type (of any, if it is not known)."""
        places, scope = self.found[jaxpr]
        drops = scope.drops
        of_type: dict[Any, deque[int]] = {}
        for k, binder in enumerate(drops):
            of_type.setdefault(binder.aval, deque()).append(k)
        free = dict.fromkeys(range(len(drops)))  # in the order of binding
        for i in places:
            fits = of_type.get(avals[i]) if i < len(avals) else None
            while fits and fits[0] not in free:
                fits.popleft()
            k = fits[0] if fits else next(iter(free), 0)
            free.pop(k, None)
            outs[i] = undrop(drops[k])
        return tuple(outs)


def decide_reads(eqn: JaxprEqn, scope: Any, wide: bool) -> None:
    """Have the operands `_` of an equation that was just read stand for binders of types that it takes.

    Of those, each is one that operands have read least often so far, the first of several. Where the types leave a choice,
    a warning says so.

    Args:
      eqn: the equation; its operands are those of `next_drop`.
      scope: the jaxpr that it is in.
      wide: whether a number without a type has 64 bits where nothing else says how many.
    """
    own = set(eqn.out_binders)
    bound = [v for v in scope.drops if v not in own]
    places = [i for i, x in enumerate(eqn.inputs) if x in scope.reads]
    if not places:
        return
    before: list[Any] = [eqn.inputs[i] for i in places]
    for v in before:
        scope.reads[v] -= 1
    choices = _fitting(eqn, places, _by_reads(scope, bound, len(places)), wide)
    chosen = next(choices, None) or tuple(before)
    if next(choices, None) is not None:
        where = f"{eqn.span}: " if eqn.span else ""
        message = f"{where}the text does not say which result the operand _ is, and the first that is not read is taken"
        warnings.warn(AmbiguousResultWarning(message), stacklevel=2)
    inputs: list[Atom] = [*eqn.inputs]
    for i, v in zip(places, chosen, strict=True):
        scope.reads[v] = scope.reads.get(v, 0) + 1
        inputs[i] = undrop(v)
    amend(eqn, inputs=tuple(inputs))
    for v in before:
        if not scope.reads[v]:
            amend(v, __class__=DropVar)


def _by_reads(scope: Any, bound: list[Var], count: int) -> Iterator[tuple[Var, ...]]:
    """Binders for so many operands, those that are read least often first; not many of them."""
    order = sorted(bound, key=lambda v: scope.reads.get(v, 0))
    distinct = itertools.permutations(order, count)
    every = itertools.product(order, repeat=count)
    return itertools.islice(itertools.chain(distinct, every), _MOST_TRIES)


def _fitting(
    eqn: JaxprEqn, places: list[int], choices: Iterator[tuple[Var, ...]], wide: bool
) -> Iterator[tuple[Var, ...]]:
    """Those choices of operands with which an equation has results of the types of its binders."""
    known: dict[Any, bool] = {}
    for choice in dict.fromkeys(choices):
        avals = tuple(v.aval for v in choice)
        if avals not in known:
            operands: list[Any] = [*eqn.inputs]
            for i, v in zip(places, choice, strict=True):
                operands[i] = v
            around = [x.aval for x in (*operands, *eqn.out_binders) if x.aval is not None]
            typed = [likeliest(x, wide, around) for x in operands]
            known[avals] = fits(eqn, result_types(eqn, typed))
        if known[avals]:
            yield choice

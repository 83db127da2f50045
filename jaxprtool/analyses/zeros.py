"""Zeros: from which values a 0 in an operand of a product has come, as far as these are still known when the product is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.bad_values import Range
from jaxprtool.analyses.logs import Log
from jaxprtool.interpreters.batch import is_elementwise
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.flow import steering_facts
from jaxprtool.ir.jaxpr import Jaxpr, Lit, Var
from jaxprtool.ir.memo import MemoTable

__all__ = ["Zeros", "chosen_in", "nonzero_of"]

_MOST = 200  # values that are looked at for one element


class Zeros(NamedTuple):
    """The operands of an operation that makes a bad value, or hands one on.

    Attributes:
      operands: the ranges of the operands, with their values at the offending indices.
      nonzero: of each operand, the variables before it that are not 0 where the operand is: no 0 has come from there.
    """

    operands: Sequence[Range | None] = ()
    nonzero: Sequence[frozenset[Var]] = ()


def chosen_in(log: Log) -> set[Any]:
    """The variables of a jaxpr that runs which are computed from what a choice gives: in it, in one inside, or in one around it."""
    inside = log.above is not None
    return _CHOSEN.of(log.jaxpr, inside, lambda: _chosen(log.jaxpr, inside=inside))


def _chosen(jaxpr: Jaxpr, *, inside: bool) -> set[Any]:
    found: set[Any] = set(jaxpr.in_binders if inside else ())
    for eqn in jaxpr.eqns:
        chooses = eqn.primitive.holds_jaxprs or steering_facts[eqn.primitive] == "operand 0"
        if chooses or not found.isdisjoint(eqn.inputs):
            found.update(eqn.out_binders)
    return found


_CHOSEN = MemoTable[set[Any]]("which variables are computed from a choice")


def nonzero_of(
    log: Log,
    i: int,
    operands: Sequence[Range | None],
    indices: Sequence[tuple[int, ...]],
    shape: tuple[int, ...],
) -> list[frozenset[Var]]:
    """Of each operand of an elementwise equation, the variables before it that are not 0 at any of the indices where the operand is.

    Args:
      log: of the jaxpr that holds the equation; i: its position there.
      operands: the ranges of the operands, with their values at the indices.
      indices: indices of elements of the result.
      shape: the shape of the result.
    """
    found: list[frozenset[Var]] = []
    for x, known in zip(log.jaxpr.eqns[i].inputs, operands, strict=True):
        values = () if known is None else known.values
        pairs = zip(indices, values, strict=False)
        before = [_nonzero_before(log, x, at, shape) for at, value in pairs if value == 0]
        found.append(frozenset(set.intersection(*before)) if before else frozenset())
    return found


def _nonzero_before(log: Log, x: Any, at: tuple[int, ...], shape: tuple[int, ...]) -> set[Var]:
    """The variables from which elementwise operations compute a 0, and which are not 0 at its index; none before a choice."""
    xp, found = numpy_namespace(), set[Var]()
    queue = [(log, x)]
    for where, v in queue:
        if isinstance(v, Lit) or len(queue) > _MOST:
            continue
        value = _value(where, v)
        if value is None or xp.shape(value) not in ((), shape):
            continue
        if (value[at] if xp.shape(value) else value) != 0:
            found.add(v)
        else:
            queue += _before(where, v, value)
    return found


def _value(log: Log, v: Any) -> Any:
    """The value of a variable; None where it is not known any more, or is no number."""
    made = log.layout.made.get(v)
    if made is not None and log.results[made[0]] is None:
        return None
    xp = numpy_namespace()
    value = log.value(v)
    return value if isinstance(value, (xp.ndarray, xp.generic, int, float, complex)) else None


def _before(log: Log, v: Any, value: Any) -> Iterable[tuple[Log, Any]]:
    """What an element of a value was computed from, or the operand that an argument is."""
    made = log.layout.made.get(v)
    if made is not None:
        eqn = log.jaxpr.eqns[made[0]]
        chooses = steering_facts[eqn.primitive] == "operand 0"
        is_plain = is_elementwise(eqn.primitive) and not chooses
        return [(log, x) for x in eqn.inputs] if is_plain else ()
    if log.above is None or log.eqn is None:
        return ()
    outer = log.above
    operands = (x for x in log.eqn.inputs if type(x) is not Lit)
    return [(outer, x) for x in operands if _value(outer, x) is value]

"""The inexact numbers in programs, literals and constants: remove them, and pair those of two programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Value
from jaxprtool.ir.walk import map_programs, sub_jaxprs

__all__ = ["Pair", "inexact_pairs", "without_inexact"]


class Pair(NamedTuple):
    """A number or an array of numbers at the same place of two programs."""

    a: Value
    b: Value


def without_inexact(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with 0 for each literal of an inexact type, and without the values of constants of such types."""

    def body(closed: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        eqns = [e.replace(inputs=[*map(_zero, e.inputs)]) for e in jaxpr.eqns]
        pairs = zip(jaxpr.const_binders, closed.consts, strict=True)
        consts = [None if _is_inexact(v.aval) else c for v, c in pairs]
        outs = [*map(_zero, jaxpr.outs)]
        return closed.replace(jaxpr=jaxpr.replace(eqns=eqns, outs=outs), consts=consts)

    return map_programs(program, body)


def _is_inexact(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and dtype.kind in "fc"


def _zero(x: Value) -> Value:
    return Lit(0.0, x.aval) if type(x) is Lit and _is_inexact(x.aval) else x


def inexact_pairs(a: ClosedJaxpr, b: ClosedJaxpr) -> Iterator[Pair]:
    """Yield the pairs of inexact numbers of two programs that are equal without them; a pair of nested jaxprs comes once.

    Not recursive. A constant without a value is None.
    """
    seen: set[tuple[int, int]] = set()
    stack = [(a, b)]
    while stack:
        one, other = stack.pop()
        if (id(one), id(other)) in seen:
            continue
        seen.add((id(one), id(other)))
        binders = one.jaxpr.const_binders
        for v, x, y in zip(binders, one.consts, other.consts, strict=True):
            if _is_inexact(v.aval):
                yield Pair(x, y)
        for eqn, twin in zip(one.eqns, other.eqns, strict=True):
            for x, y in zip(eqn.inputs, twin.inputs, strict=True):
                yield from _literals(x, y)
            stack += zip(_inner(eqn), _inner(twin), strict=True)
        for x, y in zip(one.jaxpr.outs, other.jaxpr.outs, strict=True):
            yield from _literals(x, y)


def _literals(x: Value, y: Value) -> Iterator[Pair]:
    if type(x) is Lit and type(y) is Lit and _is_inexact(x.aval):
        yield Pair(x, y)


def _inner(eqn: JaxprEqn) -> list[ClosedJaxpr]:
    """The jaxprs in the params of an equation, in the order of the params' names."""
    if not eqn.primitive.holds_jaxprs:
        return []
    return [*sub_jaxprs(eqn.replace(params=dict(sorted(eqn.params.items()))))]

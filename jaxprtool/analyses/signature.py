"""Structural identity: two jaxprs have the same signature when they are equal up to names.

A signature is a small integer, interned: equal structures get equal numbers from one `Signatures`. Weak types
do not count, nor do JAX's bookkeeping (`linear` of a scan), names, layout, comments and positions; the
order of equations does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Primitive
from jaxprtool.ir.params import Record

__all__ = ["Signatures", "same_program"]


@functools.cache
def _bookkeeping(primitive: Primitive) -> frozenset[str]:
    """The params that say nothing about what is computed."""
    return frozenset(p.name for p in primitive.params.values() if p.annotation == "Bookkeeping")


class Signatures:
    """Hands out signatures; numbers of different objects of this class do not compare."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._programs: dict[int, int] = {}

    def number(self, key: Any) -> int:
        """The number of a hashable key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def of(self, program: ClosedJaxpr) -> int:
        """The signature of a program, that of its constants' values included."""
        found = self._programs.get(id(program))
        if found is None:
            found = self._programs[id(program)] = self._make(program)
        return found

    def _make(self, program: ClosedJaxpr) -> int:
        jaxpr = program.jaxpr
        place: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.all_binders)}
        body: list[Any] = []
        for eqn in jaxpr.eqns:
            ins = tuple(
                [place.get(x, -1) if type(x) is not Lit else self.lit(x) for x in eqn.inputs]
            )
            body.append((self.shallow(eqn, nested=True), ins))
            for v in eqn.out_binders:
                place[v] = len(place)
        outs = tuple(place.get(x, -1) if type(x) is not Lit else self.lit(x) for x in jaxpr.outs)
        types = tuple(v.aval.strong for v in jaxpr.all_binders)
        consts = tuple(map(self.value, program.consts))
        return self.number((types, len(jaxpr.const_binders), tuple(body), outs, consts))

    def shallow(self, eqn: JaxprEqn, *, nested: bool) -> int:
        """What an equation does, whatever its operands are; with or without the jaxprs in its params."""
        params = eqn.params
        frozen: Any = ()
        if params:
            ignored = _bookkeeping(eqn.primitive)
            keys = [k for k in sorted(params) if k not in ignored]
            frozen = tuple([(k, self.freeze(params[k], nested)) for k in keys])
        outs = tuple([v.aval.strong for v in eqn.out_binders])
        return self.number((eqn.primitive.name, frozen, outs))

    def lit(self, x: Lit) -> Any:
        """A literal: its value, as its type has it, and its type."""
        return ("lit", lit_text(x), x.aval.strong)

    def freeze(self, value: Any, nested: bool) -> Any:
        """A hashable stand-in for a param value."""
        if value is None or type(value) in (bool, int, str):
            return type(value).__name__, value
        if isinstance(value, ClosedJaxpr):
            return ("jaxpr", self.of(value)) if nested else "jaxpr"
        if isinstance(value, (tuple, list)):
            return ("list", *self._freeze_all(value, nested))
        if isinstance(value, dict):
            return ("dict", *self._freeze_all(sorted(value.items(), key=str), nested))
        if isinstance(value, Record):
            fields = self._freeze_all(value.fields.items(), nested)
            return ("record", value.name, *self._freeze_all(value.args, nested), *fields)
        return "text", str(value)

    def _freeze_all(self, values: Iterable[Any], nested: bool) -> tuple[Any, ...]:
        return tuple([self.freeze(v, nested) for v in values])

    def value(self, x: Any) -> Any:
        """A hashable stand-in for the value of a constant."""
        tolist = getattr(x, "tolist", None)
        return str(tolist() if tolist is not None else x)


def lit_text(x: Lit) -> str:
    """The value of a literal as its type writes it: `2` of an f32 is `2.0`."""
    value, kind = x.val, getattr(getattr(x.aval, "dtype", None), "kind", "?")
    if type(value) is int and kind == "f":
        return repr(float(value))
    return str(value)


def same_program(a: ClosedJaxpr, b: ClosedJaxpr) -> bool:
    """Whether two programs are equal up to names (and weak types)."""
    signatures = Signatures()
    return signatures.of(a) == signatures.of(b)


def same_programs(a: dict[str, ClosedJaxpr], b: dict[str, ClosedJaxpr]) -> bool:
    """Whether two files hold equal programs under equal names."""
    signatures = Signatures()
    return list(a) == list(b) and all(signatures.of(a[k]) == signatures.of(b[k]) for k in a)

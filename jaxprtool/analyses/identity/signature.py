"""Structural identity: two jaxprs have the same signature when they are equal up to names.

A signature is a small integer: equal structures get equal integers from one `Signatures`. The order of equations counts.
Weak types do not count, nor do JAX's bookkeeping (`linear` of a scan), names (of variables, of arguments, and the trees of
arguments), layout, comments and positions. Values are compared by their canonical texts. A diff shows these texts, so it
marks a line exactly where signatures differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jaxprtool.analyses.identity.canonical import canonical_consts, canonical_lit, canonical_params
from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Value

__all__ = ["Signatures", "same_program", "same_programs"]


class Signatures:
    """Hands out signatures; numbers of different objects of this class do not compare.

    A subclass may take less into account: it overrides `counted`, `order`, `type_text` and
    `values`.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._programs: dict[ClosedJaxpr, int] = {}
        self._types: dict[Any, str] = {}
        self._lits: dict[Lit, Any] = {}
        self._literals: dict[Any, Any] = {}  # by value and type

    def number(self, key: Value) -> int:
        """Return the number of a hashable key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def numbers(self, keys: Iterable[Value]) -> list[int]:
        """Return the numbers of many keys."""
        known = self._numbers
        return [known.setdefault(key, len(known)) for key in keys]

    def of(self, program: ClosedJaxpr) -> int:
        """Return the signature of a program, which includes the values of its constants."""
        found = self._programs.get(program)
        if found is None:
            found = self._programs[program] = self._make(program)
        return found

    def _make(self, program: ClosedJaxpr) -> int:
        jaxpr = program.jaxpr
        place: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.all_binders)}
        body: list[Any] = []
        for eqn in self.order(jaxpr):
            ins = tuple(
                [place.get(x, -1) if type(x) is not Lit else self.lit(x) for x in eqn.inputs]
            )
            body.append((self.shallow(eqn, nested=True), ins))
            for v in eqn.out_binders:
                place[v] = len(place)
        outs = tuple(place.get(x, -1) if type(x) is not Lit else self.lit(x) for x in jaxpr.outs)
        types = tuple([self.type_of(v) for v in jaxpr.all_binders])
        consts = tuple(self.values(program))
        return self.number((types, len(jaxpr.const_binders), tuple(body), outs, consts))

    def shallow(self, eqn: JaxprEqn, *, nested: bool) -> int:
        """Return the number of what an equation does, whatever its operands are; with or without the jaxprs in its params."""
        params: Any = ()
        if eqn.params:
            inner = self._inner if nested else _any_jaxpr
            params = tuple(canonical_params(self.counted(eqn), inner))
        outs = tuple([self.type_of(v) for v in eqn.out_binders])
        return self.number((eqn.primitive.name, params, outs))

    def texts(self, eqn: JaxprEqn) -> tuple[Any, ...]:
        """Return what `shallow` compares, without nested jaxprs, as texts that are the same for all objects of this class."""
        params = canonical_params(self.counted(eqn), _any_jaxpr)
        return eqn.primitive.name, tuple(params), tuple([self.type_of(v) for v in eqn.out_binders])

    def _inner(self, program: ClosedJaxpr) -> str:
        return f"{{{self.of(program)}}}"

    def type_of(self, x: Value) -> str:
        """Return the text of an atom's type."""
        found = self._types.get(x.aval)
        if found is None:
            found = self._types[x.aval] = self.type_text(x.aval)
        return found

    def lit(self, x: Lit) -> Value:
        """Return a key of a literal: its value, as its type has it, and its type."""
        found = self._lits.get(x)
        if found is None:
            key = repr(x.val), x.aval
            found = self._literals.get(key)
            if found is None:
                found = self._literals[key] = ("lit", canonical_lit(x), self.type_of(x))
            self._lits[x] = found
        return found

    # ---- what counts

    def counted(self, eqn: JaxprEqn) -> JaxprEqn:
        """Return the equation with only the params that count."""
        return eqn

    def order(self, jaxpr: Jaxpr) -> Sequence[JaxprEqn]:
        """Return the equations in an order that counts."""
        return jaxpr.eqns

    def type_text(self, aval: Aval) -> str:
        """Return the text of a type, as far as it counts."""
        return str(aval)

    def values(self, program: ClosedJaxpr) -> Sequence[str]:
        """Return the texts of the values of constants that count."""
        return canonical_consts(program)


def _any_jaxpr(program: ClosedJaxpr) -> str:
    return "{...}"


@deep
def same_program(a: ClosedJaxpr, b: ClosedJaxpr, signatures: Signatures | None = None) -> bool:
    """Whether two programs are equal up to names (and weak types), as far as these signatures count."""
    signatures = signatures or Signatures()
    return signatures.of(a) == signatures.of(b)


@deep
def same_programs(
    a: dict[str, ClosedJaxpr], b: dict[str, ClosedJaxpr], signatures: Signatures | None = None
) -> bool:
    """Whether two files hold equal programs under equal names, in whatever order."""
    signatures = signatures or Signatures()
    return a.keys() == b.keys() and all(signatures.of(a[k]) == signatures.of(b[k]) for k in a)

"""Keys of equations and jaxprs: two with equal keys compute the same from the same operands."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, JaxprEqn, Lit
from jaxprtool.ir.process_objects import process_objects

__all__ = ["Keys"]

_INTS = frozenset([int])  # without bool: True equals 1
_PLAIN = frozenset([int, bool, str, type(None)])


class Keys:
    """Makes keys; only keys from one instance can be compared."""

    def __init__(self) -> None:
        self._jaxprs: dict[ClosedJaxpr, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._held: list[Any] = []  # unhashable values, kept alive since their addresses are keys

    def equation(self, eqn: JaxprEqn, atom: Callable[[Any], Hashable] | None = None) -> Hashable:
        """Return the key of an equation: of its operation, params, operands and the types of its results.

        Args:
          eqn: the equation.
          atom: the key of an operand that is a variable; by default the variable itself.
        """
        ins = tuple(
            [self.literal(x) if type(x) is Lit else atom(x) if atom else x for x in eqn.inputs]
        )
        return eqn.primitive, ins, *self.params(eqn)

    def params(self, eqn: JaxprEqn) -> tuple[Hashable, Hashable]:
        """Return the key of the params of an equation and of the types of its results.

        Python functions with equal texts are told apart where the operation calls them, as in
        callbacks. In operations that hold jaxprs they are not: there they are rules of derivatives.
        """
        params = tuple([(k, self.value(v)) for k, v in sorted(eqn.params.items())])
        if not eqn.primitive.holds_jaxprs and (objects := process_objects(eqn.params.values())):
            params = (*params, objects)
        return params, tuple([v.aval for v in eqn.out_binders])

    def literal(self, x: Lit) -> Hashable:
        """Return the key of a literal, by the bits of its value."""
        return "literal", x.aval, self.value(x.val)

    def value(self, x: Any) -> Hashable:
        """Return the key of a param's value, or of a literal's."""
        kind = type(x)
        if kind in _PLAIN:
            return kind, x
        if kind is ClosedJaxpr:
            return "jaxpr", self.jaxpr(x)
        if kind is float:
            return "float", struct.pack("d", x)
        if kind is complex:
            return "complex", struct.pack("dd", x.real, x.imag)
        if kind is tuple and _INTS.issuperset(map(type, x)):
            return "ints", x
        if isinstance(x, (tuple, list)):
            return kind, tuple([self.value(v) for v in x])
        if isinstance(x, dict):
            return kind, tuple([(self.value(k), self.value(v)) for k, v in x.items()])
        if hasattr(x, "tobytes"):  # an array, or a number of NumPy's
            return "array", str(x.dtype), x.shape, x.tobytes()
        try:
            hash(x)
        except TypeError:
            self._held.append(x)
            return "object", id(x)
        return kind, x

    @deep
    def jaxpr(self, closed: ClosedJaxpr) -> int:
        """Return the number of a jaxpr: the same for jaxprs with the same equations and types and
        identical constants.
        """
        found = self._jaxprs.get(closed)
        if found is None:
            found = self._jaxprs[closed] = self._numbers.setdefault(
                self._structure(closed), len(self._numbers)
            )
        return found

    def _structure(self, closed: ClosedJaxpr) -> Hashable:
        jaxpr = closed.jaxpr
        numbers: dict[Any, int] = {}
        for v in jaxpr.all_binders:
            numbers[v] = len(numbers)
        self._held += closed.consts
        eqns: list[Hashable] = []
        for eqn in jaxpr.eqns:
            dropped = tuple([isinstance(v, DropVar) for v in eqn.out_binders])
            eqns.append((self.equation(eqn, numbers.__getitem__), dropped))
            for v in eqn.out_binders:
                numbers[v] = len(numbers)
        outs = [self.literal(x) if type(x) is Lit else numbers[x] for x in jaxpr.outs]
        types = tuple([v.aval for v in jaxpr.all_binders])
        # a constant of unknown value is only equal to itself
        pairs = zip(jaxpr.const_binders, closed.consts, strict=True)
        consts = tuple([id(v if c is None else c) for v, c in pairs])
        return types, consts, tuple(eqns), tuple(outs)

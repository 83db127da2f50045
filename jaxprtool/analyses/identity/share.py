"""Make equal jaxprs one object, which a text writes once, under a name."""

from __future__ import annotations

from collections.abc import Iterator

from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Value
from jaxprtool.ir.params import Opaque, Record
from jaxprtool.ir.walk import with_jaxprs

__all__ = ["share_equal"]


@deep
def share_equal(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program in which jaxprs inside params that are equal, weak types included, are the same object.

    Jaxprs that hold objects of the running process are equal only where they hold the same ones.
    Names of variables are those of the first.
    """
    return _Sharing().closed(program)


class _Exact(Signatures):
    """Signatures that tell weak types apart, and objects that print alike."""

    def type_of(self, x: Value) -> str:
        return super().type_of(x) + "~" * bool(getattr(x.aval, "weak_type", False))

    def shallow(self, eqn: JaxprEqn, *, nested: bool) -> int:
        alike = super().shallow(eqn, nested=nested)
        objects = tuple([id(x) for v in eqn.params.values() for x in _live_objects(v)])
        return self.number((alike, objects)) if objects else alike


def _live_objects(value: Value) -> Iterator[Value]:
    """Yield the objects of this process in a param, of which texts only give the address."""
    if isinstance(value, (tuple, list)):
        for v in value:
            yield from _live_objects(v)
    elif isinstance(value, dict):
        yield from _live_objects(list(value.values()))
    elif isinstance(value, Record):
        yield from _live_objects([*value.args, *value.fields.values()])
    elif isinstance(value, Opaque) and hasattr(value, "value"):
        yield value.value  # type: ignore[attr-defined]  # of a `LiveOpaque`, which is of a layer below


class _Sharing:
    def __init__(self) -> None:
        self.signatures = _Exact()
        self.first: dict[int, ClosedJaxpr] = {}

    def closed(self, program: ClosedJaxpr) -> ClosedJaxpr:
        signature = self.signatures.of(program)
        found = self.first.get(signature)
        if found is None:
            found = self.first[signature] = self._with_shared(program)
        return found

    def _with_shared(self, program: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = program.jaxpr
        eqns = [self._eqn(e) for e in jaxpr.eqns]
        if all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)):
            return program
        return program.replace(jaxpr=jaxpr.replace(eqns=eqns))

    def _eqn(self, eqn: JaxprEqn) -> JaxprEqn:
        return with_jaxprs(eqn, self.closed)

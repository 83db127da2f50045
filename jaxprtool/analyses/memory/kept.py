"""What the forward pass of a program saves for the reverse pass."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxprtool.analyses.counting.cost import Estimate
from jaxprtool.analyses.memory.residuals import residuals
from jaxprtool.analyses.places import Place, Step
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.walk import all_eqns

__all__ = ["Keeping", "Kept", "keeping"]


class Kept(NamedTuple):
    """A value that is saved for the reverse pass.

    Attributes:
      name: the variable in the text, or what the argument is called; "" for one that
        differentiation makes.
      aval: its type.
      nbytes: its size.
      origin: an argument, a constant, or the name of the primitive that computes it.
      is_computed: whether it takes memory besides the arguments and constants.
      producer: the equation that computes it, or the one from which differentiation made it; None
        for arguments and constants.
      consumer: the first equation whose derivative reads it, or None.
      result: for the result of an equation, the equation's place as text, its primitive and the
        position of the result; else None.
    """

    name: str
    aval: Any
    nbytes: int
    origin: str
    is_computed: bool
    producer: Place | None
    consumer: Place | None
    result: tuple[str, Any, int] | None = None

    @property
    def key(self) -> Any:
        """Identifies the value under another policy."""
        at = None if self.producer is None else self.producer.located()
        return at, self.origin, self.aval, self.name


class Keeping(NamedTuple):
    """What is saved for the reverse pass, and what that costs.

    Attributes:
      values: the values, the largest first.
      flops: the operations of both passes, transcendentals included; None where that is not known.
    """

    values: list[Kept]
    flops: int | None

    @property
    def computed(self) -> int:
        """Bytes besides arguments and constants."""
        return sum(v.nbytes for v in self.values if v.is_computed)

    @property
    def nbytes(self) -> int:
        """Bytes in all."""
        return sum(v.nbytes for v in self.values)


def keeping(program: ClosedJaxpr, primal: ClosedJaxpr, linear: ClosedJaxpr) -> Keeping:
    """Return what the linear part of a program reads of its primal part (see `linearize_jaxpr`)."""
    jaxpr, n = primal.jaxpr, len(program.jaxpr.outs)
    links = _Links()
    makers = links.makers(jaxpr)
    saved = jaxpr.outs[n:]
    binders = dict(zip(saved, linear.jaxpr.in_binders, strict=False))
    names = _names(program)
    found: list[Kept] = []
    kept = dict.fromkeys(x for x in saved if not isinstance(x, Lit))
    for x, old in zip(kept, residuals(program, primal), strict=True):
        eqn, i = makers.get(x, (None, 0))
        producer, k = (None, 0) if eqn is None else links.producer(eqn, i)
        name = (
            _label(x, old.origin) if producer is None else names.get(_result(producer.eqn, k), "")
        )
        consumer = links.consumer(linear.jaxpr, binders[x])
        origin = old.origin if producer is None else producer.eqn.primitive.name
        result = None if producer is None else _result(producer.eqn, k)
        computed = old.is_computed
        found.append(Kept(name, x.aval, old.nbytes, origin, computed, producer, consumer, result))
    found.sort(key=lambda v: (-v.nbytes, str(v.key)))
    return Keeping(found, _operations(primal, linear))


def _operations(*programs: ClosedJaxpr) -> int | None:
    total = 0
    for program in programs:
        t = Estimate(program).total
        if t.flops.high is None or t.transcendentals.high is None:
            return None
        total += t.flops.high + t.transcendentals.high
    return total


def _label(x: Var, origin: str) -> str:
    return origin.removeprefix("argument ") if origin != "constant" else x.name or "constant"


def _names(program: ClosedJaxpr) -> dict[Any, str]:
    """Return the names of results in the text, by `_result`."""
    pairs = ((eqn, i, v) for eqn in all_eqns(program.jaxpr) for i, v in enumerate(eqn.out_binders))
    return {_result(eqn, i): v.name or "" for eqn, i, v in pairs}


def _result(eqn: JaxprEqn, i: int) -> tuple[str, Any, int]:
    """Return what the result of an equation has in common with that of its copy after a transformation."""
    return str(eqn.span), eqn.primitive, i


class _Links:
    """For each jaxpr: which equation computes each variable, and which one reads it first, with the position there."""

    def __init__(self) -> None:
        self._makers: dict[Jaxpr, dict[Any, tuple[JaxprEqn, int]]] = {}
        self._readers: dict[Jaxpr, dict[Any, tuple[JaxprEqn, int]]] = {}

    def makers(self, jaxpr: Jaxpr) -> dict[Any, tuple[JaxprEqn, int]]:
        found = self._makers.get(jaxpr)
        if found is None:
            pairs = ((e, i, v) for e in jaxpr.eqns for i, v in enumerate(e.out_binders))
            found = self._makers[jaxpr] = {v: (e, i) for e, i, v in pairs}
        return found

    def readers(self, jaxpr: Jaxpr) -> dict[Any, tuple[JaxprEqn, int]]:
        found = self._readers.get(jaxpr)
        if found is None:
            found = self._readers[jaxpr] = {}
            for eqn in jaxpr.eqns:
                for i, x in enumerate(eqn.inputs):
                    if not isinstance(x, Lit):
                        found.setdefault(x, (eqn, i))
        return found

    def producer(self, eqn: JaxprEqn, i: int) -> tuple[Place, int]:
        """Return the equation that computes result i of an equation, inside the jaxprs that this runs, and the position of the result."""
        path: list[Step] = []
        while True:
            runs = runs_of(eqn)
            inner = runs[0].jaxpr.jaxpr if len(runs) == 1 else None
            if inner is None or len(inner.outs) != len(eqn.out_binders):
                return Place(eqn, tuple(path)), i
            below = (
                None if isinstance(inner.outs[i], Lit) else self.makers(inner).get(inner.outs[i])
            )
            if below is None:
                return Place(eqn, tuple(path)), i
            path.append(Step(eqn, runs[0].param))
            eqn, i = below

    def consumer(self, jaxpr: Jaxpr, x: Var) -> Place | None:
        """Return the first equation of a jaxpr that reads a variable, inside the jaxprs that this runs."""
        path: list[Step] = []
        found = self.readers(jaxpr).get(x)
        while found is not None:
            eqn, i = found
            runs = runs_of(eqn)
            inner = runs[0].jaxpr.jaxpr if len(runs) == 1 else None
            if inner is None or len(inner.in_binders) != len(eqn.inputs):
                return Place(eqn, tuple(path))
            below = self.readers(inner).get(inner.in_binders[i])
            if below is None:
                return Place(eqn, tuple(path))
            path.append(Step(eqn, runs[0].param))
            found = below
        return None

"""Where NaNs or infinities begin in a run of a candidate, and which results they reach, as `blame` finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.flow import Flow
from jaxprtool.analyses.blaming.provenance import Source
from jaxprtool.analyses.places import Place
from jaxprtool.analyses.reduction.candidate import Candidate
from jaxprtool.analyses.reduction.record import fits
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.evaluation.observe import observed_by
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit, Value

__all__ = ["KINDS", "Origin", "Taken", "appearances", "has_some", "origin_key", "sources"]

KINDS = ("nan", "inf")


def has_some(kind: str, x: Value) -> bool:
    """Whether a value, of any type, holds a NaN or an infinity; kind: one of `KINDS`."""
    xp = numpy_namespace()
    if not isinstance(x, (xp.ndarray, xp.generic)) or x.dtype.kind not in "fcV" or x.dtype.names:
        return False
    return x in Sought(**{kind: True})


class Origin(NamedTuple):
    """An equation where bad values begin.

    Attributes:
      place: its place, as it was first reached.
      ins: the values of its operands then.
      outs: the values of its results.
    """

    place: Place
    ins: Sequence[Value]
    outs: Sequence[Value]

    def alone(self, has: Callable[[Value], bool]) -> Candidate | None:
        """Return the candidate that consists of this equation only; None where its values do not fit the types."""
        eqn = self.place.eqn
        pairs: dict[Any, Value] = {
            x: v for x, v in zip(eqn.inputs, self.ins, strict=True) if type(x) is not Lit
        }
        if not all(fits(value, v) for v, value in pairs.items()):
            return None
        outs = [v for v, x in zip(eqn.out_binders, self.outs, strict=True) if has(x)]
        return Candidate(Jaxpr([*pairs], [eqn], outs), [*pairs.values()])


class Taken(NamedTuple):
    """An argument, a constant of a nested jaxpr or a literal that has bad values, and the equation that reads it first."""

    source: Source
    place: Place | None

    def label(self, labels: Sequence[str]) -> str:
        """Return what to call it. labels: those of the candidate's arguments."""
        s = self.source
        if s.kind == "argument":
            return labels[s.index]
        name = f" ({s.name})" if s.name else ""
        return f"{s.kind} {s.index}{name}" + (f" of {self.place}" if self.place else "")


def origin_key(eqn: JaxprEqn) -> tuple[Any, ...]:
    """Return a key of an equation that stays the same while the program around it changes: its primitive, and its place in text or source."""
    span = eqn.span
    at = None if span is None else (span.source.name, span.start)
    return eqn.primitive, at or (eqn.origin and eqn.origin.frame)


def appearances(candidate: Candidate, kind: str) -> tuple[list[Origin], list[Origin]]:
    """Run a candidate on NumPy, and find where bad values begin.

    Args:
      candidate: the program and its arguments.
      kind: one of `KINDS`.

    Returns:
      The equations where values of the kind begin, in the order in which they are met, and those of
      them whose values reach a result.
    """
    origins, reached = _followed(candidate, kind)
    found = [o for o in origins if o.source is None and o.place is not None]
    kept = {o.bit: Origin(o.place, *o.seen) for o in found}
    return [*kept.values()], [o for bit, o in kept.items() if bit & reached]


def sources(candidate: Candidate, kind: str) -> tuple[bool, list[Taken]]:
    """Run a candidate; return whether it has values of a kind anywhere, and the sources of those that reach a result."""
    origins, reached = _followed(candidate, kind)
    kept = {o.bit: Taken(o.source, o.place) for o in origins if o.source is not None}
    return bool(origins), [t for bit, t in kept.items() if bit & reached]


def _followed(candidate: Candidate, kind: str) -> tuple[Sequence[Any], int]:
    """Run a candidate; return where values of a kind begin, and which of these origins reach a result, as bits."""
    assert candidate.args is not None
    flow = Flow(Sought(**{kind: True}), keep=True)
    with observed_by(flow):
        eval_jaxpr(candidate.jaxpr, candidate.args)
    reached = 0
    for mark in flow.outs:
        reached |= mark.bad
    return flow.origins, reached

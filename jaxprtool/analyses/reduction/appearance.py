"""Where values of a kind (NaN, infinities) begin in a run, and which results of the program they reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.places import Place, Watch
from jaxprtool.analyses.reduction.candidate import Candidate
from jaxprtool.analyses.reduction.record import fits
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.observe import observed_by
from jaxprtool.interpreters.state_values import Cell
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit, Value

__all__ = ["KINDS", "Origin", "appearances", "origin_key"]


def _floating(x: Value) -> bool:
    return getattr(getattr(x, "dtype", None), "kind", "") in "fcV" and hasattr(x, "all")


def _has_nan(x: Value) -> bool:
    return _floating(x) and _some(numpy_namespace().isnan, x)


def _has_inf(x: Value) -> bool:
    return _floating(x) and _some(numpy_namespace().isinf, x)


def _some(test: Callable[[Value], Any], x: Value) -> bool:
    try:
        return bool(test(x).any())
    except TypeError:  # a type that has no such values
        return False


KINDS: dict[str, Callable[[Value], bool]] = {"nan": _has_nan, "inf": _has_inf}

# What a value comes from: equations, by number, or `_GIVEN`: an argument or a literal.
_Sources = frozenset[int]
_GIVEN: _Sources = frozenset([-1])
_NONE: _Sources = frozenset()


class Origin(NamedTuple):
    """An equation that gives such a value although none of its operands has one.

    Attributes:
      place: where it is, as it was first reached.
      ins: values of its operands then.
      outs: values of its results.
    """

    place: Place
    ins: Sequence[Value]
    outs: Sequence[Value]

    def alone(self, has: Callable[[Value], bool]) -> Candidate | None:
        """The candidate that consists of this equation alone; None where its values do not fit the types."""
        eqn = self.place.eqn
        pairs: dict[Any, Value] = {
            x: v for x, v in zip(eqn.inputs, self.ins, strict=True) if type(x) is not Lit
        }
        if not all(fits(value, v) for v, value in pairs.items()):
            return None
        outs = [v for v, x in zip(eqn.out_binders, self.outs, strict=True) if has(x)]
        return Candidate(Jaxpr([*pairs], [eqn], outs), [*pairs.values()])


def origin_key(eqn: JaxprEqn) -> tuple[Any, ...]:
    """What an equation keeps while the program around it changes: its primitive, and its place in text or source."""
    span = eqn.span
    at = None if span is None else (span.source.name, span.start)
    return eqn.primitive, at or (eqn.origin and eqn.origin.frame)


def appearances(
    candidate: Candidate, has: Callable[[Value], bool]
) -> tuple[list[Origin], list[Origin]]:
    """Run a candidate on NumPy.

    Args:
      candidate: the program and its arguments.
      has: whether a value has what is looked for.

    Returns:
      The origins in the order in which they are met, and those from which a result has it.
    """
    assert candidate.args is not None
    watch = _Appearances(has)
    with observed_by(watch):
        eval_jaxpr(candidate.jaxpr, candidate.args)
    reached = sorted(watch.reached - _GIVEN)
    return watch.origins, [watch.origins[i] for i in reached]


class _Appearances(Watch):
    """Follows such values from equation to equation.

    Attributes:
      origins: the equations where they begin, each once.
      reached: the sources of what the results have.
    """

    def __init__(self, has: Callable[[Value], bool]):
        super().__init__()
        self.has = has
        self.origins: list[Origin] = []
        self.reached: _Sources = _NONE
        self.numbers: dict[JaxprEqn, int] = {}
        self.envs: list[dict[Any, _Sources]] = []
        self.inside: list[_Sources] = [
            _NONE
        ]  # of results of the jaxprs that the equation at each level runs

    def enter(self, jaxpr: Jaxpr, args: Sequence[Value]) -> bool:
        above = self.envs[-1] if self.envs else None
        if not super().enter(jaxpr, args):
            return False
        sources = _GIVEN
        if above is not None:
            eqn = self.levels[-2].eqn
            assert eqn is not None
            known = [above.get(x, _NONE) for x in eqn.inputs if type(x) is not Lit]
            sources = self.inside[-1].union(*known) or _GIVEN
        has = self.has
        self.envs.append(
            {v: sources for v, x in zip(jaxpr.all_binders, args, strict=True) if has(x)}
        )
        self.inside.append(_NONE)
        return True

    def begin(self, eqn: JaxprEqn, ins: Sequence[Value]) -> None:
        super().begin(eqn, ins)
        self.inside[-1] = _NONE

    def see(self, eqn: JaxprEqn, ins: Sequence[Value], outs: Sequence[Value]) -> None:
        has = self.has
        bad = [v for v, x in zip(eqn.out_binders, outs, strict=True) if has(x)]
        if not bad:
            return
        env, found = self.envs[-1], _NONE
        for x, value in zip(eqn.inputs, ins, strict=True):
            if isinstance(value, Cell) and has(value.value):
                found = found.union(range(len(self.origins))) or _GIVEN
            elif has(value):
                found |= _GIVEN if type(x) is Lit else env.get(x, _GIVEN)
        if eqn.primitive.holds_jaxprs:
            found |= self.inside[-1]
        if not found:
            found = frozenset([self.number(eqn, ins, outs)])
        for v in bad:
            env[v] = found

    def number(self, eqn: JaxprEqn, ins: Sequence[Value], outs: Sequence[Value]) -> int:
        if eqn not in self.numbers:
            self.numbers[eqn] = len(self.origins)
            self.origins.append(Origin(self.place(eqn), ins, outs))
        return self.numbers[eqn]

    def leave(self, jaxpr: Jaxpr, outs: Sequence[Value]) -> None:
        super().leave(jaxpr, outs)
        env = self.envs.pop()
        self.inside.pop()
        found = _NONE
        for x, value in zip(jaxpr.outs, outs, strict=True):
            if self.has(value):
                found |= _GIVEN if type(x) is Lit else env.get(x, _GIVEN)
        self.inside[-1] |= found
        if not self.levels:
            self.reached = found

"""The answer whether two programs compute the same: by their normal forms, or by their results on samples."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxprtool.analyses.answer import Answer, json_number
from jaxprtool.interpreters.dce import draws_anew, has_effects
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr
from jaxprtool.ir.walk import all_eqns

__all__ = ["Argument", "Equivalence", "Sample", "Samples", "drawn_results", "effects_of"]

_SHOWN = 20  # differing results that are shown

Values = list[Any]


class Samples(NamedTuple):
    """What two programs gave on samples.

    Attributes:
      tried: how many samples there were.
      max_abs, max_rel, max_ulp: the largest differences of finite results on the samples on which
        the programs agree.
      left_out: on how many more samples a program takes more iterations than are allowed.
      uneven: on how many of those only one of the programs does.
      drawn: the positions of the results that each run draws anew, which are not compared.
      zero_signs: on how many samples a result has 0 where the other program's has -0, which count
        as equal.
    """

    tried: int
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    left_out: int = 0
    uneven: int = 0
    drawn: Sequence[int] = ()
    zero_signs: int = 0


class Sample(NamedTuple):
    """Arguments on which two programs differ.

    Attributes:
      args: the values.
      special: whether only arguments with values such as 0, infinities, NaN or the largest numbers
        were found.
      gaps: for each result how far it differs (`backends.agreement.Gap`).
      outs: the results of both programs.
    """

    args: Values
    special: bool
    gaps: Sequence[Any]
    outs: tuple[Values, Values]


class Argument(NamedTuple):
    """An argument of a counterexample.

    Attributes:
      name: the argument's name.
      type: its type, as text.
      word: its value as a word that `run --args` takes; None where that is too long, or no word has
        this value.
    """

    name: str
    type: str
    word: str | None


@dataclass(frozen=True)
class Equivalence(Answer):
    """Whether two programs compute the same.

    Attributes:
      status: `proved`, `probable` or `refuted`.
      reason: why they are refuted without a counterexample; "" else.
      samples: what they gave on samples; None where none was needed.
      sample: the counterexample, or None.
      arguments: its arguments.
      outputs: for each result that differs there the position, type, index, both values, and how
        far they differ.
      unknown: for programs with the same normal form, how many constants of nested jaxprs have no
        value in one of them: the programs are equal if these are.
      effects: for each primitive with side effects how many equations of either program are of it;
        what they do is not compared. None where the programs are proved.
      same_in: the wider type in which both give the same results for the counterexample, so that
        only the range or the rounding of their own types tells them apart; "" for none.
    """

    status: str
    reason: str = ""
    samples: Samples | None = None
    sample: Sample | None = None
    arguments: Sequence[Argument] = ()
    outputs: Sequence[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    unknown: int = 0
    effects: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    same_in: str = ""

    @property
    def refuted(self) -> bool:
        """Whether they differ."""
        return self.status == "refuted"

    @property
    def proved(self) -> bool:
        """Whether they are equal for all arguments."""
        return self.status == "proved"

    def lines(self) -> list[str]:
        """The answer for people."""
        if self.proved:
            return ["proved: they have the same normal form"]
        if self.reason:
            return [f"refuted: {self.reason}"]
        if self.unknown:
            one = self.unknown == 1
            what = "1 constant of a jaxpr" if one else f"{self.unknown} constants of jaxprs"
            lacks = "whose value is" if one else "whose values are"
            return [
                f"probable: they have the same normal form, taking as equal {what} inside, {lacks} not in the files"
            ]
        assert self.samples is not None
        if self.sample is None:
            s = self.samples
            largest = f"max abs {s.max_abs:.2g}, max rel {s.max_rel:.2g}, max ulp {s.max_ulp:.3g}"
            agree = (
                f"probable: they agree on {_counted(s.tried)}; the largest difference: {largest}"
            )
            return [agree, *_zero_signs(s), *_left_out(s), *self._not_compared()]
        only = "refuted by special values" if self.sample.special else "refuted"
        agreed = f", after {_counted(self.samples.tried)} on which they agree"
        found = [f"{only}{agreed if self.samples.tried else ''}:"]
        words = [a.word for a in self.arguments]
        if all(w is not None for w in words):
            given = shlex.join([w for w in words if w is not None])
            found.append(f"  --args {given}" if words else "  (they take no arguments)")
        else:
            found.append("  arguments too long for words; -o FILE.npz writes them")
        for out in self.outputs[:_SHOWN]:
            index = f"[{','.join(map(str, out['element']))}]" if out["element"] else ""
            found.append(f"  result {out['index']}{index} {out['type']}: {out['a']} and {out['b']}")
        if self.same_in:
            types = " and ".join(
                dict.fromkeys(out["type"].partition("[")[0] for out in self.outputs)
            )
            found.append(
                f"  in {self.same_in} both give the same there: the range or the rounding of {types} tells them "
                "apart (--domain leaves such arguments out)"
            )
        return [*found, *self._not_compared()]

    def _not_compared(self) -> list[str]:
        found: list[str] = []
        if self.samples and (drawn := self.samples.drawn):
            which = f"{counted(len(drawn), 'result')} ({', '.join(map(str, drawn))})"
            found.append(f"  not compared: {which}, which each run draws anew")
        if self.effects:
            which = ", ".join(
                f"{name} ({a} in A, {b} in B)" for name, (a, b) in self.effects.items()
            )
            found.append(f"  not compared: what is printed, or done outside, by {which}")
        return found

    def json(self) -> dict[str, Any]:
        """One document; the help of the verb has its keys."""
        s = self.samples
        example = None
        if self.sample is not None:
            example = {
                "special": self.sample.special,
                "same_in": self.same_in or None,
                "args": [a.word for a in self.arguments],
                "arguments": [a._asdict() for a in self.arguments],
                "outputs": list(self.outputs),
            }
        return {
            "schema": 1,
            "status": self.status,
            "reason": self.reason or None,
            "samples": 0 if s is None else s.tried,
            "left_out": 0 if s is None else s.left_out,
            "drawn": [] if s is None else list(s.drawn),
            "zero_signs": 0 if s is None else s.zero_signs,
            "max_abs": None if s is None else json_number(s.max_abs),
            "max_rel": None if s is None else json_number(s.max_rel),
            "max_ulp": None if s is None else json_number(s.max_ulp),
            "counterexample": example,
            "unknown": self.unknown,
            "effects": {name: [*counts] for name, counts in self.effects.items()},
        }


def _counted(n: int) -> str:
    return "1 sample" if n == 1 else f"{n} samples"


def _zero_signs(s: Samples) -> list[str]:
    if not s.zero_signs:
        return []
    return [f"  0 and -0 count as equal, and stand beside each other on {_counted(s.zero_signs)}"]


def _left_out(s: Samples) -> list[str]:
    if not s.left_out:
        return []
    found = f"  left out: {_counted(s.left_out)} on which loops take too many steps"
    return [f"{found}, of one program alone on {s.uneven}" if s.uneven else found]


def effects_of(a: ClosedJaxpr, b: ClosedJaxpr) -> dict[str, tuple[int, int]]:
    """Return for each primitive with side effects how many equations of two programs are of it, at any depth."""
    sides = [
        Counter(
            eqn.primitive.name
            for eqn in all_eqns(program.jaxpr)
            if not eqn.primitive.holds_jaxprs and has_effects(eqn)
        )
        for program in (a, b)
    ]
    return {name: (sides[0][name], sides[1][name]) for name in sorted({*sides[0], *sides[1]})}


def drawn_results(jaxpr: Jaxpr) -> list[int]:
    """Return the positions of a jaxpr's results that depend on numbers which each run draws anew (`rng_uniform`)."""
    drawn = set[Any]()
    for eqn in jaxpr.eqns:
        if draws_anew(eqn) or not drawn.isdisjoint(eqn.inputs):
            drawn.update(eqn.out_binders)
    return [i for i, x in enumerate(jaxpr.outs) if x in drawn]

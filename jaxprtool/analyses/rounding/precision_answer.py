"""The answer of `precision`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxprtool.analyses.answer import Answer, json_number
from jaxprtool.analyses.places import Place
from jaxprtool.analyses.rounding.precision import Errors
from jaxprtool.ir.diagnostics import counted

__all__ = ["OutputError", "Precision", "Together", "Trial"]


class OutputError(NamedTuple):
    """The error of a result.

    Attributes:
      position: the position of the result.
      type: the type of the result.
      ulps: the largest error of an element, in units in the last place.
      relative: the largest error, relative to the largest element.
      left_out: how many elements are NaN or infinite, which have no error.
    """

    position: int
    type: str
    ulps: float
    relative: float
    left_out: int = 0

    def __str__(self) -> str:
        off = f"off by {self.ulps:.3g} ulp, {self.relative:.2g} of its largest element"
        bad = f"; {counted(self.left_out, 'element')} NaN or infinite" if self.left_out else ""
        return f"result {self.position} {self.type}: {off}{bad}"

    def json(self) -> dict[str, Any]:
        """The keys index, type, max_ulp, max_rel and not_finite."""
        numbers = {"max_ulp": json_number(self.ulps), "max_rel": json_number(self.relative)}
        return {"index": self.position, "type": self.type, **numbers, "not_finite": self.left_out}


class Trial(NamedTuple):
    """The error of the results once an equation and those that read it are computed in the wider precision.

    Attributes:
      place: the equation.
      before: the largest relative error of a result in the program as it is.
      after: the largest relative error of a result then.
    """

    place: Place
    before: float
    after: float

    def json(self) -> dict[str, Any]:
        """The keys place, before and after."""
        return {
            "place": self.place.json(),
            "before": json_number(self.before),
            "after": json_number(self.after),
        }


class Together(NamedTuple):
    """The error of the results once some equations are computed in the wider precision, none of which helps as much alone.

    Attributes:
      places: the equations.
      before: the largest relative error of a result in the program as it is.
      after: the largest relative error of a result then.
    """

    places: Sequence[Place]
    before: float
    after: float

    def json(self) -> dict[str, Any]:
        """The keys places, before and after."""
        return {
            "places": [p.json() for p in self.places],
            "before": json_number(self.before),
            "after": json_number(self.after),
        }


@dataclass(frozen=True)
class Precision(Answer):
    """The errors of a program's results and equations.

    Attributes:
      outputs: the errors of the results of floating or complex types.
      equations: the errors of the equations, the worst first: by what they add, or, where results
        are off by far more than that, by what they amplify.
      trials: what was tried in the wider precision, what helps most first.
      together: equations that help together; None where one helps as much alone, or none do.
      top: how many of each are shown.
      shadow: the wider precision.
      in_f64: the equations that were computed in f64, since their rules have no long double.
    """

    outputs: Sequence[OutputError] = field(default_factory=list[OutputError])
    equations: Sequence[Errors] = field(default_factory=list[Errors])
    trials: Sequence[Trial] = field(default_factory=list[Trial])
    together: Together | None = None
    top: int = 20
    shadow: str = "f64"
    in_f64: Sequence[Place] = ()

    def lines(self) -> list[str]:
        """The answer for people."""
        found = [*map(str, self.outputs)]
        found += ["", "     adds  adds (ulp)  in all (ulp)  amplified  equation"]
        for e in self.equations[: self.top]:
            adds = "-" if e.local is None else f"{e.local_relative:.2g}"
            cells = f"{adds:>9}  {_cell(e.local):>10}  {_cell(e.total):>12}  {_cell(e.amplification):>9}"
            found.append(f"{cells}  {e.place}  {e.place.in_full()}")
        if self.trials:
            found += [
                "",
                f"done in {self.shadow} with what reads it, the largest error of the results becomes",
            ]
            found += [
                f"{t.before:>9.2g} -> {t.after:<9.2g}  {t.place}  {t.place.in_full()}"
                for t in self.trials[: self.top]
            ]
        if self.together is not None:
            before, after = self.together.before, self.together.after
            found += ["", f"these done in {self.shadow} together, it becomes"]
            found.append(f"{before:>9.2g} -> {after:.2g}")
            found += [f"  {place}  {place.in_full()}" for place in self.together.places]
        if self.in_f64:
            found += ["", "done in f64 in the wider run, since they have no long double"]
            found += [f"  {place}  {place.in_full()}" for place in self.in_f64]
        return found

    def json(self) -> dict[str, Any]:
        """One document; the help of the verb has its keys."""
        return {
            "schema": 1,
            "shadow": self.shadow,
            "outputs": [o.json() for o in self.outputs],
            "equations": [
                {
                    "place": e.place.json(),
                    "count": e.count,
                    "local_ulp": json_number(e.local),
                    "local_rel": json_number(e.local_relative),
                    "total_ulp": json_number(e.total),
                    "amplification": json_number(e.amplification),
                }
                for e in self.equations[: self.top]
            ],
            "raised": [t.json() for t in self.trials[: self.top]],
            "together": None if self.together is None else self.together.json(),
            "in_f64": [place.json() for place in self.in_f64],
        }


def _cell(x: float | None) -> str:
    return "-" if x is None else f"{x:.3g}"

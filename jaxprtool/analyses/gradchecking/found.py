"""What the check of derivatives finds: the result for each mode, and the derivatives that are wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.answer import json_number

__all__ = ["Check", "Mismatch", "largest_of", "unravel"]


class Mismatch(NamedTuple):
    """A derivative that disagrees with its difference.

    Attributes:
      mode: `fwd`, `rev`, `fwd=rev` (the two modes against each other) or `value` (the result that a
        rule computes).
      output: the position of the result; None for a sum over results.
      element: the index in the result; None for a sum over results.
      argument: the position of the argument, with the index of the element in it; None along a
        random direction.
      derivative: what the rules give.
      difference: what the differences give.
      tolerance: how far they might have been apart.
    """

    mode: str
    output: int | None
    element: tuple[int, ...] | None
    argument: tuple[int, tuple[int, ...]] | None
    derivative: Any
    difference: Any
    tolerance: float

    def json(self) -> dict[str, Any]:
        """The keys mode, output, index, argument, argument_index, derivative, difference, tolerance."""
        argument, index = self.argument or (None, None)
        return {
            "mode": self.mode,
            "output": self.output,
            "index": None if self.element is None else list(self.element),
            "argument": argument,
            "argument_index": None if index is None else list(index),
            "derivative": json_number(self.derivative),
            "difference": json_number(self.difference),
            "tolerance": json_number(self.tolerance),
        }

    def __str__(self) -> str:
        return self.described()

    def described(self, arguments: Sequence[str] = (), results: Sequence[str] = ()) -> str:
        """Return the numbers, and which derivative they are of; arguments, results: their names, else those of an equation's operands."""
        of, by = "the results", "along a direction"
        if self.output is not None:
            named = results[self.output] if results else f"result {self.output}"
            of = f"{named}{_at(self.element)}"
        if self.argument is not None:
            i, element = self.argument
            by = f"by {arguments[i] if arguments else f'operand {i}'}{_at(element)}"
        names = {"fwd=rev": ("fwd", "rev"), "value": ("rule", "function")}
        one, other = names.get(self.mode, (self.mode, "differences"))
        what = "value" if self.mode == "value" else "derivative"
        numbers = f"{one} {_number(self.derivative)}, {other} {_number(self.difference)}"
        return f"{what} of {of}{'' if self.mode == 'value' else f' {by}'}: {numbers}"


def _at(index: tuple[int, ...] | None) -> str:
    return f"[{','.join(map(str, index))}]" if index else ""


def _number(x: Any) -> str:
    return f"{x:.6g}"


class Check:
    """What the check of one mode has found.

    Attributes:
      mode: `fwd`, `rev`, `fwd=rev` or `value`.
      compared: how many numbers were compared.
      max_abs: the largest absolute difference.
      max_rel: the largest relative difference.
      wrong: the mismatches, the worst of each result; derivatives by single elements come first.
      kinks: at how many numbers the function has a kink or a jump, where the derivative is a choice
        of the rule.
      uneven: at how many others the slopes on the two sides differ, and the derivative is not
        between them.
      doubted: at how many of the kinks the derivative agrees nevertheless: rounding can look like a
        kink.
      unsure: how many numbers agree only because the differences are not known better, or are not
        known at all.
      reason: why the mode is not available; else "".
      explained: the kind of the note that says why derivatives differ though the rules are right;
        else "".
      steps: `complex` where all derivatives are compared with those by steps in the imaginary
        direction, else `real`.
    """

    __slots__ = (
        "compared",
        "doubted",
        "explained",
        "kinks",
        "max_abs",
        "max_rel",
        "mode",
        "reason",
        "steps",
        "uneven",
        "unsure",
        "wrong",
    )

    def __init__(self, mode: str, reason: str = ""):
        self.mode, self.reason, self.explained = mode, reason, ""
        self.compared = self.kinks = self.uneven = self.doubted = self.unsure = 0
        self.max_abs = self.max_rel = 0.0
        self.wrong: list[Mismatch] = []
        self.steps = "real"

    @property
    def status(self) -> str:
        """`unavailable`, `differs`, the kind of a note that explains a difference, `kink`, `unsure` or `agrees`."""
        if self.reason:
            return "unavailable"
        if self.wrong:
            return self.explained or "differs"
        return "kink" if self.kinks else "unsure" if self.unsure else "agrees"

    def clear_doubted(self) -> None:
        """Discount the kinks at which the derivative agrees, where no equation has any."""
        self.kinks, self.doubted = self.kinks - self.doubted, 0

    def largest(self, differences: Any, sizes: Any) -> None:
        """Take some differences, and the sizes of what was expected, into `max_abs` and `max_rel`."""
        relative = differences[sizes > 0] / sizes[sizes > 0]
        self.max_abs = max(self.max_abs, largest_of(differences))
        self.max_rel = max(self.max_rel, largest_of(relative))

    def json(self) -> dict[str, Any]:
        """The keys mode, status, compared, max_abs, max_rel, kinks, unsure, reason and steps."""
        return {
            "mode": self.mode,
            "status": self.status,
            "compared": self.compared,
            "max_abs": json_number(self.max_abs),
            "max_rel": json_number(self.max_rel),
            "kinks": self.kinks,
            "unsure": self.unsure,
            "reason": self.reason or None,
            "steps": self.steps,
        }


def largest_of(sizes: Any) -> float:
    """Return the largest finite number; 0 where there is none."""
    return float(sizes[sizes < math.inf].max(initial=0.0))


def unravel(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of an element of an array of a shape, given its position in row-major order."""
    index: list[int] = []
    for n in reversed(shape):
        flat, k = divmod(flat, n)
        index.append(k)
    return tuple(reversed(index))

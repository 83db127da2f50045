"""Recognition of quotients, sigmoids and softmaxes that are written out in other operations."""

from __future__ import annotations

from typing import NamedTuple

from jaxprtool.linter.frames import At, Ref

__all__ = [
    "Quotient",
    "is_sigmoid",
    "one_plus",
    "quotient_of",
    "softmax_terms",
    "summed_exponentials",
]

# Operations that sum elements of their first operand.
_SUMS = ("reduce_sum", "psum", "cumsum", "reduce_window_sum")


class Quotient(NamedTuple):
    """A division.

    Attributes:
      top: the numerator; None if it is 1.
      bottom: the denominator.
    """

    top: Ref | None
    bottom: Ref


def quotient_of(at: At) -> Quotient | None:
    """Return an equation as a division if it computes a / b, b to the power of -1, or a * (1 / b).

    Return None for others.
    """
    if at.name == "div":
        return Quotient(None if at.number(0) == 1 else at.operand(0), at.operand(1))
    if at.name == "integer_pow" and at.params["y"] == -1:
        return Quotient(None, at.operand(0))
    if at.name == "mul":
        for i in (1, 0):
            factor = at.made(i, "div", "integer_pow")
            found = None if factor is None else quotient_of(factor)
            if found is not None and found.top is None:
                return Quotient(at.operand(1 - i), found.bottom)
    return None


def one_plus(ref: Ref) -> Ref | None:
    """Return x for a value 1 + x, x + 1 or x - (-1); None for others."""
    at = ref.made("add", "sub")
    if at is None or len(at.eqn.inputs) != 2:
        return None
    if at.name == "add" and at.number(0) == 1:
        return at.operand(1)
    return at.operand(0) if at.number(1) == (1 if at.name == "add" else -1) else None


def is_sigmoid(ref: Ref) -> bool:
    """Whether a value is logistic(x), possibly written out.

    It may be 1 / (1 + exp(-x)), exp(x) / (1 + exp(x)), or (1 + tanh(x / 2)) / 2.
    """
    at = ref.at()
    if at is None or at.name == "logistic":
        return at is not None
    if at.name in ("mul", "div") and _is_half_of_tanh(at):
        return True
    found = quotient_of(at)
    rest = None if found is None else one_plus(found.bottom)
    exponential = None if rest is None else rest.made("exp")
    if found is None or exponential is None:
        return False
    top = None if found.top is None else found.top.made("exp")
    return found.top is None or (top is not None and top.operand(0).is_same(exponential.operand(0)))


def _is_half_of_tanh(at: At) -> bool:
    """Whether a product or quotient is half of 1 + tanh(x)."""
    for i in (0, 1):
        number = at.number(1 - i)
        if number == (0.5 if at.name == "mul" else 2) and (i == 0 or at.name == "mul"):
            rest = one_plus(at.operand(i))
            return rest is not None and rest.made("tanh") is not None
    return False


def summed_exponentials(ref: Ref, depth: int = 3) -> At | None:
    """Return the `exp` equation if a value is a sum of exponentials, or one of two; None
    otherwise.
    """
    at = ref.at()
    if at is None or depth == 0:
        return None
    if at.name in _SUMS:
        return at.made(0, "exp") or summed_exponentials(at.operand(0), depth - 1)
    if at.name in ("add", "dot_general") and len(at.eqn.inputs) == 2:
        found = [at.made(i, "exp") for i in (0, 1)]
        wanted = all(found) if at.name == "add" else any(found)
        return next(filter(None, found)) if wanted else None
    return None


def softmax_terms(at: At) -> At | None:
    """Return the `exp` equation if an equation divides exponentials by their sum, as a softmax;
    else None.
    """
    found = quotient_of(at)
    if found is None or found.top is None:
        return None
    top, total = found.top.made("exp"), found.bottom.made("reduce_sum", "psum")
    terms = None if top is None or total is None else summed_exponentials(found.bottom)
    if top is None or terms is None:
        return None
    return top if terms.operand(0).is_same(top.operand(0)) else None

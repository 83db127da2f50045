"""Bounds of a value, derived from the operations that made it: whether it is bounded above, not
negative, or may be zero.

The bounds of the results of a single primitive are in its row (`range`). The primitives that are
named here are those of arithmetic: sums, products, choices, and the patterns of norms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jaxprtool.interpreters.columns.ranges import range_of
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.linter.frames import At, Ref

__all__ = [
    "Zero",
    "has_derivative",
    "is_bounded_above",
    "is_not_negative",
    "may_be_zero",
    "of_integers",
]

_DEPTH = 12  # the largest number of operations that are looked through
# Operations that are used to keep numbers small, although their rows cannot state a bound for all
# operands;
# and the inverse of erf, whose results are small except for operands within rounding error of 1.
_LIMITING = frozenset({"clamp", "erf_inv", "iota", "min", "random_bits", "reduce_min"})


def of_integers(ref: Ref) -> bool:
    """Whether a value was converted from integers or booleans, so that it has no small nonzero
    elements.
    """
    found = ref.at()
    if found is None or found.name != "convert_element_type":
        return found is not None and found.name == "iota"
    return getattr(getattr(found.operand(0).aval, "dtype", None), "kind", "") in "biu"


def has_derivative(ref: Ref, depth: int = _DEPTH) -> bool:
    """Whether a value may depend on a floating-point argument, rather than on numbers and integers
    only.
    """
    if ref.number() is not None or of_integers(ref):
        return False
    found = ref.at()
    if found is None or depth == 0 or found.eqn.primitive.holds_jaxprs:
        return True
    inputs = found.eqn.inputs
    return any(has_derivative(found.operand(i), depth - 1) for i in range(min(len(inputs), 4)))


def is_bounded_above(ref: Ref, depth: int = _DEPTH) -> bool:
    """Whether the elements are bounded above, or appear to be kept small on purpose.

    A difference of two values counts as kept small.
    """
    if ref.number() is not None:
        return True
    found = ref.at()
    if found is None or depth == 0:
        return False
    name = found.name
    if _is_limited(found) or of_integers(ref):
        return True
    if name == "sub":
        return found.number(1) is None or is_bounded_above(found.operand(0), depth - 1)
    if name == "neg":
        return is_not_negative(found.operand(0), depth - 1)
    if name in ("mul", "div"):
        return _is_scaled_down(found, depth)
    if name in ("add", "max", "select_n", "concatenate", "cond", "custom_jvp_call"):
        first = 1 if name == "select_n" else 0
        rest = range(first, len(found.eqn.inputs))
        return all(is_bounded_above(found.operand(i), depth - 1) for i in rest)
    return False


def _is_limited(found: At) -> bool:
    return found.name in _LIMITING or range_of(found.eqn).high < math.inf


def _is_scaled_down(found: At, depth: int) -> bool:
    """Whether a product or quotient is bounded above: of a positive number and a value that is
    bounded above, or of a negative value and one that is not negative.
    """
    for i in (0, 1):
        number, other = found.number(1 - i), found.operand(i)
        if isinstance(number, (int, float)) and number > 0 and (i == 0 or found.name == "mul"):
            return is_bounded_above(other, depth - 1)
        negative = isinstance(number, (int, float)) or found.made(1 - i, "neg") is not None
        if negative and is_not_negative(other, depth - 1):
            return True
        made = other.at()
        if made is not None and made.name == "neg" and is_not_negative(made.operand(0), depth - 1):
            return True
        if made is not None and _is_limited(made) and isinstance(number, (int, float)):
            return True
    return False


def is_not_negative(ref: Ref, depth: int = _DEPTH) -> bool:
    """Whether all elements are at least 0, because of the operation that made them."""
    number = ref.number()
    if number is not None:
        return isinstance(number, (int, float)) and number >= 0
    found = ref.at()
    if found is None or depth <= 0:
        return False
    name = found.name
    if range_of(found.eqn).low >= 0 or _is_square(found):
        return True
    if name in ("reduce_sum", "reduce_max", "psum", "cumsum", "reduce_min"):
        return is_not_negative(found.operand(0), depth - 1)
    if name == "max":
        return any(is_not_negative(found.operand(i), depth - 1) for i in (0, 1))
    if name in ("add", "mul", "div", "min"):
        return all(is_not_negative(found.operand(i), depth - 1) for i in (0, 1))
    return of_integers(ref) and found.name == "iota"


def _is_square(found: At) -> bool:
    """Whether an equation computes |x|, x squared, or an even power of x."""
    if found.name == "integer_pow":
        return found.params["y"] % 2 == 0 and found.params["y"] > 0
    if found.name == "mul":
        return found.operand(0).is_same(found.operand(1))
    return found.name in ("square", "abs")


class Zero(NamedTuple):
    """A value that may be exactly zero.

    Attributes:
      what: what it is, in words: `a sum of squares`.
      of: the value x that is zero then: the value is x squared, a norm of x, ...
    """

    what: str
    of: Ref


def may_be_zero(ref: Ref, depth: int = _DEPTH) -> Zero | None:
    """Return what a value is if it is exactly 0 for arguments that occur in practice; otherwise
    None.

    A sum of squares is 0 for equal points, or for a first guess of zeros. It is not if a number is
    added to it, or a choice guards it.
    """
    ref = _beside_nan(ref)
    found = ref.at()
    if found is None or depth <= 0 or not isinstance(ref.aval, ShapedArray):
        return None
    if ref.aval.dtype.kind not in "fc" or _is_away_from_zero(ref):
        return None
    name = found.name
    if _is_square(found):
        what = "|x|" if name == "abs" else _SQUARE
        x = found.operand(0)
        return None if _is_away_from_zero(x) or not has_derivative(x) else Zero(what, x)
    if name == "dot_general":
        return Zero(_SUM, found.operand(0)) if _is_sum_of_squares(found) else None
    if name == "max" and 0 in (found.number(0), found.number(1)):
        return Zero("max(x, 0)", found.operand(0 if found.number(1) == 0 else 1))
    if name in _KEEPING:
        inner = may_be_zero(found.operand(0), depth - 1)
        return inner and Zero(_KEEPING[name].get(inner.what, inner.what), inner.of)
    if name == "mul":
        i = next((i for i in (1, 0) if found.number(i)), None)
        return None if i is None else may_be_zero(found.operand(1 - i), depth - 1)
    if name == "add" and 0 in (found.number(0), found.number(1)):  # adding 0 guards nothing
        return may_be_zero(found.operand(1 if found.number(0) == 0 else 0), depth - 1)
    if name == "div":  # by a count, for example; 0 / 0 is another rule's finding
        zero = may_be_zero(found.operand(0), depth - 1)
        return None if zero is None or may_be_zero(found.operand(1), depth - 1) else zero
    return None


def _beside_nan(ref: Ref) -> Ref:
    """Return a value; for a choice whose other cases are NaN, the case that is not: NaN is no
    guard.
    """
    found = ref.made("select_n")
    if found is None:
        return ref
    cases = [found.operand(i) for i in range(1, len(found.eqn.inputs))]
    numbers = [case for case in cases if not _is_nan(case)]
    return numbers[0] if len(numbers) == 1 < len(cases) else ref


def _is_nan(ref: Ref) -> bool:
    number = ref.number()
    return isinstance(number, float) and math.isnan(number)


def _is_sum_of_squares(product: At) -> bool:
    """Whether a `dot_general` multiplies each element with itself only: an operand with itself,
    contracted along the same axes.
    """
    (left, right), (batch, other_batch) = product.params["dimension_numbers"]
    same_axes = [*left] == [*right] and [*batch] == [*other_batch]
    whole = len(product.out.shape) == len(batch)
    return same_axes and whole and product.operand(0).is_same(product.operand(1))


_SQUARE, _SUM = "a square", "a sum of squares"
# Primitive that maps zeros to 0 -> (what the operand is -> what the result is).
_KEEPING: dict[str, dict[str, str]] = {
    "reduce_sum": {_SQUARE: _SUM, "|x|": "a sum of |x|", "max(x, 0)": "a sum of max(x, 0)"},
    "psum": {_SQUARE: _SUM},
    "reduce_max": {"|x|": "the greatest |x|"},
    "sqrt": {_SUM: "a norm", _SQUARE: "|x|"},
}


def _is_away_from_zero(ref: Ref) -> bool:
    """Whether a value is never 0, because of the operation that made it."""
    if ref.number() is not None:
        return True
    found = ref.at()
    if found is None:
        return False
    if range_of(found.eqn).is_away_from_zero or found.name == "log":
        return True  # a logarithm is 0 at a single point, which does not occur in practice
    if found.name == "add":
        return any(ref.number() for ref in (found.operand(0), found.operand(1)))
    return found.name in ("select_n", "clamp", "iota")

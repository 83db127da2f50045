"""Lint rules of operations whose derivatives are infinite or NaN at points that occur in
practice.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from jaxprtool.interpreters.columns.ranges import Range, range_of
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.interpreters.jvp import derivative_facts
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import all_eqns
from jaxprtool.linter.frames import At, Frame, Ref, call_of, is_derived
from jaxprtool.linter.ranges import has_derivative, is_not_negative, may_be_zero
from jaxprtool.linter.registry import Found, lint_rule

__all__ = ["infinite_derivative", "where_nan_gradient", "zero_division"]


def _is_differentiated(at: At) -> bool:
    """Whether an equation may be differentiated: not inside a function with a custom rule, or a
    while loop.
    """
    if any(_has_own_rule(step.eqn) for step in at.frame.path):
        return False
    if _DERIVED.of(at.frame.root, lambda: any(map(is_derived, all_eqns(at.frame.root)))):
        return any(map(is_derived, [at.eqn, *(step.eqn for step in at.frame.path)]))
    return _goes_on(at.frame, at.eqn)


# Whether the scopes of some equations say that they come from differentiation. Then only these are
# regarded as differentiated.
_DERIVED = Memo[bool]("holds derivatives")


def _goes_on(frame: Frame, eqn: JaxprEqn) -> bool:
    """Whether a result is used by anything that has a derivative, in the jaxpr or in the one that
    calls it.
    """
    if not all(_ends(e) for v in eqn.out_binders for e in frame.readers(v)):
        return True
    outs = [k for k, x in enumerate(frame.jaxpr.outs) if any(x is v for v in eqn.out_binders)]
    if not outs or frame.above is None or frame.step is None:
        return bool(outs)
    frame.outside = True
    call = frame.step.eqn
    if call_of(call) is None or not frame.known:
        return True
    (k, *_) = outs
    return _goes_on(frame.above, call.replace(out_binders=[call.out_binders[k]]))


def _has_own_rule(eqn: JaxprEqn) -> bool:
    """Whether the jaxprs of an equation are not differentiated: it has a custom rule, or no reverse
    mode.
    """
    of_unknown_length = any(run.turns for run in runs_of(eqn))
    return derivative_facts[eqn.primitive] == "rule" or of_unknown_length


def _ends(eqn: JaxprEqn) -> bool:
    """Whether the derivative of an equation is zero, or its results have no tangents."""
    return derivative_facts[eqn.primitive] == "zero" or not any(map(_is_inexact, eqn.out_binders))


def _is_inexact(x: Any) -> bool:
    return isinstance(x.aval, ShapedArray) and x.aval.dtype.is_inexact


@lint_rule(
    "infinite-derivative",
    "sqrt",
    "rsqrt",
    "pow",
    "cbrt",
    family="derivatives",
    mend="add a small number inside (jnp.sqrt(x + eps)), or guard the input: "
    "where(x > 0, sqrt(where(x > 0, x, 1)), 0)",
)
def infinite_derivative(at: At) -> str | None:
    """A root of a value that may be exactly zero, where its derivative is infinite.

    The derivative of sqrt(x) at 0 is infinite. In the derivative of a norm it is multiplied by 0,
    so that the gradient at 0 is NaN, and after one step of training all parameters are NaN. Roots
    of sums of squares, absolute values and max(x, 0) are reported where they may be differentiated.
    """
    if at.name == "pow" and not _is_root(at.number(1)):
        return None
    zero = may_be_zero(at.operand(0))
    if zero is None or zero.what == "a square" or not _is_differentiated(at):
        return None
    if at.name == "rsqrt":
        return f"rsqrt of {zero.what}, which may be 0, is infinite there"
    return f"{at.name} of {zero.what}, which may be 0: the derivative there is infinite"


@lint_rule(
    "zero-division",
    "div",
    family="derivatives",
    mend="add a small number to the norm, or guard it: x / where(norm == 0, 1, norm)",
)
def zero_division(at: At) -> str | None:
    """A value is divided by its own norm, which may be exactly zero.

    x / |x| and its derivative are NaN where x is zero: where two points are equal, or for a first
    guess of zeros. The same holds for a division by the greatest element, a sum of squares, or
    max(x, 0).
    """
    zero = may_be_zero(at.operand(1))
    if zero is None or _is_selected(at) or not _is_made_of(at.operand(0), zero.of, _WAY):
        return None
    return f"0 / 0 where x is zero: the denominator is {zero.what}"


_WAY = 6  # the largest number of operations between a value and its quotient


def _is_selected(at: At) -> bool:
    """Whether the result is only used by a `where`, which may replace the bad values.

    Then the rule `where-nan-gradient` applies.
    """
    readers = [eqn for v in at.eqn.out_binders for eqn in at.frame.readers(v)]
    chosen = all(eqn.primitive.name == "select_n" or _is_plain_call(eqn) for eqn in readers)
    return (
        chosen and bool(readers) and not any(v in at.frame.jaxpr.outs for v in at.eqn.out_binders)
    )


def _is_plain_call(eqn: JaxprEqn) -> bool:
    return call_of(eqn) is not None and not _has_own_rule(eqn)


# Primitive -> (position of the operand, points where the derivative by it is infinite).
_RISKY = {
    **dict.fromkeys(("log", "sqrt", "rsqrt", "cbrt", "pow"), (0, (0.0,))),
    "div": (1, (0.0,)),
    "log1p": (0, (-1.0,)),
    **dict.fromkeys(("acos", "asin", "atanh"), (0, (1.0, -1.0))),
    "acosh": (0, (1.0,)),
}
# Primitive -> points outside its domain, one on each side, where the derivative is NaN. (The
# derivative of a logarithm is finite there.)
_OUTSIDE = {
    **dict.fromkeys(("sqrt", "rsqrt", "pow"), (-1.0,)),
    **dict.fromkeys(("acos", "asin"), (2.0, -2.0)),
    "acosh": (0.0,),
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@lint_rule(
    "where-nan-gradient",
    "select_n",
    family="derivatives",
    mend="guard the input as well: where(c, f(where(c, x, 1)), y)",
)
def where_nan_gradient(at: At) -> Iterator[Found]:
    """A `where` guards the result of an operation, and not its input: the gradient is NaN.

    The gradient of where(x > 0, log(x), 0) at 0 is NaN: the side that is not selected is
    differentiated, too; its cotangent is 0, and 0 times the infinite derivative is NaN. The same
    holds for the derivative of sqrt(x) at negative x. The value of the function is right, so that
    only the gradient shows the fault.
    """
    predicate = at.operand(0).at()
    if predicate is None or predicate.name not in _COMPARISONS or len(at.eqn.inputs) != 3:
        return
    if at.out.dtype.kind not in "fc" or not _is_differentiated(at):
        return
    for i in (1, 2):
        if _is_split(at, i):
            continue
        for case in _parts(at.operand(i)):
            bad = _bad_derivative(case, predicate, i)
            if bad is not None:
                what = "a quotient" if case.name == "div" else f"a {case.name}"
                message = f"the side that is not taken has {what}, whose derivative there is {bad}"
                yield Found(message, at.place(), related=(case.place(),))
                break


def _parts(case: Ref, depth: int = 3) -> Iterator[At]:
    """Yield the equation that makes a case of a choice, and those that make its factors and
    terms.
    """
    found = case.at()
    if found is None:
        return
    yield found
    if depth and found.name in ("mul", "add", "sub", "neg", "div"):
        for i in range(len(found.eqn.inputs)):
            yield from _parts(found.operand(i), depth - 1)


def _is_split(at: At, i: int) -> bool:
    """Whether another choice by the same predicate selects this case where this choice does not.

    The transpose of a choice is such a pair; it drops no values.
    """
    predicate, case = at.eqn.inputs[0], at.eqn.inputs[i]
    return any(
        eqn.primitive is at.eqn.primitive
        and eqn.inputs[0] is predicate
        and eqn.inputs[3 - i] is case
        for eqn in at.frame.readers(predicate)
        if len(eqn.inputs) == 3
    )


def _bad_derivative(case: At, predicate: At, i: int) -> str | None:
    """Return "infinite" or "NaN" if the derivative of case i of a choice is so at points where the
    predicate does not select the case; None otherwise.
    """
    position, points = _RISKY.get(case.name, (0, ()))
    if not points or not has_derivative(operand := case.operand(position)):
        return None
    if case.name == "pow" and not _is_root(case.number(1)):
        points = ()
    for j in (0, 1):
        number, compared = predicate.number(1 - j), predicate.operand(j)
        if not isinstance(number, (int, float)):
            continue

        shown, of = _even(compared)

        def kept_from(x: float, number: float = number, j: int = j) -> bool:
            compare = _COMPARISONS[predicate.name]
            holds = compare(x, number) if j == 0 else compare(number, x)
            return (2 if holds else 1) != i

        if any(map(kept_from, points)) and _is_made_of(operand, compared):
            return "infinite"
        if any(kept_from(shown(x)) for x in points) and operand.is_same(of):
            return "infinite"
        if any(kept_from(shown(x)) for x in _outside(case, operand)) and operand.is_same(of):
            return "NaN"
    return None


def _even(compared: Ref) -> tuple[Callable[[float], float], Ref]:
    """Return a compared value as (f, x), the function f of a value x: |x|, x * x, or x itself."""
    found = compared.made("abs", "square", "integer_pow", "mul")
    if found is None:
        return float, compared
    x = found.operand(0)
    if found.name == "abs":
        return abs, x
    squares = found.name == "square" or (
        found.params.get("y") == 2 if found.name == "integer_pow" else x.is_same(found.operand(1))
    )
    return (lambda y: y * y, x) if squares else (float, compared)


def _outside(case: At, operand: Ref) -> list[float]:
    """Return numbers that the operand may have, at which the derivative of the operation is NaN."""
    power = case.number(1) if case.name == "pow" else 0.5
    if not isinstance(power, float) or power.is_integer():
        return []
    found = operand.at()
    low, high, _ = Range() if found is None else range_of(found.eqn)
    low = max(low, 0.0) if is_not_negative(operand) else low
    return [x for x in _OUTSIDE.get(case.name, ()) if low <= x <= high]


def _is_root(power: Any) -> bool:
    """Whether an exponent is between 0 and 1, so that the derivative of the power is infinite at
    0.
    """
    return isinstance(power, float) and 0 < power < 1


def _is_made_of(x: Ref, of: Ref, depth: int = 4) -> bool:
    """Whether a value is `of`, or is 0 wherever `of` is: its square, its norm, a multiple of it."""
    if x.is_same(of):
        return True
    found = x.at()
    if found is None or depth == 0:
        return False
    if found.name in (
        "abs",
        "square",
        "neg",
        "integer_pow",
        "reduce_sum",
        "reduce_max",
        "sqrt",
        "div",
    ):
        return _is_made_of(found.operand(0), of, depth - 1)
    if found.name == "mul":
        return any(_is_made_of(found.operand(i), of, depth - 1) for i in (0, 1))
    return False

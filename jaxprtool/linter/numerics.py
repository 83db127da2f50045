"""Pairs of operations that lose digits, or overflow, where one operation does not."""

from __future__ import annotations

from jaxprtool.linter.frames import At, Ref
from jaxprtool.linter.ranges import is_bounded_above, of_integers
from jaxprtool.linter.registry import lint_rule

__all__ = [
    "exp_minus_one",
    "exp_without_max",
    "log_of_one_plus",
    "log_of_sigmoid",
    "log_of_softmax",
]


def _exponentials(quotient: At) -> At | None:
    """Of a division of exponentials by their sum the exponentials: it is a softmax."""
    top, total = quotient.made(0, "exp"), quotient.made(1, "reduce_sum", "psum")
    if top is None or total is None:
        return None
    terms = total.made(0, "exp", "reduce_sum")
    if terms is not None and terms.name == "reduce_sum":
        terms = terms.made(0, "exp")
    same = terms is not None and terms.operand(0).is_same(top.operand(0))
    return top if same else None


@lint_rule(
    "log-of-softmax",
    "log",
    family="numerics",
    mend="write jax.nn.log_softmax(x)",
)
def log_of_softmax(at: At) -> str | None:
    """The logarithm of a softmax.

    Where a probability is less than the smallest float, about exp(-104) in f32, it is 0, and its logarithm -inf; the derivative is NaN.
    log_softmax subtracts logarithms, and is exact for every difference.
    """
    quotient = at.made(0, "div")
    is_softmax = quotient is not None and _exponentials(quotient) is not None
    return "log of a softmax is -inf where a probability underflows" if is_softmax else None


@lint_rule(
    "log-of-sigmoid",
    "log",
    family="numerics",
    mend="write jax.nn.log_sigmoid(x), and jax.nn.log_sigmoid(-x) for log(1 - sigmoid(x))",
)
def log_of_sigmoid(at: At) -> str | None:
    """The logarithm of a sigmoid, or of one minus it.

    sigmoid(x) is 0 for x below about -104 in f32, and 1 - sigmoid(x) is 0 for x above 17: the logarithm is -inf there, and the
    derivative NaN.
    """
    if at.made(0, "logistic"):
        return "log of a sigmoid is -inf where the sigmoid underflows"
    rest = at.made(0, "sub")
    if rest is not None and rest.number(0) == 1 and rest.made(1, "logistic"):
        return "log of 1 - sigmoid(x) is -inf for x above 17"
    return None


@lint_rule(
    "log-of-one-plus",
    "log",
    family="numerics",
    mend="write jnp.log1p(x), and jnp.logaddexp(x, 0) for log(1 + exp(x))",
)
def log_of_one_plus(at: At) -> str | None:
    """The logarithm of one plus, or minus, a number.

    1 + x rounds away the digits of a small x: in f32 the result is 0 for x below 6e-8, and has few correct digits below 1e-4. log1p
    has all. Of numbers that were integers nothing is told.
    """
    inner = at.made(0, "add", "sub")
    if inner is None:
        return None
    rest = _beside_one(inner)
    if rest is None or of_integers(rest):
        return None
    made = rest.at()
    if made is not None and inner.name == "sub" and made.name == "logistic":
        return None  # which is another finding
    if made is not None and made.name == "exp" and inner.name == "add":
        return "log(1 + exp(x)) overflows for a large x, and loses the digits of a small exp(x)"
    sign = "+" if inner.name == "add" else "-"
    return f"log(1 {sign} x) loses the digits of a small x"


def _beside_one(inner: At) -> Ref | None:
    """The other operand of 1 + x, x + 1 or 1 - x."""
    if inner.number(0) == 1:
        return inner.operand(1)
    return inner.operand(0) if inner.name == "add" and inner.number(1) == 1 else None


@lint_rule(
    "exp-minus-one",
    "sub",
    "add",
    family="numerics",
    needs=("exp",),
    mend="write jnp.expm1(x)",
)
def exp_minus_one(at: At) -> str | None:
    """An exponential minus one.

    For a small x, exp(x) is 1 plus little, and the subtraction leaves the rounding error of that: in f32 nothing is correct for x below
    6e-8. expm1 has all digits.
    """
    if len(at.eqn.inputs) != 2:
        return None
    less = (at.name == "sub" and (at.number(1) == 1 or at.number(0) == 1)) or (
        at.name == "add" and -1 in (at.number(0), at.number(1))
    )
    if not less or not any(at.made(i, "exp") for i in (0, 1)):
        return None
    return "exp(x) - 1 loses the digits of a small x"


@lint_rule(
    "exp-without-max",
    "log",
    "div",
    family="numerics",
    needs=("exp",),
    mend="write jax.nn.logsumexp(x) or jax.nn.softmax(x), which subtract the greatest element first",
)
def exp_without_max(at: At) -> str | None:
    """A softmax, or the logarithm of a sum of exponentials, without the greatest element subtracted first.

    exp overflows to infinity above 88 in f32 (and 11 in f16): a softmax is NaN there, and a logarithm infinite. Where all elements are
    below -104 the sum is 0.
    """
    if at.name == "div":
        terms, what = _exponentials(at), "a softmax"
    else:
        total = at.made(0, "reduce_sum")
        terms, what = total and total.made(0, "exp"), "log of a sum of exponentials"
    if terms is None or is_bounded_above(terms.operand(0)):
        return None
    return f"{what} overflows: the greatest element is not subtracted before exp"

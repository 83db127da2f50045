"""Lint rules of combinations of operations that lose digits or overflow, where a single one does
not.
"""

from __future__ import annotations

from jaxprtool.linter.frames import At, Ref
from jaxprtool.linter.quotients import is_sigmoid, one_plus, softmax_terms, summed_exponentials
from jaxprtool.linter.ranges import is_bounded_above, of_integers
from jaxprtool.linter.registry import lint_rule

__all__ = [
    "exp_minus_one",
    "exp_without_max",
    "log_of_one_plus",
    "log_of_sigmoid",
    "log_of_softmax",
]


@lint_rule(
    "log-of-softmax",
    "log",
    family="numerics",
    mend="write jax.nn.log_softmax(x)",
)
def log_of_softmax(at: At) -> str | None:
    """The logarithm of a softmax.

    A probability below the smallest float, about exp(-104) in f32, is 0; its logarithm is -inf, and
    the derivative NaN. log_softmax subtracts logarithms, and is exact for every difference.
    """
    quotient = at.operand(0).at()
    is_softmax = quotient is not None and softmax_terms(quotient) is not None
    return "log of a softmax is -inf where a probability underflows" if is_softmax else None


@lint_rule(
    "log-of-sigmoid",
    "log",
    "log1p",
    family="numerics",
    mend="write jax.nn.log_sigmoid(x), and jax.nn.log_sigmoid(-x) for log(1 - sigmoid(x))",
)
def log_of_sigmoid(at: At) -> str | None:
    """The logarithm of a sigmoid, or of one minus it.

    In f32 sigmoid(x) is 0 for x below about -104, and 1 - sigmoid(x) is 0 for x above 17: the
    logarithm is -inf there, and the derivative NaN. Sigmoids that are written out, as 1 / (1 +
    exp(-x)), are found, too.
    """
    if at.name == "log" and is_sigmoid(at.operand(0)):
        return "log of a sigmoid is -inf where the sigmoid underflows"
    rest = at.made(0, "sub") if at.name == "log" else None
    taken = rest.operand(1) if rest is not None and rest.number(0) == 1 else None
    if at.name == "log1p":
        taken = _negated(at.operand(0))
    if taken is not None and is_sigmoid(taken):
        return "log of 1 - sigmoid(x) is -inf for x above 17"
    return None


def _negated(ref: Ref) -> Ref | None:
    """Return x for a value -x or -1 * x; None for others."""
    at = ref.made("neg", "mul")
    if at is None or at.name == "neg":
        return at and at.operand(0)
    return next((at.operand(i) for i in (0, 1) if at.number(1 - i) == -1), None)


@lint_rule(
    "log-of-one-plus",
    "log",
    family="numerics",
    mend="write jnp.log1p(x), and jnp.logaddexp(x, 0) for log(1 + exp(x))",
)
def log_of_one_plus(at: At) -> str | None:
    """The logarithm of one plus, or minus, a number.

    1 + x rounds away the digits of a small x: in f32 the result is 0 for x below 6e-8, and has few
    correct digits for x below 1e-4. log1p has all digits. Numbers that were integers are not
    reported.
    """
    inner = at.made(0, "add", "sub")
    if inner is None:
        return None
    rest = inner.operand(1) if _is_one_minus(inner) else one_plus(at.operand(0))
    if rest is None or of_integers(rest):
        return None
    minus = _is_one_minus(inner)
    if minus and is_sigmoid(rest):
        return None  # the rule log-of-sigmoid finds it
    if not minus and rest.made("exp") is not None:
        return "log(1 + exp(x)) overflows for a large x, and loses the digits of a small exp(x)"
    sign = "-" if minus else "+"
    return f"log(1 {sign} x) loses the digits of a small x"


def _is_one_minus(inner: At) -> bool:
    return inner.name == "sub" and inner.number(0) == 1


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

    For a small x, exp(x) is close to 1, and the subtraction leaves mostly its rounding error: in
    f32 no digit is correct for x below 6e-8. expm1 has all digits.
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
    "mul",
    family="numerics",
    needs=("exp",),
    mend="write jax.nn.logsumexp(x) or jax.nn.softmax(x), which subtract the greatest element first",
)
def exp_without_max(at: At) -> str | None:
    """A softmax, or the logarithm of a sum of exponentials, without the greatest element subtracted first.

    exp overflows to infinity above 88 in f32 (and 11 in f16): then the softmax is NaN, and the
    logarithm infinite. If all elements are below -104 the sum is 0.
    """
    if at.name == "log":
        terms, what = summed_exponentials(at.operand(0)), "log of a sum of exponentials"
    else:
        terms, what = softmax_terms(at), "a softmax"
    if terms is None or is_bounded_above(terms.operand(0)):
        return None
    return f"{what} overflows: the greatest element is not subtracted before exp"

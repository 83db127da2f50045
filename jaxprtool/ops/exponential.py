"""Exponentials, logarithms, the logistic and the error functions, elementwise."""

from jaxprtool.core.kinds.enums import Accuracy
from jaxprtool.core.primitive import primitive

__all__ = ["erf", "erfc", "erf_inv", "exp", "exp2", "expm1", "log", "log1p", "log2", "logistic"]


@primitive
def erf(x):
    """2/sqrt(pi) * integral of exp(-t^2) from 0 to x, elementwise."""


@primitive
def erfc(x, *, accuracy: Accuracy | None = None):
    """1 - erf(x), accurate for large x, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def erf_inv(x):
    """y with erf(y) = x, elementwise, for x in [-1, 1]; NaN elsewhere."""


@primitive
def exp(x, *, accuracy: Accuracy | None = None):
    """e^x, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def exp2(x, *, accuracy: Accuracy | None = None):
    """2^x, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def expm1(x, *, accuracy: Accuracy | None = None):
    """e^x - 1, accurate near 0, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def log(x, *, accuracy: Accuracy | None = None):
    """log(x), the natural logarithm, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def log2(x, *, accuracy: Accuracy | None = None):
    """log(x) / log(2), the logarithm to the base 2, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def log1p(x, *, accuracy: Accuracy | None = None):
    """log(1 + x), accurate near 0, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def logistic(x, *, accuracy: Accuracy | None = None):
    """1 / (1 + e^-x), elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """

"""Trigonometric and hyperbolic functions and their inverses, elementwise."""

from jaxprtool.core.kinds.enums import Accuracy
from jaxprtool.core.primitive import primitive

__all__ = [
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "sin",
    "cos",
    "tan",
    "tanh",
]


@primitive
def asin(x):
    """y in [-pi/2, pi/2] with sin(y) = x, elementwise; NaN for real x outside [-1, 1]."""


@primitive
def acos(x):
    """y in [0, pi] with cos(y) = x, elementwise; NaN for real x outside [-1, 1]."""


@primitive
def atan(x):
    """y in (-pi/2, pi/2) with tan(y) = x, elementwise."""


@primitive
def sinh(x):
    """(e^x - e^-x) / 2, elementwise."""


@primitive
def cosh(x):
    """(e^x + e^-x) / 2, elementwise."""


@primitive
def asinh(x):
    """log(x + sqrt(x^2 + 1)), elementwise: the inverse of sinh."""


@primitive
def acosh(x):
    """log(x + sqrt(x^2 - 1)), elementwise: the inverse of cosh; NaN for real x < 1."""


@primitive
def atanh(x):
    """log((1 + x) / (1 - x)) / 2, elementwise: the inverse of tanh; NaN for real x with |x| > 1."""


@primitive
def sin(x, *, accuracy: Accuracy | None = None):
    """sin x, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def cos(x, *, accuracy: Accuracy | None = None):
    """cos x, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def tan(x, *, accuracy: Accuracy | None = None):
    """tan x, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def tanh(x, *, accuracy: Accuracy | None = None):
    """(e^x - e^-x) / (e^x + e^-x), elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """

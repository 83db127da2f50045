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
    """arcsin x, elementwise."""


@primitive
def acos(x):
    """arccos x, elementwise."""


@primitive
def atan(x):
    """arctan x, elementwise."""


@primitive
def sinh(x):
    """(e^x - e^-x) / 2, elementwise."""


@primitive
def cosh(x):
    """(e^x + e^-x) / 2, elementwise."""


@primitive
def asinh(x):
    """The inverse of sinh, elementwise."""


@primitive
def acosh(x):
    """The inverse of cosh, for x >= 1, elementwise."""


@primitive
def atanh(x):
    """The inverse of tanh, for |x| <= 1, elementwise."""


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

"""Elementwise functions of one operand: signs, rounding, powers, parts of complex numbers."""

from jaxprtool.core.kinds.enums import Accuracy, RoundingMethod
from jaxprtool.core.kinds.objects import InputType
from jaxprtool.core.primitive import primitive
from jaxprtool.ir.dtypes import DType

__all__ = [
    "neg",
    "sign",
    "abs",
    "square",
    "one_minus_square",
    "floor",
    "ceil",
    "is_finite",
    "sqrt",
    "rsqrt",
    "cbrt",
    "round",
    "integer_pow",
    "stop_gradient",
    "copy",
    "real",
    "imag",
    "conj",
]


@primitive
def neg(x):
    """-x, elementwise; integers wrap."""


@primitive
def sign(x):
    """-1, 0 or 1 by the sign of x; x/|x| for complex x; NaN stays; elementwise."""


@primitive
def abs(x):
    """|x|; real for complex x, elementwise."""


@primitive
def square(x):
    """x * x, elementwise."""


@primitive
def one_minus_square(x):
    """1 - x * x, elementwise."""


@primitive
def floor(x):
    """The largest integer <= x, elementwise."""


@primitive
def ceil(x):
    """The smallest integer >= x, elementwise."""


@primitive
def is_finite(x):
    """Whether x is neither infinite nor NaN; boolean, elementwise."""


@primitive
def sqrt(x, *, accuracy: Accuracy | None = None):
    """The square root of x, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def rsqrt(x, *, accuracy: Accuracy | None = None):
    """1 / sqrt x, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def cbrt(x, *, accuracy: Accuracy | None = None):
    """The real cube root of x, elementwise.

    accuracy: a hint to the compiler; no effect on the meaning.
    """


@primitive
def round(x, *, rounding_method: RoundingMethod):
    """The integer nearest to x, elementwise.

    rounding_method: 0 rounds halves away from zero, 1 to the even neighbour.
    """


@primitive
def integer_pow(x, *, y: int):
    """x^y, elementwise, by repeated multiplication.

    y: the exponent, a static integer; negative ones divide.
    """


@primitive
def stop_gradient(x):
    """x, with a derivative of zero."""


@primitive
def copy(x):
    """x, in a buffer of its own."""


@primitive
def real(x):
    """The real part of complex x."""


@primitive
def imag(x):
    """The imaginary part of complex x."""


@primitive
def conj(x, *, input_dtype: DType | None = None, _input_dtype: InputType = None):
    """The complex conjugate of x; of real x, x as a complex number.

    input_dtype: the element type of x, to which the transpose returns.
    _input_dtype: JAX takes it, and it says nothing.
    """

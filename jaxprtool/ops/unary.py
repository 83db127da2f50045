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
    """-x, elementwise; of integers of w bits modulo 2^w."""


@primitive
def sign(x):
    """x / |x|, elementwise: -1, 0 or 1 for real x; 0 for x = 0, NaN for NaN."""


@primitive
def abs(x):
    """|x|, elementwise; real for complex x."""


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
    """True where x is neither infinite nor NaN, elementwise."""


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
    """The integer nearest to x, elementwise, of the type of x.

    rounding_method: for x halfway between two integers: 0 away from zero, 1 to the even one.
    """


@primitive
def integer_pow(x, *, y: int):
    """x^y, elementwise, by repeated multiplication.

    y: the exponent; for y < 0 the result is 1 / x^-y.
    """


@primitive
def stop_gradient(x):
    """x; its derivative is zero."""


@primitive
def copy(x):
    """x, copied to another buffer."""


@primitive
def real(x):
    """The real part of complex x, elementwise."""


@primitive
def imag(x):
    """The imaginary part of complex x, elementwise."""


@primitive
def conj(x, *, input_dtype: DType | None = None, _input_dtype: InputType = None):
    """The complex conjugate of x, elementwise; of real x, x as a complex number.

    input_dtype: the element type of x, and so of the transpose's result.
    _input_dtype: a param that JAX accepts and ignores.
    """

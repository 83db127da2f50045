"""Bitwise operations on integers, logical operations on booleans, and shifts of integers."""

from jaxprtool.core.primitive import primitive

__all__ = [
    "and_",
    "or_",
    "xor",
    "not_",
    "shift_left",
    "shift_right_logical",
    "shift_right_arithmetic",
]


@primitive(name="and")
def and_(x, y):
    """x & y, elementwise: the conjunction of each bit."""


@primitive(name="or")
def or_(x, y):
    """x | y, elementwise: the disjunction of each bit."""


@primitive
def xor(x, y):
    """x ^ y, elementwise: the exclusive disjunction of each bit."""


@primitive(name="not")
def not_(x):
    """~x, elementwise: the negation of each bit; of booleans `not x`."""


@primitive
def shift_left(x, y):
    """x << y = x * 2^y mod 2^w, elementwise, for integers of w bits; 0 where y is not in [0, w)."""


@primitive
def shift_right_logical(x, y):
    """x >> y with zeros as the new upper bits, elementwise; 0 where y is not in [0, w), w the bits
    of x.
    """


@primitive
def shift_right_arithmetic(x, y):
    """x >> y = floor(x / 2^y) with copies of the sign as the new upper bits, elementwise.

    Where y is not in [0, w), w the number of bits of x, it is -1 for negative x and 0 otherwise.
    """

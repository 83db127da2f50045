"""Bitwise operations on integers, logical ones on booleans."""

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
    """x & y, bit by bit."""


@primitive(name="or")
def or_(x, y):
    """x | y, bit by bit."""


@primitive
def xor(x, y):
    """x ^ y, bit by bit."""


@primitive(name="not")
def not_(x):
    """~x, bit by bit; logical for booleans."""


@primitive
def shift_left(x, y):
    """x * 2^y modulo the width of x; 0 when y is outside of [0, width)."""


@primitive
def shift_right_logical(x, y):
    """x shifted right by y bits, zeros shifted in; 0 when y is outside of [0, width)."""


@primitive
def shift_right_arithmetic(x, y):
    """x shifted right by y bits, the sign shifted in; the sign alone when y is outside of [0, width)."""

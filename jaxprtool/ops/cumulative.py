"""Cumulative reductions along an axis."""

from jaxprtool.core.kinds.numbers import Axis
from jaxprtool.core.primitive import primitive, shown

__all__ = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]


@primitive
def cumsum(operand, *, axis: Axis, reverse: bool = shown(False)):
    """out[i] = the sum of operand[0..i] along an axis.

    axis: the axis.
    reverse: whether to go from the end to the start.
    """


@primitive(like=cumsum)
def cumprod():
    """out[i] = the product of operand[0..i] along an axis."""


@primitive(like=cumsum)
def cummax():
    """out[i] = the largest of operand[0..i] along an axis."""


@primitive(like=cumsum)
def cummin():
    """out[i] = the smallest of operand[0..i] along an axis."""


@primitive(like=cumsum)
def cumlogsumexp():
    """out[i] = log(sum of exp(operand[0..i])) along an axis, without overflow."""

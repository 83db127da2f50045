"""Cumulative reductions along an axis."""

from jaxprtool.core.kinds.numbers import Axis
from jaxprtool.core.primitive import primitive, shown

__all__ = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]


@primitive
def cumsum(operand, *, axis: Axis, reverse: bool = shown(False)):
    """out[i] = sum of operand[j] over j <= i, along an axis.

    axis: the axis.
    reverse: whether j >= i takes the place of j <= i.
    """


@primitive(like=cumsum)
def cumprod():
    """out[i] = product of operand[j] over j <= i, along an axis."""


@primitive(like=cumsum)
def cummax():
    """out[i] = max of operand[j] over j <= i, along an axis."""


@primitive(like=cumsum)
def cummin():
    """out[i] = min of operand[j] over j <= i, along an axis."""


@primitive(like=cumsum)
def cumlogsumexp():
    """out[i] = log(sum of exp(operand[j]) over j <= i), along an axis, without overflow of exp."""

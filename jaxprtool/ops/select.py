"""Elementwise choice."""

from jaxprtool.core.primitive import primitive

__all__ = ["select_n", "clamp"]


@primitive
def select_n(which, *cases):
    """cases[which], elementwise. `which` is boolean (two cases) or i32, of the cases' shape or rank 0."""


@primitive
def clamp(min, x, max):
    """The nearest to x in [min, max], elementwise; the bounds have x's shape or rank 0."""

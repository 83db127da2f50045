"""Elementwise selection and clamping."""

from jaxprtool.core.primitive import primitive

__all__ = ["select_n", "clamp"]


@primitive
def select_n(which, *cases):
    """cases[which], elementwise; of two cases False selects the first.

    `which` is boolean (for two cases) or i32, and is a scalar or has the shape of the cases.
    """


@primitive
def clamp(min, x, max):
    """minimum(maximum(x, min), max), elementwise; the bounds are scalars or have the shape of x."""

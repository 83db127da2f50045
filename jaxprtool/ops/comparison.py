"""Elementwise comparisons; the result is boolean."""

from jaxprtool.core.primitive import primitive

__all__ = ["eq", "eq_to", "ge", "gt", "le", "le_to", "lt", "lt_to", "ne"]


@primitive
def eq(x, y):
    """x == y, elementwise; False where x or y is NaN."""


@primitive
def ne(x, y):
    """x != y, elementwise; True where x or y is NaN."""


@primitive
def lt(x, y):
    """x < y, elementwise; False where either is NaN."""


@primitive
def le(x, y):
    """x <= y, elementwise; False where either is NaN."""


@primitive
def gt(x, y):
    """x > y, elementwise; False where either is NaN."""


@primitive
def ge(x, y):
    """x >= y, elementwise; False where either is NaN."""


@primitive
def eq_to(x, y):
    """x == y in the total order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN, elementwise."""


@primitive
def le_to(x, y):
    """x <= y in the total order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN, elementwise."""


@primitive
def lt_to(x, y):
    """x < y in the total order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN, elementwise."""

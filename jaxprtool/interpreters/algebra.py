"""Laws of operations of two operands that hold for their values exactly, rounding included.

Contract of an `algebra` rule:

    rule(dtype) -> Algebra

`dtype` is that of the operands. Floating-point addition is commutative and not associative; that of integers is both,
since it wraps around.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import JaxprEqn

__all__ = [
    "Algebra",
    "algebra_of",
    "algebra_rules",
    "always_commutative",
    "exact_laws",
    "exactly_associative",
]

algebra_rules = RuleTable("algebra")


class Algebra(NamedTuple):
    """The laws of an operation: f(x, y) = f(y, x), and f(f(x, y), z) = f(x, f(y, z))."""

    commutative: bool = False
    associative: bool = False


def algebra_of(eqn: JaxprEqn) -> Algebra:
    """The laws that the operation of an equation has for its operands."""
    rule = algebra_rules.find(eqn.primitive)
    return Algebra() if rule is None else rule(eqn.inputs[0].aval.dtype)


def _is_exact(dtype: DType) -> bool:
    return dtype.kind in "iub"


def exactly_associative(dtype: DType) -> Algebra:
    """Sums and products: commutative for all numbers, associative where they are not rounded."""
    return Algebra(True, _is_exact(dtype))


def always_commutative(dtype: DType) -> Algebra:
    """Comparisons for equality: commutative, and of results of another type than their operands."""
    return Algebra(True, False)


def exact_laws(dtype: DType) -> Algebra:
    """The larger and the smaller of two: which zero of two, and which NaN, may depend on the order."""
    return Algebra(_is_exact(dtype), _is_exact(dtype))

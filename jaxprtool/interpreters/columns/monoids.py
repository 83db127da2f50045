"""Algebraic laws of operations of two operands: the NumPy functions that reduce by them, and which laws hold exactly.

Contract of a `monoid` rule, for associative operations that NumPy has as one function:

    rule(dtype) -> Monoid

Contract of an `algebra` rule, for operations with laws that hold for their values exactly, rounding
included:

    rule(dtype) -> Algebra

`dtype` is that of the operands. Floating-point addition is commutative and not associative; integer
addition is both, since it wraps around. A product of complex numbers is a sum of products, of which
processors round some and not others: which ones depends on the order of the operands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxprtool.core.rule_table import RuleTable
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn

__all__ = [
    "Algebra",
    "Monoid",
    "algebra_of",
    "algebra_rules",
    "always_commutative",
    "exact_laws",
    "exactly_associative",
    "laws_of_products",
    "monoid_of",
    "monoid_rules",
]

monoid_rules = RuleTable("monoid")
algebra_rules = RuleTable("algebra")


class Monoid(NamedTuple):
    """The NumPy function that reduces by an operation.

    Attributes:
      ufunc: the function's name.
      unit: its neutral element, a Python scalar.
    """

    ufunc: str
    unit: Any


def monoid_of(closed: ClosedJaxpr) -> Monoid | None:
    """Return the NumPy function that reduces by a jaxpr of one operation; None where there is none."""
    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) != 1 or len(jaxpr.in_binders) != 2:
        return None
    (eqn,) = jaxpr.eqns
    rule = monoid_rules.find(eqn.primitive)
    if rule is None or set(eqn.inputs) != set(jaxpr.in_binders) or jaxpr.outs != eqn.out_binders:
        return None
    return rule(jaxpr.in_binders[0].aval.dtype)


class Algebra(NamedTuple):
    """The laws of an operation: f(x, y) = f(y, x), and f(f(x, y), z) = f(x, f(y, z)).

    Attributes:
      rounded: whether both laws hold apart from rounding.
    """

    commutative: bool = False
    associative: bool = False
    rounded: bool = False


def algebra_of(eqn: JaxprEqn) -> Algebra:
    """Return the laws that the operation of an equation obeys for its operands."""
    rule = algebra_rules.find(eqn.primitive)
    return Algebra() if rule is None else rule(eqn.inputs[0].aval.dtype)


def _is_exact(dtype: DType) -> bool:
    return dtype.kind in "iub"


def exactly_associative(dtype: DType) -> Algebra:
    """The rule of sums: always commutative, associative where nothing is rounded."""
    return Algebra(True, _is_exact(dtype), not _is_exact(dtype))


def laws_of_products(dtype: DType) -> Algebra:
    """The rule of products: as sums, but not commutative for complex numbers."""
    return exactly_associative(dtype)._replace(commutative=dtype.kind != "c")


def always_commutative(dtype: DType) -> Algebra:
    """The rule of comparisons for equality: commutative.

    Their results have another type than their operands.
    """
    return Algebra(True, False)


def exact_laws(dtype: DType) -> Algebra:
    """The rule of minimum and maximum.

    Which of two zeros, and which NaN, is returned may depend on the order.
    """
    return Algebra(_is_exact(dtype), _is_exact(dtype))

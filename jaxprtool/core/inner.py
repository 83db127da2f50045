"""Compute the types of the arguments of the jaxprs in an equation's params from the types of its operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.avals import AbstractType, OpaqueType, RefType, ShapedArray
from jaxprtool.ir.jaxpr import Atom, Aval, ClosedJaxpr, Primitive
from jaxprtool.ir.walk import jaxprs_in

__all__ = ["Arguments", "United", "inner_arguments", "of_elements", "reference_to", "slice_of"]

Arguments = Iterable[tuple[ClosedJaxpr, Sequence[Aval]]]


class United(NamedTuple):
    """A group of arguments and results of jaxprs in an equation that share one type.

    Attributes:
      atoms: the binders and results of the group.
      leading: the sizes of their leading axes, as far as they are known.
    """

    atoms: Sequence[Atom]
    leading: tuple[Any, ...] = ()


def inner_arguments(
    primitive: Primitive, in_avals: Sequence[Aval], params: dict[str, Any]
) -> list[tuple[ClosedJaxpr, Sequence[Aval]]]:
    """Return the jaxprs of an equation, each with the types of its arguments, as far as they are known.

    Raises:
      TypeError, ValueError, AttributeError: the params do not fit.
    """
    if primitive.takes is not None:
        return [
            (c, types)
            for c, types in primitive.takes(in_avals, **params)
            if isinstance(c, ClosedJaxpr)
        ]
    inner = [closed for value in params.values() for closed in jaxprs_in(value)]
    return [(c, in_avals) for c in inner if len(c.jaxpr.in_binders) == len(in_avals)]


def of_elements(avals: Sequence[Any], jaxpr: Any, count: int) -> Arguments:
    """Return the argument types of `jaxpr`, which takes an element of each of the first `count` operands, twice."""
    return [(jaxpr, [slice_of(a, None) for a in avals[:count]] * 2)]


def reference_to(aval: AbstractType) -> AbstractType:
    """Return the type of a reference to a cell that holds an array; an unknown type for an unknown one."""
    return RefType(aval) if isinstance(aval, ShapedArray) else OpaqueType("?")


def slice_of(aval: AbstractType, axis: int | None) -> AbstractType:
    """Return the type of a slice of an array along an axis, or of an element for None.

    For an unknown type the result is unknown too.
    """
    if isinstance(aval, OpaqueType):
        return OpaqueType("?")
    if not isinstance(aval, ShapedArray):
        return aval
    if axis is None:
        return aval.update(shape=())
    return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])

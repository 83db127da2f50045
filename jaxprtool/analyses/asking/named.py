"""The names that a pattern mentions: of values, and of primitives in filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxprtool.syntax.assertions.nodes import Comparison, Filter, Operand

__all__ = ["Named", "names_in"]


class Named(NamedTuple):
    """A name in a pattern.

    Attributes:
      name: the name.
      is_value: whether it is the name of a value; else of a primitive.
      at: where it stands in the expression.
    """

    name: str
    is_value: bool
    at: tuple[int, int]


def names_in(operands: Sequence[Operand], filters: Sequence[Filter]) -> Iterator[Named]:
    """Yield the names that operands and filters mention; regular expressions are none."""
    for operand in operands:
        if operand.name is not None:
            yield Named(operand.name, True, operand.at)
    todo = [*reversed(filters)]
    while todo:
        found = todo.pop()
        if not isinstance(found, Comparison):
            todo += reversed(found.parts)
        elif found.op in ("==", "!=") and found.attribute.field in _NAMES:
            yield Named(str(found.value), found.attribute.field == "name", found.at)


_NAMES = ("name", "primitive", "inside")

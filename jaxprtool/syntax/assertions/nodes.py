"""The nodes of expressions of `assert` and `grep` (see `grammar/assert.lark`).

The field `at` of every node is its range in the expression: the offsets of its first character and
of the one after its last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxprtool.syntax.assertions.linear_regex import LinearRegex

__all__ = [
    "AllWhere",
    "Arithmetic",
    "At",
    "Attribute",
    "Before",
    "Chain",
    "Claim",
    "Comparison",
    "Count",
    "Dim",
    "Exists",
    "Feeds",
    "Figure",
    "Filter",
    "Growth",
    "Head",
    "Logic",
    "Number",
    "Operand",
    "Param",
    "Pattern",
    "Residuals",
    "Sum",
    "TypePattern",
]

At = tuple[int, int]
# A dimension: a number, the name of a symbolic one, None for any, or `...` for any number of them.
Dim = Any


class TypePattern(NamedTuple):
    """A type in which parts may be left open.

    Attributes:
      dtype: the short name of an element type, or None for any.
      dims: its dimensions, or None for any.
      memory: the memory space, or "" for any.
    """

    dtype: str | None
    dims: tuple[Dim, ...] | None
    memory: str
    at: At


class Head(NamedTuple):
    """The name of a primitive; None for any, a regular expression for a name with `*`."""

    name: str | None
    glob: LinearRegex | None
    at: At


class Param(NamedTuple):
    """A condition on a param: `key op value`; with `~` and `!~` the value is a `LinearRegex`, else a text."""

    key: str
    op: str
    value: Any
    at: At


class Operand(NamedTuple):
    """An operand: the name of a variable (None: any), its type (None: any), or the value of a literal."""

    name: str | None
    type: TypePattern | None
    literal: float | None
    at: At


class Attribute(NamedTuple):
    """A property of an equation or a value.

    Attributes:
      of: `in`, `out`, or "" for the equation itself.
      position: the number of the operand or result, or None for each of them.
      field: the property; `param` for a param.
      key: the name of the param, or "".
    """

    of: str
    position: int | None
    field: str
    key: str
    at: At


class Comparison(NamedTuple):
    """`attribute op value`; with `some`, one operand or result has to match instead of all.

    The type of the value depends on the kind of the field.
    """

    attribute: Attribute
    op: str
    value: Any
    some: bool
    at: At


class Logic(NamedTuple):
    """`and`, `or` and `not` of filters, or of claims."""

    kind: str
    parts: tuple[Any, ...]
    at: At


Filter = Comparison | Logic


class Pattern(NamedTuple):
    """A description of the equations, or values, that are looked for.

    Attributes:
      value: the type of the values; None where equations are looked for.
      results: the types of the results, in order.
      heads: the primitives.
      params, operands, filters: further conditions.
      text: the pattern as it is written.
    """

    value: TypePattern | None
    results: tuple[TypePattern, ...]
    heads: tuple[Head, ...]
    params: tuple[Param, ...]
    operands: tuple[Operand, ...]
    filters: tuple[Filter, ...]
    text: str
    at: At


# -- numbers ------------------------------------------------------------------------------------------


class Number(NamedTuple):
    """A number; `text` is its spelling."""

    value: float
    text: str
    at: At


class Arithmetic(NamedTuple):
    """`+ - * /` of two numbers, `-` of one."""

    op: str
    parts: tuple[Any, ...]
    at: At


class Count(NamedTuple):
    """The number of times a pattern occurs in program A or B; with `top`, only outside of nested jaxprs."""

    pattern: Pattern
    program: str
    top: bool
    at: At


class Figure(NamedTuple):
    """A figure of a program, or of the part of it that a pattern matches."""

    name: str
    pattern: Pattern | None
    program: str
    at: At


class Residuals(NamedTuple):
    """The number, or the bytes, of the values that a reverse pass saves, of a type and under a
    policy ("": the program's own).
    """

    policy: str
    pattern: Pattern | None
    program: str
    at: At


class Growth(NamedTuple):
    """The exponent with which a number grows with a size."""

    of: Any
    size: str
    at: At


Sum = Number | Arithmetic | Count | Figure | Residuals | Growth


# -- claims -------------------------------------------------------------------------------------------


class Chain(NamedTuple):
    """`a < b <= c`."""

    numbers: tuple[Sum, ...]
    ops: tuple[str, ...]
    at: At


class Exists(NamedTuple):
    """Whether a pattern occurs; `wanted` is False for `no`."""

    pattern: Pattern
    wanted: bool
    at: At


class AllWhere(NamedTuple):
    """`all PATTERN where FILTER`."""

    pattern: Pattern
    filter: Filter
    at: At


class Feeds(NamedTuple):
    """`PATTERN feeds PATTERN`; with `every`, each match of the first has to."""

    source: Pattern
    sink: Pattern
    every: bool
    at: At


class Before(NamedTuple):
    """`PATTERN before PATTERN`; `which` says which matches count: `first`, `last`, or "" for all."""

    earlier: Pattern
    later: Pattern
    which: tuple[str, str]
    at: At


Claim = Chain | Exists | AllWhere | Feeds | Before | Logic

"""Give types to the arguments of programs whose texts leave them open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jaxprtool.core.trace import get_aval
from jaxprtool.driver.words.shapes import parse_shape
from jaxprtool.driver.words.values import open_binders, parse_literal, split_words
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.avals import AbstractType
from jaxprtool.ir.diagnostics import UsageError, are, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.inference.open_programs import is_open, typed
from jaxprtool.syntax.patterns import pattern

__all__ = ["typed_by_words", "with_types"]

# The beginning of a number or of a list of numbers.
_LITERAL = pattern(r"[\[(+\-.\d]|(?:true|false|nan|inf)\b", re.IGNORECASE)


def with_types(program: ClosedJaxpr, types: Sequence[Any]) -> ClosedJaxpr:
    """Return a program with types for its arguments, and the types inferred from them.

    Args:
      program: the program; one that has all its types is returned as it is.
      types: those of the constants without values, then of the arguments: texts that `parse_shape`
        reads, types, or values.

    Raises:
      UsageError: another number of types, or a text that is no type.
      JaxprTypeError: operations do not fit these types, or a type cannot be inferred.
    """
    jaxpr = program.jaxpr
    if not is_open(jaxpr):
        return program
    n = len(open_binders(program))
    if len(types) != n:
        message = f"the program takes {counted(n, 'argument')}, and {are(len(types))} given types"
        fail(UsageError, message, "argument-count", help="give --shape once for each argument")
    given = iter(types)
    consts = [_type(next(given) if c is None else c) for c in program.consts]
    found = program.replace(jaxpr=typed(jaxpr, [*consts, *map(_type, given)]))
    if is_open(found.jaxpr):
        typecheck_jaxpr(found, allow_unknown=True)
    return found


def typed_by_words(program: ClosedJaxpr, words: Sequence[str]) -> ClosedJaxpr:
    """Return a program whose arguments have the types of the values that words of the command line give for them.

    Numbers and lists of them have the types that JAX gives to Python's, and files `.npy` their own.
    A program that has all its types, or for which other words are given, is returned as it is.

    Raises: as `with_types`, and UsageError for a file that cannot be read.
    """
    values = split_words(words)
    if not is_open(program.jaxpr) or len(values) != len(open_binders(program)):
        return program
    if any(not x.endswith(".npy") and not _LITERAL.match(x) for x in values):
        return program
    return with_types(program, [*map(_type_of_word, values)])


def _type_of_word(word: str) -> AbstractType:
    from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

    if word.endswith(".npy"):
        return get_aval(arrays.load_npy(word))
    return arrays.literal_type(parse_literal(word))


def _type(x: Any) -> AbstractType:
    if isinstance(x, AbstractType):
        return x
    aval = parse_shape(x) if isinstance(x, str) else get_aval(x)
    if not isinstance(aval, AbstractType):
        fail(UsageError, f"{x} is no type of an array", "bad-shape", help="a type is f32[3,4]")
    return aval

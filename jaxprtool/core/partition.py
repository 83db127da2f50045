"""List helpers that the jaxpr-splitting code is written in. `zip` here is always strict."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import TypeVar

from jaxprtool.ir.diagnostics import UsageError, counted, fail

T = TypeVar("T")
U = TypeVar("U")

__all__ = ["check_flags", "merge_lists", "partition_list", "split_list", "spread", "unzip2"]


def check_flags(what: str, flags: Sequence[bool], arguments: Sequence[object]) -> None:
    """Raise UsageError unless there is a flag for each argument; `what` is the transformation that is given them."""
    if len(flags) != len(arguments):
        message = f"{what}: {counted(len(flags), 'flag')} for {counted(len(arguments), 'argument')}"
        fail(UsageError, message, "argument-count")


def split_list(xs: Sequence[T], *sizes: int) -> list[list[T]]:
    """Cut `xs` into consecutive pieces of the given sizes; the last piece is the rest."""
    rest: list[T] = xs if isinstance(xs, list) else list(xs)
    pos = 0
    parts: list[list[T]] = []
    for n in sizes:
        parts.append(rest[pos : pos + n])
        pos += n
    parts.append(rest[pos:])
    return parts


def partition_list(flags: Sequence[bool], xs: Sequence[T]) -> tuple[list[T], list[T]]:
    """The elements whose flag is False, and those whose flag is True."""
    if len(flags) != len(xs):
        raise ValueError(f"{len(flags)} flags for {len(xs)} elements")
    return [*compress(xs, map(operator.not_, flags))], [*compress(xs, flags)]


def merge_lists(flags: Iterable[bool], no: Iterable[T], yes: Iterable[T]) -> list[T]:
    """The inverse of `partition_list`."""
    nos, yeses = iter(no), iter(yes)
    return [next(yeses) if flag else next(nos) for flag in flags]


def spread(flags: Iterable[bool], xs: Iterable[T]) -> list[T | None]:
    """Return a list with the elements of `xs` at the places whose flag is True, and None at the others."""
    rest = iter(xs)
    return [next(rest) if flag else None for flag in flags]


def unzip2(pairs: Iterable[tuple[T, U]]) -> tuple[list[T], list[U]]:
    """Convert a list of pairs to a pair of lists."""
    first: list[T] = []
    second: list[U] = []
    for a, b in pairs:
        first.append(a)
        second.append(b)
    return first, second

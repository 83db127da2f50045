"""Constants that a file keeps in an `.npz` file beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.walk import sub_jaxprs
from jaxprtool.syntax.consts import ArrayRef

__all__ = ["anchor", "has_references", "load_constants"]


def _all_programs(program: ClosedJaxpr) -> Iterator[ClosedJaxpr]:
    """A program and those nested in it, each object once."""
    seen: set[int] = set()
    pending = [program]
    while pending:
        current = pending.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            for eqn in current.eqns:
                pending.extend(sub_jaxprs(eqn))


def anchor(program: ClosedJaxpr, folder: str) -> None:
    """Make names of `.npz` files absolute, so that they hold wherever the program is written next.

    Args:
      program: a program just read.
      folder: the folder of its text.
    """
    for current in _all_programs(program):
        for i, c in enumerate(current.consts):
            if isinstance(c, ArrayRef):
                current.consts[i] = ArrayRef(os.path.abspath(os.path.join(folder, c.file)), c.key)


def has_references(program: ClosedJaxpr) -> bool:
    """Whether constants of a program, or of a jaxpr in it, are in files that were not read yet."""
    return any(isinstance(c, ArrayRef) for p in _all_programs(program) for c in p.consts)


def load_constants(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program, with arrays in place of references to `.npz` files.

    Raises:
      UsageError: a file is missing or is no `.npz` file, has no such array, or one of another type.
    """
    for current in _all_programs(program):
        for i, (v, c) in enumerate(zip(current.jaxpr.const_binders, current.consts, strict=True)):
            if isinstance(c, ArrayRef):
                from jaxprtool.backends import arrays  # noqa: PLC0415 (gateway: NumPy)

                current.consts[i] = arrays.load_member(c.file, c.key, v)
    return program

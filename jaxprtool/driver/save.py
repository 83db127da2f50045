"""save and load: programs and compiled programs as files, without any loss.

`pickle` and `copy.deepcopy` of a program go through the same text, so that they hold what a file
holds, need no memory for results derived from the program, and work at any depth of nesting.
"""

from __future__ import annotations

import copyreg
import os
import sys
from typing import Any

from jaxprtool.driver.compile import Compiled, from_bytes
from jaxprtool.driver.dialects import sayable
from jaxprtool.driver.storage import files
from jaxprtool.driver.storage.artifact import is_artifact
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.driver.storage.output import program_text, write_programs
from jaxprtool.interpreters.check import check_constants
from jaxprtool.interpreters.origins import show_origins
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.parse import parse_file

__all__ = ["load", "save"]

Path = str | os.PathLike[str]


def save(
    program: ClosedJaxpr | dict[str, ClosedJaxpr] | Compiled, path: Path, dialect: str = ""
) -> None:
    """Write a program, or several by name, as text, or a compiled program as an artifact; `load` reads it.

    The text holds what `str` of a program drops: values of constants, weak types, derivative rules, hidden params,
    and the lines of Python that equations come from. A primitive that only this process knows, or an object of JAX's, is
    the call of what it does. Constants of more than 1 KB go into an `.npz` file beside it. Each file is written whole or not at all.

    Args:
      program: what to write.
      path: the file.
      dialect: the release of JAX whose print the text is to be, as of `format_jaxpr`; "" for that of each program.

    Raises:
      UsageError: it is none of these, or the file cannot be written; there is no such dialect, or the program is
        compiled and has none.
      UnsupportedError: the dialect cannot express a program.
    """
    name = os.fspath(path)
    if isinstance(program, Compiled):
        if dialect:
            fail(UsageError, "a compiled program is no text, and has no dialect", "option")
        program.save(name)
        return
    programs = program if isinstance(program, dict) else {"": program}
    held = {key: _as_others_read(_checked(p)) for key, p in programs.items()}
    shown = {key: show_origins(p, os.getcwd()) for key, p in sayable(held, dialect).items()}
    write_programs(shown, name, dialect=dialect)


def _as_others_read(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with calls in place of JAX primitives that only this process knows, as `trace` makes it."""
    if "jaxprtool.backends.jax.live" not in sys.modules:
        return program
    if all(eqn.primitive.known for eqn in all_eqns(program.jaxpr)):
        return program
    from jaxprtool.backends.jax.expansion import expanded  # noqa: PLC0415 (gateway: JAX)

    return expanded(program)


def _checked(program: object) -> ClosedJaxpr:
    """Return the program.

    Raises UsageError for anything else, JaxprTypeError where its constants are not of their types.
    """
    if isinstance(program, ClosedJaxpr):
        check_constants(program)
        return program
    message = f"cannot save a {type(program).__name__}: only programs and compiled programs"
    how = "jaxprtool.trace(f, *arguments) makes a program of a function"
    fail(UsageError, message, "not-a-program", help=how if callable(program) else "")


def load(path: Path, devices: int | None = None) -> ClosedJaxpr | dict[str, ClosedJaxpr] | Compiled:
    """Return the contents of a file: a program, several by name, or the compiled program of an artifact.

    `file.jaxpr#name` is one of several. Machine code in an artifact runs as it is: load only
    artifacts that you trust; nothing in a text is run.

    Args:
      path: the file.
      devices: the number of host devices that may be made for an artifact; see `driver.compile`.

    Raises:
      UsageError: the file is missing or unreadable, or an artifact is damaged.
      JaxprParseError: the text is no jaxpr.
    """
    file, selector = files.split_selector(os.fspath(path))
    data, name = files.read_bytes(file)
    if is_artifact(data):
        return from_bytes(data, name, devices)
    programs = files.load(files.decode(data, name), name, selector)
    programs = {key: load_constants(program) for key, program in programs.items()}
    return next(iter(programs.values())) if len(programs) == 1 else programs


def _reduced(program: ClosedJaxpr) -> tuple[Any, ...]:
    return _read, (program_text({"": _as_others_read(program)}),)


def _reduced_open(jaxpr: Jaxpr) -> tuple[Any, ...]:
    closed = ClosedJaxpr(jaxpr, [None] * len(jaxpr.const_binders))
    return _read_open, (program_text({"": _as_others_read(closed)}),)


def _read(text: str) -> ClosedJaxpr:
    return load_constants(parse_file(text, own=True)[""])


def _read_open(text: str) -> Jaxpr:
    return parse_file(text, own=True)[""].jaxpr


copyreg.pickle(ClosedJaxpr, _reduced)  # type: ignore[arg-type]  # the stub knows no other types than functions return
copyreg.pickle(Jaxpr, _reduced_open)  # type: ignore[arg-type]

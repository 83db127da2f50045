"""Programs as files: the text, and beside it an `.npz` file of the large constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jaxprtool.driver.storage.constants import Beside, beside, inline
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.syntax.print import format_file
from jaxprtool.syntax.version import HEADER

__all__ = ["INLINE", "Written", "as_written", "program_text", "write_programs"]

INLINE = "inline"  # value of `consts` for constants in the text


def program_text(programs: Mapping[str, ClosedJaxpr], dialect: str = "") -> str:
    """Return the lossless text of programs with everything that they need: large constants as base64.

    Args:
      programs: by name; "" for one without a name.
      dialect: the release of JAX whose print to write; "" for that of each program.

    Raises:
      UsageError: a file that holds a constant cannot be read.
    """
    placed = inline(programs).placed
    return format_file(dict(programs), dialect=dialect, lossless=True, placed=placed)


def write_programs(
    programs: Mapping[str, ClosedJaxpr],
    output: str,
    consts: str = "",
    comments: str = "",
    dialect: str = "",
) -> None:
    """Write the lossless text of programs to a file, each file whole or not at all.

    Args:
      programs: by name; "" for one without a name.
      output: the file.
      consts: where constants of more than 1 KB go: an `.npz` file, `inline` for the text, "" for a file beside the
        text, named by the text's name and by what it holds.
      comments: lines above the programs.
      dialect: the release of JAX whose print it is to be; "" for that of each program.

    Raises:
      UsageError: a file cannot be written, or one that holds a constant cannot be read.
    """
    if consts not in ("", INLINE) and not consts.endswith(".npz"):
        fail(UsageError, f"constants are written to an .npz file, or {INLINE}: {consts}", "option")
    parts = inline(programs) if consts == INLINE else beside(programs, output, consts)
    made = _whole(programs, parts, comments, dialect)
    if made.arrays:  # before the text, which must not name a missing file
        write_output(made.arrays, made.data)
    write_output(output, made.text)


class Written(NamedTuple):
    """The contents of a file of programs.

    Attributes:
      text: its text.
      arrays: the `.npz` file beside it; "" where none is needed.
      data: the bytes of that.
    """

    text: str
    arrays: str
    data: bytes


def as_written(programs: Mapping[str, ClosedJaxpr], output: str, dialect: str = "") -> Written:
    """Return what `write_programs` writes to a file.

    Raises UsageError when a file that holds a constant cannot be read.
    """
    return _whole(programs, beside(programs, output), "", dialect)


def _whole(
    programs: Mapping[str, ClosedJaxpr], parts: Beside, comments: str, dialect: str
) -> Written:
    text = format_file(dict(programs), dialect=dialect, lossless=True, placed=parts.placed)
    text = HEADER + comments + text
    return Written(text if text.endswith("\n") else text + "\n", parts.path, parts.data)

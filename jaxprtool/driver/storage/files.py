"""Files: reading programs, and choosing one by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from jaxprtool.driver.storage.artifact import is_artifact
from jaxprtool.driver.storage.compressed import decompressed
from jaxprtool.driver.storage.constants import anchor
from jaxprtool.driver.storage.foreign import data_help, text_help
from jaxprtool.ir.diagnostics import Diagnostic, JaxprParseError, UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.synonyms import close_names
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.patterns import pattern

__all__ = [
    "chosen",
    "decode",
    "files_of_values",
    "load",
    "read_bytes",
    "read_programs",
    "split_selector",
    "the_one",
]

STDIN = "<stdin>"
_VALUES = pattern(r"[^\s=,:(){}\[\]\"']+\.np[yz]\b")
_MOST_FILES = 10_000  # files of a folder among which to look for a similar name


def split_selector(path: str) -> tuple[str, str]:
    """`file.jaxpr#name` as (`file.jaxpr`, `name`); a file that has a `#` in its own name wins."""
    if "#" not in path or os.path.exists(path):
        return path, ""
    file, _, name = path.rpartition("#")
    return file or "-", name


def files_of_values(words: Sequence[str]) -> set[str]:
    """The `.npy` and `.npz` files that words of `--args` name, in trees too."""
    return {m[0] for word in words for m in _VALUES.finditer(word)}


def read_bytes(path: str) -> tuple[bytes, str]:
    """Return the contents of a file, or of standard input for `-` or `<stdin>`, and its name for messages.

    Raises:
      UsageError: missing, a folder, not readable; standard input is a terminal; compressed, and
        damaged or too large.
    """
    if path in ("-", STDIN):
        return decompressed(_read_stdin(), STDIN), STDIN
    try:
        with open(path, "rb") as f:
            return decompressed(f.read(), path), path
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        fail(UsageError, f"cannot read {path}: {reason}", "unreadable-file", help=_nearest(path))


def _nearest(path: str) -> str:
    """Return files with names like that of a missing one, as a help line; or ""."""
    folder, name = os.path.split(path)
    try:
        files = [] if os.path.lexists(path) else os.listdir(folder or ".")[:_MOST_FILES]
    except (OSError, ValueError):
        return ""
    near = close_names(name, files, cutoff=0.8)
    return f"did you mean {' or '.join(os.path.join(folder, x) for x in near)}?" if near else ""


def _read_stdin() -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        fail(UsageError, "cannot read standard input: it is closed", "unreadable-file")
    if sys.stdin.isatty():
        fail(
            UsageError,
            "no file is given, and standard input is a terminal",
            "no-input",
            help="name a file, or pipe one in: `jaxprtool trace ... | jaxprtool VERB`",
        )
    if _read_from and _read_from[-1] is sys.stdin:
        message = "standard input was read before, and can be read only once"
        fail(UsageError, message, "usage", help="name a file for one of the two")
    _read_from[:] = [sys.stdin]
    return sys.stdin.buffer.read()


_read_from: list[Any] = []  # the stream that was read as standard input


def decode(data: bytes, name: str) -> str:
    """The text of a file's contents. Raises UsageError when it is not UTF-8, or a compiled program."""
    if is_artifact(data):
        fail(
            UsageError,
            f"{name} is a compiled program, and a jaxpr is needed",
            "unreadable-file",
            help="only `jaxprtool run` loads it",
        )
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        what, help = data_help(data)
        message = what or f"not a text: byte {e.start} is not UTF-8"
        fail(UsageError, f"{name} is {message}", "unreadable-file", help=help)


def read_programs(text: str, name: str = STDIN) -> dict[str, ClosedJaxpr]:
    """Return the programs of a text, by name ("" for one without a name).

    Raises:
      JaxprParseError: the text is no jaxpr; for a text in another known language, a diagnostic
        names it.
    """
    try:
        return parse_file(text, name)
    except JaxprParseError as e:
        what, help = text_help(text, name)
        if not what:
            raise
        d = Diagnostic(f"{name} is {what}, and no jaxpr", "not-a-jaxpr", help=help)
        raise JaxprParseError(d) from e


def load(
    text: str, name: str = STDIN, selector: str = "", allowed: Sequence[str] = ()
) -> dict[str, ClosedJaxpr]:
    """Return the programs of a text, by name ("" for one without a name).

    Args:
      text: the text of a file.
      name: its name in messages.
      selector: when given, only the program of this name.
      allowed: folders that constants may be read from, besides that of the file.

    Raises:
      JaxprParseError: the text is no jaxpr.
      UsageError: no program has the given name; a constant is in a file outside of the allowed
        folders.
    """
    programs = read_programs(text, name)
    folder = os.path.dirname(name)
    anchored = {key: anchor(program, folder, allowed) for key, program in programs.items()}
    return chosen(anchored, name, selector)


def chosen(programs: dict[str, ClosedJaxpr], name: str, selector: str) -> dict[str, ClosedJaxpr]:
    """The program of a file with a name; all programs for "".

    Raises:
      UsageError: the file has none of that name.
    """
    if not selector:
        return programs
    if selector not in programs:
        names = ", ".join(n for n in programs if n)
        help = f"it holds {names}" if names else "its only jaxpr has no name"
        fail(UsageError, f"{name} holds no jaxpr named {selector}", "no-such-jaxpr", help=help)
    return {selector: programs[selector]}


def the_one(programs: dict[str, ClosedJaxpr], name: str) -> ClosedJaxpr:
    """The single program of a file; raises UsageError when there are several."""
    if len(programs) != 1:
        names = ", ".join(programs)
        first = next(iter(programs))
        fail(
            UsageError,
            f"{name} holds {counted(len(programs), 'jaxpr')}, and one is needed: {names}",
            "several-jaxprs",
            help=f"choose one by name: {'-' if name == STDIN else name}#{first}",
        )
    return next(iter(programs.values()))

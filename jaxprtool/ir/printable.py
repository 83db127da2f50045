"""Escapes text from files for display: characters that command a terminal or reorder a line."""

from __future__ import annotations

import re
from typing import Any, TextIO

__all__ = ["PrintableStream", "one_line", "printable"]

# C0 without tab and line feed, DEL, C1; soft hyphen, Arabic letter mark, zero-width and bidirectional marks, line and
# paragraph separators, invisible operators, byte order mark, interlinear annotations, surrogates, tags.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def _escaped(m: re.Match[str]) -> str:
    code = ord(m[0])
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def printable(text: str) -> str:
    """Return the text with characters that a terminal acts on escaped as Python writes them: `\\x1b`, `\\u202e`.

    Tabs and line feeds stay.
    """
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escaped, text)


def one_line(text: str) -> str:
    """`printable`, with line feeds escaped too."""
    return printable(text).replace("\n", "\\n")


# What a runner of GitHub takes for a command at the beginning of a line: `::error::message`, `##[group]`.
_COMMAND = re.compile(r"^(\s*)(::(?=[\w-]+[^\n]*::)|##(?=\[))", re.MULTILINE)


class PrintableStream:
    """A stream that escapes what it writes to another stream with `printable`: for the output of a running program.

    Lines that continuous integration would take for its own commands are changed so that it does
    not.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, escaped; returns its length."""
        shown = _COMMAND.sub(lambda m: f"{m[1]}\\x{ord(m[2][0]):02x}{m[2][1:]}", text)
        self._stream.write(printable(shown))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

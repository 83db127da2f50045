"""The three formats of a diagnostic: text, JSON, and annotations for GitHub."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxprtool.ir.diagnostics import Diagnostic
from jaxprtool.ir.origin import Origin, stack_of
from jaxprtool.ir.printable import one_line, printable

__all__ = ["BOLD", "CYAN", "GREEN", "RED", "colored", "fault_document", "paint", "render"]

LINE_WIDTH = 100  # the width of a quoted source line; a longer one is cut around the carets
RED, YELLOW, GREEN, BOLD, CYAN, RESET = (
    f"\x1b[{code}m" for code in ("1;31", "1;33", "32", "1", "36", "0")
)


def colored(stream: Any) -> bool:
    """Whether to use colours: only on a terminal, and not if NO_COLOR is set."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, code: str, color: bool) -> str:
    """Return the text in a colour, given by its escape code, if `color` is true."""
    return f"{code}{text}{RESET}" if color and text else text


def render(d: Diagnostic, error_format: str = "text", color: bool = False) -> str:
    """Return a diagnostic in one of the formats, with control characters escaped."""
    d = replace(d, message=printable(d.message), help=printable(d.help), where=one_line(d.where))
    if error_format == "json":
        return _as_json(_fields(d))
    if error_format == "github":
        return _github(d)
    place = f"{one_line(str(d.span))}: " if d.span else f"{d.where}: " if d.where else ""
    message = d.message.replace("\n", "\n    ")  # so that no further line looks like a new message
    severity = paint(d.severity + ":", RED if d.severity == "error" else YELLOW, color)
    lines = [f"{paint(place, BOLD, color)}{severity} {message} [{d.code}]"]
    if d.span is not None:
        lines += _quote(d, color)
        if d.span.origin is not None and d.span.origin.frame is not None:
            lines.append(f"  {paint('from:', CYAN, color)} {one_line(str(d.span.origin))}")
    if d.help:
        lines.append(f"  {paint('help:', CYAN, color)} {d.help}")
    return "\n".join(lines)


def fault_document(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the JSON document of a verb that fails: `{"error", "errors", "schema"}`, the first
    error and all.

    Each error has the keys of `--error-format json`; file, line and column are null if it has no
    place.
    """
    nowhere = {"file": None, "line": None, "column": None}
    errors = [nowhere | _fields(d) for d in diagnostics]
    return _as_json({"error": errors[0], "errors": errors, "schema": 1})


def _as_json(found: dict[str, Any]) -> str:
    return json.dumps(found).replace("\x7f", "\\u007f")


def _quote(d: Diagnostic, color: bool) -> list[str]:
    """Return the source line, and a line with carets below the part of the span that is on it."""
    assert d.span is not None
    source = d.span.source
    row, column = source.position(d.span.start)
    line = source.line(row)
    if not line.strip():
        return []
    start = column - 1
    stop = min(max(start + d.span.end - d.span.start, start + 1), max(len(line), start + 1))
    if len(line) > LINE_WIDTH:
        first = max(min(start - LINE_WIDTH // 3, len(line) - LINE_WIDTH), 0)
        before, after = "..." * (first > 0), "..." * (first + LINE_WIDTH < len(line))
        stop = min(stop, first + LINE_WIDTH)
        line = before + line[first : first + LINE_WIDTH] + after
        start, stop = start - first + len(before), stop - first + len(before)
    parts = (line[:start], line[start:stop], line[stop:])
    line, start = "".join(map(printable, parts)), len(printable(parts[0]))
    stop = start + max(len(printable(parts[1])), 1)
    pad = "".join("\t" if c == "\t" else " " for c in line[:start])
    carets = "^" + "~" * max(stop - start - 1, 0)
    return [f"  {line}", f"  {pad}{paint(carets, GREEN, color)}"]


def _fields(d: Diagnostic) -> dict[str, Any]:
    found: dict[str, Any] = {"severity": d.severity, "code": d.code, "message": d.message}
    if d.span is not None:
        found["file"] = d.span.source.name
        found["line"], found["column"] = d.span.source.position(d.span.start)
        found["end_line"], found["end_column"] = d.span.source.position(d.span.end)
        found |= _origin(d.span.origin)
    elif d.where:
        found["where"] = d.where
    if d.help:
        found["help"] = d.help
    return found


def _origin(origin: Origin | None) -> dict[str, Any]:
    """Return the line of Python and the scopes of an equation, as far as they are known."""
    found: dict[str, Any] = {}
    if origin is not None and origin.frame is not None:
        found["source"] = origin.frame.json()
    if origin is not None and origin.names:
        found["names"] = stack_of(origin.names)
    return found


def _github(d: Diagnostic) -> str:
    def escape(text: str, also: str = "") -> str:
        text = printable(text)
        for c in "%\r\n" + also:
            text = text.replace(c, f"%{ord(c):02X}")
        return text

    properties: dict[str, Any] = {"title": d.code}
    text = d.message
    if d.span is not None:
        name, frame = d.span.source.name, d.span.origin and d.span.origin.frame
        line, column = d.span.source.position(d.span.start)
        if frame is not None and not os.path.isfile(name):
            # GitHub only shows annotations of files; the text of a traced function is in no file
            text = f"{text} ({name}:{line}:{column})"
            name, line = frame.file, frame.line
            column = None if frame.column is None else frame.column + 1
        col = {} if column is None else {"col": column}
        properties = {"file": name, "line": line, **col, **properties}
    shown = ",".join(f"{k}={escape(str(v), ':,')}" for k, v in properties.items())
    text += f"\nhelp: {d.help}" if d.help else ""
    return f"::{_GITHUB[d.severity]} {shown}::{escape(text)}"


_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}

"""The version of the file format, which this package writes in the first line of a file.

Text that JAX printed has no such line. A later version reads all earlier ones;
`tests/syntax/formats` keeps a file of each.
"""

from __future__ import annotations

from jaxprtool.ir.diagnostics import Diagnostic, JaxprParseError
from jaxprtool.ir.spans import Source, Span
from jaxprtool.syntax.patterns import pattern

__all__ = ["FORMAT", "HEADER", "version_line", "without_header"]

FORMAT = 1
HEADER = f"# jaxprtool format {FORMAT}\n"

_LINE = pattern(r"# jaxprtool format (\d{1,9})[ \t]*(?=\n|\Z)")


def version_line(text: str) -> str:
    """Return the line of a text that states its version, "" where there is none."""
    m = _LINE.match(text)
    return f"{m[0].rstrip()}\n" if m else ""


def without_header(text: str, name: str) -> str:
    """Return the text with blanks in the place of its version line, so that offsets stay.

    Raises:
      JaxprParseError: the version is later than those that this package reads.
    """
    m = _LINE.match(text)
    if m is None:
        return text
    if int(m[1]) > FORMAT:
        message = f"the file has format {m[1]}, and this jaxprtool reads formats up to {FORMAT}"
        span = Span(Source(text, name), m.start(1), m.end(1))
        raise JaxprParseError(Diagnostic(message, "format", span, "a later jaxprtool reads it"))
    return " " * m.end() + text[m.end() :]

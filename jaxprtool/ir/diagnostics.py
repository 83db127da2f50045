"""Diagnostics, the messages to the user, and the exceptions that carry them.

An exception decides the exit status of the command: 1 where the answer is no (a program is ill-typed, or differs),
2 where the command cannot be carried out (bad usage, unreadable input, a known limitation), and 3 for a fault of
this package (any exception that is not a `JaxprToolError`).
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn, Self

from jaxprtool.ir.spans import Span

__all__ = [
    "Diagnostic",
    "InternalError",
    "JaxprParseError",
    "JaxprToolError",
    "JaxprToolWarning",
    "JaxprTypeError",
    "MissingRuleError",
    "NotLinearError",
    "ScopeError",
    "UnsupportedError",
    "UsageError",
    "are",
    "brief",
    "clipped",
    "counted",
    "fail",
    "place_of",
]


@dataclass(frozen=True)
class Diagnostic:
    """One message: `file:line:col: severity: message [code]`, with a help line.

    Attributes:
      message: what is wrong, with the offending value and the rule; lower case, no full stop.
      code: a kebab-case name for the kind of mistake.
      span: the position in a source; None where it is not known.
      help: what to do instead, or "".
      severity: `error` or `warning`.
      where: the name of the position when there is no span (`argument 2`), or "".
      param: the param of the equation that the message is about, or "".
    """

    message: str
    code: str
    span: Span | None = None
    help: str = ""
    severity: str = "error"
    where: str = field(default="")
    param: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", clipped(self.message))
        object.__setattr__(self, "help", clipped(self.help))

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span else f"{self.where}: " if self.where else ""
        text = f"{place}{self.severity}: {self.message} [{self.code}]"
        return f"{text}\n  help: {self.help}" if self.help else text


class JaxprToolError(Exception):
    """Base of all errors that the user can mend. `exit_code` is the exit status of the command."""

    exit_code = 2

    def __init__(self, diagnostics: Diagnostic | Sequence[Diagnostic]):
        self.diagnostics: list[Diagnostic] = (
            [diagnostics] if isinstance(diagnostics, Diagnostic) else list(diagnostics)
        )
        super().__init__("\n".join(map(str, self.diagnostics)))

    def placed_at(self, eqn: Any) -> Self:
        """Give the diagnostics that lack a position the one of `eqn`, in place; return this error.

        The position of an equation or a variable is its span in a text or else its line of Python.
        """
        where = place_of(eqn) if eqn.span is None else ""
        self.diagnostics = [
            d if d.span or d.where else replace(d, span=eqn.span, where=where)
            for d in self.diagnostics
        ]
        self.args = ("\n".join(map(str, self.diagnostics)), *self.args[1:])
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.diagnostics,)


def place_of(eqn: Any) -> str:
    """Return the line of Python that made an equation which stands in no text; "" where it is not known."""
    origin = getattr(eqn, "origin", None)
    frame = None if origin is None else origin.frame
    return "" if frame is None else frame.located()


class JaxprParseError(JaxprToolError, ValueError):
    """The text is not a jaxpr."""


class JaxprTypeError(JaxprToolError, TypeError):
    """A jaxpr, an equation or an operation is ill-typed."""

    exit_code = 1


class NotLinearError(JaxprTypeError):
    """A program to transpose is well-typed, but not linear in the given arguments."""

    exit_code = 2


class ScopeError(JaxprTypeError):
    """Variables are unbound, or bound twice. `programs` holds the programs that were read nevertheless, by name."""

    def __init__(self, diagnostics: Diagnostic | Sequence[Diagnostic], programs: dict[str, Any]):
        super().__init__(diagnostics)
        self.programs = programs

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.diagnostics, self.programs)


class UsageError(JaxprToolError, ValueError):
    """Wrong arguments: count, shape, dtype, a bad option, a missing file."""


class UnsupportedError(JaxprToolError):
    """A known limitation; the message gives the reason."""


class MissingRuleError(UnsupportedError):
    """A primitive has no rule in the column that an interpreter needs. `primitive` is its name."""

    def __init__(self, diagnostics: Diagnostic | Sequence[Diagnostic], primitive: str = ""):
        super().__init__(diagnostics)
        self.primitive = primitive

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.diagnostics, self.primitive)


_LONGEST_WORD, _LONGEST_TEXT = 200, 2000  # characters
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")


def clipped(text: str) -> str:
    """Cut overlong words of a message, and an overlong message.

    A file may put names, values and types of any length into it.
    """
    if len(text) <= _LONGEST_WORD:
        return text
    text = _LONG_WORD.sub(lambda m: f"{m[0][:_LONGEST_WORD]}...", text)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 80


def brief(value: object) -> str:
    """Return the `repr` of a user's value for a message, shortened where it is long or deeply nested."""
    return _BRIEF.repr(value)


class JaxprToolWarning(UserWarning):
    """A warning about something that a caller may not expect.

    Attributes:
      code: a kebab-case name for the kind of warning, as in `Diagnostic`.
    """

    code: ClassVar[str] = "warning"


class InternalError(Exception):
    """A fault of this package: a state that the code rules out. The message describes it."""


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: `1 result`, `2 results`."""
    if n == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{n:,} {plural}"


def are(n: int) -> str:
    """Return a number as the subject of a sentence: `1 is`, `2 are`."""
    return f"{n} is" if n == 1 else f"{n} are"


def fail(
    kind: type[JaxprToolError],
    message: str,
    code: str,
    *,
    span: Span | None = None,
    help: str = "",
) -> NoReturn:
    """Raise `kind` with a single diagnostic."""
    raise kind(Diagnostic(message, code, span=span, help=help))

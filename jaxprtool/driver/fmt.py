"""fmt: a file in its standard layout."""

from __future__ import annotations

from dataclasses import dataclass

from jaxprtool.analyses.signature import same_programs
from jaxprtool.driver.files import STDIN, read_programs
from jaxprtool.ir.diagnostics import InternalError, JaxprToolError, UnsupportedError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.params import Opaque
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file
from jaxprtool.syntax.version import version_line

__all__ = ["Formatted", "fmt"]


@dataclass(frozen=True)
class Formatted:
    """A text in its standard layout, whether it differs from what it was, and whether it says less."""

    text: str
    changed: bool
    loses: bool = False


def fmt(text: str, name: str = STDIN, *, style: str = "jax") -> Formatted:
    """Lay out the text of a file anew: same programs, same names, same comments.

    Args:
      text: the text.
      name: what to call it in messages.
      style: `jax`, or `autodidax` for the tutorial's spelling.

    Raises:
      JaxprParseError: the text is no jaxpr.
      InternalError: the new text does not say the same; it is never written.
    """
    programs = read_programs(text, name)
    new = version_line(text) + format_file(programs, style=style, lossless=True)
    if not new.endswith("\n"):
        new += "\n"
    if new != text:
        if style != "jax" and not _says_the_same(programs, new):
            return Formatted(new, True, loses=True)
        again = parse_file(new, "<formatted>")
        if not same_programs(programs, again):
            _refuse_opaque(programs)
            raise InternalError(f"fmt changed the meaning of {name}")
        stable = version_line(new) + format_file(again, style=style, lossless=True)
        if stable.rstrip("\n") != new.rstrip("\n"):
            raise InternalError(f"fmt of {name} is not stable")
    return Formatted(new, new != text)


def _says_the_same(programs: dict[str, ClosedJaxpr], text: str) -> bool:
    """Whether a text in another notation reads back as the same programs."""
    try:
        return same_programs(programs, parse_file(text))
    except JaxprToolError:
        return False


def _refuse_opaque(programs: dict[str, ClosedJaxpr]) -> None:
    """Raise UnsupportedError for a param whose value is only text: it need not read back as it was."""
    for program in programs.values():
        for eqn in all_eqns(program.jaxpr):
            for key, value in eqn.params.items():
                if isinstance(value, Opaque):
                    message = f"{eqn.primitive}: the value of param {key} cannot be read"
                    fail(UnsupportedError, message, "opaque-param", span=eqn.span)

"""fmt: a file in its standard layout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxprtool import driver
from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.driver.projects.settings import dialect_of_project
from jaxprtool.driver.storage.constants import anchor, beside, has_references
from jaxprtool.driver.storage.files import STDIN, chosen, read_programs
from jaxprtool.driver.storage.writing import write_output
from jaxprtool.interpreters.origins import map_origins
from jaxprtool.ir.diagnostics import (
    Diagnostic,
    InternalError,
    JaxprToolError,
    UnsupportedError,
    fail,
)
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.origin import NAMES, SOURCE, Origin
from jaxprtool.ir.params import Opaque
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.parse import parse_file
from jaxprtool.syntax.print import format_file
from jaxprtool.syntax.releases.dialects import says_all
from jaxprtool.syntax.version import version_line

__all__ = ["Formatted", "fmt", "write"]


@dataclass(frozen=True)
class Formatted:
    """A text in its standard layout.

    Attributes:
      text: the text.
      changed: whether it differs from the original.
      loses: whether it loses information.
      layout: the layout, as keywords of `format_file`.
      programs: its programs, by name.
      notes: what is written with the operations of an earlier release.
    """

    text: str
    changed: bool
    loses: bool = False
    layout: dict[str, Any] = field(default_factory=dict[str, Any])
    programs: dict[str, ClosedJaxpr] = field(default_factory=dict[str, ClosedJaxpr])
    notes: list[Diagnostic] = field(default_factory=list[Diagnostic])


def fmt(
    text: str,
    name: str = STDIN,
    *,
    style: str = "jax",
    dialect: str = "",
    selector: str = "",
    source: bool = True,
    names: bool = True,
    trees: bool = True,
) -> Formatted:
    """Lay out the text of a file anew: same programs, same names, same comments.

    In a given dialect, operations that came with later releases are written with earlier ones.

    Args:
      text: the text.
      name: its name in messages.
      style: `jax`, or `autodidax` for the tutorial's spelling.
      dialect: the release of JAX whose print to write, `jax-0.10.2`; "" for the setting of the
        file's project, or without one for the dialect of the text.
      selector: when given, only the program of this name is laid out.
      source, names: whether lines of Python, and name stacks, beside equations stay.
      trees: whether the interface stays, the names and trees of arguments and results below a
        program.

    Raises:
      JaxprParseError: the text is no jaxpr.
      UsageError: no program has the given name; there is no such dialect.
      UnsupportedError: the dialect cannot express a program.
      InternalError: the new text reads back as another program; it is never written.
    """
    programs = chosen(read_programs(text, name), name, selector)
    if not (source and names):
        programs = _with_origins(programs, SOURCE * source | NAMES * names)
    if not trees:
        programs = {key: program.replace(interface=None) for key, program in programs.items()}
    if style == "jax":
        dialect = dialect or dialect_of_project(name)
    notes: list[Diagnostic] = []
    if style == "jax" and dialect and not says_all(programs.values(), dialect):
        programs, notes = driver.dialects.for_dialect(programs, dialect)
    layout: dict[str, Any] = {"style": style, "dialect": dialect, "lossless": True}
    new = version_line(text) + format_file(programs, **layout)
    if not new.endswith("\n"):
        new += "\n"
    if new != text:
        if style != "jax" and not _says_the_same(programs, new):
            return Formatted(new, True, True, layout, programs)
        again = parse_file(new, "<formatted>")
        same = style != "jax" or all(p.interface == again[k].interface for k, p in programs.items())
        if not same_programs(programs, again) or not same:
            _refuse_opaque(programs)
            raise InternalError(f"fmt changed the meaning of {name}")
        stable = version_line(new) + format_file(again, **layout)
        if stable.rstrip("\n") != new.rstrip("\n"):
            raise InternalError(f"fmt of {name} is not stable")
    return Formatted(new, new != text, False, layout, programs, notes)


def _with_origins(programs: dict[str, ClosedJaxpr], what: int) -> dict[str, ClosedJaxpr]:
    """Return programs that show no more of the origins of equations than `what`."""

    def kept(origin: Origin) -> Origin:
        return Origin(origin.frame, origin.names, origin.shown & what)

    return {key: map_origins(program, kept) for key, program in programs.items()}


def write(done: Formatted, name: str, output: str, allowed: Sequence[str] = ()) -> None:
    """Write a text in its standard layout to a file.

    In another folder than its own, constants in `.npz` files are referred to by other names there,
    or are copied.

    Args:
      done: the text.
      name: the file that it was in.
      output: the file to write.
      allowed: other folders that constants may be read from.

    Raises:
      UsageError: a file cannot be written; one with constants is in none of the folders, or cannot
        be read.
    """
    folder = os.path.dirname(name)
    here = os.path.realpath(folder) == os.path.dirname(os.path.realpath(output))
    if here or not any(has_references(p) for p in done.programs.values()):
        write_output(output, done.text)
        return
    programs = {name: anchor(p, folder, allowed) for name, p in done.programs.items()}
    parts = beside(programs, output, moved=lambda c: False)
    text = format_file(programs, placed=parts.placed, **done.layout)
    if parts.path:  # first, so that no text ever names a file that is not there
        write_output(parts.path, parts.data)
    write_output(output, version_line(done.text) + text.rstrip("\n") + "\n")


def _says_the_same(programs: dict[str, ClosedJaxpr], text: str) -> bool:
    """Whether a text in another notation reads back as the same programs."""
    try:
        return same_programs(programs, parse_file(text))
    except JaxprToolError:
        return False


def _refuse_opaque(programs: dict[str, ClosedJaxpr]) -> None:
    """Raise UnsupportedError for a param whose value is only text: it might not read back as it was."""
    for program in programs.values():
        for eqn in all_eqns(program.jaxpr):
            for key, value in eqn.params.items():
                if isinstance(value, Opaque):
                    message = f"{eqn.primitive}: the value of param {key} cannot be read"
                    fail(UnsupportedError, message, "opaque-param", span=eqn.span)

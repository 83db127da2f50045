"""check: return the type of a program, or report everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxprtool.driver.words.values import open_binders
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.diagnostics import (
    Diagnostic,
    JaxprToolError,
    JaxprTypeError,
    ScopeError,
    counted,
)
from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Var
from jaxprtool.syntax.inference.open_programs import missing_types

__all__ = ["Signature", "check", "joined", "lines"]


class Signature(NamedTuple):
    """The type of a program as its caller sees it.

    Attributes:
      in_types: the types of what `run` takes: constants whose values the program does not hold,
        then the arguments.
      out_types: the types of the results.
      constants: those whose values the program holds.
      interface: the names of the arguments and the trees of arguments and results, where the
        program knows them.
    """

    in_types: list[Aval]
    out_types: list[Aval]
    constants: list[Var]
    interface: Interface | None = None

    def __repr__(self) -> str:
        ins, outs = [*map(str, self.in_types)], [*map(str, self.out_types)]
        text = f"({', '.join(ins)}) -> ({', '.join(outs)})"
        if self.interface is not None and self.interface.n_in == len(ins):
            text = self.interface.filled(ins, outs)
        if not self.constants:
            return text
        shown = ", ".join(repr(v) if v.name else str(v.aval) for v in self.constants)
        return f"{text}, with {counted(len(self.constants), 'constant')}: {shown}"


def check(
    read: Callable[[], dict[str, ClosedJaxpr]], *, allow_unknown: bool = False
) -> dict[str, Signature]:
    """Return the types of the programs of a file.

    Args:
      read: returns the programs, by name. Where it finds variables unbound or bound twice, the rest
        is checked nevertheless.
      allow_unknown: whether to trust the result types that a text gives for undeclared primitives.

    Raises:
      JaxprTypeError: with a diagnostic for each fault of each program.
    """
    problems: list[Diagnostic] = []
    try:
        programs = read()
    except ScopeError as e:
        programs, problems = e.programs, list(e.diagnostics)
    places = {_place(d) for d in problems}
    types: dict[str, Signature] = {}
    for name, program in programs.items():
        if problems and missing_types(program.jaxpr):
            continue  # the types of arguments may be given, which is for a program whose names are right
        try:
            found = typecheck_jaxpr(program, allow_unknown=allow_unknown)
            types[name] = _signature(program, found.out_types)
        except JaxprTypeError as e:
            problems += [d for d in e.diagnostics if _place(d) not in places]
    if problems:
        problems.sort(key=lambda d: d.span.start if d.span else 0)
        raise JaxprTypeError(problems)
    return types


def _signature(program: ClosedJaxpr, out_types: list[Aval]) -> Signature:
    pairs = zip(program.jaxpr.const_binders, program.consts, strict=True)
    held = [v for v, c in pairs if c is not None]
    in_types = [v.aval.strong for v in open_binders(program)]
    return Signature(in_types, out_types, held, program.interface)


def _place(d: Diagnostic) -> tuple[str, int | None]:
    return d.code, d.span.start if d.span else None


def lines(types: dict[str, Signature], file: str) -> list[str]:
    """Return the types of a file, each after the name of the file, if any, and of the jaxpr."""
    found: list[str] = []
    for name, t in types.items():
        label = f"{file}#{name}" if file and name else file or name
        found.append(f"{label}: {t}" if label else str(t))
    return found


def joined(errors: Sequence[JaxprToolError]) -> JaxprToolError:
    """Join errors into one with the diagnostics of all, and the highest exit status."""
    if len(errors) == 1:
        return errors[0]
    whole = JaxprToolError([d for e in errors for d in e.diagnostics])
    whole.exit_code = max(e.exit_code for e in errors)
    return whole

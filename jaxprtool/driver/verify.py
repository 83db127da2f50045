"""Type checks of the programs that a transformation takes and returns."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.driver.storage.constants import load_constants
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.interpreters.discharge import DISCHARGE_FIRST
from jaxprtool.ir.avals import FIX_SIZES, RefType, ShapedArray
from jaxprtool.ir.diagnostics import (
    InternalError,
    JaxprToolError,
    JaxprTypeError,
    UnsupportedError,
    fail,
)
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, Lit, Var
from jaxprtool.ir.spans import Span
from jaxprtool.syntax.parse import parse
from jaxprtool.syntax.print import format_jaxpr

__all__ = [
    "blaming_the_program",
    "check_arrays",
    "check_input",
    "check_results",
    "check_text",
    "check_types",
    "prepared",
]


def check_input(program: ClosedJaxpr) -> ClosedJaxpr:
    """Type-check the program that a transformation takes, since rules rely on well-typed equations; returns it.

    The result types that a text gives for undeclared primitives are trusted here; the transformation reports the rules
    that it lacks. Raises JaxprTypeError.
    """
    typecheck_jaxpr(program, allow_unknown=True)
    return program


class blaming_the_program:
    """In the place of a Python error that an ill-typed program causes in a `with` block, raise what
    is wrong with the program.
    """

    __slots__ = ("programs",)

    def __init__(self, *programs: ClosedJaxpr | Jaxpr):
        self.programs = programs

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: object
    ) -> None:
        del at
        if isinstance(error, Exception) and not isinstance(error, (JaxprToolError, RecursionError)):
            for program in self.programs:
                typecheck_jaxpr(program, allow_unknown=True)


def check_arrays(program: ClosedJaxpr, what: str, *, sized: bool = False) -> None:
    """Refuse programs whose arguments or results are no arrays (tokens, references, unreadable types).

    Args:
      program: the program.
      what: the transformation, for the message.
      sized: whether dimensions have to be numbers too.

    Raises:
      UnsupportedError: at the first such argument or result.
    """
    jaxpr = program.jaxpr
    check_types((*jaxpr.all_binders, *jaxpr.outs), what, sized=sized, around=jaxpr.span)


def check_types(
    atoms: Sequence[Var | Lit], what: str, *, sized: bool, around: Span | None = None
) -> None:
    """Refuse types that are no arrays, or that have no fixed shape where `sized` is set; see `check_arrays`.

    Args:
      around: the place for variables that have no place of their own.
    """
    for x in atoms:
        if isinstance(x.aval, ShapedArray):
            if not sized or x.aval.size >= 0:
                continue
            kind, help = "has no fixed shape", FIX_SIZES
        else:
            kind, help = "is no array", DISCHARGE_FIRST if isinstance(x.aval, RefType) else ""
        name = getattr(x, "name", None)
        of = f" of {name}" if name else ""
        message = f"{what} needs arrays, and the type {x.aval}{of} {kind}"
        fail(UnsupportedError, message, "unsupported-type", span=x.span or around, help=help)


def prepared(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program, type-checked and with its constants loaded, for a compiler."""
    return load_constants(check_input(program))


def check_results(verb: str, programs: dict[str, ClosedJaxpr]) -> dict[str, ClosedJaxpr]:
    """Type-check the results of a verb; an ill-typed one is an internal error (InternalError)."""
    for name, program in programs.items():
        try:
            typecheck_jaxpr(program, allow_unknown=True)
        except JaxprTypeError as e:
            of = f" ({name})" if name else ""
            raise InternalError(f"the result of {verb}{of} is ill-typed: {e}") from e
    return programs


def check_text(program: ClosedJaxpr) -> None:
    """Raise InternalError unless the lossless text of a program reads back as the same program."""
    text = format_jaxpr(program, lossless=True)
    try:
        again = parse(text)
    except JaxprToolError as e:
        raise InternalError(f"the text of the program cannot be read: {e}") from e
    if not same_program(program, again):
        raise InternalError("the text of the program reads back as another one")

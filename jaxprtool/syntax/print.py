"""Programs to text, in JAX's layout byte for byte: one program, or all of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jaxprtool.core.stack import deep
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, set_printer
from jaxprtool.syntax.origins import Annotating, annotate
from jaxprtool.syntax.printing.autodidax import format_autodidax
from jaxprtool.syntax.printing.classic import ClassicPrinter
from jaxprtool.syntax.printing.literals import needs_types
from jaxprtool.syntax.printing.printer import Printer
from jaxprtool.syntax.releases.dialects import Dialect, dialect_of, find_dialect, refuse_unsayable
from jaxprtool.syntax.releases.old_operands import arranged
from jaxprtool.syntax.releases.trees import joined
from jaxprtool.syntax.releases.units import NO_UNITS, with_units

__all__ = ["format_file", "format_jaxpr", "format_standalone"]


@deep
def format_jaxpr(
    program: ClosedJaxpr,
    style: str = "jax",
    lossless: bool = False,
    width: int = 80,
    dialect: str = "",
) -> str:
    """Return the text of a program, as JAX prints it; `str(program)` is the same.

    JAX's print drops weak types, derivative rules of custom functions, and params such as `inline`
    of `jit`: only with `lossless` does the text read back as the same program. Everything that
    writes a file (`save`, every verb) uses it.

    Args:
      program: the program; known consts are written in `where` sections.
      style: "jax" for JAX's layout, "autodidax" for the tutorial's.
      lossless: also write what JAX's print drops: weak types, and params that JAX hides.
      width: the width of a line, as far as layout can keep to it.
      dialect: the release of JAX whose print to write, `jax-0.10.2`; "" for the one that the
        program was read in, or, for a program that was made anew, that of the installed JAX
        (without one, the newest). What a release has no operation for is refused here;
        `jt.format_jaxpr` and `fmt` write it with the operations that it had.

    Returns:
      The text, without a line break at its end.

    Raises:
      UsageError: there is no such style, or no such dialect.
      UnsupportedError: the dialect cannot express the program.
    """
    if style == "autodidax":
        return format_autodidax(program, lossless)
    if style != "jax":
        fail(
            UsageError, f"no style {style!r}", "bad-style", help="the styles are jax and autodidax"
        )
    return _printer(program, lossless, width, _asked(dialect, [program])).text()


def format_standalone(program: ClosedJaxpr) -> str:
    """Return JAX's text of a jaxpr inside a value that is printed by `str`: names start again at `a`."""
    return Printer(program, False, 80, renamed=True).text()


@deep
def format_file(
    programs: dict[str, ClosedJaxpr],
    style: str = "jax",
    lossless: bool = False,
    width: int = 80,
    placed: Callable[[Any], Any] | None = None,
    dialect: str = "",
) -> str:
    """Return the text of a file with several programs; a single one with the name "" stands alone.

    `placed` returns what to write for the value of a constant (a reference to a file that holds it,
    say). The other arguments are as for `format_jaxpr`.
    """
    if style != "jax":
        texts = {name: format_jaxpr(program, style) for name, program in programs.items()}
        return "".join([f"{name} = {t}\n" if name else f"{t}\n" for name, t in texts.items()])
    pieces: list[str] = []
    places: list[tuple[int, JaxprEqn]] = []
    asked = _asked(dialect, programs.values())
    printers = [_printer(p, lossless, width, asked, placed) for p in programs.values()]
    annotated = any(printer.annotated for printer in printers)
    for (name, program), printer in zip(programs.items(), printers, strict=True):
        if name:
            pieces += [f"{line}\n" for line in (program.jaxpr.comments or {}).get("head", [])]
            pieces.append(f"{name} = ")
        printer.annotated = annotated
        printer.write(head=not name)
        places += [(len(pieces) + i, eqn) for i, eqn in printer.places]
        pieces += [*printer.out, "\n"]
    return annotate(
        pieces,
        places,
        how=Annotating(*map(all, zip(*[p.dialect.annotating for p in printers], strict=True))),
        has_additions=any(p.has_additions() for p in printers),
    )


def _asked(name: str, programs: Iterable[ClosedJaxpr]) -> Dialect | None:
    """Return the requested dialect, if there is one; raise an error where it cannot express the programs."""
    if not name:
        return None
    dialect = find_dialect(name)
    for program in programs:
        refuse_unsayable(program, dialect)
    return dialect


def _printer(
    program: ClosedJaxpr,
    lossless: bool,
    width: int,
    dialect: Dialect | None,
    placed: Callable[[Any], Any] | None = None,
) -> Printer:
    """Return the printer of a program.

    A program that JAX printed is laid out anew where the requested dialect has another layout.
    """
    source, relaid, said = dialect_of(program), False, program
    if (dialect or source).release < NO_UNITS:
        program = with_units(program)
    if (dialect or source).joins_leaves:
        program = joined(program)
    program = arranged(program, (dialect or source).release, lossless)
    if dialect is not None and _other_layout(program, source, dialect, lossless):
        again = Printer(program, False, width, dialect=source, relaid=True)
        relaid = again.text() == Printer(program, False, width, dialect=source).text()
    untyped = not (dialect or source).types_literals
    if untyped and lossless:
        untyped = not needs_types(program, said, dialect or source, relaid)
    printer = ClassicPrinter if (dialect or source).is_classic else Printer
    return printer(
        program, lossless, width, placed=placed, dialect=dialect, relaid=relaid, untyped=untyped
    )


def _other_layout(program: ClosedJaxpr, source: Dialect, dialect: Dialect, lossless: bool) -> bool:
    """Whether a program is to be laid out anew for a dialect.

    In every dialect a lossless text names definitions that stand further below. A program that was
    read with such definitions written out is laid out anew too: its text may no longer show its
    dialect, and would be laid out in another way when it is read again.
    """
    written = program.jaxpr.written
    if _has_comments(program) or dialect.release == source.release:
        return False
    written_out = written is not None and written.later_written_out
    return dialect.layout != source.layout or (lossless and written_out)


def _has_comments(program: ClosedJaxpr) -> bool:
    written = program.jaxpr.written
    return written is not None and any(c.jaxpr.comments for c in written.definitions.values())


set_printer(format_jaxpr)

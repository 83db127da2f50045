"""lint: find what is legal in a program, but most likely a mistake (`driver.fix` mends it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxprtool.core.stack import deep
from jaxprtool.driver.places import with_places
from jaxprtool.driver.storage.files import STDIN
from jaxprtool.driver.verify import check_input
from jaxprtool.driver.words.arguments import parts_called, similar_names
from jaxprtool.ir.diagnostics import UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.linter.answer import Lint, Linted
from jaxprtool.linter.engine import MAX_CONST, Options, lint_program
from jaxprtool.linter.registry import select_rules

__all__ = ["MAX_CONST", "carried", "lint"]


@deep
def lint(
    programs: Mapping[str, ClosedJaxpr],
    file: str = "",
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    max_const: int = MAX_CONST,
    carry: Sequence[str] = (),
) -> Lint:
    """Return what rules find in programs.

    Args:
      programs: by their names in the file.
      file: the name of the file.
      select, ignore: codes and families of rules, see `select_rules`.
      max_const: the largest size of a constant, in bytes, that is not reported.
      carry: which results are arguments of the next call: `0:0`, `0-3:1-4`, `state:state`.

    Raises:
      JaxprTypeError: a program is ill-typed.
      UsageError: there is no such rule, argument or result.
    """
    rules = select_rules(select, ignore)
    found: list[Linted] = []
    for key, program in programs.items():
        shown = STDIN if file == "-" else file
        name = f"{shown}#{key}" if shown and key else shown or key or "<program>"
        placed = check_input(with_places(program, name))
        options = Options(max_const, [pair for word in carry for pair in carried(placed, word)])
        found.append(Linted(name, *lint_program(placed, rules, options)))
    return Lint(found)


def carried(program: ClosedJaxpr, word: str) -> list[tuple[int, int]]:
    """Return the pairs of a result and an argument that `out:in` means.

    Raises:
      UsageError: it is no such pair; there is no such result or argument; one side has more leaves
        than the other.
    """
    out, colon, into = word.partition(":")
    if not colon:
        help = "write `--carry 0:0`, `--carry 0-3:1-4` or `--carry state:state`"
        fail(
            UsageError,
            f"--carry {word}: it is no pair of a result and an argument",
            "option",
            help=help,
        )
    outs, ins = _results(program, out.strip(), word), _arguments(program, into.strip(), word)
    if len(outs) != len(ins):
        message = (
            f"--carry {word}: {counted(len(outs), 'result')} for {counted(len(ins), 'argument')}"
        )
        fail(UsageError, message, "option")
    return [*zip(outs, ins, strict=True)]


def _arguments(program: ClosedJaxpr, name: str, word: str) -> list[int]:
    binders = program.jaxpr.in_binders
    positions = _positions(name)
    if positions is None:
        found = parts_called(name, program.interface, binders)
        if not found:
            help = similar_names(name, program.interface, binders)
            fail(
                UsageError,
                f"--carry {word}: there is no argument {name}",
                "argument-index",
                help=help,
            )
        return [*found[0].positions]
    return _in_range(positions, len(binders), "argument", word)


def _results(program: ClosedJaxpr, name: str, word: str) -> list[int]:
    n = len(program.jaxpr.outs)
    positions = _positions(name)
    if positions is not None:
        return _in_range(positions, n, "result", word)
    if name in ("*", ""):
        return [*range(n)]
    interface = program.interface
    found = (
        []
        if interface is None
        else interface.result.find(name if name[:1] in "[./" else f"[{name!r}]")
    )
    if not found:
        help = (
            "results are given by positions, or by what the returned tree calls them: `[0].params`"
        )
        fail(UsageError, f"--carry {word}: there is no result {name}", "argument-index", help=help)
    return [*found[0].positions]


def _in_range(positions: Sequence[int], n: int, what: str, word: str) -> list[int]:
    for i in positions:
        if i >= n:
            message = f"--carry {word}: there is no {what} {i}, the program has {counted(n, what)}"
            fail(UsageError, message, "argument-index")
    return [*positions]


_MOST = 100_000


def _positions(text: str) -> list[int] | None:
    """Return the positions that `3`, `0-2` mean; None for a name."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 12:
        return None
    start, stop = int(first), int(last or first)
    return [*range(start, min(stop, start + _MOST) + 1)]

"""Options of `run` that show the values of equations as they are computed."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from jaxprtool.cli.session import Session, standard_output
from jaxprtool.driver.compile import Compiled
from jaxprtool.driver.running import record
from jaxprtool.driver.running.check_nans import NanError
from jaxprtool.interpreters.evaluation.observe import Observer
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.printable import printable

__all__ = ["observing", "telling_of_nans", "values_options"]

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = ("variables", "save_values", "digest", "select", "every")


def values_options(f: F) -> F:
    """Add the options; the command gets them as `values`, a dict, None without any."""

    @functools.wraps(f)
    def command(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in _OPTIONS}
        wanted = any(given[name] for name in _OPTIONS[:3])
        if not wanted and any(given[name] for name in _OPTIONS[3:]):
            word = "--select" if given["select"] else "--every"
            message = f"{word} says which values, and none are asked for"
            help = "it goes with --print, --save-values or --digest"
            fail(UsageError, message, "option", help=help)
        return f(*args, values=given if wanted else None, **options)

    made: Any = command
    for option in reversed(_declared()):
        made = option(made)
    return made


def _declared() -> list[Callable[[Any], Any]]:
    return [
        click.option(
            "--print",
            "variables",
            metavar="NAME[,NAME]",
            help="Print values of variables, by their names in the text, as they are computed: before the results, or to "
            "standard error with --json or --digest.",
        ),
        click.option(
            "--save-values",
            metavar="DIR",
            help="Save every intermediate value to a folder: .npy files, and index.json, which says of each its file, key, "
            "name, type, result, place, the steps of the loops around it, ins (hashes of the operands) and literals (which "
            "of these are literals). `compare` reads such folders.",
        ),
        click.option(
            "--digest",
            is_flag=True,
            help="Write, in the place of the results, a line of JSON for each equation: key, place, ins (hashes), literals "
            "(which of these), outs (type, hash, norm, min, max, nans, infs). `compare` reads files of them, *.jsonl.",
        ),
        click.option(
            "--select",
            metavar="KEY=VALUE,...",
            help="Of equations of which all of this holds: primitive=exp, line=10-40 (of the text), name=attn (in a scope or "
            "the line of Python or its function). A repeated key gives alternatives.",
        ),
        click.option(
            "--every",
            type=click.IntRange(min=1),
            metavar="N",
            help="Of loops every N-th step, besides the first and the last.",
        ),
    ]


@contextmanager
def observing(
    session: Session,
    values: dict[str, Any] | None,
    program: ClosedJaxpr | Compiled,
    file: str,
    *,
    as_json: bool,
    max_bytes: int | None,
    **how: Any,
) -> Generator[Observer | None]:
    """Yield the observer of the run inside the `with` block that the options choose; None without
    options.
    """
    if values is None or isinstance(program, Compiled):
        yield None
        return
    if how.get("jit") or how.get("platform") or how.get("through"):
        message = "values are shown of runs on NumPy: --print, --save-values and --digest go without --jit"
        fail(UsageError, message, "option", help="--platform and --through compile as well")
    what = record.recording(**values, max_bytes=max_bytes)
    aside = as_json or values["digest"]

    out = standard_output()  # while the program runs, what it prints itself goes to standard error

    def echo(line: str) -> None:
        session.printed = True
        click.echo(printable(line), file=out)

    def remark(line: str) -> None:
        click.echo(printable(line), err=True)

    def warn(message: str) -> None:
        session.warn(message, "left-out")

    prints = remark if aside else echo
    with record.recorded(what, program, echo, prints, warn, file) as observer:
        yield observer


@contextmanager
def telling_of_nans(session: Session, as_json: bool) -> Generator[None]:
    """If the run inside the `with` block stops at a NaN, print its place as JSON, too."""
    try:
        yield
    except NanError as e:
        if as_json:
            session.echo_lines(
                [json.dumps({"outs": None, "nan": e.place and e.place.json(), "schema": 1})]
            )
        raise

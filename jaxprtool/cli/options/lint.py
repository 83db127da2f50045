"""The options of `lint`, and the output of its findings."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

import jaxprtool
from jaxprtool.cli.options.param_types import Size
from jaxprtool.cli.render import colored, render
from jaxprtool.cli.session import Session
from jaxprtool.driver.lint import MAX_CONST
from jaxprtool.driver.storage.files import STDIN
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.linter.answer import Lint, diagnostic_of, way_lines

__all__ = ["lint_options", "refuse_to_write", "show"]

F = TypeVar("F", bound=Callable[..., Any])


class _Words(click.ParamType[Any]):
    """Words that are separated by commas."""

    name = "words"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        return tuple(word for word in map(str.strip, value.split(",")) if word)


def lint_options(f: F) -> F:
    """Add --select, --ignore, --max-const, --carry, --fix, --sarif."""
    options = [
        click.option(
            "--select",
            type=_Words(),
            default="",
            metavar="CODE,...",
            help="Only these rules, or families of rules; all: every one.",
        ),
        click.option("--ignore", type=_Words(), default="", metavar="CODE,...", help="Not these."),
        click.option(
            "--max-const",
            type=Size(),
            default=MAX_CONST,
            show_default="1M",
            metavar="SIZE",
            help="The largest constant that is not reported.",
        ),
        click.option(
            "--carry",
            multiple=True,
            metavar="OUT:IN",
            help="A result, or a range or part of them, that is an argument of the next call: 0:0, 0-3:1-4, [0]:state; repeatable.",
        ),
        click.option("--fix", is_flag=True, help="Apply the passes that mend what is found."),
        click.option("--sarif", is_flag=True, help="Print one document in SARIF 2.1.0."),
    ]
    for option in reversed(options):
        f = option(f)
    return f


def refuse_to_write(
    files: Sequence[str], output: str, fix: bool, as_json: bool, sarif: bool
) -> None:
    """Raise UsageError for options that exclude each other."""
    if as_json and sarif:
        raise click.UsageError("--json and --sarif are two documents; choose one")
    if not fix:
        if output != "-":
            raise click.UsageError("-o is for the program that --fix makes")
        return
    if output != "-" and len(files) > 1:
        raise click.UsageError("-o takes the program of one FILE")
    for file in files:
        if output == "-" and (
            file.partition("#")[0] in ("-", STDIN) or "#" in file or is_function(file)
        ):
            what = "standard input" if file == "-" else file
            message = f"--fix cannot write {what} back"
            fail(UsageError, message, "usage", help="give -o OUT, a file for the program")


def show(session: Session, found: Lint, as_json: bool, sarif: bool) -> None:
    """Print the findings, in the format that the options choose."""
    if as_json or sarif:
        document = found.sarif(jaxprtool.__version__) if sarif else found.json()
        session.echo_lines([json.dumps(document)])
        return
    plain = session.error_format == "text"
    color = plain and colored(sys.stdout)
    for finding in found.findings:
        text = render(diagnostic_of(finding), session.error_format, color)
        more = [x for x in way_lines(finding) if "\n  from: " not in text or x[:7] != "  from:"]
        session.echo_lines([*text.split("\n"), *(more if plain else ())])
    if plain:
        session.echo_lines([found.summary()])

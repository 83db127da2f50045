"""jaxprtool diff."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from jaxprtool.cli.options import json_option, verb
from jaxprtool.cli.report import color_diff, colored
from jaxprtool.cli.session import Session
from jaxprtool.driver import diff as driver
from jaxprtool.driver.files import STDIN
from jaxprtool.ir.diagnostics import UsageError, fail


@verb("diff")
@click.argument("a")
@click.argument("b", default="-", metavar="[B]")
@click.option("-q", "--quiet", is_flag=True, help="Say it by the exit status alone.")
@click.option(
    "-U",
    "--unified",
    "context",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    metavar="N",
    help="Lines to show around each change.",
)
@click.option("--stat", is_flag=True, help="Say in a line how many equations differ, and which.")
@json_option
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Whether to colour; auto: on a terminal, unless NO_COLOR is set.",
)
def diff(
    session: Session, a: str, b: str, quiet: bool, context: int, color: str, **how: Any
) -> None:
    """Compare A and B up to names, layout and dialect, and print a unified diff.

    Names of arguments and the trees that they form are no part of a computation, and are not compared.

    Equations are aligned by what they compute, and aligned ones get the same variable names, so a renamed variable
    or an inserted equation marks nothing else. Exit status: 0 equal, 1 different, 2 not readable.

    JSON: {"schema", "equal", "summary", "changes": [{"kind": "added", "removed" or "changed", "a", "b"}], "lines"}, where
    a and b are the places of equations, or null.

    \b
    Example:
      jaxprtool diff before.jaxpr after.jaxpr
      jaxprtool diff --stat before.jaxpr after.jaxpr
      jaxprtool grad loss.jaxpr | jaxprtool diff golden.jaxpr -
      jaxprtool diff golden.jaxpr train.py:loss --like example_args
      jaxprtool diff old.py:loss new.py:loss --shape f32[3]
    """
    if a == b == "-":
        message = "A and B are both standard input, which can be read only once"
        fail(UsageError, message, "bad-usage", help="name a file for one of them: diff A.jaxpr -")
    names = [STDIN if x == "-" else x for x in (a, b)]
    found = driver.diff(session.programs(a), session.programs(b), *names, context=context)
    session.exit_code = 0 if found.equal else 1
    if quiet:
        return
    if how["stat"] or how["as_json"]:
        session.echo_lines([json.dumps(found.json()) if how["as_json"] else found.summary])
    elif not found.equal:
        paint = color == "always" or (color == "auto" and colored(sys.stdout))
        session.echo_lines(found.lines, color_diff if paint else None)

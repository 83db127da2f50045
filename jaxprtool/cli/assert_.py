"""jaxprtool assert."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from jaxprtool.cli.asking_page import PAGE
from jaxprtool.cli.options.shared import json_option, verb
from jaxprtool.cli.options.tables import top_option, trips_option
from jaxprtool.cli.session import Session
from jaxprtool.driver import asking as driver
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr


@verb("assert")
@click.argument("file", default="-", metavar="[FILE]")
@click.argument("expressions", nargs=-1, metavar="[EXPRESSION]...")
@click.option("-e", "--expression", "more", multiple=True, help="An expression; repeatable.")
@click.option("--vs", metavar="OTHER", help="The program that is called B.")
@click.option("--sizes", metavar="S=N,M", help="Ask of the program in several sizes.")
@click.option("--stage", type=click.Choice(driver.STAGES), help="Ask of what XLA gets, or makes.")
@trips_option
@top_option
@json_option
def assert_(
    session: Session,
    file: str,
    expressions: tuple[str, ...],
    more: tuple[str, ...],
    vs: str | None,
    sizes: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Check whether each EXPRESSION is true of FILE; exit status 1 if one is false.

    Of what is false it prints the figures that were found, and the places of the matches. A name that no primitive has is a
    warning. With --sizes, FILE is a function with S in its --shape, --static or --like 'args(S)', a file a_{S}.jaxpr for each
    size, or a program with a dimension S. JSON: {"schema", "program", "holds", "assertions": [{"expression", "holds", "count", "values":
    [{"what", "value"}], "says", "matches", "places": [{"place", "times", "text", "located"}], "warnings"}]}.

    \b
    Example:
      jaxprtool assert step.jaxpr 'no callback' 'no f64' 'count(transpose) <= 2'
      jaxprtool assert new.jaxpr --vs old.jaxpr 'peak(A) <= 1.05 * peak(B)'
      jaxprtool assert f.py:f --shape 'f32[S,64]' --sizes S=128,512 \\
        'growth(peak, S) <= 1.1'
    """

    for x in filter(os.path.isfile, expressions):
        message = f"{x} is a file, and an assertion belongs in its place"
        fail(UsageError, message, "usage", help=f"one program is asked; a second one: --vs {x}")

    def load(path: str, tracing: dict[str, Any]) -> ClosedJaxpr:
        return replace(session, tracing=tracing).placed(path)

    found = driver.ask_at(file, (*expressions, *more), vs, sizes, session.tracing, load, **how)
    for verdict in found.verdicts:
        session.tell(*driver.warnings_of(verdict.expression, verdict.warnings))
    if session.error_format != "text":
        session.tell(*driver.annotations_of(found))
    session.exit_code = 0 if found.holds else 1
    session.answer(found, as_json=as_json)


assert_.epilog = PAGE

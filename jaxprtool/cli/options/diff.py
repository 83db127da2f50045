"""Options of `diff`: what counts as a difference, and how differences are shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from jaxprtool.cli.report import color_diff, colored
from jaxprtool.cli.session import Session, standard_output
from jaxprtool.driver import diff as driver

__all__ = ["counting_options", "show", "showing_options"]

F = TypeVar("F", bound=Callable[..., Any])

_COUNTING = (
    click.option(
        "--ignore",
        multiple=True,
        metavar="WHAT",
        help="What makes no difference: order (of equations that can be exchanged), names (of functions called), weak "
        "(weak types of arguments and conversions), consts (values of constants), shapes, params:KEY (a param); repeatable.",
    ),
    click.option(
        "--rtol",
        type=float,
        metavar="X",
        help="Floats in literals and constants are equal within atol + rtol * max(|a|, |b|).",
    ),
    click.option("--atol", type=float, metavar="X", help="See --rtol; 0 where it alone is given."),
)
_SHOWING = (
    click.option("-q", "--quiet", is_flag=True, help="Say it by the exit status alone."),
    click.option(
        "-U",
        "--unified",
        "context",
        type=click.IntRange(0),
        default=3,
        show_default=True,
        metavar="N",
        help="Lines to show around each change.",
    ),
    click.option("--stat", is_flag=True, help="Print the summary alone."),
    click.option("--side-by-side", is_flag=True, help="Print A beside B, in the terminal's width."),
    click.option(
        "--html", metavar="OUT", help="Write A beside B to a page of HTML; print the summary."
    ),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Whether to colour; auto: on a terminal, unless NO_COLOR is set.",
    ),
)


def counting_options(f: F) -> F:
    """Add `--ignore`, `--rtol`, `--atol`."""
    for option in reversed(_COUNTING):
        f = option(f)
    return f


def showing_options(f: F) -> F:
    """Add `-q`, `-U`, `--stat`, `--side-by-side`, `--html`, `--color`."""
    for option in reversed(_SHOWING):
        f = option(f)
    return f


def show(
    session: Session,
    found: Any,
    quiet: bool,
    stat: bool,
    side_by_side: bool,
    html: str | None,
    color: str,
    as_json: bool,
) -> None:
    """Print the differences of two files or folders, in the form that the options choose."""
    painted = color == "always" or (color == "auto" and colored(sys.stdout))
    if html is not None:
        session.write_text(found.html(), html)
    if quiet or html == "-":
        return
    if as_json:
        session.echo_lines([json.dumps(found.json())])
    elif stat or html:
        session.echo_lines([found.summary])
    elif not found.equal:
        session.echo_lines([found.summary])
        if side_by_side and found.rows:
            standard_output()
            driver.show_side_by_side(found, color=painted)
        else:
            session.echo_lines(found.lines, color_diff if painted else None)

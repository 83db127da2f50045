"""jaxprtool precision."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.session import Session
from jaxprtool.driver import precision as driver


@options.verb("precision")
@options.file_argument
@options.args_option
@click.option(
    "--shadow", type=click.Choice(["f64", "f128"]), default="f64", help="What errors are against."
)
@click.option("--top", type=int, default=20, show_default=True, metavar="N", help="How many.")
@click.option(
    "--tries",
    type=int,
    default=12,
    show_default=True,
    metavar="N",
    help="How many of the worst are tried in the wider precision.",
)
@options.max_bytes_option
@options.step_limit_option
@options.json_option
def precision(
    session: Session, file: str, args: tuple[str, ...], as_json: bool, **how: Any
) -> None:
    """Measure the rounding errors of each equation of FILE at --args, and find where more precision
    helps.

    The program runs on NumPy in its own types and in double precision, or with --shadow f128 in the
    platform's long double. For each equation it prints the local error, against the same operation
    on the same operands in double precision; the total error of its result, against the run in
    double precision; and how much it amplifies the relative errors of its operands (cancellation).
    An ulp is a unit in the last place. The equations with the largest local errors are then
    computed in double precision, each with those that read its result (in a loop in the next step
    too), and the errors of the results are measured again; where none of them causes the errors,
    that equation is searched among all by bisection, and then several that help together. Where the
    two runs take different branches, equations inside have no total error. Of a loop the first
    fifty steps are measured, and fewer and fewer of the later ones.

    JSON: {"schema", "shadow", "outputs": [{"index", "type", "max_ulp", "max_rel", "not_finite"}],
    "equations": [{"place", "count", "local_ulp", "local_rel", "total_ulp", "amplification"}],
    "raised": [{"place", "before", "after"}], "together": {"places", "before", "after"} or null,
    "in_f64": [places]}; equations are in the order of what they add relative to their largest
    element, and where results are off by far more, of how much they amplify, raised in the order of
    the largest relative error of a result that is left; in_f64 are those that have no long double,
    and were done in f64 with --shadow f128.

    \b
    Example:
      jaxprtool precision loss.jaxpr --args random:0
      jaxprtool precision --top 5 --json train.py:loss --like batch --args ones
    """
    found = driver.precision_words(session.placed(file), args, **how)
    session.answer(found, as_json=as_json)

"""jaxprtool partial-eval."""

from __future__ import annotations

import click

from jaxprtool.cli.options.param_types import Positions
from jaxprtool.cli.options.shared import file_argument, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import partial_eval as driver
from jaxprtool.driver.words.arguments import Position


@verb("partial-eval")
@file_argument
@click.option(
    "--known",
    type=Positions(),
    required=True,
    metavar="I,J",
    help="The known arguments: positions of arrays, ranges (0-3), names (w1,b1; params, params.w).",
)
@output_option
def partial_eval(session: Session, file: str, known: tuple[Position, ...], output: str) -> None:
    """Split FILE by which of its arguments are known.

    The result holds two jaxprs: `known`, from the known arguments to the known results and the residuals, and
    `unknown`, from the residuals and the other arguments to the other results.

    \b
    Example:
      jaxprtool partial-eval --known 0,2 loss.jaxpr -o parts.jaxpr
      jaxprtool run parts.jaxpr#known --args random:0
      jaxprtool partial-eval --known params train.py:loss --like example_args
    """
    parts = driver.partial_eval(session.program(file), known)
    session.write("partial-eval", parts, output)

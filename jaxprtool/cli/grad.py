"""jaxprtool grad."""

from __future__ import annotations

import click

from jaxprtool.cli.options.param_types import Positions
from jaxprtool.cli.options.shared import file_argument, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import grad as driver
from jaxprtool.driver.words.arguments import Position


@verb("grad")
@file_argument
@click.option(
    "--wrt",
    type=Positions(),
    metavar="I,J",
    help="Arguments to differentiate by: positions of arrays, ranges (0-3), names (w1,b1; params, params.w). "
    "Default: the first argument, the whole pytree.",
)
@click.option("--value", is_flag=True, help="Put the value before the gradients.")
@output_option
def grad(
    session: Session, file: str, wrt: tuple[Position, ...] | None, value: bool, output: str
) -> None:
    """Gradient of a jaxpr whose one result is a real scalar.

    \b
    Example:
      jaxprtool grad --wrt 0,1 --value loss.jaxpr
      jaxprtool grad --wrt w1,b1 loss.jaxpr
      jaxprtool grad --wrt params train.py:loss --like example_args
    """
    session.write("grad", driver.grad(session.program(file), wrt, with_value=value), output)

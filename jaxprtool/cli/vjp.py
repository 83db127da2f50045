"""jaxprtool vjp."""

from __future__ import annotations

import click

from jaxprtool.cli.options.shared import file_argument, output_option, verb, wrt_option
from jaxprtool.cli.session import Session
from jaxprtool.driver import vjp as driver
from jaxprtool.driver.words.arguments import Position


@verb("vjp")
@file_argument
@wrt_option(
    "Arguments whose cotangents are wanted. Default: all that are not integers or booleans."
)
@click.option("--no-value", is_flag=True, help="Leave the value out of the results.")
@output_option
def vjp(
    session: Session, file: str, wrt: tuple[Position, ...] | None, no_value: bool, output: str
) -> None:
    """Reverse-mode derivative: from (a) -> (b) make (a, cotangents of b) -> (b, cotangents of a).

    \b
    Example:
      jaxprtool vjp layer.jaxpr
      jaxprtool vjp --wrt 1 --no-value layer.jaxpr
      jaxprtool vjp --wrt params train.py:layer --like example_args
    """
    result = driver.vjp(session.program(file), wrt, keep_outs=not no_value)
    session.write("vjp", result, output)

"""jaxprtool linearize."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.session import Session
from jaxprtool.driver import linearize as driver
from jaxprtool.driver.words.arguments import Position
from jaxprtool.ir.diagnostics import UsageError, fail


@options.verb("linearize")
@options.file_argument
@options.args_option
@options.wrt_option(
    "Arguments that have a tangent. Default: all that are not integers or booleans."
)
@click.option(
    "--residuals",
    is_flag=True,
    help="Print instead what `linear` needs of `primal`: origin, type and bytes of each residual.",
)
@options.output_option
@options.max_bytes_option
@options.step_limit_option
def linearize(
    session: Session,
    file: str,
    args: tuple[str, ...],
    wrt: tuple[Position, ...] | None,
    residuals: bool,
    output: str,
    **limits: Any,
) -> None:
    """Split the derivative of FILE, a linear function of tangents, from its value.

    The result holds two jaxprs: `primal`, from the arguments to the results and the residuals, and `linear`, from
    the residuals and the tangents to the tangents of the results. With --args, the point at which to linearize,
    it holds the linear one alone, its residuals as constants, below a comment with the values of the results.

    \b
    Example:
      jaxprtool linearize loss.jaxpr
      jaxprtool linearize loss.jaxpr --residuals
      jaxprtool linearize loss.jaxpr --args random:0 -o linear.jaxpr
      jaxprtool transpose --linear 0,1 linear.jaxpr
      jaxprtool linearize --residuals train.py:loss --like example_args
    """
    if residuals and args:
        fail(UsageError, "--residuals is for all points, and goes without --args", "usage")
    program = session.program(file)
    if residuals:
        found = driver.residuals(program, wrt)
        session.write_text(driver.residuals_table(found), output)
    elif not args:
        session.write("linearize", driver.linearize(program, wrt), output)
    else:
        at = driver.linearize_words(program, args, wrt, **limits)
        session.write("linearize", at.linear, output, header=driver.header(at))

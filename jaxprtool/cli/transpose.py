"""jaxprtool transpose."""

from __future__ import annotations

import click

from jaxprtool.cli.options.param_types import Positions
from jaxprtool.cli.options.shared import file_argument, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import transpose as driver
from jaxprtool.driver.words.arguments import Position


@verb("transpose")
@file_argument
@click.option(
    "--linear",
    type=Positions(),
    required=True,
    metavar="I,J",
    help="The arguments that FILE is linear in: positions of arrays, ranges (0-3), names (w1,b1; params, params.w).",
)
@output_option
def transpose(session: Session, file: str, linear: tuple[Position, ...], output: str) -> None:
    """Transpose: from (a, b) -> c, linear in b, make (a, cotangent of c) -> (cotangent of b).

    \b
    Example:
      jaxprtool transpose --linear 1 matvec.jaxpr
      jaxprtool transpose --linear x matvec.py:matvec --shape f32[3,3] \\
        --shape f32[3]
    """
    session.write("transpose", driver.transpose(session.program(file), linear), output)

"""jaxprtool lower."""

from __future__ import annotations

import click

from jaxprtool.analyses.memory.intermediates import check_memory
from jaxprtool.cli.options.param_types import Size
from jaxprtool.cli.options.shared import file_argument, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import lower as driver
from jaxprtool.driver.verify import prepared


@verb("lower")
@file_argument
@output_option
@click.option(
    "--max-bytes",
    type=Size(),
    metavar="N",
    help="Refuse programs that need more memory than this to run: 1000000, 512M, 2G. Any by default, since "
    "the text may be for another machine.",
)
def lower(session: Session, file: str, output: str, max_bytes: int | None) -> None:
    """Lower to StableHLO, and print its text.

    \b
    Example:
      jaxprtool lower loss.jaxpr -o loss.mlir
      jaxprtool lower train.py:step --like example_args
    """
    program = prepared(session.program(file))
    if max_bytes is not None:
        check_memory(program, max_bytes)
    session.write_text(str(driver.lower(program)), output)

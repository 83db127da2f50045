"""jaxprtool lower."""

from __future__ import annotations

from jaxprtool.cli.options import file_argument, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import lower as driver
from jaxprtool.driver.verify import prepared


@verb("lower")
@file_argument
@output_option
def lower(session: Session, file: str, output: str) -> None:
    """Lower to StableHLO, and print its text.

    \b
    Example:
      jaxprtool lower loss.jaxpr -o loss.mlir
      jaxprtool lower train.py:step --like example_args
    """
    session.write_text(str(driver.lower(prepared(session.program(file)))), output)

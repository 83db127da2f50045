"""jaxprtool discharge."""

from __future__ import annotations

from jaxprtool.cli.options.shared import file_argument, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import discharge as driver


@verb("discharge")
@file_argument
@output_option
def discharge(session: Session, file: str, output: str) -> None:
    """Remove references: the same program in pure form, which passes on what is in the cells.

    An argument that is a reference becomes what is in its cell, which comes out as a further result.

    \b
    Example:
      jaxprtool discharge counter.jaxpr | jaxprtool grad -
      jaxprtool discharge train.py:step --like example_args
    """
    session.write("discharge", driver.discharge(session.program(file)), output)

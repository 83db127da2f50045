"""jaxprtool jvp."""

from __future__ import annotations

from jaxprtool.cli.options.shared import file_argument, output_option, verb, wrt_option
from jaxprtool.cli.session import Session
from jaxprtool.driver import jvp as driver
from jaxprtool.driver.words.arguments import Position


@verb("jvp")
@file_argument
@wrt_option("Arguments that have a tangent. Default: all that are not integers or booleans.")
@output_option
def jvp(session: Session, file: str, wrt: tuple[Position, ...] | None, output: str) -> None:
    """Forward-mode derivative: from (a) -> (b) make (a, tangents of a) -> (b, tangents of b).

    \b
    Example:
      jaxprtool jvp loss.jaxpr
      jaxprtool jvp --wrt 0 loss.jaxpr | jaxprtool jvp -
      jaxprtool jvp --wrt params train.py:loss --like example_args
    """
    session.write("jvp", driver.jvp(session.program(file), wrt), output)

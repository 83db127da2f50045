"""jaxprtool compile."""

from __future__ import annotations

import click

from jaxprtool.analyses.memory import check_memory
from jaxprtool.cli.options import file_argument, max_bytes_option, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import compile as driver
from jaxprtool.driver.figures import figures
from jaxprtool.driver.progress import working
from jaxprtool.driver.verify import prepared


@verb("compile")
@file_argument
@output_option
@click.option("-q", "--quiet", is_flag=True, help="Do not print XLA's figures.")
@max_bytes_option
def compile(session: Session, file: str, output: str, quiet: bool, max_bytes: int) -> None:
    """Compile with XLA for this machine.

    Prints the optimised HLO, and on standard error XLA's figures for cost and memory. With -o it writes an
    artifact instead, which `jaxprtool run` loads; load only artifacts that you trust.

    \b
    Example:
      jaxprtool compile loss.jaxpr
      jaxprtool compile loss.jaxpr -o loss.bin
      jaxprtool run loss.bin --args random:0
      jaxprtool compile train.py:step --like example_args
    """
    program = prepared(session.program(file))
    check_memory(program, max_bytes)
    with working("compiling with XLA"):
        compiled = driver.compile(program)
    compiled.check_size(max_bytes)
    if output == "-":
        session.write_text(compiled.as_text(), "-")
    else:
        session.write_bytes(compiled.to_bytes(), output)
    if not quiet:
        click.echo("\n".join(figures(compiled)), err=True)

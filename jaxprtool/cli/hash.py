"""jaxprtool hash."""

from __future__ import annotations

import click

from jaxprtool.cli.options.shared import verb
from jaxprtool.cli.session import Session
from jaxprtool.driver.hash import hash_program
from jaxprtool.ir.printable import one_line


@verb("hash")
@click.argument("files", nargs=-1, metavar="[FILE]...")
def hash(session: Session, files: tuple[str, ...]) -> None:
    """Print a hash of the program of each FILE, and the file's name, a line each.

    Programs with the same structure have the same hash, in every process, release of JAX and release of jaxprtool, so that
    it can be the key of a cache. What enters: operations in their order, params (precision, shardings, donated arguments),
    types, weak types of arguments, values of literals and constants. What does not: names, lines of Python, scopes, comments,
    layout, and the release whose spelling a text has.

    \b
    Example:
      jaxprtool hash step.jaxpr
      jaxprtool hash jaxprs/*.jaxpr > hashes.txt
      jaxprtool hash train.py:step --like train.py:example_args
    """
    for file in files or ("-",):
        name = "<stdin>" if file == "-" else file
        session.echo_lines([f"{hash_program(session.program(file))}  {one_line(name)}"])

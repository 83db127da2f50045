"""jaxprtool check."""

from __future__ import annotations

import click

from jaxprtool.cli.options.shared import verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import check as driver
from jaxprtool.ir.diagnostics import JaxprToolError


@verb("check")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--allow-unknown", is_flag=True, help="Take primitives that nobody declared at their word."
)
@click.option("-q", "--quiet", is_flag=True, help="Do not print the types.")
def check(session: Session, files: tuple[str, ...], allow_unknown: bool, quiet: bool) -> None:
    """Type-check the jaxprs of FILEs and print their types; report every error with its position.

    The type is that of what `run` takes and gives: constants that the file has no values for are arguments, the others
    are listed apart.

    Exit status: 0 well-typed, 1 ill-typed, 2 not readable (of several files, the greatest).

    \b
    Example:
      jaxprtool check loss.jaxpr
      jaxprtool check examples/*.jaxpr
      jaxprtool check train.py:loss --like example_args
      jaxprtool check --error-format github --quiet loss.jaxpr
    """
    files = files or ("-",)
    errors: list[JaxprToolError] = []
    for file in files:
        try:
            types = driver.check(
                lambda file=file: session.programs(file), allow_unknown=allow_unknown
            )
        except JaxprToolError as e:
            errors.append(e)
            continue
        if not quiet:
            session.echo_lines(driver.lines(types, file if len(files) > 1 else ""))
    if errors:
        raise driver.joined(errors)

"""jaxprtool upgrade."""

from __future__ import annotations

import click

from jaxprtool.cli.options.shared import file_argument, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import upgrade as driver
from jaxprtool.driver.storage.files import split_selector
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.driver.verify import check_input
from jaxprtool.ir.diagnostics import JaxprParseError, ScopeError


@verb("upgrade")
@file_argument
@output_option
@click.option(
    "--report",
    is_flag=True,
    help="Print what is changed, line by line, which releases print the old text, and what it does not hold. "
    "The new text is then written with -o only.",
)
@click.option("--json", "as_json", is_flag=True, help="The report as a JSON document.")
@click.option(
    "--dialect",
    default="",
    metavar="jax-RELEASE",
    help="The release of JAX to write for; that of the installed JAX by default, else the newest.",
)
def upgrade(
    session: Session, file: str, output: str, report: bool, as_json: bool, dialect: str
) -> None:
    """Write FILE, the print of any release of JAX, in the vocabulary of the current one.

    Primitives and params get the names and the values that they have now, literals and binders get
    types. For an earlier release, what came later is written with what it had. The exit status is 0 also where something changes; `fmt --check` has status 1 then.

    \b
    Example:
      jaxprtool upgrade old.jaxpr -o new.jaxpr
      jaxprtool upgrade old.jaxpr -o new.jaxpr --report
      jaxprtool upgrade old.jaxpr --report --json --dialect jax-0.12
      jaxprtool upgrade untyped.jaxpr --shape f32[3] -o typed.jaxpr
    """
    path, selector = (file, "") if is_function(file) else split_selector(file)
    dialect = driver.target(dialect)
    text, name = session.read(path)
    try:
        programs = session.load(text, name, selector)
    except ScopeError as e:  # as of any text that cannot be read: 1 would be an answer
        raise JaxprParseError(e.diagnostics) from e
    programs, notes = driver.written_for(programs, dialect)
    if report or as_json:
        found = driver.report(text, name, programs, dialect)
        session.echo_lines([found.document()] if as_json else found.lines())
    else:
        session.tell(*notes)
    if output != "-" or not (report or as_json):
        if session.verify:  # what is ill-typed in the old text is so in the new one
            for program in programs.values():
                check_input(program)
        session.write("upgrade", programs, output, dialect=dialect)

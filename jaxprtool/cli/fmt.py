"""jaxprtool fmt."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options.layout import layout_options, read_log, refuse_together
from jaxprtool.cli.options.shared import output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import fmt as driver
from jaxprtool.driver.storage.files import split_selector
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.printable import one_line


@verb("fmt")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@output_option
@click.option("-i", "--in-place", is_flag=True, help="Write the files back, where they change.")
@click.option(
    "--check", is_flag=True, help="Write nothing; exit status 1 when a file would change."
)
@click.option("--from-log", is_flag=True, help="FILE is a log: lay out the jaxprs among its lines.")
@layout_options
def fmt(
    session: Session,
    files: tuple[str, ...],
    output: str,
    in_place: bool,
    check: bool,
    from_log: bool,
    **layout: Any,
) -> None:
    """Reformat FILEs. Names and comments stay.

    \b
    Example:
      jaxprtool fmt -i examples/*.jaxpr
      jaxprtool fmt --check loss.jaxpr
      jaxprtool fmt parts.jaxpr#known -o known.jaxpr
      jaxprtool fmt --no-source --no-names loss.jaxpr
      jaxprtool fmt --dialect jax-0.12 loss.jaxpr
      jaxprtool fmt --style autodidax loss.jaxpr
      jaxprtool fmt --from-log train.log | jaxprtool check -
      jaxprtool fmt --style autodidax train.py:loss --shape f32[3]
    """
    files = files or ("-",)
    refuse_together(files, output, in_place, check, from_log)
    for file in files:
        path, selector = (file, "") if is_function(file) else split_selector(file)
        source = session.tracing.get("source") is not False
        read = read_log(session, path) if from_log else session.read(path)
        done = driver.fmt(*read, selector=selector, source=source, **layout)
        session.tell(*done.notes)
        if done.loses:
            message = f"the {layout['style']} notation has no place for all that {file} holds"
            if in_place:
                fail(UsageError, message, "not-in-style", help="write to another file with -o")
            session.warn(message, "not-in-style")
        if check and done.changed:
            session.exit_code = 1
            click.echo(f"would reformat {one_line('<stdin>' if file == '-' else file)}", err=True)
        elif in_place and done.changed:
            session.write_text(done.text, path, in_place=True)
        elif not check and not in_place and output != "-":
            driver.write(done, path, output, session.allowed)
        elif not check and not in_place:
            session.write_text(done.text, output)

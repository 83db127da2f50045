"""jaxprtool grep."""

from __future__ import annotations

import os

import click

from jaxprtool.cli.options.shared import json_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import asking as driver
from jaxprtool.driver.places import with_places
from jaxprtool.ir.diagnostics import UsageError, fail


@verb("grep")
@click.argument("words", nargs=-1, metavar="PATTERN [FILE]...")
@click.option("-e", "--expression", "pattern", metavar="PATTERN", help="The pattern.")
@click.option("-c", "--count", "only_count", is_flag=True, help="Print numbers alone.")
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", help="At most so many of each FILE."
)
@json_option
def grep(
    session: Session,
    words: tuple[str, ...],
    pattern: str | None,
    only_count: bool,
    top: int | None,
    as_json: bool,
) -> None:
    """Print the equations of each FILE that match PATTERN, in nested jaxprs too; status 1 where there are none.

    A line is `file:line:column: equation`, with its path if it is in a nested jaxpr, and the line of Python and scope. What a pattern says is on the
    page of `jaxprtool assert --help`; the type of values (`f64`, `bf16[_, 128]`) is a pattern, too.

    JSON: {"schema", "pattern", "count", "programs": [{"program", "count", "matches": [{"place", "times", "text",
    "located"}]}], "warnings"}.

    \b
    Example:
      jaxprtool grep cond step.jaxpr
      jaxprtool grep 'dot_general _:f32[_, 4096] {scope ~ "attn"}' step.jaxpr
      jaxprtool grep 'name[name=query_proj]' train.py:loss --like batch
      jaxprtool grep -c f64 jaxprs/*.jaxpr
    """
    if pattern is None:
        if not words:
            message = "there is nothing to look for: no pattern is given"
            fail(UsageError, message, "usage", help="for example: grep dot_general step.jaxpr")
        pattern, words = words[0], words[1:]
        if os.path.isfile(pattern):
            message = f"{pattern} is a file, and the pattern comes first"
            fail(
                UsageError,
                message,
                "usage",
                help=f"grep PATTERN {pattern}, or grep -e PATTERN {pattern}",
            )
    programs = [
        (f"{file}#{name}" if name else file, with_places(program, file))
        for file in words or ("-",)
        for name, program in session.programs(file).items()
    ]
    found = driver.grep(pattern, programs, top=top, only_count=only_count)
    session.tell(*driver.warnings_of(pattern, found.warnings))
    session.exit_code = 0 if found else 1
    if found or only_count or as_json:
        session.answer(found, as_json=as_json)

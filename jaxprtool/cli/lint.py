"""jaxprtool lint."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from jaxprtool import driver as drivers
from jaxprtool.cli.options.lint import lint_options, refuse_to_write, show
from jaxprtool.cli.options.shared import json_option, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import lint as driver
from jaxprtool.driver.check import joined
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.linter.answer import Lint, Linted


@verb("lint")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@output_option
@lint_options
@json_option
def lint(
    session: Session,
    files: tuple[str, ...],
    output: str,
    fix: bool,
    as_json: bool,
    sarif: bool,
    **how: Any,
) -> None:
    """Find likely mistakes in well-typed jaxprs of FILEs.

    `jaxprtool explain` lists the rules, `jaxprtool explain CODE` describes one. A comment `# jaxpr:
    ignore=CODE` on the line of an equation, or above it, suppresses a rule there; above the program
    `# jaxpr: ignore-file=CODE` does so for the file. --fix applies the passes that mend findings,
    and writes the result to FILE, or to -o. --error-format github writes annotations.

    JSON: {"schema", "findings": [{"code", "family", "message", "help", "program", "place",
    "related": [place], "fix"}], "counts": {code: number}, "ignored", "fixed": {code: number} or
    null}; "fix" names the passes that mend it, or is null.

    Exit status: 0 nothing found, 1 something found (of an ill-typed program too), 2 not readable.

    \b
    Example:
      jaxprtool lint loss.jaxpr
      jaxprtool lint train.py:step --like batch --carry '[0]:params'
      jaxprtool lint --select key-reuse,numerics examples/*.jaxpr
      jaxprtool lint --fix step.jaxpr -o mended.jaxpr
    """
    files = files or ("-",)
    refuse_to_write(files, output, fix, as_json, sarif)
    found: list[Linted] = []
    errors: list[JaxprToolError] = []
    mended: Counter[str] = Counter()
    for file in files:
        try:
            programs = session.programs(file)
            answer = driver.lint(programs, file, **how)
            if fix:
                before, path = answer.counts, file if output == "-" else output
                done = drivers.fix.fixed(programs, answer)
                if done.changed or output != "-":
                    session.write("lint", done.programs, path)
                    answer = driver.lint(session.programs(path), path, **how)
                    mended += before - answer.counts
            found += answer.programs
        except JaxprToolError as e:
            errors.append(e)
    if found or not errors:
        answer = Lint(found, mended if fix else None)
        show(session, answer, as_json, sarif)
        session.exit_code = 0 if answer.is_clean else 1
    if errors:
        raise joined(errors)

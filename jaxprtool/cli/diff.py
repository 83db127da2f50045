"""jaxprtool diff."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options.diff import counting_options, show, showing_options
from jaxprtool.cli.options.shared import json_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import diff as driver
from jaxprtool.driver.projects.diff_folders import are_folders, diff_folders
from jaxprtool.driver.storage.files import STDIN


@verb("diff")
@click.argument("a")
@click.argument("b", default="-", metavar="[B]")
@counting_options
@showing_options
@json_option
def diff(
    session: Session,
    a: str,
    b: str,
    context: int,
    ignore: tuple[str, ...],
    rtol: float | None,
    atol: float | None,
    **how: Any,
) -> None:
    """Compare A and B up to names, layout and dialect: a summary, then a unified diff with the names and line numbers of both.

    Names of arguments and the trees that they form are not compared. Numbers in literals
    and constants are compared as numbers of their type.

    Equations are aligned by what they compute; those that are the same elsewhere are marked as
    moved. A note after `#` says what the results of an equal line are called in B, where they have
    another name there. Of two folders, the .jaxpr files with equal names are compared, a line each.
    Exit status: 0 equal, 1 different, 2 not readable.

    JSON: {"schema", "equal", "summary", "changes": [{"kind": "added", "removed", "changed" or
    "moved", "a", "b", "moved"}], "constants": [{"a", "b", "different", "size", "max"}], "lines"},
    where a and b are the places of equations and the names of constants, or null; a changed one may
    have moved, too. Of folders {"schema", "equal", "summary", "files": [{"name", "kind": "equal",
    "added", "removed", "changed" or "unreadable", "summary", "changes", "constants"}]}.

    \b
    Example:
      jaxprtool diff before.jaxpr after.jaxpr
      jaxprtool diff --stat before.jaxpr after.jaxpr
      jaxprtool grad loss.jaxpr | jaxprtool diff golden.jaxpr -
      jaxprtool diff golden.jaxpr train.py:loss --like example_args
      jaxprtool diff old.py:loss new.py:loss --shape f32[3]
      jaxprtool diff --ignore order --rtol 1e-6 before.jaxpr after.jaxpr
      jaxprtool diff --html changes.html jaxprs/ /tmp/jaxprs/
    """
    counted: dict[str, Any] = {"ignore": ignore, "rtol": rtol, "atol": atol, "context": context}
    if are_folders(a, b):
        found: Any = diff_folders(a, b, session.programs, **counted)
    else:
        names = [STDIN if x == "-" else x for x in (a, b)]
        found = driver.diff(session.programs(a), session.programs(b), *names, **counted)
    session.exit_code = found.status
    show(session, found, **how)

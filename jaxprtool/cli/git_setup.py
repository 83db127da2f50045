"""jaxprtool git-setup."""

from __future__ import annotations

import os
import sys

import click

from jaxprtool.cli.options.shared import verb
from jaxprtool.cli.report import color_diff, colored
from jaxprtool.cli.session import Session
from jaxprtool.driver.projects import git as driver
from jaxprtool.ir.diagnostics import UsageError, fail

_TAKES = {"diff": (7, 9), "merge": (4,), "text": (1,)}  # the numbers of words that git passes


@verb("git-setup")
@click.argument("asked", nargs=-1, metavar="", type=click.UNPROCESSED)
@click.option("--undo", is_flag=True, help="Take everything back.")
def git_setup(session: Session, asked: tuple[str, ...], undo: bool) -> None:
    """Let git compare and merge .jaxpr files as programs, in the repository of this folder.

    It adds a line to .gitattributes, which is for all who have the repository, and settings to its own configuration, which each
    clone makes for itself by this command. Then `git diff` shows what `jaxprtool diff` shows, `git log -p` and `git show` compare
    files in one layout, and a merge takes each program of a file from the side that has changed it; where both have, lines
    are merged, and the result is taken if it is well-typed.

    What git runs is this verb too, with words of git's: diff, merge and text.

    \b
    Example:
      jaxprtool git-setup
      git diff main -- jaxprs/
      jaxprtool git-setup --undo
    """
    if not asked:
        session.echo_lines((driver.take_back if undo else driver.set_up)() or ["nothing to do"])
        return
    what, *words = asked
    if undo or len(words) not in _TAKES.get(what, ()):
        message = f"git-setup takes no words, and got {' '.join(asked)}"
        fail(UsageError, message, "usage", help="diff, merge and text are for git to call")
    if what == "text":
        session.write_text(driver.laid_out(words[0]), "-")
    elif what == "merge":
        base, ours, theirs, path = words
        session.exit_code = 0 if driver.merge(base, ours, theirs, path) else 1
    else:
        path, old, new = words[0], words[1], words[4]
        shown = os.environ.get("GIT_PAGER_IN_USE") and not os.environ.get("NO_COLOR")
        paint = color_diff if shown or colored(sys.stdout) else None
        session.echo_lines(driver.difference(path, old, new), paint)

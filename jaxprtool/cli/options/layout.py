"""Options of `fmt`: the layout of a program, which options exclude each other, and reading of
logs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from jaxprtool.cli.session import Session
from jaxprtool.driver.storage.files import STDIN, split_selector
from jaxprtool.driver.storage.logs import jaxprs_of_log
from jaxprtool.driver.user_code.loading import is_function
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.printable import one_line

__all__ = ["layout_options", "read_log", "refuse_together"]

F = TypeVar("F", bound=Callable[..., Any])


def layout_options(f: F) -> F:
    """Add the options that `driver.fmt` takes as keywords: the notation, and what is kept beside
    equations.
    """
    style = click.Choice(["jax", "autodidax"])
    for option in (
        click.option(
            "--trees/--no-trees",
            default=True,
            help="Whether the names and trees of arguments and results below a program stay, `args (x=*) -> *`.",
        ),
        click.option(
            "--names/--no-names",
            default=True,
            help="Whether names beside equations stay, `# [jvp(layer)]`.",
        ),
        click.option(
            "--dialect",
            default="",
            metavar="jax-RELEASE",
            help="The release of JAX whose print is written, `jax-0.10.2`; else that of the file.",
        ),
        click.option("--style", type=style, default="jax", show_default=True),
    ):
        f = option(f)
    return f


def refuse_together(
    files: Sequence[str], output: str, in_place: bool, check: bool, from_log: bool
) -> None:
    """Raise UsageError for options of `fmt` that exclude each other, or do not fit the files."""
    functions = any(map(is_function, files))
    paths = [split_selector(file)[0] for file in files]
    if in_place and (not {"-", STDIN}.isdisjoint(paths) or functions or output != "-" or check):
        fail(UsageError, "-i needs files, and goes with neither -o nor --check", "usage")
    if output != "-" and len(files) > 1:
        fail(UsageError, f"-o {output}: {len(files)} files are given, and one is needed", "usage")
    if from_log and (in_place or check or functions):
        message = "--from-log needs a log, and goes with neither -i nor --check"
        fail(UsageError, message, "usage", help="-o OUT writes the jaxprs to a file")
    for file in files if in_place or check else ():
        selector = "" if is_function(file) else split_selector(file)[1]
        if selector:
            message = f"-i and --check are for whole files, and {one_line(file)} is a part of one"
            fail(UsageError, message, "usage", help=f"leave out #{one_line(selector)}")


def read_log(session: Session, path: str) -> tuple[str, str]:
    """Return the text of the jaxprs in a log, and its name; warn of those that cannot be read."""
    text, name = session.read(path)
    found, unread = jaxprs_of_log(text, name)
    session.tell(*unread)
    return found, name

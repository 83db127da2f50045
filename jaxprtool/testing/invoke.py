"""Runs a command line of jaxprtool in this process."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

from jaxprtool.cli.main import run_verb
from jaxprtool.cli.report import format_from
from jaxprtool.cli.session import Session

__all__ = ["Done", "invoke"]


class Done(NamedTuple):
    """The result of a command."""

    status: int
    output: str
    error: str


def invoke(argv: str | Sequence[str], stdin: str | bytes = "") -> Done:
    """Run `jaxprtool ARGV`; every program that a transformation gives is type-checked.

    Args:
      argv: the arguments after `jaxprtool`, as a list or as one shell-quoted line.
      stdin: standard input.
    """
    words = shlex.split(argv) if isinstance(argv, str) else list(argv)
    data = stdin.encode() if isinstance(stdin, str) else stdin
    output, error = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    session = Session(error_format=format_from(words), verify=True)
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), "utf-8")
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
            status = run_verb(words, session)
    finally:
        sys.stdin = before
    output.flush()
    text = output.buffer.getvalue().decode()  # type: ignore[attr-defined]
    return Done(status, text, error.getvalue())

"""Messages and exit status: writing diagnostics, and reporting bugs of this tool."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

import jaxprtool
from jaxprtool.cli.render import BOLD, CYAN, GREEN, colored, fault_document, paint, render
from jaxprtool.cli.session import Session
from jaxprtool.driver.progress import stop_showing
from jaxprtool.driver.user_code.plugins import plugin_at_work
from jaxprtool.interpreters.evaluation.limits import running_loops, where
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError, UsageError
from jaxprtool.ir.printable import printable
from jaxprtool.ir.synonyms import OPTIONS, meant
from jaxprtool.syntax.patterns import pattern

__all__ = ["broken_pipe", "color_diff", "colored", "format_from", "render", "report"]

_EXTRA_TYPE = pattern(r"extra argument.*\w\[")
MOST = 50  # the largest number of diagnostics written as text; others are only counted


def format_from(argv: Sequence[str]) -> str:
    """Return the value of `--error-format` in a command line that has not been parsed yet."""
    for i, word in enumerate(argv):
        if word.startswith("--error-format"):
            value = word.partition("=")[2] or (argv[i + 1] if i + 1 < len(argv) else "")
            return value if value in ("json", "github") else "text"
    return "text"


def report(error: BaseException, session: Session, argv: Sequence[str]) -> int:
    """Write a message for an exception to standard error; return the exit status."""
    if session.interrupted:  # an exception in a thread while the process ends
        return 130
    if isinstance(error, JaxprToolError):
        return _fault(error.diagnostics, session, error.exit_code)
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        return _fault([_usage(error)], session)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return _interrupted(session)
    if isinstance(error, BrokenPipeError):
        return broken_pipe()
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).lower()
        return _fault([Diagnostic(f"cannot read or write: {reason}", "io")], session)
    if isinstance(error, MemoryError):
        found = Diagnostic("out of memory", "out-of-memory", help="lower --max-bytes")
        return _fault([found], session)
    if isinstance(error, RecursionError):
        return _fault([Diagnostic("the program is nested too deeply", "too-deep")], session)
    own = plugin_at_work(error)
    if own is not None:
        return _fault([_of_plugin(error, own)], session)
    return _internal(error, session, argv)


_CLEAN_LINE = "\r\x1b[K"  # removes the `^C` that a terminal shows


def _interrupted(session: Session) -> int:
    """Write that the command was interrupted, and where, on a separate line; return the exit
    status.
    """
    place, loops = printable(where()), running_loops()
    stop_showing()
    rescued = session.end()
    message = f"interrupted {place}".rstrip() + (f"; {printable(rescued)}" if rescued else "")
    if session.error_format != "text":
        _write([Diagnostic(message, "interrupted")], session)
        return 130
    stream = session.stderr or sys.stderr
    clean = _CLEAN_LINE if stream.isatty() else ""
    endless = any(loop.total is None for loop in loops)
    help = "\n  help: --step-limit N stops a loop that takes more steps" if endless else ""
    stream.write(f"{clean}{message}{help}\n")
    return 130


def _fault(diagnostics: Sequence[Diagnostic], session: Session, status: int = 2) -> int:
    """Write the diagnostics of a verb that fails, with --json also as its document; return the exit
    status.
    """
    _write(diagnostics, session)
    if session.as_json and not session.printed:
        with contextlib.suppress(OSError, UsageError):  # no reader; standard error has the messages
            session.echo_lines([fault_document(diagnostics)])
    return status


def _write(diagnostics: Sequence[Diagnostic], session: Session) -> None:
    stream = session.stderr or sys.stderr
    color = session.error_format == "text" and colored(stream)
    text = session.error_format == "text"
    shown = diagnostics[:MOST] if text else diagnostics
    lines = [render(d, session.error_format, color) for d in shown]
    if text and len(diagnostics) > 1:
        more = f", the first {MOST} are shown" if len(diagnostics) > MOST else ""
        lines.append(f"{len(diagnostics)} errors{more}")
    stream.write("\n".join(lines) + "\n")


def _usage(error: click.ClickException) -> Diagnostic:
    message = error.format_message().rstrip(".")
    help = ""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and (ours := _option_meant(error)):
        message = f"no such option {error.option_name!r}. Did you mean {ours!r}?"
    if context is not None:
        help = f"`{context.command_path} --help` lists the options"
        if _EXTRA_TYPE.search(message):
            help = "the types of several arguments are given as --shape A --shape B"
    return Diagnostic(message[:1].lower() + message[1:], "usage", help=help)


def _option_meant(error: click.NoSuchOption) -> str:
    """Return the option of the command that a user meant by its name in JAX or elsewhere, or ""."""
    ours = f"--{meant(error.option_name, OPTIONS)}"
    command = error.ctx.command if error.ctx is not None else None
    known = () if command is None else (name for p in command.params for name in p.opts)
    return ours if ours in known else ""


def color_diff(lines: Sequence[str]) -> list[str]:
    """Return the lines of a unified diff in the usual colours."""
    codes = {"-": "\x1b[31m", "+": GREEN, "@": CYAN}
    return [
        paint(x, BOLD if x[:3] in ("---", "+++") else codes.get(x[0], ""), x[:1] in codes)
        for x in lines
    ]


def broken_pipe() -> int:
    """Return the exit status for a broken pipe, and redirect standard output so that Python reports
    nothing.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 141


def _of_plugin(error: BaseException, frame: traceback.FrameSummary) -> Diagnostic:
    """Return the diagnostic for an exception raised in a rule or pass of a plug-in."""
    if os.environ.get("JAXPRTOOL_TRACEBACK"):
        traceback.print_exception(error)
    place = f"{os.path.relpath(frame.filename)}:{frame.lineno} ({frame.name})"
    message = f"a plug-in raised {type(error).__name__}: {error}".rstrip(": ")
    help = "mend it at that line; JAXPRTOOL_TRACEBACK=1 shows how it was reached"
    return Diagnostic(message, "plugin-failed", where=place, help=help)


def _internal(error: BaseException, session: Session, argv: Sequence[str]) -> int:
    """Write a message for a bug of this tool, with what to report and where the inputs are
    saved.
    """
    if os.environ.get("JAXPRTOOL_TRACEBACK"):
        traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    what = f"{type(error).__name__}{place}: {error}".rstrip(": ")
    saved = _save_inputs(session)
    version = f"{jaxprtool.__version__}, Python {sys.version.split()[0]}"
    help = [
        f"this is a fault of jaxprtool {version}; please report it,",
        f"with the command: jaxprtool {' '.join(argv)}",
        *(f"and its input, saved as {path}" for path in saved),
        "JAXPRTOOL_TRACEBACK=1 shows where it happened",
    ]
    found = Diagnostic(f"internal error: {what}", "internal", help="\n        ".join(help))
    return _fault([found], session, 3)


def _save_inputs(session: Session) -> list[str]:
    import tempfile  # noqa: PLC0415 (9 ms, and only for a fault of ours)

    paths: list[str] = []
    for text in session.inputs.values():
        try:
            handle, path = tempfile.mkstemp(prefix="jaxprtool-input-", suffix=".jaxpr")
            with os.fdopen(handle, "w", encoding="utf-8") as f:
                f.write(text)
        except OSError:
            continue
        paths.append(path)
    return paths

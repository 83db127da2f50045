"""Run the command of a bundle in a process of its own, and compare the outcomes."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jaxprtool
from jaxprtool.driver.bundles.bundle import ARGS, PROGRAM
from jaxprtool.driver.bundles.commands import command_words
from jaxprtool.driver.running.children import ended, started
from jaxprtool.driver.words.numbers import check_not_negative

__all__ = ["Outcome", "executed", "happens", "platform_of_here", "versions_of_here"]

TIME_LIMIT = 600.0
_PACKAGES = ("numpy", "scipy", "ml_dtypes", "jax", "jaxlib")
_MOST_OUTPUT = 1 << 22  # characters of the output to keep
# Only plug-ins of this package: what is installed on this machine is no part of a bundle.
_MAIN = (
    "from jaxprtool.driver.user_code.entry_points import only_built_in; only_built_in(); "
    "from jaxprtool.cli.entry import main; main()"
)


class Outcome(NamedTuple):
    """How a command ended.

    Attributes:
      status: its exit status, negative for a signal; None where it ran out of time.
      output: what it wrote to standard output, without what changes from run to run.
      messages: the same for standard error.
    """

    status: int | None
    output: str
    messages: str


def versions_of_here() -> dict[str, str]:
    """Return the versions of the packages that compute; none for a missing package."""
    found = {"jaxprtool": jaxprtool.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def platform_of_here() -> dict[str, str]:
    """Return a description of the machine: its system, its processor, the build of Python."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "implementation": platform.python_implementation(),
        "libc": " ".join(platform.libc_ver()).strip(),
    }


def executed(
    verb: str,
    options: Sequence[Sequence[str]],
    program: str,
    args: bytes,
    limit: float = TIME_LIMIT,
) -> Outcome:
    """Run a command on a program in a temporary folder, which is removed.

    Args:
      verb, options: a command that `checked_command` accepts.
      program: the text of the program.
      args: the bytes of the file of its arguments; empty where there are none.
      limit: the seconds that it may take.

    Raises:
      UsageError: the limit is no number >= 0.
    """
    check_not_negative(limit=limit)
    with tempfile.TemporaryDirectory(prefix="jaxprtool-repro-") as folder:
        Path(folder, PROGRAM).write_text(program, encoding="utf-8")
        if args:
            Path(folder, ARGS).write_bytes(args)
        words = command_words(verb, options, PROGRAM, ARGS if args else None)
        python = [sys.executable, "-P", "-c", _MAIN]
        done = ended(started([*python, *words], _environment(folder), folder), limit)
    return Outcome(done.status, _plain(done.output, folder), _plain(done.messages, folder))


def _environment(folder: str) -> dict[str, str]:
    """Return this process's environment, with this package, and without variables that change what
    is written, or where.
    """
    here = str(Path(jaxprtool.__file__).parent.parent)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("JAXPRTOOL_")}
    paths = [here, *filter(None, inherited.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "TMPDIR": folder,
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }


_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_SECONDS = re.compile(r'("seconds": )[\d.e+-]+|\b\d+(?:\.\d+)? s\b')
_TEMPORARY = re.compile(r"jaxprtool-[\w-]*[0-9a-z_]{8}(?=[./])")


def _plain(data: bytes | None, folder: str) -> str:
    """Return the output of a process without addresses, times and the temporary folder."""
    text = (data or b"").decode(errors="replace")[:_MOST_OUTPUT]
    text = text.replace(os.path.realpath(folder) + os.sep, "").replace(folder + os.sep, "")
    text = _TEMPORARY.sub("jaxprtool-TEMPORARY", _ADDRESS.sub("0xADDRESS", text))
    return _SECONDS.sub(lambda m: f"{m[1] or ''}0", text)


_FLOAT = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")
_LOG = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n?", re.MULTILINE)  # lines of XLA's own log
_VERSIONS = re.compile(r"jaxprtool \d[\w.]*, Python \d[\w.]*")


def happens(before: Outcome, now: Outcome, *, measured: bool = False) -> bool:
    """Whether a command ends as before: the same status, output and messages, apart from the last digits of floats.

    The position and versions in the message of an internal error may change. For a command that
    measures times and succeeds, only the status counts.
    """
    if before.status != now.status:
        return False
    if before.status is None or (measured and before.status == 0):
        return True
    return _rounded(before.output) == _rounded(now.output) and _told(before) == _told(now)


def _told(outcome: Outcome) -> str:
    text = _LOG.sub("", _VERSIONS.sub("jaxprtool", outcome.messages))
    text = re.sub(r" at \w+\.py:\d+", "", text)
    return _rounded(text)


def _rounded(text: str) -> str:
    """Return a text with its floats rounded to four digits."""
    lines = _FLOAT.sub(lambda m: f"{float(m[0]):.3e}", text).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)

"""Processes that are started, waited for, and killed with all their children when the time is up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["Ended", "end", "ended", "started"]


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
      status: its exit status, negative for a signal; None where its time was up.
      output: what it wrote to standard output until then.
      messages: the same for standard error; empty where both are one.
    """

    status: int | None
    output: bytes
    messages: bytes


def started(
    words: Sequence[str], env: Mapping[str, str], cwd: str | None = None, *, merged: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own, with nothing to read; `ended` waits for it.

    Args:
      words: the command.
      env: its environment.
      cwd: the folder in which it runs; that of this process by default.
      merged: whether it writes messages to standard output, too.

    Raises:
      OSError: it cannot be run.
    """
    return subprocess.Popen(
        words,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        process_group=0,
    )


def ended(process: subprocess.Popen[bytes], limit: float | None) -> Ended:
    """Wait until a process has ended; past the limit, in seconds, it is killed with all its
    children, which may keep its output open.
    """
    try:
        output, messages = process.communicate(timeout=limit)
        return Ended(process.returncode, output or b"", messages or b"")
    except subprocess.TimeoutExpired as e:
        return Ended(None, e.stdout or b"", e.stderr or b"")
    finally:
        end(process)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)

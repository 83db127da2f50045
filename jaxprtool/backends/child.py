"""Work in a process of its own, for what may end the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

__all__ = ["signal_of"]


def signal_of(script: str, data: str, *words: str) -> str | None:
    """The name of the signal that ends a script of Python; None where it ends by itself, even if it fails.

    Args:
      script: the program.
      data: its standard input.
      words: its arguments.
    """
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        input=data.encode(),
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return _name(-done.returncode) if done.returncode < 0 else None


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

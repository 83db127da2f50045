"""The entry point of the command.

An interrupt while modules are loaded is reported in the same way as a later one.
"""

from __future__ import annotations

import gc
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

__all__ = ["main"]


def main() -> None:
    """Load the command line, and run it.

    Garbage is collected less often than by default: a run is short, and most of its objects live
    until its end. Collecting would take a seventh of a start, and half of the time of a large
    program.
    """
    gc.set_threshold(100_000, 20, 20)
    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # it may be ignored
    if default:
        signal.signal(signal.SIGINT, _interrupted)
    command = import_module("jaxprtool.cli.main")
    if default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command.main()


def _interrupted(*_: Any) -> NoReturn:
    sys.stderr.write("interrupted\n")
    raise SystemExit(130)

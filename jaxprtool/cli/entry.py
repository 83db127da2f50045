"""The entry point of the command: an interrupt while its modules are loaded is told as a later one is."""

from __future__ import annotations

import gc
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

__all__ = ["main"]


def main() -> None:
    """Load the command line, and run it.

    A run is short, and its modules and programs are many small objects that live to its end: to look for garbage among
    them would take a seventh of a start, and half of the time of a large program.
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

"""The entry point of the command: an interrupt while its modules are loaded is told as a later one is."""

from __future__ import annotations

import signal
import sys
from typing import Any, NoReturn

__all__ = ["main"]


def main() -> None:
    """Load the command line, and run it."""
    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # it may be ignored
    if default:
        signal.signal(signal.SIGINT, _interrupted)
    from jaxprtool.cli import main as command  # noqa: PLC0415 (gateway: an interrupt is expected)

    if default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command.main()


def _interrupted(*_: Any) -> NoReturn:
    sys.stderr.write("interrupted\n")
    raise SystemExit(130)

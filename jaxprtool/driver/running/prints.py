"""Where the output of a program goes while its results are used for something else."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from jaxprtool.core.stack import wanted
from jaxprtool.ir.printable import PrintableStream

__all__ = ["printing_aside", "silent", "streams_restored"]


def printing_aside() -> redirect_stdout[Any]:
    """Send what a program prints inside the block to standard error, with control characters escaped."""
    return redirect_stdout(PrintableStream(sys.stderr))


@contextmanager
def silent() -> Generator[None]:
    """Hide what a program prints, and its warnings, inside the block, where it may run a thousand times.

    A thread that nobody waits for any more (`run_until`) leaves what has been restored.
    """
    with open(os.devnull, "w") as nowhere:
        hidden = ExitStack()
        with wanted():
            hidden.enter_context(redirect_stdout(nowhere))
            hidden.enter_context(redirect_stderr(nowhere))
            hidden.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        try:
            yield
        finally:
            with wanted():
                hidden.close()


@contextmanager
def streams_restored() -> Generator[None]:
    """Restore standard output, standard error and the handling of warnings at the end of the block,
    which a thread that still runs may have replaced.
    """
    streams = sys.stdout, sys.stderr
    with warnings.catch_warnings():
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams

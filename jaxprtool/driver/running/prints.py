"""Where the output of a program goes while its results are used for something else."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from jaxprtool.ir.printable import PrintableStream

__all__ = ["printing_aside", "silent"]


def printing_aside() -> redirect_stdout[Any]:
    """Send what a program prints inside the block to standard error, with control characters escaped."""
    return redirect_stdout(PrintableStream(sys.stderr))


@contextmanager
def silent() -> Generator[None]:
    """Hide what a program prints, and its warnings, inside the block, where it may run a thousand times."""
    with (
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield

"""Where goes what a program prints, when its results are for something else than to be shown."""

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
    """Inside the block what a program prints goes to standard error, which has its control characters escaped."""
    return redirect_stdout(PrintableStream(sys.stderr))


@contextmanager
def silent() -> Generator[None]:
    """Inside the block nothing is shown: neither what a program prints nor what it warns of, a thousand times."""
    with (
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield

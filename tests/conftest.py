"""Options of the test run."""

from __future__ import annotations

import os

import pytest

from jaxprtool.interpreters.check import set_verify

# XLA's threads call OpenBLAS for linear algebra. With threads of its own it can then wait for ever
# (seen with a QR decomposition for each of several derivatives). It reads this when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
set_verify(True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-cases",
        action="store_true",
        help="rewrite what the files in tests/cases expect by what is printed now",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files in tests/golden by what is printed now",
    )

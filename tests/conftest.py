"""Options of the test run."""

from __future__ import annotations

import os

import pytest

from jaxprtool.core.verification import set_verify

# On two cores XLA has two threads, and LAPACK calls that run side by side (a QR decomposition for each of
# several derivatives, say) can wait for one another for ever, in JAX's own programs too.
os.environ.setdefault("PJRT_NPROC", "8")
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

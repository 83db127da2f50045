"""Which JAX the tests run beside. Most say what is true beside each; some say what JAX 0.10 prints or makes."""

from __future__ import annotations

import jax
import pytest

__all__ = ["IS_ORACLE", "SERIES", "only_oracle"]

SERIES = tuple(map(int, jax.__version__.split(".")[:2]))
IS_ORACLE = SERIES == (0, 10)

# For what JAX prints or makes in that series alone: its texts, its sizes of programs, files that it traced.
only_oracle = pytest.mark.skipif(not IS_ORACLE, reason="what JAX 0.10 prints or makes")

"""Which JAX the tests run beside. Most say what is true beside each; some say what JAX 0.10 prints or makes."""

from __future__ import annotations

import jax
import pytest

try:
    from jax.extend.core import jaxprs_in_params
except ImportError:  # before 0.10
    from jax._src.core import jaxprs_in_params

__all__ = ["IS_ORACLE", "MADE_OF", "SERIES", "jaxprs_in_params", "only_oracle"]

SERIES = tuple(map(int, jax.__version__.split(".")[:2]))
IS_ORACLE = SERIES == (0, 10)

# For what JAX prints or makes in that series alone: its texts, its sizes of programs, files that it traced.
only_oracle = pytest.mark.skipif(not IS_ORACLE, reason="what JAX 0.10 prints or makes")

# Primitives of later releases in the place of several equations of JAX 0.10, which are ours too, and of how many.
MADE_OF = {"one_minus_square": 3}  # sub, add and mul, in the derivatives of tanh and logistic

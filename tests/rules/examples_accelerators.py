"""No sample operands: such kernels have types, and no values (`tests/rules/test_outside.py`)."""

from __future__ import annotations

from tests.rules.example import Example

EXAMPLES: list[Example] = []

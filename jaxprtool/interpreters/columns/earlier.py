"""What releases of JAX without an operation, or without a form of it, computed the same with.

Contract of an `earlier` rule:

    rule(*in_avals, **params) -> function(*operands) -> results, or None

The function is written with operations that came earlier. None: no earlier release had a
counterpart of the operation with these params.
"""

from __future__ import annotations

from jaxprtool.core.rule_table import RuleTable

__all__ = ["earlier_rules"]

earlier_rules = RuleTable("earlier")

"""`identity_rules`: the rules that say which equations return their first operand."""

from __future__ import annotations

from jaxprtool.core.rule_table import RuleTable

__all__ = ["identity_rules"]

# Params -> whether an equation returns its first operand, where that has the type of its result.
identity_rules = RuleTable("identity")

"""How bad values flow through an operation: what may drop a NaN or an infinity, and which operands only steer."""

from __future__ import annotations

from jaxprtool.core.rule_table import FactTable

__all__ = ["mask_facts", "steering_facts"]

# Which of NaN and infinity an operand may have while all results are finite. (Infinities that turn into NaN are not dropped.)
mask_facts = FactTable("masks", "nothing", "nan", "inf", "both")

# What of an operation decides something: none of its operands, all (a comparison: the result is a decision), the one at a
# position (an index), the operands that are indices (`Primitive.index_from`), or what the jaxpr `cond_jaxpr` returns.
steering_facts = FactTable(
    "steers", "nothing", "all", "operand 0", "operand 1", "indices", "cond_jaxpr"
)

"""PRNG keys represented by their words, u32[..., n].

An operation that only moves or compares keys does the same to their words: it is batched over an
axis of words at the end.

Contract of a `keys` rule, for operations that take keys in this way:

    rule(out, dim, size) -> out

It gets a result of the batch rule, the axis of the words (None: the result is the same for all
words), and the number of words. It moves the axis to the end, or reduces over it. Its attribute
`gives_keys` says whether the result is an array of keys.
"""

from __future__ import annotations

from jaxprtool.core.rule_table import FactTable, RuleTable

__all__ = ["key_rules", "key_uses"]

key_rules = RuleTable("keys")

# What an operation does with keys. "uses": it draws from the key that is its first operand, or splits it; nothing else may use
# that key. "derives": its result is a key that its operands determine, without a use of them (a number folded into a key).
key_uses = FactTable("on_keys", "nothing", "uses", "derives")

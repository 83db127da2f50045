"""PRNG keys as their words, u32[..., n].

What moves keys about moves words: an operation on keys is the operation vmapped over an axis of words at the end.

Contract of a `keys` rule, for operations that take keys in this way:

    rule(out, dim, size) -> out

It gets a result of the batch rule, its axis of words (None: all are the same) and their number, and puts the words at the
end, or makes one result of them all. Its attribute `gives_keys` says whether that is an array of keys.
"""

from __future__ import annotations

from jaxprtool.core.rule_table import RuleTable

__all__ = ["key_rules"]

key_rules = RuleTable("keys")

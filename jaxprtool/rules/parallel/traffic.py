"""The numbers of bytes that each member of a collective sends, by algorithms on a ring of members
(`interpreters.columns.communication`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.ir.jaxpr import Value

__all__ = ["sent_along", "sent_parts", "sent_rows", "sent_twice", "sent_whole"]

Avals = Sequence[Any]


def _nbytes(avals: Avals) -> int:
    return sum(getattr(a, "nbytes", 0) for a in avals)


def sent_twice(ins: Avals, outs: Avals, members: int, **_: Value) -> int:
    """For an all-reduce of n members: n parts go round the ring to be summed, then the sums go
    round.
    """
    return 2 * (members - 1) * _nbytes(outs) // members


def sent_whole(ins: Avals, outs: Avals, members: int, **_: Value) -> int:
    """For a gather: the value of each member goes to all others."""
    return (members - 1) * _nbytes(ins)


def sent_parts(ins: Avals, outs: Avals, members: int, **_: Value) -> int:
    """For an exchange or a reduce-scatter: each member has a part for every other one.

    For ragged parts this is the maximum.
    """
    return (members - 1) * _nbytes(ins[:1]) // members


def sent_along(ins: Avals, outs: Avals, members: int, **params: Value) -> int:
    """For a permutation or a broadcast: each member sends its value to one other member; 0 if all
    pairs of a permutation are from a member to itself.
    """
    pairs: Any = params.get("perm", [(0, 1)])
    return _nbytes(ins) if any(a != b for a, b in pairs) else 0


def sent_rows(ins: Avals, outs: Avals, members: int, **_: Value) -> int:
    """For `pgather`: the rows that a member reads are spread evenly over all members."""
    return (members - 1) * _nbytes(outs) // members

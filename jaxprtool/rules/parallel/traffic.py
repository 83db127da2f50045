"""What each member of a collective sends, where messages go round a ring (`interpreters.columns.communication`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.ir.jaxpr import Value

__all__ = ["sent_along", "sent_parts", "sent_rows", "sent_twice", "sent_whole"]

Avals = Sequence[Any]


def _nbytes(avals: Avals) -> int:
    return sum(getattr(a, "nbytes", 0) for a in avals)


def sent_twice(ins: Avals, outs: Avals, members: int, **_: Value) -> int:
    """A reduction for all: each n-th part goes round to be summed, then the sums go round."""
    return 2 * (members - 1) * _nbytes(outs) // members


def sent_whole(ins: Avals, outs: Avals, members: int, **_: Value) -> int:
    """What each member holds goes to all others."""
    return (members - 1) * _nbytes(ins)


def sent_parts(ins: Avals, outs: Avals, members: int, **_: Value) -> int:
    """Each member has a part for every other one; of ragged parts that is the most."""
    return (members - 1) * _nbytes(ins[:1]) // members


def sent_along(ins: Avals, outs: Avals, members: int, **params: Value) -> int:
    """What each member holds goes to another one, where any does."""
    pairs: Any = params.get("perm", [(0, 1)])
    return _nbytes(ins) if any(a != b for a, b in pairs) else 0


def sent_rows(ins: Avals, outs: Avals, members: int, **_: Value) -> int:
    """The rows that a member reads lie with all members alike."""
    return (members - 1) * _nbytes(outs) // members

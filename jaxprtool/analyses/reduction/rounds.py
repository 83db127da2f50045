"""The interface between families of edits and the search for smaller candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from jaxprtool.analyses.reduction.candidate import Candidate, Edit
from jaxprtool.analyses.reduction.record import Values

__all__ = ["Family", "Rounds", "State"]


class State(Protocol):
    """The state of a search, as families see it."""

    @property
    def current(self) -> Candidate:
        """The smallest candidate so far."""
        ...


# Lists of edits. All edits of one list are tried before the next list is made.
Rounds = Iterator[Sequence[Edit]]
Family = Callable[[State, Values], Rounds]

"""The history of a primitive: its name in each release of JAX, and the params that were added or removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jaxprtool.syntax.releases.earlier import OLDER, Older
from jaxprtool.syntax.releases.earlier_spellings import EARLIER_SPELLINGS
from jaxprtool.syntax.releases.spellings import SPELLINGS, Release, Spelling

__all__ = ["history"]


def history(name: str) -> list[tuple[str, str]]:
    """Return the changes in the spelling of a primitive, the earliest first: (releases, change in words).

    Args:
      name: the current name of the primitive.

    Returns:
      Releases are `to 0.4.3` (up to that one) or `since 0.10`; the list is empty where no change is
        known.
    """
    found: list[tuple[Release, int, tuple[str, str]]] = []
    covered = False
    for theirs, older in OLDER.items():
        if (older.name or theirs) == name and older.last:
            words = "; ".join(_older(theirs, older))
            covered = covered or bool(words)
            found.append((older.last, 0, (f"to {older.until}", words or "other values of params")))
    # If earlier releases are covered by `OLDER` already, the table of earlier spellings has no further row.
    earlier = () if covered else EARLIER_SPELLINGS.get(name, ())
    for spelling in (*earlier, *SPELLINGS.get(name, ())):
        since = ".".join(map(str, spelling.since))
        found.append((spelling.since, 1, (f"since {since}", "; ".join(_changed(spelling)))))
    return [row for *_, row in sorted(found, key=lambda x: x[:2])]


def _older(theirs: str, older: Older) -> Iterator[str]:
    if older.name:
        yield f"called {theirs}"
    yield from _names("called", {new: old for old, new in older.renamed.items()})
    yield from _listed("with", older.dropped)
    yield from _listed("without", older.given)


def _changed(spelling: Spelling) -> Iterator[str]:
    if spelling.born:
        yield "new"
    if spelling.gone:
        yield "gone"
    if spelling.name:
        yield f"called {spelling.name}"
    if spelling.called:
        yield f"no longer called {spelling.called}"
    if spelling.replaces:
        yield f"in the place of {spelling.replaces}"
    yield from _names("called", spelling.renamed)
    yield from _names("no longer called", spelling.was)
    yield from _listed("with", spelling.added)
    yield from _listed("without", spelling.removed)
    yield from _listed("not printed:", spelling.hidden)
    yield from _listed("not printed where None:", spelling.unless_none)


def _names(word: str, renamed: Mapping[str, str]) -> Iterator[str]:
    for ours, theirs in renamed.items():
        yield f"{ours} is {word} {theirs}"


def _listed(word: str, params: Mapping[str, object] | tuple[str, ...]) -> Iterator[str]:
    if params:
        yield f"{word} {', '.join(params)}"

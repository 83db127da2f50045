"""The answer of `retraces`: JAX's cache misses, added up by call site and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from jaxprtool.analyses.cache_misses import HELP, Miss
from jaxprtool.analyses.table import Parts, Report, Table

__all__ = ["KEYS", "Group", "Retraces"]

KEYS = ("site", "function", "reason")
_DETAILS = 3  # details of a group that people see


class Group(NamedTuple):
    """Misses at one call of one function for one reason.

    Attributes:
      site, function, defined, reason: see `Miss`; "" where several are added up.
      n: how many misses there are.
      milliseconds: what they cost, as far as the log says; None where it says nothing.
      details: what differed, and how often.
    """

    site: str
    function: str
    defined: str
    reason: str
    n: int
    milliseconds: float | None
    details: Counter[str]


class Retraces(Report):
    """The cache misses of a run.

    Attributes:
      misses: all of them, in the order of the log.
      by: how they are grouped: by call site (with function and reason), by function, or by reason.
      top: how many groups people see.
    """

    __slots__ = ("by", "misses", "top")

    def __init__(self, misses: Iterable[Miss], by: str = "site", top: int = 20):
        self.misses, self.by, self.top = [*misses], by, top

    @property
    def retraces(self) -> int:
        """How many misses are not the first trace of a function."""
        return sum(m.reason != "first trace" for m in self.misses)

    @property
    def groups(self) -> list[Group]:
        """The misses added up, the largest groups first."""
        found: dict[tuple[str, str, str, str], list[Miss]] = {}
        for m in self.misses:
            key = {
                "site": (m.site, m.function, m.defined, m.reason),
                "function": ("", m.function, m.defined, m.reason),
                "reason": ("", "", "", m.reason),
            }[self.by]
            found.setdefault(key, []).append(m)
        groups = [_group(key, some) for key, some in found.items()]
        return sorted(groups, key=lambda g: (-g.n, g.reason == "first trace", g[:4]))

    @property
    def reasons(self) -> dict[str, int]:
        """How many misses there are for each reason, the most first."""
        return dict(Counter(m.reason for m in self.misses).most_common())

    def parts(self) -> Parts:
        if not self.misses:
            return ["no cache misses; JAX logs them with JAX_EXPLAIN_CACHE_MISSES=1"]
        first = len(self.misses) - self.retraces
        found: list[str | Table] = [
            f"cache misses: {len(self.misses):,}; first traces: {first:,}, retraces: {self.retraces:,}"
        ]
        known = [m.milliseconds for m in self.misses if m.milliseconds is not None]
        if known:
            found.append(f"tracing took {sum(known):,.1f} ms")
        groups = self.groups
        rows = [[f"{g.n:,}", g.reason, _called(g), g.site] for g in groups[: self.top]]
        title, *lines = Table(["count", "reason<", "function<", "call<"], rows).lines()
        found += ["", title]
        for g, line in zip(groups, lines, strict=False):
            found += [line, *_details(g)]
        if len(groups) > self.top:
            found.append(f"... and {len(groups) - self.top:,} more")
        told = [r for r in self.reasons if r != "first trace"]
        return [*found, *[""] * bool(told), *(f"{r}: {HELP[r]}" for r in told)]

    def json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "misses": len(self.misses),
            "retraces": self.retraces,
            "by": self.by,
            "groups": [
                {
                    "site": g.site or None,
                    "function": g.function or None,
                    "defined": g.defined or None,
                    "reason": g.reason,
                    "count": g.n,
                    "milliseconds": g.milliseconds,
                    "details": [{"text": k, "count": n} for k, n in g.details.most_common()],
                }
                for g in self.groups
            ],
            "reasons": [
                {"reason": r, "count": n, "help": HELP[r]} for r, n in self.reasons.items()
            ],
        }


def _group(key: tuple[str, str, str, str], some: list[Miss]) -> Group:
    known = [m.milliseconds for m in some if m.milliseconds is not None]
    details = Counter(d for m in some for d in m.details)
    return Group(*key, len(some), sum(known) if known else None, details)


def _called(g: Group) -> str:
    return f"{g.function} ({g.defined})" if g.defined else g.function


def _details(g: Group) -> list[str]:
    """Return lines on what differed, for below the line of a group."""
    most = g.details.most_common(_DETAILS)
    lines = [f"         {text}" + (f"  ({n} times)" if n > 1 else "") for text, n in most]
    more = len(g.details) - len(most)
    return [*lines, *[f"         ... and {more:,} more"] * bool(more)]

"""The answer of `residuals`: what a reverse pass keeps, under one policy or two."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jaxprtool.analyses.memory.kept import Keeping, Kept
from jaxprtool.analyses.table import Parts, Report, Table, size_text

__all__ = ["Residuals"]


class Residuals(Report):
    """What a reverse pass keeps.

    Attributes:
      kept: what is kept.
      policy: the words of the policy, or None.
      plain: what is kept, and computed, where nothing is computed again.
      top: how many rows people see.
      other: what is kept under the policy that this one is compared with, or None.
      vs: the words of that policy, or None.
    """

    __slots__ = ("kept", "other", "plain", "policy", "top", "vs")

    def __init__(
        self,
        kept: Keeping,
        policy: str | None,
        plain: Keeping,
        top: int,
        other: Keeping | None = None,
        vs: str | None = None,
    ):
        self.kept, self.policy, self.plain, self.top = kept, policy, plain, top
        self.other, self.vs = other, vs

    @property
    def recomputed(self) -> int | None:
        """How many operations are done again, compared with a reverse pass that keeps all it needs; None where that is not known."""
        if self.kept.flops is None or self.plain.flops is None:
            return None
        return max(self.kept.flops - self.plain.flops, 0)

    @property
    def scopes(self) -> dict[str | None, int]:
        """The bytes besides arguments and constants by scope, the largest first."""
        found: Counter[str | None] = Counter()
        for v in self.kept.values:
            if v.is_computed:
                found[None if v.producer is None else v.producer.names] += v.nbytes
        return dict(found.most_common())

    @property
    def more(self) -> list[Kept]:
        """The values that are kept here, and not under the other policy."""
        return [] if self.other is None else _without(self.kept, self.other)

    @property
    def less(self) -> list[Kept]:
        """The values that only the other policy keeps."""
        return [] if self.other is None else _without(self.other, self.kept)

    def parts(self) -> Parts:
        found: list[str | Table] = [_said(self.kept, self.policy, self.recomputed)]
        if self.other is not None:
            flops = self.other.flops
            known = flops is not None and self.plain.flops is not None
            again = max((flops or 0) - (self.plain.flops or 0), 0) if known else None
            found.append(_said(self.other, self.vs, again))
            found += _table("kept more", self.more, self.top)
            return [*found, *_table("kept less", self.less, self.top)]
        found += _table("", self.kept.values, self.top)
        rows = [[size_text(n), name or "(no scope)"] for name, n in self.scopes.items()]
        if rows:
            found += ["", Table(["size", "scope<"], rows[: self.top], "by scope")]
        return found

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "schema": 1,
            "policy": self.policy,
            "total": _total(self.kept, self.recomputed),
            "residuals": [_json(v) for v in self.kept.values],
            "scopes": [{"scope": k, "bytes": n} for k, n in self.scopes.items()],
        }
        if self.other is not None:
            found["vs"] = {
                "policy": self.vs,
                "total": _total(self.other, None),
                "more": [_json(v) for v in self.more],
                "less": [_json(v) for v in self.less],
                "flops": _difference(self.kept.flops, self.other.flops),
            }
        return found


def _without(kept: Keeping, other: Keeping) -> list[Kept]:
    left = Counter(v.key for v in other.values)
    found: list[Kept] = []
    for v in kept.values:
        if left[v.key]:
            left[v.key] -= 1
        else:
            found.append(v)
    return found


def _difference(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a - b


def _said(kept: Keeping, policy: str | None, again: int | None) -> str:
    what = "" if policy is None else f"policy {policy}: "
    done = "an unknown number of operations" if again is None else f"{again:,} operations"
    return (
        f"{what}{size_text(kept.nbytes)} kept, {size_text(kept.computed)} of it besides arguments and "
        f"constants; {done} done again"
    )


def _total(kept: Keeping, again: int | None) -> dict[str, Any]:
    return {
        "bytes": kept.nbytes,
        "computed_bytes": kept.computed,
        "count": len(kept.values),
        "flops": kept.flops,
        "recomputed_flops": again,
    }


def _json(v: Kept) -> dict[str, Any]:
    return {
        "name": v.name,
        "type": str(v.aval),
        "bytes": v.nbytes,
        "origin": v.origin,
        "place": None if v.producer is None else v.producer.json(),
        "consumer": None if v.consumer is None else v.consumer.json(),
    }


def _table(heading: str, values: list[Kept], top: int) -> list[str | Table]:
    rows = [
        [
            size_text(v.nbytes),
            str(v.aval),
            v.name,
            v.origin if v.producer is None else f"{v.producer}  {v.producer.in_full()}",
            "" if v.consumer is None else str(v.consumer),
        ]
        for v in values[:top]
    ]
    if not rows:
        return ["", f"{heading}: nothing"] if heading else []
    more = [f"... and {len(values) - top:,} more"] * (len(values) > top)
    titles = ["size", "type<", "name<", "made by<", "for the derivative of<"]
    return ["", Table(titles, rows, heading), *more]

"""Find jaxprs that a text writes out although it defines them further below.

Up to 0.10.1 JAX's printer uses the name of a definition only after it. Earlier definitions write it
out, with the same names of variables. So a jaxpr in a definition whose text is that of a later
definition is that definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Params
from jaxprtool.ir.walk import map_jaxprs
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.sharing import printed_jaxprs

__all__ = ["WrittenOut"]

# A string, or what differs between one line and several.
_LAYOUT = pattern(r"('[^'\n]*+'|\"[^\"\n]*+\")|[\s;]*+([\[\]])[\s;]*+|[\s;]++")
_END = pattern(
    r"(?:\s*+:\s*+\{[^{}]*+\})?+\s*+\}"
)  # of a jaxpr, perhaps with effects, after its results
_START = attrgetter("jaxpr.span.start")


class WrittenOut:
    """The jaxprs of a program that are definitions further below.

    Args:
      text: the text that the program was read from.
      definitions: by name, in the order of the text.

    Attributes:
      found: for each of these jaxprs the definition.
      any_by_name: whether a definition refers to a later one by its name, as only later releases
        print it.
    """

    def __init__(self, text: str, definitions: Mapping[str, ClosedJaxpr]):
        self.text = text
        self.found: dict[ClosedJaxpr, ClosedJaxpr] = {}
        self.any_by_name = False
        self._holders: list[JaxprEqn] = []
        self._names = {closed: name for name, closed in definitions.items()}
        self._said: dict[ClosedJaxpr, str] = {}
        self._below: set[ClosedJaxpr] = set()
        below: dict[tuple[str | None, ...], list[ClosedJaxpr]] = {}
        for closed in reversed([*definitions.values()]):
            if below:
                self._look(closed.jaxpr, below)
            below.setdefault(_binders(closed.jaxpr), []).append(closed)
            self._below.add(closed)

    def are_told_apart(self) -> bool:
        """Whether one of them binds variables.

        Jaxprs that bind none (`{ lambda ; . let in () }`) have equal texts and may differ.
        """
        return any(_binders(closed.jaxpr) for closed in self.found)

    def share(self) -> None:
        """Replace the jaxprs by the definitions."""
        for eqn in self._holders:
            params = {k: map_jaxprs(v, self._defined) for k, v in eqn.params.items()}
            amend(eqn, params=Params(params))

    def _defined(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        return self.found.get(closed, closed)

    def _held(self, eqn: JaxprEqn) -> list[ClosedJaxpr]:
        """Return the jaxprs that an equation writes out, in the order of the text."""
        held = _printed(eqn)
        return sorted([c for c in held if c not in self._names and c.jaxpr.span], key=_START)

    def _look(
        self, jaxpr: Jaxpr, below: Mapping[tuple[str | None, ...], list[ClosedJaxpr]]
    ) -> None:
        """Find the jaxprs in a definition, innermost first, that are among the definitions below it."""
        for eqn in jaxpr.eqns:
            self.any_by_name |= not self._below.isdisjoint(_printed(eqn))
            held = self._held(eqn)
            for closed in held:
                self._look(closed.jaxpr, below)
                same = [c for c in below.get(_binders(closed.jaxpr), ()) if self._equal(closed, c)]
                if same:
                    self.found[closed] = same[0]
            if any(c in self.found for c in held):
                self._holders.append(eqn)

    def _equal(self, closed: ClosedJaxpr, other: ClosedJaxpr) -> bool:
        said, eqns = self._says(closed), zip(closed.eqns, other.eqns, strict=False)
        return (
            bool(said) and said == self._says(other) and all(a.origin == b.origin for a, b in eqns)
        )

    def _says(self, closed: ClosedJaxpr) -> str:
        """Return the text of a jaxpr in a normal layout, with names in the place of inner jaxprs;
        "" where one has no name.
        """
        said = self._said.get(closed)
        if said is None:
            said = self._said[closed] = self._named(closed.jaxpr)
        return said

    def _named(self, jaxpr: Jaxpr) -> str:
        if jaxpr.span is None:
            return ""
        pieces, at = list[str](), jaxpr.span.start
        for eqn in jaxpr.eqns:
            for closed in self._held(eqn):
                span = closed.jaxpr.span
                if closed not in self.found or span is None:
                    return ""
                pieces += [self.text[at : span.start], self._names[self.found[closed]]]
                end = _END.match(self.text, span.end)
                at = end.end() if end else span.end
        pieces.append(self.text[at : jaxpr.span.end])
        return _LAYOUT.sub(lambda m: m[1] or m[2] or " ", "".join(pieces))


def _printed(eqn: JaxprEqn) -> list[ClosedJaxpr]:
    if not eqn.primitive.holds_jaxprs:
        return []
    return [c for v in eqn.params.values() for c in printed_jaxprs(v)]


def _binders(jaxpr: Jaxpr) -> tuple[str | None, ...]:
    """Return the names that a jaxpr binds, which are the same wherever it is written out."""
    bound = [jaxpr.const_binders, jaxpr.in_binders, *[e.out_binders for e in jaxpr.eqns]]
    return tuple([v.name for several in bound for v in several])

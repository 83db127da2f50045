"""How a text spells its equations, and which releases of JAX print this spelling."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jaxprtool.core.primitive import known_primitive
from jaxprtool.ir.jaxpr import ClosedJaxpr, Lit
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.dialects import (
    BLANK_TUPLES,
    RECOGNISED,
    RELEASES,
    Dialect,
    dialect_in,
)
from jaxprtool.syntax.releases.earlier import OLDER
from jaxprtool.syntax.releases.earlier_spellings import EARLIER_SPELLINGS, told_by_numbers
from jaxprtool.syntax.releases.earlier_types import ITEMS, is_not_numpys, told_by_types
from jaxprtool.syntax.releases.last_spellings import (
    EARLIER_WORDS,
    LAST_SETS,
    OLD_VALUES,
    told_by_words,
)
from jaxprtool.syntax.releases.source_release import source_release
from jaxprtool.syntax.releases.spellings import (
    SPELLINGS,
    TYPED_LITERALS,
    TYPES,
    Release,
    Spelling,
    bounds,
    by_spelled_name,
    renamed,
)
from jaxprtool.syntax.scanning.lines import start_of
from jaxprtool.syntax.scanning.reading import Reading
from jaxprtool.syntax.tokens import Token

__all__ = [
    "TYPED_LITERAL",
    "Releases",
    "SpelledEquation",
    "dropped_param",
    "earlier_dialect",
    "may_be_earlier",
    "now_called",
    "releases_of",
    "spelled",
]

TYPED_LITERAL = pattern(r"(?<!\S)-?(?:\d[^\s:]*|(?:inf|nan)j?|\([^\s:]*j\)|True|False):[a-z]\w*\[")
_LITERAL = pattern(r"(?<!\S)-?\d[^\s:]*(?!\S)")
_BELOW: Release = (0, 1, 58)  # what prints jaxprs inside of params


@dataclass
class SpelledEquation:
    """An equation as it is spelled in a text.

    Attributes:
      start: its offset.
      name: the name of its primitive.
      params: the texts of its params; "" for jaxprs.
      operands: the text of its operands.
    """

    start: int
    name: str
    params: dict[str, str] = field(default_factory=dict[str, str])
    operands: str = ""


def spelled(reading: Reading) -> dict[int, SpelledEquation]:
    """Return the equations of a scanned text, by their offsets, without those inside of values that are text."""
    found: dict[int, SpelledEquation] = {}
    inside: list[SpelledEquation] = []  # those whose params are open
    current = SpelledEquation(-1, "")
    key = ""
    for kind, value, start, _ in reading.tokens:
        if kind == "EQUATIONS":
            for match, block, at, end in value:
                current = SpelledEquation(start_of(match), match[3])
                current.operands = reading.text[at:end]
                if block is not None:
                    current.params.update((k[1], v[1]) for k, v in block.params)
                found[current.start] = current
        elif kind == "EQUATION":
            current = found[start] = SpelledEquation(start, value[3])
        elif kind == "LSQB":
            inside.append(current)
        elif kind == "RSQB" and inside:
            current = inside.pop()
        elif kind == "KEY" and inside:
            key = value
            inside[-1].params[key] = ""
        elif kind == "VALUE" and inside:
            inside[-1].params[key] = value
        elif kind == "PAIRS" and inside:
            inside[-1].params.update((k[1], v[1]) for k, v in value)
        elif kind == "PARAMS":
            current.params.update((k[1], v[1]) for k, v in value.params)
        elif kind == "OPERANDS":
            current.operands = value
    return found


def now_called(name: str) -> Mapping[str, str]:
    """Return the current names of params that a primitive had under other names in any release: old
    name -> new name.
    """
    older = OLDER.get(name)
    return {
        **(renamed(name) if name in SPELLINGS else {}),
        **(older.renamed if older else {}),
    }


def dropped_param(name: str, key: str) -> bool:
    """Whether a param of a primitive of an earlier release says nothing about what is computed."""
    return name in OLDER and key in OLDER[name].dropped


@dataclass(frozen=True)
class Releases:
    """The range of JAX releases that print a text, as far as it shows.

    Attributes:
      since: the first such release; None where it is not known.
      before: the first later release that does not; None where it is not known.
      until: the last such release, where that is known instead of `before`.
      tutorial: whether the text is Autodidax's, and of no release.
    """

    since: Release | None
    before: Release | None
    until: Release | None
    tutorial: bool = False

    def __str__(self) -> str:
        """`JAX 0.4.4 to 0.6.2`, `JAX 0.8.1 or later`, `any JAX`."""
        if self.tutorial:
            return "Autodidax"
        first = _dotted(self.since) if self.since else ""
        if self.until:
            last = _dotted(self.until)
            if first == last:
                return f"JAX {last}"
            return f"JAX {first} to {last}" if first else f"JAX {last} or earlier"
        if self.before:
            last = f"before {_dotted(self.before)}"
            return f"JAX {first} or later, {last}" if first else f"JAX {last}"
        return f"JAX {first} or later" if first else "any JAX"

    def document(self) -> dict[str, str | None]:
        """Return the same as JSON data."""
        fields = {"since": self.since, "before": self.before, "until": self.until}
        return {key: _dotted(r) if r else None for key, r in fields.items()}


def _dotted(release: Release) -> str:
    return ".".join(map(str, release))


def releases_of(reading: Reading, equations: Iterable[SpelledEquation]) -> Releases:
    """Return the releases that print a text: the one that the user names, or those that its equations indicate.

    Args:
      reading: the text, scanned and built.
      equations: the equations of the text.
    """
    if reading.autodidax:
        return Releases(None, None, None, tutorial=True)
    if given := source_release():
        return Releases(given, None, given)
    since, before = set[Release](), set[Release]()
    for bound, release in reading.told:
        (since if bound == "since" else before).add(release)
    # The table tells releases since the first that it knows apart. What an earlier one printed may look like two of them.
    certain = {RECOGNISED} if since & before else set[Release]()
    until = set[Release]()
    for eqn in equations:
        until.update(_until(eqn))
        if TYPED_LITERAL.search(eqn.operands):
            since.add(TYPED_LITERALS)
        elif _LITERAL.search(eqn.operands):
            certain.add(TYPED_LITERALS)
    if reading.classic:
        certain.add(TYPES)
    elif any(map(_has_types, reading.tokens)):
        since.add(TYPES)
    if reading.below:
        certain.add(_BELOW)
    last = min(until, default=None)
    fit = (r for r in since if all(r < x for x in certain) and all(r <= x for x in until))
    first = max(fit, default=None)
    end = min(certain | {r for r in before if not first or r > first}, default=None)
    if end is not None and last is not None:
        end, last = (end, None) if end <= last else (None, last)
    return Releases(first, end, last)


_EARLIER = by_spelled_name(EARLIER_SPELLINGS)
_EARLIER["pjit"] = _EARLIER["jit"]
# What only releases to 0.4.21 print: equations without results, and the params of a pjit.
_NO_RESULTS = pattern(r"(?m)^(?:; *)?= [a-z]")  # in a text without indentation
_EMPTY_TUPLE = pattern(r"(?m)(?:^|\[ )\w+=\(( *)\)(?= |$)")  # of params in the classic layout
_PJIT = pattern(r"\bpjit\[\s*(?:donated_invars|in_shardings|jaxpr|keep_unused)=")
# The end of what only releases to 0.4.35 print, and what only those to 0.4.38 do: see `LAST_SETS`.
_LAST_SET = pattern(r"(?:shape|new_sizes)=\([^()]*(?:\(\d+\)[^()]*)*\)\s*\]")
_FACTORS = pattern(
    r"\b(?:qr\[\s*full_matrices=\w+|svd\[\s*compute_uv=\w+\s+full_matrices=\w+\s+subset_by_index=[^=\]]+)\s*\]"
)
_NAME_AMONG_OTHERS: Release = (0, 4, 21)


# Annotations of an equation on two lines, which stand beside each other since then.
_BY_ANNOTATIONS = ("before", TYPED_LITERALS)


def may_be_earlier(reading: Reading) -> bool:
    """Whether a text may be of a release to 0.4.38, by signs that are found without looking at each equation."""
    text = reading.dedented  # searching words is much faster than matching patterns
    found = "sharding=None" not in text and ("shape=(" in text or "new_sizes=(" in text)
    found = found and _LAST_SET.search(text)
    found = found or ("pjit[" in text and _PJIT.search(text))
    found = found or (("qr[" in text or "svd[" in text) and _FACTORS.search(text))
    found = found or any(word in text for word in EARLIER_WORDS) or any(told_by_words(text))
    found = found or ("linear=(" in text and "_split_transpose=" not in text)
    if _BY_ANNOTATIONS in reading.told:
        return True
    return bool(found or (("\n= " in text or "\n;" in text) and _NO_RESULTS.search(text)))


def _told_by_literals(
    equations: Mapping[int, SpelledEquation], programs: Iterable[ClosedJaxpr]
) -> Iterator[tuple[str, Release]]:
    """Yield the bounds that literals of types that NumPy lacks imply: `2`, and since 0.4.31 `2.0`."""
    for program in programs:
        for eqn in all_eqns(program.jaxpr):
            short = [type(x) is Lit and is_not_numpys(x.aval) for x in eqn.inputs]
            was = equations.get(eqn.span.start) if any(short) and eqn.span else None
            words = [] if was is None else was.operands.split()
            if len(words) != len(short):
                continue
            for word in itertools.compress(words, short):
                if word.lstrip("-").isdecimal():
                    yield "before", ITEMS
                elif word.endswith(".0"):
                    yield "since", ITEMS


def earlier_dialect(
    reading: Reading, untyped: bool, programs: Iterable[ClosedJaxpr]
) -> Dialect | None:
    """Return the dialect of a text of an earlier release than 0.6.1: that of the last release that prints it.

    None where no such release prints it, or no release since 0.4.1: then it was written by hand,
    or is upgraded.

    Args:
      reading: the text, scanned and built.
      untyped: whether it has a literal without a type, which no later release prints.
      programs: its programs.
    """
    later = any(bound == "since" and r >= TYPED_LITERALS for bound, r in reading.told)
    text = reading.dedented
    if not reading.classic and (later or TYPED_LITERAL.search(text)):
        return None  # only our lossless texts have typed literals in the classic layout
    since, before, until = set[Release](), set[Release](), set[Release]()
    by_annotations = _BY_ANNOTATIONS in reading.told
    if untyped or by_annotations:
        before.add(TYPED_LITERALS)
    if reading.classic:
        before.add(TYPES)
        for m in _EMPTY_TUPLE.finditer(text):
            (since if m[1] else before).add(BLANK_TUPLES)
    if _NO_RESULTS.search(text):
        until.add(_NAME_AMONG_OTHERS)
    until.update(told_by_words(text))
    equations = spelled(reading)
    told_by = [*told_by_numbers(text), *told_by_types(text)]
    if untyped and ("bf16[" in text or "f8_" in text):
        told_by += _told_by_literals(equations, programs)
    for bound, release in told_by:
        (since if bound == "since" else before).add(release)
    for eqn in equations.values():
        until.update(_until(eqn))
        if (row := _EARLIER.get(eqn.name)) is not None:
            none = frozenset([k for k, v in eqn.params.items() if v == "None"])
            by_names = bounds(row, eqn.name, frozenset(eqn.params), none)
            for bound, release in (*by_names, *_told_by_order(row, [*eqn.params])):
                (since if bound == "since" else before).add(release)
    fit = (r for r in RELEASES if all(r >= x for x in since) and all(r < x for x in before))
    last = max((r for r in fit if all(r <= x for x in until)), default=None)
    told = untyped or until or reading.classic or by_annotations or ":void[" in text
    if last is None or last >= TYPED_LITERALS or not told:
        return None  # a text written by hand leaves out params
    return dialect_in(last)


def _told_by_order(row: Sequence[Spelling], names: Sequence[str]) -> Iterator[tuple[str, Release]]:
    """Yield bounds on the release from the order of params: `name` comes first since a release, and
    was sorted before.
    """
    if "name" in names and names != ["name"]:
        for release in (s.since for s in row if s.first):
            yield ("since" if names[0] == "name" else "before"), release


def _has_types(token: Token) -> bool:
    """Whether a token holds binders with types."""
    kind, value = token[:2]
    return ":" in value[0] if kind == "HEAD" else kind == "BINDERS" and ":" in value


def _until(eqn: SpelledEquation) -> Iterator[Release]:
    """Yield the last release that spells an equation in this way, where the table of earlier releases says so."""
    # JAX sorts them, and who writes by hand may leave some out.
    if eqn.name in LAST_SETS and [*eqn.params] == sorted(eqn.params):
        for params, last, (key, start) in LAST_SETS[eqn.name]:
            if params == eqn.params.keys() and eqn.params.get(key, "").startswith(start):
                yield last
    for key, (start, last) in OLD_VALUES.get(eqn.name, {}).items():
        if eqn.params.get(key, "").startswith(start):
            yield last
    older, known = OLDER.get(eqn.name), known_primitive(eqn.name)
    if older is None or older.last is None:
        return
    last = older.last
    if older.name:
        if known is None or not eqn.params.keys() <= known.params.keys():
            yield last
        return
    later = {k for s in SPELLINGS.get(eqn.name, ()) for k in (*s.added, *s.removed, *s.renamed)}
    told = {*older.dropped, *older.renamed} & eqn.params.keys()
    if older.foreign and known is not None:
        # A param that no release knows tells nothing, where it is known which ones tell.
        unknown = eqn.params.keys() - known.params.keys()
        told.update(unknown & {*older.told_by} if older.told_by else unknown)
    if told - later or (eqn.params and not older.given.keys() <= eqn.params.keys()):
        yield last

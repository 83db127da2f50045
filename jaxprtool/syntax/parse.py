"""Text to programs: `parse` for one, `parse_file` for all that a file holds."""

from __future__ import annotations

from jaxprtool.core.stack import deep
from jaxprtool.ir.diagnostics import Diagnostic, JaxprParseError
from jaxprtool.ir.interface import Interface
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.spans import Source, Span
from jaxprtool.syntax.building.atoms import Missing
from jaxprtool.syntax.building.definitions import Definitions
from jaxprtool.syntax.building.draws import count_as_printed
from jaxprtool.syntax.building.program import Builder
from jaxprtool.syntax.errors import Errors
from jaxprtool.syntax.lalr import UnexpectedToken, load_tables, run_tables
from jaxprtool.syntax.origins import find_annotations
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.dialects import ANNOTATES_BELOW
from jaxprtool.syntax.releases.source_release import printed_by
from jaxprtool.syntax.releases.spellings import TYPED_LITERALS
from jaxprtool.syntax.scanning.hints import hint
from jaxprtool.syntax.scanning.long_numbers import check_numbers
from jaxprtool.syntax.scanning.reading import Reading
from jaxprtool.syntax.scanning.scanner import scan, scan_inner
from jaxprtool.syntax.tokens import LABELS
from jaxprtool.syntax.version import version_line, without_header

__all__ = ["parse", "parse_and_scan", "parse_file", "read_interface"]

_ANSI = pattern(r"\x1b\[[0-9;]*m")
_MAX_DEPTH = 20
_FOUND = pattern(r"\S+")
_OPENED = {
    "jaxpr": "a jaxpr",
    "params": "a list of params",
    "tuple": "a tuple of jaxprs",
    "definition": "a definition",
    "equation": "an equation",
}


@deep
def parse(text: str, name: str = "<string>", *, dialect: str = "") -> ClosedJaxpr:
    """Read a text with one program in it.

    Args:
      text: a print of JAX or Autodidax, or a file of this package.
      name: the name of the file, for messages.
      dialect: the release that printed it, `jax-0.4.38`, where the text does not tell; "" to
        recognise it by the text.

    Returns:
      The program; its consts are None where the text holds no value.

    Raises:
      JaxprParseError: malformed text, with the position and what was expected there.
      ScopeError: variables that are unbound or bound twice, all of them (a JaxprTypeError).
      UsageError: there is no such dialect.
    """
    with printed_by(dialect):
        programs = parse_file(text, name)
    if len(programs) > 1:
        names = ", ".join(programs)
        message = f"the file holds {len(programs)} programs: {names}"
        help = f"name the one that is meant: {name}#{next(iter(programs))}"
        raise JaxprParseError(Diagnostic(message, "several-programs", where=name, help=help))
    return next(iter(programs.values()))


@deep
def parse_file(
    text: str, name: str = "<string>", first_line: int = 1, *, own: bool = False
) -> dict[str, ClosedJaxpr]:
    """Read all programs of a text, by name; a single unnamed one has the name "".

    Args:
      text: the text.
      name: the name of the file, for messages.
      first_line: the number of its first line in the file, of which it may be a part.
      own: whether this package wrote it, as the version line of a file states: its random numbers
        are then drawn as it says, even if it looks like the text of an earlier release.

    Raises: as `parse`.
    """
    plain = _plain(text)
    own = own or bool(version_line(plain))
    text = without_header(plain, name)
    if first_line == 1:
        return _read(Source(text, name), own)[0]
    numbers = range(first_line, first_line + text.count("\n") + 1)
    return _read(Source(text, name, numbers), own)[0]


@deep
def parse_and_scan(text: str, name: str = "<string>") -> tuple[dict[str, ClosedJaxpr], Reading]:
    """Return the programs of a text, as `parse_file`, and the scanned text, which tells how it spells them."""
    plain = _plain(text)
    return _read(Source(without_header(plain, name), name), bool(version_line(plain)))


def _plain(text: str) -> str:
    """Return a text without colours, with Unix line breaks."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\r\n", "\n") if "\r" in text else text


@deep
def read_interface(text: str, n_in: int, n_out: int) -> Interface:
    """Return the interface that a text spells, for a program with so many arguments and results.

    Raises:
      JaxprParseError: it is malformed.
      ScopeError: it has another number of leaves.
    """
    binders = " ".join([f"a{i}:f32[]" for i in range(n_in)])
    outs = "".join(["0.0:f32[]," for _ in range(n_out)])
    found = parse(f"{{ lambda ; {binders}. let in ({outs}) }}\n{text}", "<interface>").interface
    if found is None:
        raise JaxprParseError(Diagnostic(f"no interface: {text[:60]}", "syntax"))
    return found


def _read(source: Source, own: bool) -> tuple[dict[str, ClosedJaxpr], Reading]:
    check_numbers(source)
    annotated = find_annotations(source.text)
    if annotated:
        numbers = [source.number(row) for row in annotated.numbers]
        source = Source(annotated.text, source.name, numbers)
    words: frozenset[str] = frozenset()
    while True:
        reading = scan(source)
        if annotated and annotated.beside:
            reading.told.add(("before", ANNOTATES_BELOW))
        if annotated and annotated.below and "pjit[" in source.text:
            reading.told.add(("before", TYPED_LITERALS))
        builder = Builder(reading, _read_inner, annotated=annotated is not None, words=words)
        programs = _build(builder, reading)
        if builder.definitions.mistaken <= words:
            break
        words |= builder.definitions.mistaken
    if annotated:
        annotated.give(builder.places)
        builder.errors.give_origins([eqn for _, eqn in builder.places])
    builder.finish(programs)
    if not own:
        count_as_printed(reading, [*programs.values()])
    return programs, reading


def _build(builder: Builder, reading: Reading) -> dict[str, ClosedJaxpr]:
    """Return the programs of a text; none where the text is malformed, and the builder has the error."""
    programs: dict[str, ClosedJaxpr] = {}
    try:
        programs = run_tables(load_tables(), reading.tokens, builder.callbacks())
    except UnexpectedToken as e:
        builder.errors.syntax.append(_unexpected(reading, e))
    return programs


def _read_inner(
    outer: Reading, at: int, depth: int, definitions: Definitions
) -> tuple[Errors, Missing, ClosedJaxpr, int] | None:
    """Read a program at an offset of a text (a jaxpr inside a named tuple); None where there is none.

    Returns the errors in it, what it leaves out, the program and where it ends. A program that is
    nested deeper than a bound stays text.
    """
    if depth > _MAX_DEPTH:
        return None
    reading = scan_inner(outer, at)
    builder = Builder(reading, _read_inner, depth, definitions)
    programs: dict[str, ClosedJaxpr]
    try:
        programs = run_tables(load_tables(), reading.tokens, builder.callbacks())
    except UnexpectedToken:
        return None
    builder.drops.finish(programs.values())
    return builder.errors, builder.atoms.missing, programs[""], reading.pos


def _unexpected(reading: Reading, error: UnexpectedToken) -> Diagnostic:
    source = reading.source
    kind, _, start, end = error.token
    labels = error.expected
    if LABELS["EQUATION"] in labels and LABELS["OUTS"] in labels:
        # a jaxpr is only expected below an equation
        labels = [label for label in labels if label != LABELS["LAMBDA"]]
    if found := hint(source.text, start, labels):
        span = Span(source, found.start, found.end)
        return Diagnostic(found.message, "syntax", span, found.help)
    expected = _listed(labels)
    if kind == "$END":
        return _truncated(reading, start, expected)
    m = _FOUND.search(source.text, start)
    word = m[0] if m else ""
    found = word if len(word) <= 30 else word[:30] + "..."
    end = start + max(len(found), 1) if kind == "JUNK" else end
    return Diagnostic(
        f"expected {expected}, found `{found}`", "syntax", Span(source, start, min(end, start + 60))
    )


def _truncated(reading: Reading, at: int, expected: str) -> Diagnostic:
    source = reading.source
    span = Span(source, at, at)
    if reading.tokens[0][0] == "$END":
        return Diagnostic("the text is empty: expected a jaxpr", "empty", span)
    last = reading.open[-1] if reading.open else None
    if last is not None and last.kind == "params" and source.text[:at].endswith("}"):
        span = Span(source, last.start, last.start + 1)  # the text is complete otherwise
        return Diagnostic("the `[` of a list of params is not closed", "truncated", span)
    opened = [f"{_OPENED[f.kind]} opened at {Span(source, f.start, f.start)}" for f in reading.open]
    shown = opened[-3:]
    more = f" (and {len(opened) - 3} more)" if len(opened) > 3 else ""
    inside = f" inside {', in '.join(reversed(shown))}{more}" if opened else ""
    return Diagnostic(f"the text ends{inside}; expected {expected}", "truncated", span)


def _listed(labels: list[str]) -> str:
    if len(labels) < 2:
        return labels[0] if labels else "the end of the text"
    return ", ".join(labels[:-1]) + " or " + labels[-1]

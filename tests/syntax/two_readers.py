"""The fast reader beside Lark's: how they disagree about a text."""

from __future__ import annotations

import re
from typing import Any

from jaxprtool.analyses.identity.signature import same_programs
from jaxprtool.driver.hash import hash_program
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.interpreters.origins import without_origins
from jaxprtool.ir.diagnostics import JaxprToolError, UnsupportedError
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.params import Opaque
from jaxprtool.ir.spans import Source
from jaxprtool.syntax.building.draws import count_as_printed
from jaxprtool.syntax.lalr import UnexpectedToken, load_tables, run_tables
from jaxprtool.syntax.origins import find_annotations
from jaxprtool.syntax.parse import parse_and_scan, parse_file
from jaxprtool.syntax.print import format_file
from jaxprtool.syntax.releases.dialects import NEWEST
from jaxprtool.syntax.releases.earlier import declared_params
from jaxprtool.syntax.scanning.scanner import scan
from jaxprtool.syntax.scanning.values import free_params
from jaxprtool.syntax.tokens import LOOSE_BINDER
from tests.syntax.lark_reader import read_with_lark
from tests.syntax.lark_tree import Meaningless, Rejected
from tests.syntax.lark_values import reject_fault

__all__ = ["difference"]

BEFORE = "jax-0.10.2"
# What the fast reader passes over before it says that something does not fit.
_GAP = re.compile(r"(?:[\s;]|#[^\n]*)*")
_LONE = re.compile(rf"[\s;]*(?:{LOOSE_BINDER}\s+)+=\s+([^\s\[;]+)")
_BLANK_LINE = re.compile(r"\n[ \t]*(?=\n)")
# Tokens that it looks into when what they stand in is complete.
_LATE = ("EQUATION", "HEAD", "BINDERS", "NAME")

SYNTAX = frozenset({"syntax", "truncated", "empty"})
# Errors of either kind: what is malformed, which the grammar rejects, and what has no meaning, which it reads.
MIXED = frozenset({"bad-param", "bad-type", "bad-literal", "bad-constant", "not-a-constant"})


def difference(text: str) -> str | None:
    """How the two readers disagree about a text, in words; None where they agree.

    They agree when they build the same program, when both reject at the same token, and when both accept the syntax
    and one of them at least finds that the text means nothing.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")
    every: list[Any] = []
    errors: list[Any] = []
    fast = theirs = None
    meaning = len(text)  # where the first error is that is none of the syntax
    try:
        fast = {name: without_dialect(without_origins(p)) for name, p in parse_file(text).items()}
    except JaxprToolError as e:
        every = [d for d in e.diagnostics if d.code in SYNTAX | MIXED]
        errors = [d for d in every if not is_vocabulary(d)]
        others = [d.span.start for d in e.diagnostics if d.span and d.code not in SYNTAX]
        meaning = min(others, default=len(text))
        if any(d.code == "format" for d in e.diagnostics):
            return None  # a later version of the format, which neither knows
    annotated = find_annotations(text)  # comments to the grammar, with a reader of their own
    text = annotated.text if annotated else text
    try:
        theirs = read_with_lark(text)
    except Rejected as e:
        if any(found and same_token(text, e.offset, found) for found in (errors, every)):
            return None
        at = f"{e.offset}: {text[e.offset : e.offset + 30]!r}"
        if errors:
            first = errors[0]
            if first.code in MIXED and first.span.start <= e.offset:
                return None  # nonsense for the reader, before what the grammar stumbles over
            if is_lone_of_unknown(text, first.span.start):
                return None
            return f"Lark rejects at {at}, the reader at {first.span.start}: {first.message}"
        if fast:
            excused = is_layout_only(fast) or is_ill_typed(fast)
        else:  # the reader says that a type is unknown, which is further on in the token
            unknown = any(e.offset <= d.span.start <= _line_end(text, e.offset) for d in every)
            excused = unknown or has_unreadable(scan(Source(text)).tokens, e.offset)
        return None if excused else f"Lark alone rejects at {at}"
    except Meaningless as e:
        theirs = e
    if any(d.code in SYNTAX for d in errors):
        if isinstance(theirs, Meaningless) and meaning < min(
            d.span.start for d in errors if d.code in SYNTAX
        ):
            return None  # it stopped there, before the value with the error
        return f"the reader alone rejects: {errors[0]}"
    if isinstance(theirs, Meaningless):
        alone = fast and not is_ill_typed(fast)  # the checker may refuse what the reader keeps
        return f"Lark alone finds no meaning: {theirs}" if alone else None
    if fast is None:
        return f"the reader alone rejects: {errors[0]}" if errors else None
    # The release of a text tells how keys draw, and the grammar does not tell the release.
    count_as_printed(parse_and_scan(text)[1], [*theirs.values()])
    try:
        ours, other = (format_file(p, lossless=True, dialect=NEWEST) for p in (fast, theirs))
    except UnsupportedError:  # a primitive that ended before the newest release
        ours, other = (format_file(p, lossless=True, dialect=BEFORE) for p in (fast, theirs))
    if _BLANK_LINE.search(ours) and _BLANK_LINE.sub("", ours) == _BLANK_LINE.sub("", other):
        return None  # at the end of free text, as JAX prints a wrapped function; the grammar leaves them out
    # The reader shares with later definitions what releases to 0.10.1 write out before them, and the grammar does not.
    shares = any(p.jaxpr.written and p.jaxpr.written.later_written_out for p in fast.values())
    if shares and [*map(hash_program, fast.values())] == [*map(hash_program, theirs.values())]:
        return None
    if ours != other or not same_programs(fast, theirs):
        return f"different programs:\n{ours}\n---- Lark\n{other}"
    return None


def without_dialect(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program without the release that prints such texts, which the grammar does not tell: it would be laid out anew."""
    written = program.jaxpr.written
    if written is None or not written.dialect:
        return program
    return program.replace(jaxpr=program.jaxpr.replace(written=written._replace(dialect="")))


def is_vocabulary(error: Any) -> bool:
    """Whether an error is about a type that is none of an array, which the grammar does not know."""
    return (
        error.code == "bad-type" and ("unknown" in error.message or "no shape" in error.message)
    ) or (error.code == "bad-literal" and error.message.startswith("a literal of type"))


def is_lone_of_unknown(text: str, at: int) -> bool:
    """Whether the text begins, at an offset, with an equation that lacks types, of a primitive that nobody declares: the reader takes it for none."""
    found = _LONE.match(text, at)
    return (
        found is not None
        and declared_params(found[1]) is None
        and bool(_GAP.fullmatch(text, 0, at))
    )


def is_ill_typed(programs: dict[str, ClosedJaxpr]) -> bool:
    """Whether the checker refuses a program: a value that is no word of the grammar, say, for a param of another kind."""
    try:
        for program in programs.values():
            typecheck_jaxpr(program, allow_unknown=True)
    except JaxprToolError:
        return True
    return False


def is_layout_only(programs: dict[str, ClosedJaxpr]) -> bool:
    """Whether a value of a primitive that nobody declares is text that ends by layout alone."""
    pending = list(programs.values())
    while pending:
        for eqn in pending.pop().jaxpr.eqns:
            for value in eqn.params.values():
                pending += [value] if isinstance(value, ClosedJaxpr) else []
                pending += (
                    [v for v in value if isinstance(v, ClosedJaxpr)]
                    if isinstance(value, tuple)
                    else []
                )
                if isinstance(value, Opaque) and not eqn.primitive.known and unreadable(value.text):
                    return True
    return False


def unreadable(text: str) -> bool:
    """Whether the grammar has no such free text."""
    try:
        reject_fault(text, 0)
    except Rejected:
        return True
    return False


def has_unreadable(scanned: list[Any], offset: int) -> bool:
    """Whether a value that begins before an offset is no free text of the grammar."""
    return any(t[2] <= offset and t[0] == "VALUE" and unreadable(t[1]) for t in scanned)


def in_text_params(scanned: list[Any]) -> bool:
    """Whether a list of params with free text is open at the end of some tokens."""
    opened: list[str] = []
    primitive = ""
    for kind, value, *_ in scanned:
        if kind == "EQUATION":
            primitive = value[3]
        elif kind == "LSQB":
            opened.append(primitive)
        elif kind == "RSQB":
            opened.pop()
    return any(free_params(name) for name in opened)


def same_token(text: str, offset: int, errors: list[Any]) -> bool:
    """Whether what Lark does not expect at an offset is in the first token that the reader rejects."""
    passed = _GAP.match(text, offset).end()  # type: ignore[union-attr]
    scanned = scan(Source(text)).tokens
    token = unexpected(scanned)
    inside = [d.span for d in errors if token is None or d.span.start < token[2]]
    if inside and "brackets that do not balance" in errors[0].message and inside[0].start <= passed:
        return True  # where that shows is further on
    if inside and inside[0].start <= passed and offset <= _line_end(text, inside[0].end):
        return True
    if inside and not re.search(r"\s", text[passed : inside[0].start]):
        return True  # in one word
    before = scanned if token is None else scanned[: scanned.index(token)]
    if has_unreadable(before, offset):
        return True  # the reader looks into a value when its equation is complete
    if token is None:
        return False
    looked = (t for i, t in enumerate(before) if t[0] in _LATE or len(before) - i < 5)
    if any(t[2] <= offset <= t[3] for t in looked):
        return True  # and into a token when what it is part of is complete
    if (
        before
        and before[-1][0] in ("PAIRS", "VALUE")
        and text[passed : passed + 1] in ("", ")", "]", "}")
    ):
        return True  # a list of params that is not closed
    if in_text_params(before):
        return True  # a jaxpr, or free text that nothing ends, where the grammar has text alone
    kind, _, start, end = token
    if text.startswith("in (", start) and not re.search("[{}]", text[start:offset]):
        return start <= passed
    if kind == "$END":  # the last token is cut
        rest = text[passed:].strip()
        return "\n" not in rest and "}" not in rest
    return start <= passed and offset <= max(end, _line_end(text, start))


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def unexpected(scanned: list[Any]) -> Any:
    """The first token of the scanner that does not fit; None where all do."""
    tables = load_tables()
    try:
        run_tables(tables, scanned, {name: lambda *_: None for _, name, _ in tables.rules})
    except UnexpectedToken as e:
        return e.token
    return None

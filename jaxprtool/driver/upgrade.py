"""upgrade: convert a text of any release to the current vocabulary, and report what that changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from jaxprtool import driver
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import Diagnostic, counted
from jaxprtool.ir.dtypes import BOOL
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.params import Opaque
from jaxprtool.ir.printable import one_line
from jaxprtool.ir.references import Indexer, RefIndex, Slice
from jaxprtool.ir.spans import Span
from jaxprtool.ir.walk import all_eqns, jaxprs_in
from jaxprtool.syntax.building.draws import draws_of
from jaxprtool.syntax.building.spelled import (
    Releases,
    SpelledEquation,
    dropped_param,
    now_called,
    releases_of,
    spelled,
)
from jaxprtool.syntax.infer import reachable
from jaxprtool.syntax.inference.open_programs import missing_types
from jaxprtool.syntax.parse import parse_and_scan
from jaxprtool.syntax.print import format_file
from jaxprtool.syntax.refs import PATH
from jaxprtool.syntax.releases.dialects import find_dialect, installed, says_all
from jaxprtool.syntax.scanning.reading import Reading
from jaxprtool.syntax.types import UNTYPED
from jaxprtool.syntax.version import version_line

__all__ = ["Change", "Report", "report", "target", "written_for"]

Programs = Mapping[str, ClosedJaxpr]
_NAME = re.compile(r"(?!(?:(?:inf|nan)j?|True|False)\b)[^\W\d]\w*")
_ARROW = re.compile(r" (?:<-|\+=) ")
_PYTHON = re.compile(r"<\w|functools\.partial\(")  # a value that is an object of Python's, printed


class Change(NamedTuple):
    """Something that the upgraded text spells in another way, or that is lost.

    Attributes:
      span: the position in the old text.
      kind: `primitive`, `param-renamed`, `param-removed`, `param-added`, `param-value`,
        `literal-typed`, `binder-typed`, `type-spelled`, `index-spelled`, `operands`; or for what is
        lost: `function`, `constant`, `opaque`, `type`, `numbers` (which a key draws), `stride`,
        `mask`.
      primitive: the primitive of the equation, by its name in the old text; "" outside of
        equations.
      old, new: the spellings; "" for none.
      message: the same in words.
    """

    span: Span | None
    kind: str
    primitive: str
    old: str
    new: str
    message: str

    @property
    def lost(self) -> bool:
        """Whether something is missing in the text, and so in the program."""
        return self.kind in ("function", "constant", "opaque", "type", "numbers", "stride", "mask")


@dataclass(frozen=True)
class Report:
    """What an upgrade changed.

    Attributes:
      name: the name of the file.
      dialect: the new text's.
      releases: which releases print the old text.
      changes: in the order of the old text.
    """

    name: str
    dialect: str
    releases: Releases
    changes: list[Change]

    def lines(self) -> list[str]:
        """A line for each change at its place, and a summary."""
        lost = [c for c in self.changes if c.lost]
        count = len(self.changes) - len(lost)
        found = [f"{self.name}: printed by {self.releases}; written as {self.dialect}"]
        for c in self.changes:
            place = c.span if c.span is not None else self.name
            severity = "lost" if c.lost else "changed"
            found.append(one_line(f"{place}: {severity}: {c.message} [{c.kind}]"))
        found.append(f"{counted(count, 'change')}, {counted(len(lost), 'thing')} lost")
        return found

    def document(self) -> str:
        """The report as JSON."""
        done = [self._entry(c) for c in self.changes if not c.lost]
        lost = [self._entry(c) for c in self.changes if c.lost]
        fields = {
            "schema": 1,
            "file": self.name,
            "dialect": self.dialect,
            "releases": self.releases.document(),
            "changes": done,
            "lost": lost,
        }
        return json.dumps(fields)

    def _entry(self, c: Change) -> dict[str, Any]:
        line, column = c.span.source.position(c.span.start) if c.span else (None, None)
        fields = {"file": self.name, "line": line, "column": column, "primitive": c.primitive}
        return {**fields, "kind": c.kind, "old": c.old, "new": c.new, "message": c.message}


def target(dialect: str = "") -> str:
    """Return the name of the dialect to write: one by its name, `jax-0.12`; "" for the installed
    JAX's, without one the newest.

    Raises:
      UsageError: there is no such dialect.
    """
    return (find_dialect(dialect) if dialect else installed()).name


def written_for(
    programs: Programs, dialect: str
) -> tuple[dict[str, ClosedJaxpr], list[Diagnostic]]:
    """Return programs as the release of a dialect can express them, as far as it had other operations for the same.

    Returns:
      The programs, and a note for each equation that is replaced.

    Raises:
      UsageError: there is no such dialect.
    """
    if says_all(programs.values(), dialect):
        return dict(programs), []
    return driver.dialects.for_dialect(programs, dialect)


def report(text: str, name: str, programs: Programs, dialect: str) -> Report:
    """Report the differences between a text and that of its programs in another dialect.

    Args:
      text: the old text.
      name: its name.
      programs: the programs of the text that are written.
      dialect: the dialect to write.

    Raises:
      JaxprParseError: the text is no jaxpr.
      UnsupportedError: the dialect cannot express a program.
    """
    _, reading = parse_and_scan(text, name)
    printed = format_file(dict(programs), dialect=dialect, lossless=True)
    again, new_reading = parse_and_scan(printed, "<upgraded>")
    before, after = spelled(reading), spelled(new_reading)
    changes: list[Change] = []
    for key, program in programs.items():
        for old, new in _pairs(program.jaxpr, again[key].jaxpr):
            changes += _of_equation(old, new, before, after)
            changes += _of_index(old[0], new[0])
        changes += _types(program)
        changes += _respelled_types(program.jaxpr, again[key].jaxpr)
        changes += _lost(program)
    releases = releases_of(reading, before.values())
    if not version_line(text):  # our texts name the generator, so they draw the same everywhere
        changes += _draws(reading, programs)
        changes += _strides(programs)
        changes += _masks(programs)
    changes = sorted(dict.fromkeys(changes), key=lambda c: c.span.start if c.span else -1)
    return Report(name, dialect, releases, changes)


def _pairs(old: Jaxpr, new: Jaxpr) -> Iterator[tuple[list[JaxprEqn], list[JaxprEqn]]]:
    """Yield corresponding equations of two jaxprs; those that came from one equation of the text together."""
    seen: set[Jaxpr] = set()
    pending = [(old, new)]
    while pending:
        a, b = pending.pop()
        if a in seen or len(a.eqns) != len(b.eqns):
            continue
        seen.add(a)
        both = zip(a.eqns, b.eqns, strict=True)
        for _, group in groupby(both, key=lambda pair: pair[0].span and pair[0].span.start):
            pairs = list(group)
            yield [x for x, _ in pairs], [y for _, y in pairs]
            for x, y in pairs:
                for key in x.params.keys() & y.params.keys():
                    inner = zip(jaxprs_in(x.params[key]), jaxprs_in(y.params[key]), strict=False)
                    pending += [(one.jaxpr, other.jaxpr) for one, other in inner]


def _of_equation(
    old: Sequence[JaxprEqn],
    new: Sequence[JaxprEqn],
    before: Mapping[int, SpelledEquation],
    after: Mapping[int, SpelledEquation],
) -> Iterator[Change]:
    """Yield the changes of spelling in one equation of the old text."""
    span = old[0].span
    was = before.get(span.start) if span else None
    now = [after[e.span.start] for e in new if e.span and e.span.start in after]
    if was is None or span is None or not now:
        return
    names = [x.name for x in now]
    if names != [was.name]:
        many = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        if len({*names}) < len(names):
            many = f"{len(names)} equations of {', '.join(dict.fromkeys(names))}"
        message = f"{was.name} is now {many}"
        yield Change(span, "primitive", was.name, was.name, ", ".join(names), message)
    if len(now) > 1:
        return
    yield from _of_params(span, was, now[0], old[0])
    yield from _of_operands(span, was, now[0], old[0])


def _of_params(
    span: Span, was: SpelledEquation, now: SpelledEquation, eqn: JaxprEqn
) -> Iterator[Change]:
    """Yield the params of an equation that were renamed, removed, added, or are spelled in another way."""
    called, left = now_called(was.name), dict(now.params)
    for key, value in was.params.items():
        new = key if key in left else called.get(key, key)
        if new not in left:
            why = ", which is not printed now" if key in eqn.params else ""
            if dropped_param(was.name, key):
                why = ", which says nothing about what is computed"
            message = f"{was.name}: param {_param(key, value)} is left out{why}"
            yield Change(span, "param-removed", was.name, key, "", message)
            if key != "name" and _PYTHON.match(value) and key not in eqn.params:
                message = f"{was.name}: the function that param {key} was is not in the text"
                yield Change(span, "function", was.name, value, "", message)
            continue
        text = left.pop(new)
        if new != key:
            message = f"{was.name}: param {key} is now {new}"
            yield Change(span, "param-renamed", was.name, key, new, message)
        shared = any(jaxprs_in(eqn.params.get(new)))
        if "".join(text.split()) != "".join(value.split()) and text and value and not shared:
            message = f"{was.name}: param {new} was {value}, and is now {text}"
            yield Change(span, "param-value", was.name, value, text, message)
    for key, value in left.items():
        message = f"{now.name}: param {_param(key, value)} is new"
        yield Change(span, "param-added", was.name, "", key, message)


def _of_index(old: JaxprEqn, new: JaxprEqn) -> Iterator[Change]:
    """Yield a change of the index of a reference: `r[:]` is `r[...]` since JAX 0.8."""
    span, name = old.span, old.primitive.name
    if span is None or new.span is None:
        return
    if not any(isinstance(v, RefIndex) for v in old.params.values()):
        return
    texts = [_ARROW.search(_text(span)) and _text(span), _text(new.span)]
    refs = [eqn.inputs[0] for eqn in (old, new)]
    paths = [
        re.search(rf"(?<!\w){re.escape(str(ref.name))}({PATH})", text)
        for ref, text in zip(refs, texts, strict=True)
        if isinstance(ref, Var) and text
    ]
    was, now = [*(m and m[1] for m in paths), None, None][:2]
    if was and now and was != now:
        yield Change(span, "index-spelled", name, was, now, f"{name}: the index {was} is now {now}")


def _param(key: str, value: str) -> str:
    return f"{key}={value}" if value else key


def _of_operands(
    span: Span, was: SpelledEquation, now: SpelledEquation, eqn: JaxprEqn
) -> Iterator[Change]:
    """Yield the literals of an equation that have a type now, and operands in another order."""
    old, new = was.operands.split(), now.operands.split()
    if len(old) == len(eqn.inputs) == len(new):
        for word, text, x in zip(old, new, eqn.inputs, strict=True):
            if isinstance(x, Lit) and x.aval is not UNTYPED and ":" not in word and ":" in text:
                message = f"{was.name}: the literal {word} has the type {x.aval}"
                yield Change(span, "literal-typed", was.name, word, text, message)
    variables = [str(x.name) for x in eqn.inputs if isinstance(x, Var)]
    if [*filter(_NAME.fullmatch, variables)] != [*filter(_NAME.fullmatch, old)]:
        now_read = [*map(_as_word, eqn.inputs)]
        message = f"{was.name}: the operands {' '.join(old)} are now {' '.join(now_read)}"
        yield Change(span, "operands", was.name, " ".join(old), " ".join(now_read), message)


def _as_word(x: Atom) -> str:
    return str(x.name) if isinstance(x, Var) else f"{x.val}:{x.aval}"


def _types(program: ClosedJaxpr) -> Iterator[Change]:
    """Yield the binders of a program that have no type in its text, and now have one."""
    for jaxpr in reachable([program.jaxpr]):
        groups = [("", jaxpr.all_binders), *((e.primitive.name, e.out_binders) for e in jaxpr.eqns)]
        for name, binders in groups:
            bare = [v for v in binders if v.span and ":" not in _text(v.span)]
            typed = [v for v in bare if v.aval is not UNTYPED]
            if typed:
                old = " ".join([str(v.name) for v in typed])
                new = " ".join([f"{v.name}:{v.aval}" for v in typed])
                yield Change(typed[0].span, "binder-typed", name, old, new, f"{old} is now {new}")


def _respelled_types(old: Jaxpr, new: Jaxpr) -> Iterator[Change]:
    """Yield the binders whose types are spelled in another way: `Ref{float32[3]}` is `Ref{f32[3]}` since JAX 0.7.1."""
    jaxprs = [*reachable([old])], [*reachable([new])]
    for a, b in zip(*jaxprs, strict=False):
        groups = [("", a.all_binders, b.all_binders)]
        pairs = zip(a.eqns, b.eqns, strict=False)
        groups += [(x.primitive.name, x.out_binders, y.out_binders) for x, y in pairs]
        for name, was, now in groups:
            for v, w in zip(was, now, strict=False):
                if v.name != w.name or not v.span or not w.span:
                    continue
                spelled_so, spelled_now = (
                    _text(x.span).partition(":")[2] for x in (v, w) if x.span
                )
                if spelled_so and "".join(spelled_so.split()) != "".join(spelled_now.split()):
                    message = f"the type {spelled_so} of {v.name} is now written {spelled_now}"
                    yield Change(v.span, "type-spelled", name, spelled_so, spelled_now, message)


def _text(span: Span) -> str:
    return span.source.text[span.start : span.end]


def _draws(reading: Reading, programs: Programs) -> Iterator[Change]:
    """Yield the equations of a text that may be of a release which drew other random numbers."""
    for release, when, eqns in draws_of(reading, [*programs.values()]):
        before = ".".join(map(str, release))
        for eqn in eqns if when in ("either", "untold") else ():
            name = eqn.primitive.name
            message = f"{name} draws other numbers than releases before {before} did"
            yield Change(eqn.span, "numbers", name, "", "", message)


def _strides(programs: Programs) -> Iterator[Change]:
    """Yield the slices of references whose stride a text does not show: JAX prints only where a
    slice begins and its size.
    """
    for program in programs.values():
        for eqn in all_eqns(program.jaxpr):
            index = next((v for v in eqn.params.values() if isinstance(v, RefIndex)), None)
            if index is None or eqn.span is None or not _ARROW.search(_text(eqn.span)):
                continue  # an equation printed with all params shows the stride
            held = getattr(eqn.inputs[0].aval, "inner", None)
            shape = getattr(held, "shape", ())
            first = index.steps[0] if index.steps else None
            items = first.items if isinstance(first, Indexer) else ()
            for axis, (item, n) in enumerate(zip(items, shape, strict=False)):
                if isinstance(item, Slice) and _has_room(item, n):
                    message = (
                        f"the slice along axis {axis}, {item.size} of {n} elements, may have had a stride, "
                        "which JAX does not print: it is read without one"
                    )
                    yield Change(eqn.span, "stride", eqn.primitive.name, "", "", message)


def _masks(programs: Programs) -> Iterator[Change]:
    """Yield the writes of kernels for which a text does not show whether they were masked; JAX
    shows it if the result is read.
    """
    for program in programs.values():
        for jaxpr in reachable([program.jaxpr]):
            yield from _masks_in(jaxpr)


def _masks_in(jaxpr: Jaxpr) -> Iterator[Change]:
    """Yield the writes whose result has no name and beside which there is an unread boolean array
    of their shape: a likely mask.
    """
    read = {x for eqn in jaxpr.eqns for x in eqn.inputs} | {*jaxpr.outs}
    idle = [
        v
        for eqn in jaxpr.eqns
        for v in eqn.out_binders
        if isinstance(v.aval, ShapedArray) and v.aval.dtype is BOOL and v not in read
    ]
    for eqn in jaxpr.eqns:
        if eqn.primitive.notation != "write" or eqn.span is None or eqn.params.get("mask"):
            continue
        value, line = eqn.inputs[1].aval, _text(eqn.span)
        found = [v for v in idle if v.name and v.aval.shape == getattr(value, "shape", None)]
        if found and _ARROW.search(line) and eqn.out_binders[0].span is None:
            message = (
                f"the write may have had a mask, as {found[0].name}:{found[0].aval} that nobody reads, "
                "which JAX does not print here: all elements are written"
            )
            yield Change(eqn.span, "mask", eqn.primitive.name, "", "", message)


def _has_room(s: Slice, n: Any) -> bool:
    """Whether as many elements, two apart, fit in a dimension of size n."""
    if s.stride != 1 or not isinstance(s.size, int) or not isinstance(n, int) or s.size < 2:
        return False
    start = s.start if isinstance(s.start, int) else 0
    return start + 2 * (s.size - 1) < n


def _lost(program: ClosedJaxpr) -> Iterator[Change]:
    """Yield what a program needs and its text lacks: values of constants and of params, types of arguments."""
    for v, value in zip(program.jaxpr.const_binders, program.consts, strict=False):
        if value is None:
            message = f"the value of the constant {v.name} is not in the text"
            yield Change(v.span, "constant", "", str(v.name), "", message)
    for d in missing_types(program.jaxpr):
        yield Change(d.span, "type", "", "", "", f"{d.message}: {d.help}")
    for eqn in all_eqns(program.jaxpr):
        for key, value in eqn.params.items():
            if isinstance(value, Opaque):
                name = eqn.primitive.name
                message = f"{name}: param {key} is only text, {value}"
                yield Change(eqn.span, "opaque", name, str(value), str(value), message)

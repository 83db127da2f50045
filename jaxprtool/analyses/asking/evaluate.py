"""Evaluate expressions: whether they are true of a program, of a program beside another one, or of one in several sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from jaxprtool.analyses.asking.data_flow import Flow
from jaxprtool.analyses.asking.items import Equation, Item, Value
from jaxprtool.analyses.asking.matching import ORDERS, fits, holds, needs_context
from jaxprtool.analyses.asking.named import names_in
from jaxprtool.analyses.asking.numbers import plain_number
from jaxprtool.analyses.asking.subject import Program, Subject
from jaxprtool.analyses.asking.verdict import Fact, Verdict
from jaxprtool.analyses.counting.growth import exponent
from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.spans import Source, Span
from jaxprtool.syntax.assertions.nodes import (
    AllWhere,
    Arithmetic,
    Before,
    Chain,
    Claim,
    Count,
    Exists,
    Feeds,
    Figure,
    Growth,
    Logic,
    Number,
    Pattern,
    Residuals,
    Sum,
)

__all__ = ["Asked", "evaluate"]

_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


class Asked(NamedTuple):
    """The programs that expressions are about.

    Attributes:
      a: the program.
      b: the other one, or None.
      sizes: each size with the program, and the other one, in this size; () for one size.
      size: what the size is called, or "".
    """

    a: Subject
    b: Subject | None = None
    sizes: Sequence[tuple[int, Subject, Subject | None]] = ()
    size: str = ""


def evaluate(claim: Claim, text: str, asked: Asked) -> Verdict:
    """Return whether a claim is true.

    Args:
      claim: what `syntax.assertions.read.read_claim` made of the text.
      text: the expression.
      asked: the programs. With several sizes it has to be true of each, or of their growth.

    Raises:
      UsageError: a figure is not known, or there is no second program, or no sizes.
    """
    if not asked.sizes or _grows(claim):
        return _Evaluation(text, asked).verdict(claim)
    found: list[Verdict] = []
    for n, subject, other in asked.sizes:
        one = _Evaluation(text, Asked(subject, other)).verdict(claim)
        facts = [replace(f, says=f"at {asked.size} = {n:,}: {f.says}") for f in one.facts]
        found.append(replace(one, facts=facts))
    true = all(v.holds for v in found)
    facts = [f for v in found if v.holds == true for f in v.facts]
    return Verdict(text, true, facts)


def _grows(node: Any) -> bool:
    """Whether a claim or a number asks for growth."""
    todo = [node]
    while todo:
        x = todo.pop()
        if isinstance(x, Growth):
            return True
        if isinstance(x, (Logic, Arithmetic)):
            todo += x.parts
        elif isinstance(x, Chain):
            todo += x.numbers
    return False


class _Evaluation:
    """The evaluation of one expression."""

    def __init__(self, text: str, asked: Asked):
        self.text, self.asked = text, asked
        self.facts: list[Fact] = []

    def fault(self, node: Any, message: str, help: str = "") -> NoReturn:
        span = Span(Source(self.text, "<expression>"), node.at[0], node.at[1])
        fail(UsageError, message, "expression", span=span, help=help)

    def words(self, node: Any) -> str:
        """Return a part of the expression as it is written."""
        return self.text[node.at[0] : node.at[1]]

    def verdict(self, claim: Claim) -> Verdict:
        """Return the verdict of a claim, with the facts that decide it."""
        true, facts = self.claim(claim)
        return Verdict(self.text, true, facts)

    def claim(self, claim: Claim) -> tuple[bool, list[Fact]]:
        """Return whether a claim is true, and the facts that decide it."""
        if isinstance(claim, Logic):
            return self.logic(claim)
        evaluations: dict[type, Callable[[Any], Fact]] = {
            Chain: self.chain,
            Exists: self.exists,
            AllWhere: self.all_where,
            Feeds: self.feeds,
            Before: self.before,
        }
        fact = evaluations[type(claim)](claim)
        return fact.holds, [fact]

    def logic(self, claim: Logic) -> tuple[bool, list[Fact]]:
        """Evaluate `and`, `or` and `not`. All parts of a true `and`, or of a false `or`, decide it; else the parts that make it so."""
        results = [self.claim(part) for part in claim.parts]
        if claim.kind == "not":
            return not results[0][0], results[0][1]
        values = [r[0] for r in results]
        true = all(values) if claim.kind == "and" else any(values)
        return true, [f for value, facts in results if value == true for f in facts]

    def subject(self, node: Any) -> Subject:
        """Return program A or B."""
        if node.program == "A":
            return self.asked.a
        if self.asked.b is None:
            self.fault(node, "there is no program B", "name it with --vs OTHER")
        return self.asked.b

    # -- claims ---------------------------------------------------------------------------------------

    def exists(self, claim: Exists) -> Fact:
        found = self.asked.a.find(claim.pattern)
        n = _times(found)
        what = claim.pattern.text
        says = f"{_matches(n)} of {what}" if n else f"nothing matches {what}"
        return self.fact(claim, (n > 0) == claim.wanted, says, n, found)

    def all_where(self, claim: AllWhere) -> Fact:
        contexts = needs_context(claim.filter)
        found = self.asked.a.find(claim.pattern, contexts=contexts)
        self.asked.a.note_names(names_in((), [claim.filter]))
        failing = [item for item in found if not holds(claim.filter, item)]
        where, what = self.words(claim.filter), claim.pattern.text
        n, bad = _times(found), _times(failing)
        says = f"{plain_number(bad)} of {_matches(n)} of {what} not where {where}"
        if not n:
            says = f"nothing matches {what}"
        return self.fact(claim, not failing, says, bad, failing)

    def feeds(self, claim: Feeds) -> Fact:
        subject = self.asked.a
        if not isinstance(subject, Program):
            self.fault(claim, "flow is that of a program before it is lowered")
        flow = Flow(subject.program.jaxpr, _equations(subject, claim.sink))
        found = subject.find(claim.source)
        split: dict[bool, list[Item]] = {True: [], False: []}
        for item in found:
            split[_feeds(flow, subject, item)].append(item)
        feeding, rest = split[True], split[False]
        what, sink = claim.source.text, claim.sink.text
        n, some = _times(found), _times(feeding)
        if not n:
            return self.fact(claim, False, f"nothing matches {what}", 0, ())
        said = f"{plain_number(some)} of {_matches(n)} of {what} feed {sink}"
        if not claim.every:
            return self.fact(claim, some > 0, said, some, feeding or found)
        return self.fact(claim, not rest, said, some, rest or feeding)

    def before(self, claim: Before) -> Fact:
        subject = self.asked.a
        if not isinstance(subject, Program):
            self.fault(claim, "order is that of a program before it is lowered")
        a, b = subject.find(claim.earlier), subject.find(claim.later)
        for items, pattern in ((a, claim.earlier), (b, claim.later)):
            if not items:
                return self.fact(claim, False, f"nothing matches {pattern.text}", 0, ())
            if not all(isinstance(item, Equation) for item in items):
                message = f"{pattern.text} is a type of values, and equations have an order"
                self.fault(pattern, message)
        ends = [_end(x, last=claim.which[0] != "first") for x in a if isinstance(x, Equation)]
        starts = [_start(x, last=claim.which[1] == "last") for x in b if isinstance(x, Equation)]
        end = (min if claim.which[0] == "first" else max)(ends, key=_position)
        start = (max if claim.which[1] == "last" else min)(starts, key=_position)
        true = end[0] <= start[0]
        first, second = claim.which[0] or "last", claim.which[1] or "first"
        how = "ends before" if true else "does not end before"
        says = f"the {first} {claim.earlier.text} {how} the {second} {claim.later.text}"
        return self.fact(claim, true, says, None, [end[1], start[1]])

    def chain(self, claim: Chain) -> Fact:
        values = [self.number(x) for x in claim.numbers]
        pairs = zip(claim.ops, values[:-1], values[1:], strict=True)
        true = all(ORDERS[op](a, b) for op, a, b in pairs)
        found = [
            (self.words(x), v) for x, v in zip(claim.numbers, values, strict=True) if _is_open(x)
        ]
        said = ", ".join([f"{what} is {plain_number(v)}" for what, v in found]) or self.words(claim)
        counted = [c for x in claim.numbers for c in _counts_in(x)]
        items = [i for c in counted for i in self.subject(c).find(c.pattern, top=c.top)]
        alone = len(counted) == 1 and counted[0] in claim.numbers
        n = int(values[claim.numbers.index(counted[0])]) if alone else None
        return self.fact(claim, true, said, n, items, found)

    def fact(
        self,
        claim: Any,
        true: bool,
        says: str,
        count: int | None,
        items: Sequence[Item],
        values: Sequence[tuple[str, float]] = (),
    ) -> Fact:
        return Fact(self.words(claim), true, says, count, [*items], [*values])

    # -- numbers --------------------------------------------------------------------------------------

    def number(self, x: Sum) -> float:
        """Return the value of a number."""
        if isinstance(x, Number):
            return x.value
        if isinstance(x, Arithmetic):
            return self.arithmetic(x)
        if isinstance(x, Count):
            return _times(self.subject(x).find(x.pattern, top=x.top))
        if isinstance(x, Growth):
            return self.growth(x)
        try:
            if isinstance(x, Residuals):
                return self.residuals(x)
            return self.figure(x)
        except UsageError as e:
            d = e.diagnostics[0]
            if d.span is None and d.code == "expression":
                self.fault(x, d.message, d.help)
            raise

    def figure(self, x: Figure) -> float:
        subject = self.subject(x)
        return subject.figure(x.name) if x.pattern is None else subject.figure_of(x.name, x.pattern)

    def residuals(self, x: Residuals) -> float:
        kept = self.subject(x).kept(x.policy)
        if x.pattern is None or x.pattern.value is None:
            return sum(v.nbytes for v in kept)
        pattern = x.pattern.value
        return sum(fits(pattern, v.aval) for v in kept)

    def arithmetic(self, x: Arithmetic) -> float:
        values = [self.number(part) for part in x.parts]
        if len(values) == 1:
            return -values[0]
        a, b = values
        if x.op == "/" and b == 0:
            self.fault(x, "division by zero")
        try:
            found = _OPERATIONS[x.op](a, b)
        except OverflowError:
            found = math.inf
        if not math.isfinite(found):
            self.fault(x, "the number is too large")
        return found

    def growth(self, x: Growth) -> float:
        sizes = self.asked.sizes
        if len(sizes) < 2:
            help = "--sizes S=128,512 traces a function, or reads a file, for each of them"
            self.fault(x, "growth is over sizes, and none are given", help)
        if x.size != self.asked.size:
            self.fault(x, f"there are no sizes {x.size}", f"the sizes are of {self.asked.size}")
        values: list[float] = []
        for _, subject, other in sizes:
            one = _Evaluation(self.text, Asked(subject, other))
            values.append(one.number(x.of))
        if len(set(values)) == 1:
            return 0.0
        if min(values) <= 0:
            message = (
                f"{self.words(x.of)} is not positive at some size, and its growth has no exponent"
            )
            self.fault(x, message)
        return exponent([n for n, *_ in sizes], values) or 0.0


def _is_open(x: Sum) -> bool:
    """Whether a number depends on the program."""
    if isinstance(x, Arithmetic):
        return any(map(_is_open, x.parts))
    return not isinstance(x, Number)


def _counts_in(x: Sum) -> list[Count]:
    if isinstance(x, Arithmetic):
        return [c for part in x.parts for c in _counts_in(part)]
    return [x] if isinstance(x, Count) else []


def _matches(n: int) -> str:
    return "1 match" if n == 1 else f"{plain_number(n)} matches"


def _times(items: Sequence[Item]) -> int:
    return sum(item.times for item in items)


def _equations(subject: Program, pattern: Pattern) -> list[JaxprEqn]:
    """Return the equations that match a pattern; for a type, those that compute such a value."""
    items = subject.find(pattern)
    made = [item.made if isinstance(item, Value) else item for item in items]
    return [item.eqn for item in made if isinstance(item, Equation)]


def _feeds(flow: Flow, subject: Program, item: Item) -> bool:
    if isinstance(item, Equation):
        return flow.feeds(item.level.jaxpr, item.eqn.out_binders)
    if isinstance(item, Value):
        jaxpr = subject.program.jaxpr if item.made is None else item.made.level.jaxpr
        return flow.feeds(jaxpr, [item.atom])
    return False


_Position = tuple[int, Equation]


def _position(found: _Position) -> int:
    return found[0]


def _start(item: Equation, *, last: bool) -> _Position:
    level = item.level
    return (level.last if last else level.first) + level.offsets[item.at], item


def _end(item: Equation, *, last: bool) -> _Position:
    level = item.level
    return (level.last if last else level.first) + level.offsets[item.at + 1], item

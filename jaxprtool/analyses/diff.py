"""The difference of two programs: a unified diff of their canonical prints.

Corresponding equations are found first (`align`), and then given the same variable names in both prints, so that
a line differs only where the programs do. The canonical print has one line for each equation, and
the jaxprs in its params as indented blocks below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.align import align, align_equations
from jaxprtool.analyses.canonical import canonical_consts, canonical_lit, canonical_params
from jaxprtool.analyses.signature import Signatures
from jaxprtool.core.stack import deep
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Value
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["Change", "diff_programs", "summary", "unified"]

Line = tuple[str, str]  # (" ", "-" or "+", text)
Side = dict[Any, str]  # names of variables


class Change(NamedTuple):
    """Equations that correspond and differ, or one of one side alone (the other is None)."""

    a: JaxprEqn | None
    b: JaxprEqn | None


@deep
def diff_programs(
    a: dict[str, ClosedJaxpr], b: dict[str, ClosedJaxpr], changes: list[Change] | None = None
) -> list[Line]:
    """The lines of both files, marked; none is marked `-` or `+` when they are equal.

    Args:
      a, b: the programs of two files, by name. A single program of each is compared whatever its name.
      changes: is given the equations that differ, where it is a list; those of a nested jaxpr once.
    """
    changes = [] if changes is None else changes
    if len(a) == len(b) == 1:
        return _Diff(changes).programs(next(iter(a.values())), next(iter(b.values())))
    lines: list[Line] = []
    for name in dict.fromkeys([*a, *b]):
        diff = _Diff(changes)
        body = diff.programs(a.get(name), b.get(name))
        mark = " " if name in a and name in b else "-" if name in a else "+"
        lines += [(mark, f"{name} ="), *body]
    return lines


class _Diff:
    """One comparison: names handed out so far, nested jaxprs printed already, and the equations that differ."""

    def __init__(self, changes: list[Change]) -> None:
        self.changes = changes
        self.signatures = Signatures()
        self.names = _names()
        self.printed: dict[tuple[int, int], str] = {}

    def programs(
        self, a: ClosedJaxpr | None, b: ClosedJaxpr | None, indent: str = ""
    ) -> list[Line]:
        """The marked lines of two programs; None is one that is not there."""
        if a is None or b is None:
            only = a or b
            assert only is not None  # a name comes from one side or the other
            mark = "+" if a is None else "-"
            lines = [(mark, text) for _, text in self.programs(only, only, indent)]
            every = all_eqns(only.jaxpr)
            alone = [Change(None, e) if a is None else Change(e, None) for e in every]
            self.changes += alone
            return lines
        in_a: Side = {}
        in_b: Side = {}
        lines = self._header(a, b, in_a, in_b, indent)
        pairs = [(i, i) for i in range(len(a.eqns))]
        if a is not b:
            binders = self._binder_pairs(a, b)
            pairs = align_equations(a.jaxpr, b.jaxpr, binders, self.signatures)
        for i, j in _steps(pairs, len(a.eqns), len(b.eqns)):
            eqn_a = a.eqns[i] if i is not None else None
            eqn_b = b.eqns[j] if j is not None else None
            lines += self._equation(eqn_a, eqn_b, in_a, in_b, indent + "    ")
        return lines + _merge(
            *([f"{indent}  in ({_outs(p, s)}) }}"] for p, s in ((a, in_a), (b, in_b)))
        )

    def _binder_pairs(self, a: ClosedJaxpr, b: ClosedJaxpr) -> list[tuple[int, int]]:
        """Binders that correspond: those of one type, then a constant with a constant."""
        const_a, const_b = (
            [i < len(c.consts) for i in range(len(c.jaxpr.all_binders))] for c in (a, b)
        )
        typed_a, typed_b = (
            [(v.aval.strong, const) for v, const in zip(c.jaxpr.all_binders, flags, strict=True)]
            for c, flags in ((a, const_a), (b, const_b))
        )
        return align([(typed_a, typed_b), (const_a, const_b)], len(const_a), len(const_b))

    def _header(
        self, a: ClosedJaxpr, b: ClosedJaxpr, in_a: Side, in_b: Side, indent: str
    ) -> list[Line]:
        binders_a, binders_b = a.jaxpr.all_binders, b.jaxpr.all_binders
        for i, j in _steps(self._binder_pairs(a, b), len(binders_a), len(binders_b)):
            name = next(self.names)
            if i is not None:
                in_a[binders_a[i]] = name
            if j is not None:
                in_b[binders_b[j]] = name
        return _merge(_head(a, in_a, indent), _head(b, in_b, indent))

    def _equation(
        self, a: JaxprEqn | None, b: JaxprEqn | None, in_a: Side, in_b: Side, indent: str
    ) -> list[Line]:
        """The lines of one equation of each side that correspond, or of one side's own."""
        n = max(len(e.out_binders) for e in (a, b) if e is not None)
        names = [next(self.names) for _ in range(n)]
        for eqn, side in ((a, in_a), (b, in_b)):
            if eqn is not None:
                side.update(zip(eqn.out_binders, names, strict=False))
        head_a = [] if a is None else [self._line(a, in_a, indent)]
        head_b = [] if b is None else [self._line(b, in_b, indent)]
        lines = _merge(head_a, head_b)
        if head_a != head_b:
            self.changes.append(Change(a, b))
        inner_a, inner_b = _inner(a), _inner(b)
        for k in range(max(len(inner_a), len(inner_b))):
            x = inner_a[k] if k < len(inner_a) else None
            y = inner_b[k] if k < len(inner_b) else None
            lines += self._nested(x, y, f"{', '.join(names)} {k}", indent + "    ")
        return lines

    def _nested(
        self, x: ClosedJaxpr | None, y: ClosedJaxpr | None, label: str, indent: str
    ) -> list[Line]:
        """A jaxpr inside a param; one that was printed before is only referred to."""
        first = self.printed.setdefault((id(x), id(y)), label)
        if first == label:
            return self.programs(x, y, indent)
        where = f"{indent}{{ as in {first} }}"
        return _merge([where] if x is not None else [], [where] if y is not None else [])

    def _line(self, eqn: JaxprEqn, side: Side, indent: str) -> str:
        params = " ".join(f"{k}={text}" for k, text in canonical_params(eqn, _elsewhere))
        outs = " ".join(f"{side[v]}:{v.aval}" for v in eqn.out_binders)
        ins = " ".join(_atom(x, side) for x in eqn.inputs)
        equals = f"{outs} = " if outs else ""
        return f"{indent}{equals}{eqn.primitive}{f'[{params}]' if params else ''} {ins}".rstrip()


def _inner(eqn: JaxprEqn | None) -> list[ClosedJaxpr]:
    """The jaxprs in the params of an equation, in the order of the params' names."""
    if eqn is None:
        return []
    return list(sub_jaxprs(eqn.replace(params=dict(sorted(eqn.params.items())))))


def _elsewhere(program: ClosedJaxpr) -> str:
    """A jaxpr inside a line: it is printed below its equation."""
    return "{...}"


def _atom(x: Value, side: Side) -> str:
    return f"{canonical_lit(x)}:{x.aval}" if type(x) is Lit else side.get(x, "?")


def _outs(program: ClosedJaxpr, side: Side) -> str:
    outs = [_atom(x, side) for x in program.jaxpr.outs]
    return ", ".join(outs) + ("," if len(outs) == 1 else "")


def _head(program: ClosedJaxpr, side: Side, indent: str) -> list[str]:
    jaxpr = program.jaxpr
    consts, ins = (
        " ".join(f"{side[v]}:{v.aval}" for v in vs)
        for vs in (jaxpr.const_binders, jaxpr.in_binders)
    )
    lines = [f"{indent}{{ lambda {consts}; {ins}. let"]
    for v, text in zip(jaxpr.const_binders, canonical_consts(program), strict=True):
        if text:
            lines.append(f"{indent}    where {side[v]} = {text}")
    return lines


def _steps(
    pairs: Sequence[tuple[int, int]], n: int, m: int
) -> Iterator[tuple[int | None, int | None]]:
    """All positions of both sequences in order: pairs, and those of one side alone."""
    i = j = 0
    for p, q in [*pairs, (n, m)]:
        yield from ((k, None) for k in range(i, p))
        yield from ((None, k) for k in range(j, q))
        if (p, q) != (n, m):
            yield p, q
        i, j = p + 1, q + 1


def _merge(a: list[str], b: list[str]) -> list[Line]:
    if a == b:
        return [(" ", line) for line in a]
    return [*(("-", line) for line in a), *(("+", line) for line in b)]


def _names() -> Iterator[str]:
    """a, b, ..., z, ba, bb, ... as in a print."""
    n = 0
    while True:
        k, name = n, ""
        while k or not name:
            k, letter = divmod(k, 26)
            name = chr(97 + letter) + name
        yield name
        n += 1


def unified(lines: Sequence[Line], name_a: str, name_b: str, context: int = 3) -> list[str]:
    """Marked lines as a unified diff: a header, and hunks with `context` lines around changes.

    Line numbers are those of the canonical prints. Empty when nothing differs.
    """
    changed = [k for k, (mark, _) in enumerate(lines) if mark != " "]
    if not changed:
        return []
    out = [f"--- {name_a}", f"+++ {name_b}"]
    hunks: list[list[int]] = []
    for k in changed:
        start, stop = max(k - context, 0), min(k + context + 1, len(lines))
        if hunks and start <= hunks[-1][1]:
            hunks[-1][1] = stop
        else:
            hunks.append([start, stop])
    in_a = in_b = done = 0
    for start, stop in hunks:
        in_a += sum(mark != "+" for mark, _ in lines[done:start])
        in_b += sum(mark != "-" for mark, _ in lines[done:start])
        hunk = lines[start:stop]
        n_a, n_b = (sum(mark != other for mark, _ in hunk) for other in "+-")
        out.append(f"@@ -{in_a + (n_a > 0)},{n_a} +{in_b + (n_b > 0)},{n_b} @@")
        out += [mark + text for mark, text in hunk]
        in_a, in_b, done = in_a + n_a, in_b + n_b, stop
    return out


def summary(changes: Sequence[Change]) -> str:
    """What differs, in a line: `3 added: 2 mul, 1 sin; 1 changed: add`. "" where no equation does."""
    added = [c.b for c in changes if c.a is None and c.b is not None]
    removed = [c.a for c in changes if c.b is None and c.a is not None]
    both = [(c.a, c.b) for c in changes if c.a is not None and c.b is not None]
    changed = [
        a.primitive.name if a.primitive is b.primitive else f"{a.primitive} to {b.primitive}"
        for a, b in both
    ]
    groups = (
        ("added", [e.primitive.name for e in added]),
        ("removed", [e.primitive.name for e in removed]),
        ("changed", changed),
    )
    return "; ".join(f"{len(names)} {what}: {_counted(names)}" for what, names in groups if names)


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in Counter(names).most_common())

"""The lines of two programs side by side: what a diff shows, and how each line is written.

A line is a part of a jaxpr: its head, the value of a constant, an equation, its results. It is
written with the names that stand in the file; whether two lines are the same is decided by the
parts, not by these texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from jaxprtool.analyses.diffing.values import Apart
from jaxprtool.analyses.identity.canonical import canonical_const, canonical_lit, canonical_params
from jaxprtool.analyses.places import Place, Step
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Lit, Value, Var
from jaxprtool.syntax.printing.naming import Nested, name_variables, shared_jaxprs

__all__ = ["Names", "Part", "Row", "names_of"]

What = Literal["name", "head", "constant", "equation", "elsewhere", "results"]
_INDENT = "    "


class Names:
    """The names of a program's variables as they stand in its text, or would stand there."""

    def __init__(self, program: ClosedJaxpr):
        self._program = program
        self._names: Mapping[Var, str] | None = None

    def __call__(self, v: Var) -> str:
        if self._names is None:
            self._names = names_of(self._program)
        return self._names.get(v) or v.name or "?"


def names_of(program: ClosedJaxpr) -> Mapping[Var, str]:
    """Return the names of all variables of a program."""
    nested = Nested(program, True)
    shared = shared_jaxprs(nested, program.jaxpr)
    return name_variables(nested, program.jaxpr, shared, lossless=True)[0]


class Part(NamedTuple):
    """A line of one of the programs.

    Attributes:
      what: which part of a jaxpr it is.
      program: the jaxpr.
      names: the names of variables.
      depth: the depth of nesting, in indents.
      eqn: the equation; for "elsewhere" the one that holds the jaxpr.
      path: the equations around, the outermost first.
      binder: for a constant its position.
      text: the line without its indent; "" where it is not written yet.
    """

    what: What
    program: ClosedJaxpr
    names: Names
    depth: int
    eqn: JaxprEqn | None = None
    path: tuple[Step, ...] = ()
    binder: int = 0
    text: str = ""

    def __str__(self) -> str:
        """The line, indented."""
        return _INDENT * self.depth + (self.text or self._written())

    @property
    def written(self) -> Part:
        """The line with its text, so that it is written only once."""
        return self._replace(text=self.text or self._written())

    def _written(self) -> str:
        jaxpr = self.program.jaxpr
        if self.what == "head":
            groups = (jaxpr.const_binders, jaxpr.in_binders)
            consts, ins = (" ".join(f"{self.names(v)}:{v.aval}" for v in vs) for vs in groups)
            return f"{{ lambda {consts}; {ins}. let"
        if self.what == "constant":
            v = jaxpr.const_binders[self.binder]
            value = canonical_const(self.program.consts[self.binder], v.aval)
            return f"{_INDENT}where {self.names(v)} = {value}"
        if self.what == "results":
            outs = [*map(self._atom, jaxpr.outs)]
            return f"  in ({', '.join(outs)}{',' * (len(outs) == 1)}) }}"
        return _INDENT + self._equation()

    def _equation(self) -> str:
        eqn = self.eqn
        assert eqn is not None  # a line of this kind has one
        params = " ".join(f"{k}={text}" for k, text in canonical_params(eqn, _below))
        outs = " ".join(f"{self.names(v)}:{v.aval}" for v in eqn.out_binders)
        ins = " ".join(map(self._atom, eqn.inputs))
        equals = f"{outs} = " if outs else ""
        return f"{equals}{eqn.primitive}{f'[{params}]' if params else ''} {ins}".rstrip()

    def _atom(self, x: Value) -> str:
        return f"{canonical_lit(x)}:{x.aval}" if type(x) is Lit else self.names(x)

    @property
    def line(self) -> int | None:
        """The number of the line in the file; None where it has none."""
        span = self.program.jaxpr.span if self.eqn is None else self.eqn.span
        if span is None or self.what in ("name", "constant"):
            return None
        at = max(span.end - 1, span.start) if self.what == "results" else span.start
        return span.source.position(at)[0]

    @property
    def constant(self) -> str:
        """The name of the constant whose value the line shows."""
        return self.names(self.program.jaxpr.const_binders[self.binder])

    @property
    def place(self) -> Place | None:
        """The place of an equation; None for any other line."""
        return Place(self.eqn, self.path) if self.eqn and self.what == "equation" else None

    @property
    def source(self) -> str:
        """The line of Python that an equation comes from, with the scopes around it; "" where it is not known."""
        place = self.place
        if place is None or not (place.source or place.names):
            return ""
        return (
            f"{place.source or ''} in {place.names}".strip() if place.names else place.source or ""
        )

    def bound(self) -> Sequence[Var]:
        """Return the variables that the line binds."""
        if self.what == "equation" and self.eqn is not None:
            return self.eqn.out_binders
        return self.program.jaxpr.all_binders if self.what == "head" else ()

    def weakly(self, other: Part) -> str:
        """Say which arguments of the other program are weakly typed, or not, unlike those of this one; "" where none differ."""
        said: list[str] = []
        if self.what != "head" or self.depth:
            return ""
        for x, y in zip(self.bound(), other.bound(), strict=False):
            was, is_weak = (getattr(v.aval, "weak_type", False) for v in (x, y))
            if was is not is_weak:
                said.append(f"{other.names(y)} is {'' if is_weak else 'not '}weakly typed")
        return ", ".join(said)

    def may_read_as(self, other: Part) -> bool:
        """Whether the line may have the same text as another one; False is certain, and known without the texts."""
        if self.eqn is None or other.eqn is None:
            return True
        return self.eqn.primitive.name == other.eqn.primitive.name

    def read(self) -> Sequence[Any]:
        """Return the atoms that the line reads."""
        if self.what == "equation" and self.eqn is not None:
            return self.eqn.inputs
        return self.program.jaxpr.outs if self.what == "results" else ()


class Row(NamedTuple):
    """Corresponding lines of both programs, or a line of one program (the other is None).

    Attributes:
      a, b: the lines.
      same: whether they are equal.
      moved: for an equation that has moved, its line in the other program.
      still: whether an equation that has moved is the same there.
      apart: how the values of a constant differ.
      partners: for a pair with the same text, what its operands on the side of b are in a, or which
        arguments are weakly typed.
    """

    a: Part | None
    b: Part | None
    same: bool = False
    moved: Part | None = None
    still: bool = False
    apart: Apart | None = None
    partners: str = ""

    @property
    def parts(self) -> tuple[Part | None, Part | None]:
        """Both lines."""
        return self.a, self.b

    @property
    def notes(self) -> tuple[str, str]:
        """The remarks beside the line of each side, or ""."""
        if self.moved is not None:
            line = f" line {self.moved.line}" if self.moved.line else ""
            changed = "" if self.still else ", changed"
            said = f"moved {'to' if self.b is None else 'from'}{line}{changed}"
            return (said, "") if self.b is None else ("", said)
        if self.apart is not None:
            return "", str(self.apart)
        if self.same and self.a is not None and self.b is not None:
            named = zip(*(map(p.names, p.bound()) for p in (self.a, self.b)), strict=False)
            others = ", ".join(f"{x} is {y}" for x, y in named if x != y)
            return (f"{others} in B", "") if others else ("", "")
        return "", self.partners


def _below(program: ClosedJaxpr) -> str:
    """A jaxpr inside a line: it stands below its equation."""
    return "{...}"

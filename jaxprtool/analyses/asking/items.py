"""What patterns are compared with: equations and values of programs, with their properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.asking.called import Arguments, Called
from jaxprtool.analyses.asking.numbers import json_count, plain_number
from jaxprtool.analyses.asking.walk import Level
from jaxprtool.analyses.places import Place
from jaxprtool.ir.diagnostics import place_of
from jaxprtool.ir.jaxpr import JaxprEqn, Lit
from jaxprtool.ir.origin import stack_of
from jaxprtool.ir.walk import jaxprs_in
from jaxprtool.ops.parallel import collective_names
from jaxprtool.syntax.params import format_value
from jaxprtool.syntax.patterns import pattern

__all__ = ["Equation", "Item", "Match", "Value", "array_of"]

_LONGEST = 200  # characters of an equation that are shown, at most
_BLANKS = pattern(r"\s+")


class Match(NamedTuple):
    """A match of a pattern.

    Attributes:
      place: the equation, or the one that computes the value; None for an argument, a constant or
        an operation of a lowered program.
      times: how often it is in the program.
      text: the equation, the value or the operation.
      located: `file:line:column`, or "" where it is not known.
    """

    place: Place | None
    times: int
    text: str
    located: str

    @property
    def way(self) -> str:
        """The equations around it, the outermost first: `scan at 12 > cond at 14, branch 1`; or ""."""
        if self.place is None or not self.place.path:
            return ""
        return str(Place(self.place.path[-1].eqn, self.place.path[:-1]))

    def __str__(self) -> str:
        """As grep prints it: `file:line:column: equation`, then the way in, and the line of Python and the scope."""
        text = f"{self.located}: {self.text}" if self.located else self.text
        about = [f"in {self.way}"] if self.way else []
        if self.times > 1:
            about.append(f"{plain_number(self.times)} times")
        if self.place is not None:
            names = f" in {self.place.names}" if self.place.names else ""
            about += (
                [f"{self.place.source or 'scope'}{names}"] if self.place.source or names else []
            )
        return f"{text}  ({'; '.join(about)})" if about else text

    def json(self) -> dict[str, Any]:
        """The match with the keys place, times, text and located."""
        place = None if self.place is None else self.place.json()
        times = json_count(self.times)
        return {"place": place, "times": times, "text": self.text, "located": self.located}


class Item:
    """Something that a pattern may match.

    Attributes:
      name: the name of the primitive or the operation; "" for a value that none computes.
      times: how often it is in the program.
    """

    __slots__ = ()
    name: str
    times: int

    def types(self, of: str) -> Sequence[Any]:
        """Return the types of operands (`in`) or results (`out`)."""
        raise NotImplementedError

    def names(self, of: str) -> Sequence[Called]:
        """Return the names of operands (`in`) or results (`out`)."""
        raise NotImplementedError

    def param(self, key: str) -> str | None:
        """Return the text of a param; None where there is none."""
        raise NotImplementedError

    def field(self, name: str) -> Any:
        """Return another property: a text, a number, a list of texts, or None where there is none."""
        raise NotImplementedError

    def literals(self) -> Sequence[Any]:
        """Return the value of each operand that is a literal; None for other operands."""
        return [None] * len(self.types("in"))

    def match(self) -> Match:
        """Return it as a match."""
        raise NotImplementedError


class Equation(Item):
    """An equation of a program, in one level of it."""

    __slots__ = ("arguments", "at", "eqn", "level")

    def __init__(self, level: Level, at: int, arguments: Arguments):
        self.level, self.at, self.eqn = level, at, level.jaxpr.eqns[at]
        self.arguments = arguments

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.eqn.primitive.name

    @property
    def times(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.level.times

    def types(self, of: str) -> Sequence[Any]:
        atoms: Sequence[Any] = self.eqn.inputs if of == "in" else self.eqn.out_binders
        return [x.aval for x in atoms]

    def names(self, of: str) -> Sequence[Called]:
        atoms: Sequence[Any] = self.eqn.inputs if of == "in" else self.eqn.out_binders
        return [*map(self.arguments.called, atoms)]

    def literals(self) -> Sequence[Any]:
        return [x.val if isinstance(x, Lit) else None for x in self.eqn.inputs]

    def param(self, key: str) -> str | None:
        if key not in self.eqn.params:
            return None
        return param_text(self.eqn, key)

    def field(self, name: str) -> Any:
        context = self.level.context
        if name == "scope":
            own = () if self.eqn.origin is None else self.eqn.origin.names or ()
            return stack_of((*context.scopes, *own))
        if name == "source":
            return place_of(self.eqn)
        if name == "primitive":
            return self.name
        if name == "depth":
            return context.depth
        if name == "inside":
            return sorted(context.inside)
        return [*collective_names(self.eqn)] if name == "axis" else None

    def match(self) -> Match:
        place = self.level.place(self.eqn)
        return Match(place, self.times, equation_text(self.eqn), place.located())


class Value(Item):
    """A value: a result of an equation, a literal operand, or an argument or a constant of the program.

    Attributes:
      atom: the variable or the literal.
      made: the equation that computes or reads it; None for an argument or a constant.
      role: what it is called without an equation.
      arguments: the arguments of the program.
    """

    __slots__ = ("arguments", "atom", "made", "role")

    def __init__(self, atom: Any, made: Equation | None, role: str, arguments: Arguments):
        self.atom, self.made, self.role, self.arguments = atom, made, role, arguments

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "" if self.made is None else self.made.name

    @property
    def times(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 1 if self.made is None else self.made.times

    def types(self, of: str) -> Sequence[Any]:
        if of == "out":
            return [self.atom.aval]
        return () if self.made is None else self.made.types("in")

    def names(self, of: str) -> Sequence[Called]:
        if of == "out":
            return [self.arguments.called(self.atom)]
        return () if self.made is None else self.made.names("in")

    def param(self, key: str) -> str | None:
        return None if self.made is None else self.made.param(key)

    def field(self, name: str) -> Any:
        if self.made is None:
            return {"depth": 1, "inside": []}.get(name)
        return self.made.field(name)

    def match(self) -> Match:
        if self.made is None:
            span = getattr(self.atom, "span", None)
            text = f"{self.role.strip()}:{self.atom.aval}"
            return Match(None, 1, text, "" if span is None else str(span))
        return self.made.match()


def array_of(aval: Any) -> Any:
    """Return the type of the array in a reference or a future; for other types the type itself."""
    return getattr(aval, "inner", aval)


def equation_text(eqn: JaxprEqn) -> str:
    """Return an equation in one line, as it stands in its text; a long one is cut."""
    if eqn.span is None:
        return repr(eqn)
    text = eqn.span.source.text[eqn.span.start : min(eqn.span.end, eqn.span.start + 4 * _LONGEST)]
    text = _BLANKS.sub(" ", text).strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def param_text(eqn: JaxprEqn, key: str) -> str:
    """Return a param as JAX prints it; "" for one that holds jaxprs."""
    value: Any = eqn.params[key]
    if next(jaxprs_in(value), None) is not None:
        return ""
    declared = eqn.primitive.params.get(key)
    if declared is not None:
        value = declared.kind.printed(value, "jax")
    return format_value(value)

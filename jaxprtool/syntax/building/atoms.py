"""Binders and operands: words to variables and literals, in the scope of a jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple

from jaxprtool.ir.avals import ARRAY_LIMIT, AbstractType, OpaqueType, ShapedArray
from jaxprtool.ir.diagnostics import JaxprTypeError
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Lit, Primitive, Var, new_var
from jaxprtool.ir.spans import Source, Span
from jaxprtool.syntax.errors import Errors
from jaxprtool.syntax.infer import UntypedLit, untyped_literal
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.earlier_types import is_not_numpys
from jaxprtool.syntax.releases.units import UNIT
from jaxprtool.syntax.tokens import IDENT, LOOSE_BINDER, TYPE, WEAK
from jaxprtool.syntax.types import UNTYPED, read_scalar, read_type, untyped_scalar

__all__ = ["Atoms", "Missing", "Scope", "next_drop", "undrop"]

_BINDER = pattern(f"({LOOSE_BINDER})")
_RESULT = pattern(rf"(?<!\S)({IDENT})(?::{TYPE})?+(?=\s++=\s|\s++{IDENT}:)")
_SPACED = pattern(r"(?:[^\s\[]|\[[^\[\]{}=\n]*+\]|\[)++")
_NO_NUMBER = pattern(
    r"(?!(?:(?:inf|nan)j?|True|False|complex)\b)[^\W\d]|\[\s|\((?![-+.\dbin])"
)  # what a name begins with, and what no `[...]`, `(1+2j)` and `(b'',)` do
_MARKS = ("[...]", "(b'',)")  # values that are written otherwise than numbers
# Where words of a text are no names that are bound: among results, and params with their values (`y=2`).
_NO_NAMES = pattern(r"\bin\s*+\([^(){}]*+\)(?=\s*+\})|\b[^\W\d]\w*+=\w*+")
_WORD = pattern(r"\S+")
_NAME = pattern(r"[^\W\d]\w*")
_DIGITS = 308  # an integer of no more of them is smaller than the largest float


class Run(NamedTuple):
    """The `Place` of a binder in a run of binders, `a:f32[3] b:f32[]`.

    All of them share one, since few are looked up.

    `number` is the position of the binder in the run, from 0; -1 where the binder is found by its
    name.
    """

    source: Source
    start: int
    end: int
    number: int = -1

    def find(self, name: str) -> Span:
        places, by_name = _places(self.source, self.start, self.end)
        at = by_name.get(name) if self.number < 0 else self.number
        whole = self.start, self.end  # a variable that was given another name
        return Span(self.source, *(whole if at is None else places[at]))


# A run of a tuple of its four fields. It takes half the time of a call of the class.
_new_run: Callable[[tuple[Source, int, int, int]], Run] = partial(tuple.__new__, Run)  # pyright: ignore[reportUnknownMemberType]


@lru_cache(maxsize=4)
def _places(source: Source, start: int, end: int) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """Return the ranges of the binders of a run, and the position of each by its name.

    Cached, since a caller that looks for one binder often looks for others.
    """
    words = [*_WORD.finditer(source.text, start, end)]
    return [m.span() for m in words], {m[0].partition(":")[0]: i for i, m in enumerate(words)}


class Scope:
    """A jaxpr under construction: the variables bound so far, and its binders.

    Attributes:
      vars: the variables by name.
      consts: the binders of constants.
      inputs: the binders of arguments.
      drops: the `_` binders so far.
      reads: for each `_` binder how many operands `_` read it.
      decided: the equations with operands `_` that were resolved: text and chosen binders.
    """

    __slots__ = ("autodidax", "consts", "decided", "drops", "inputs", "reads", "start", "vars")

    def __init__(self, start: int, autodidax: bool = False):
        self.vars: dict[str, Var] = {}
        self.consts: list[Var] = []
        self.inputs: list[Var] = []
        self.drops: list[Var] = []
        self.reads: dict[Var, int] = {}
        self.decided: set[Any] = set()
        self.start, self.autodidax = start, autodidax


class Missing:
    """What a program leaves out, and what is inferred or removed once the whole program is read.

    Attributes:
      literals: whether there is a literal without a type.
      digits: whether there is a literal that only NumPy prints in this way: `2:bf16[]`.
      binders: whether there is a binder without a type.
      units: whether there is a unit.
      tuples: whether there is a tuple of values.
      named: results that are bound nowhere and may be units, with their names.
      inside: definitions of jaxprs inside values.
      earlier: whether an equation is in a spelling that no release since 0.6.1 uses.
    """

    __slots__ = ("binders", "digits", "earlier", "inside", "literals", "named", "tuples", "units")

    def __init__(self) -> None:
        self.literals = self.binders = self.units = self.tuples = self.earlier = False
        self.digits = False
        self.named: dict[Lit, str] = {}
        self.inside: list[ClosedJaxpr] = []

    def include(self, inner: Missing) -> None:
        """Add what an inner jaxpr leaves out."""
        self.literals |= inner.literals
        self.digits |= inner.digits
        self.binders |= inner.binders
        self.units |= inner.units
        self.tuples |= inner.tuples
        self.earlier |= inner.earlier
        self.named.update(inner.named)
        self.inside += inner.inside


class Atoms:
    """Reads the binders and the operands of one text.

    Attributes:
      scopes: the scopes of the jaxprs under construction, innermost last.
      missing: what the current program leaves out.
      wide: whether numbers have 64 bits where nothing else determines it.
      lone: whether the text is an equation without a jaxpr around it, so that any name may be used.
    """

    def __init__(self, errors: Errors, wide: bool, lone: bool):
        self.source, self.errors, self.wide, self.lone = errors.source, errors, wide, lone
        self.scopes: list[Scope] = []
        self.types: dict[str, AbstractType] = {}
        self.literals: dict[str, tuple[Any, AbstractType]] = {}
        self.unbound: set[Var] = set()  # placeholders of variables that are read but not bound
        self.places: tuple[int, int, dict[str, int]] = -1, -1, {}  # of words in a run of operands
        self.units: dict[Lit, str] = {}  # for results that are bound nowhere, with their names
        self.names: set[str] = set()  # those elsewhere than among results, once one asks
        self.doubtful = False  # whether an operand since the last equation is one of several `_`
        self.missing = Missing()

    def type_stored(self, primitive: Primitive, inputs: list[Any]) -> None:
        """Give a literal that goes into a cell the element type of the cell."""
        if primitive.notation in ("write", "accumulate") and isinstance(inputs[1], UntypedLit):
            dtypes = inputs[1].types([inputs[0].aval], self.wide)
            inputs[1] = inputs[1].typed(dtypes[0])

    def binders(self, scope: Scope, text: str, start: int, head: bool = False) -> list[Var]:
        """Bind the names of a run of binders.

        Among the arguments of an inner jaxpr (`head`) the releases 0.1.59 to 0.1.68 repeat names;
        the first binder counts.
        """
        found: list[Var] = []
        types, bound = self.types, scope.vars
        run = _new_run((self.source, start, start + len(text), -1))
        for word in text.split():
            name, _, kind = word.partition(":")
            aval = types.get(kind)
            if aval is None or name in bound:
                # The type is new, `word` is not all of the binder, or the name may not be bound again.
                found += self._new_binders(scope, text, start, len(found), head)
                break
            if name == "_":
                found.append(DropVar(aval, "_", run._replace(number=len(found))))
                scope.drops.append(found[-1])
            else:
                bound[name] = var = new_var(aval, name, run)
                found.append(var)
        return found

    def _new_binders(
        self, scope: Scope, text: str, start: int, first: int, head: bool
    ) -> Iterator[Var]:
        """Bind the names of a run of binders that starts at `start`, from the binder at position `first` on."""
        for m in islice(_BINDER.finditer(text), first, None):
            name, colon, kind = m[0].partition(":")
            at = start + m.start()
            aval = self.types.get(kind)
            if aval is None:
                aval = self._type(kind, at + len(name) + 1) if colon else self._untyped()
            yield self._bind_again(scope, name, aval, Span(self.source, at, start + m.end()), head)

    def _bind_again(
        self, scope: Scope, name: str, aval: AbstractType, span: Span, head: bool
    ) -> Var:
        """Bind `_`, or a name that may be bound already."""
        if name == "_":
            scope.drops.append(DropVar(aval, "_", span))
            return scope.drops[-1]
        var, first = new_var(aval, name, span), scope.vars.get(name)
        if first is not None and first not in self.unbound:
            if head and aval is UNTYPED and len(self.scopes) > 1:
                return var
            self._bound_twice(name, first, span.start)
        scope.vars[name] = var
        return var

    def _untyped(self) -> AbstractType:
        self.missing.binders = True
        return UNTYPED

    def presume(self, scope: Scope, text: str, start: int) -> None:
        """Treat the results of a run of equations that are not read as bound."""
        for m in _RESULT.finditer(text):
            name, at = m[1], start + m.start()
            found = Var(UNTYPED, name, Span(self.source, at, at + len(name)))
            self.unbound.add(found)
            scope.vars.setdefault(name, found)

    def _bound_twice(self, name: str, first: Var, at: int) -> None:
        place = first.span
        where = f" (first at {place})" if place else ""
        self.errors.add(f"{name} is bound twice{where}", "bound-twice", at, at + len(name))

    def _type(self, text: str, at: int) -> AbstractType:
        try:
            found = read_type(text)
        except ValueError as e:
            self.errors.add(str(e), "bad-type", at, at + len(text))
            return OpaqueType(text)
        except JaxprTypeError as e:
            self.errors.add(e.diagnostics[0].message, ARRAY_LIMIT, at, at + len(text))
            return OpaqueType(text)
        self.types[text] = found
        self.missing.units |= text == "*"
        return found

    def atom(self, word: str, scope: Scope, start: int, end: int = -1) -> Any:
        """Return the variable or literal that a word spells; for any other word record an error,
        and return a variable.
        """
        var = scope.vars.get(word)
        if var is not None:
            return var
        literal = self.literals.get(word)
        if literal is not None:
            return Lit(*literal)
        if word == "*":
            self.missing.units = True
            return UNIT
        if word == "_" and scope.drops:
            self.doubtful |= len(scope.drops) > 1
            return next_drop(scope)
        value, _, kind = word.rpartition(":")
        if value and kind:
            return self._literal(word, value, kind, start, end)
        if (untyped := untyped_literal(word)) is not None:
            self.missing.literals = True
            if len(word) > _DIGITS and not untyped.types((), wide=True):
                at = self._find(word, start, end)
                message = f"{word} does not fit in any element type"
                self.errors.add(message, "bad-literal", at, at + len(word))
                return Lit(None, OpaqueType(word))
            return untyped
        at = self._find(word, start, end)
        if self.lone and scope is self.scopes[0] and _NAME.fullmatch(word):
            scope.inputs.append(Var(UNTYPED, word, Span(self.source, at, at + len(word))))
            scope.vars[word] = scope.inputs[-1]
            return scope.inputs[-1]
        self.not_an_atom(word, at)
        found = Var(UNTYPED, word, Span(self.source, at, at + len(word)))
        self.unbound.add(found)
        return scope.vars.setdefault(word, found)

    def result(self, word: str, scope: Scope, start: int) -> Any:
        """Return a result of a jaxpr as an atom.

        JAX 0.2.22 to 0.3.9 prints a unit made by derivatives as a name that occurs only among
        results.
        """
        if not self.missing.units or word in scope.vars or not _NAME.fullmatch(word):
            return self.atom(word, scope, start)
        self.names = self.names or set(_NAME.findall(_NO_NAMES.sub("", self.source.text)))
        if word in self.names:
            return self.atom(word, scope, start)
        end = start + len(word)
        found = Lit(None, UNIT.aval, Span(self.source, start, end))
        self.missing.named[found] = word
        return found

    def operands(
        self, words: list[str], text: str, scope: Scope, start: int, end: int
    ) -> list[Any]:
        """Return the operands in a run of words that lies between two offsets."""
        found: list[Any] = []
        for word in words:
            if word.rfind("[") > word.rfind("]"):  # types have blanks, `[...]:f32[2, 4]`
                return [self.atom(m, scope, start, end) for m in _SPACED.findall(text)]
            found.append(self.atom(word, scope, start, end))
        return found

    def not_an_atom(self, word: str, at: int) -> None:
        if _NAME.fullmatch(word):
            help = (
                "the results of a jaxpr stand in parentheses: `in (a,) }`" if word == "in" else ""
            )
            self.errors.add(f"{word} is not bound", "unbound-variable", at, at + len(word), help)
        else:
            help = "operands are separated by blanks" if word[-1] == "," else ""
            self.errors.add(f"{word} is not an operand", "syntax", at, at + len(word), help)

    def _find(self, word: str, start: int, end: int) -> int:
        """Return the offset of the first occurrence of a word between two offsets (`start`, when it
        is known exactly).
        """
        if end < 0:
            return start
        if self.places[:2] != (start, end):
            words = _WORD.finditer(self.source.text, start, end)
            self.places = start, end, {m[0]: m.start() for m in reversed(list(words))}
        found = self.places[2].get(word)
        return self.source.text.find(word, start, end) if found is None else found

    def _literal(self, word: str, value: str, kind: str, start: int, end: int) -> Lit:
        weak, kind = kind[-1:] == WEAK, kind.removesuffix(WEAK)
        aval = self.types.get(kind)
        if aval is None and (_NO_NUMBER.match(value) or ";" in kind):  # no literal has named axes
            self.not_an_atom(word, self._find(word, start, end))
            return Lit(None, OpaqueType(kind))
        scalar: Any = None
        errors = len(self.errors)
        if aval is None:
            aval = self._type(kind, self._find(word, start, end) + len(value) + 1)
            if len(self.errors) > errors:
                if value not in _MARKS and untyped_scalar(value) is None:
                    at = self._find(word, start, end)
                    self.errors.add(f"{value} is no number", "bad-literal", at, at + len(value))
                return Lit(None, aval)
        try:
            if not isinstance(aval, ShapedArray):
                raise ValueError(f"a literal of type {kind}")
            if value != "[...]":
                scalar = read_scalar(value, aval.dtype)
            self.missing.digits |= is_not_numpys(aval) and value.lstrip("-").isdecimal()
        except ValueError as e:
            at = self._find(word, start, end)
            self.errors.add(str(e), "bad-literal", at, at + len(word))
        if weak and isinstance(aval, ShapedArray):
            aval = aval.update(weak_type=True)
        self.literals[word] = scalar, aval
        return Lit(scalar, aval)


def next_drop(scope: Any) -> Var:
    """Return the result that an operand `_` reads for now: the first of those that were read least often so far.

    The text does not say which it is; `drops.decide_reads` chooses by types when the equation has
    been read.
    """
    binder = min(scope.drops, key=lambda v: scope.reads.get(v, 0))
    scope.reads[binder] = scope.reads.get(binder, 0) + 1
    return undrop(binder)


def undrop(binder: Var) -> Var:
    """Convert the binder of a dropped result to a variable that can be read; it keeps its name."""
    amend(binder, __class__=Var)
    return binder

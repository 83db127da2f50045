"""The callbacks of the grammar for params: convert the text of each to the value that it spells."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, TypeAlias

from jaxprtool.core.kinds.functions import JAXPR
from jaxprtool.ir.jaxpr import ClosedJaxpr, Params, Primitive, Var
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import Opaque, PrintedFunction
from jaxprtool.syntax.building.atoms import Atoms, Missing
from jaxprtool.syntax.building.definitions import Definitions
from jaxprtool.syntax.elided_params import recover_params
from jaxprtool.syntax.errors import Errors
from jaxprtool.syntax.params import read_value
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.releases.earlier import OLDER, declared_params
from jaxprtool.syntax.releases.spellings import DEFINITIONS, LONG, TELLING, told_by
from jaxprtool.syntax.scanning.blocks import Block
from jaxprtool.syntax.scanning.reading import Reading
from jaxprtool.syntax.scanning.values import fault, name_params
from jaxprtool.syntax.tokens import Token

__all__ = ["GivenParam", "ParamCallbacks", "ReadInner"]

# A param from the grammar: the token of its key, and its text or the jaxprs that it holds.
GivenParam: TypeAlias = "tuple[Token, Token | ClosedJaxpr | list[ClosedJaxpr]]"

# (the text, the offset in it where a jaxpr begins, its depth inside values, the definitions around it) -> the errors in the
# jaxpr, what it leaves out, the jaxpr, and the offset where it ends; None where there is none.
ReadInner: TypeAlias = Callable[
    [Reading, int, int, Definitions], "tuple[Errors, Missing, ClosedJaxpr, int] | None"
]

_WORD = pattern(r"[^\W\d]\w*")
_KEYS_BELOW = pattern(r"\n *+([^\W\d]\w*+)=")


class ParamCallbacks:
    """Reads the params of equations. The same text for the same kind is read once.

    Attributes:
      reading: the text.
      read_inner: reads a jaxpr inside a value of it.
      depth: the nesting depth of the text in values of others.
      definitions: the shared jaxprs that values may name.
      errors: the errors found so far, in the whole text.
      atoms: reads binders and operands, and records what the program leaves out.
    """

    def __init__(
        self,
        reading: Reading,
        read_inner: ReadInner,
        depth: int,
        definitions: Definitions,
        errors: Errors,
        atoms: Atoms,
    ):
        self.reading, self.read_inner, self.depth = reading, read_inner, depth
        self.definitions, self.errors, self.atoms = definitions, errors, atoms
        self.told = reading.told
        self.bound: dict[ClosedJaxpr, Token] = {}  # first binders of jaxprs below equations
        self._values: dict[tuple[Kind | None, str], Any] = {}
        self._repeated: dict[tuple[Any, ...], Params] = {}

    # ---- callbacks

    def on_first_param(self, param: GivenParam) -> list[GivenParam]:
        return [param]

    def on_more_params(self, params: list[GivenParam], param: GivenParam) -> list[GivenParam]:
        params.append(param)
        return params

    def on_first_pairs(self, pairs: Token) -> list[GivenParam]:
        return [*pairs[1]]

    def on_more_pairs(self, params: list[GivenParam], pairs: Token) -> list[GivenParam]:
        params += pairs[1]
        return params

    def on_param(self, key: Token, value: Token) -> GivenParam:
        return key, value

    def on_param_jaxpr(self, key: Token, closed: ClosedJaxpr) -> GivenParam:
        self._tell(closed)
        return key, closed

    def _tell(self, closed: ClosedJaxpr) -> None:
        """Record that a release without definitions printed a long jaxpr as a value: later ones print a name."""
        if len(closed.jaxpr.eqns) > LONG:
            self.told.add(("before", DEFINITIONS))

    def on_param_jaxprs(
        self, key: Token, _: Token, closed: list[ClosedJaxpr], end: Token
    ) -> GivenParam:
        del end
        return key, closed

    def on_no_jaxprs(self) -> list[ClosedJaxpr]:
        return []

    def on_first_jaxpr(self, closed: ClosedJaxpr) -> list[ClosedJaxpr]:
        self._tell(closed)
        return [closed]

    def on_more_jaxprs(self, found: list[ClosedJaxpr], closed: ClosedJaxpr) -> list[ClosedJaxpr]:
        self._tell(closed)
        found.append(closed)
        return found

    def on_bound_jaxpr(self, found: list[ClosedJaxpr], bound: Token) -> list[ClosedJaxpr]:
        self.bound[found[-1]] = bound
        return found

    def on_more_names(self, found: list[ClosedJaxpr], name: Token) -> list[ClosedJaxpr]:
        found.append(self.definitions.reference(name[1], name[2]))
        return found

    # ---- values

    def read(self, primitive: Primitive, params: Sequence[GivenParam]) -> dict[str, Any]:
        """Return the params of an equation, by name, as its text spells them."""
        found: dict[str, Any] = {}
        declared = declared_params(primitive.name) or primitive.params
        for (_, key, start, end), raw in params:
            value: Any = raw
            if isinstance(raw, tuple):
                declaration = declared.get(key)
                kind = declaration.kind if declaration else None
                value = self._value(primitive, key, kind, raw[1], raw[2])
                if kind is not None and kind.spelling == "free":
                    self._check_end(key, raw, declared.keys() - {k[1] for k, _ in params})
            elif isinstance(raw, list):
                value = tuple(raw)
            if key in found:
                self.errors.add(f"the param {key} is given twice", "duplicate-param", start, end)
            found[key] = value
        # The tutorial's notation leaves out params as no release does.
        if primitive.name in TELLING and not self.atoms.scopes[-1].autodidax:
            self.told.update(told_by(primitive.name, found))
        return found

    def repeated(
        self, primitive: Primitive, block: Block, start: int, binders: list[Var]
    ) -> dict[str, Any]:
        """Return the params of a block that stands at `start`.

        Equal blocks give the same object, where the results have equal types.
        """
        key = (block, *[v.aval for v in binders])
        found = self._repeated.get(key)
        if found is None:
            by = start - block.start
            params: list[GivenParam] = [
                ((k, key, a + by, b + by), (v, value, c + by, d + by))
                for (k, key, a, b), (v, value, c, d) in block.params
            ]
            errors = len(self.errors)
            found = Params(recover_params(primitive, self.read(primitive, params), binders))
            if errors == len(self.errors):
                self._repeated[key] = found
        return found

    def _inner(self, at: int) -> tuple[ClosedJaxpr, int] | None:
        """Read a jaxpr that begins at `at`, inside another value; return it and its length.

        Errors in it become errors of this text.
        """
        read = self.read_inner(self.reading, at, self.depth + 1, self.definitions)
        if read is None:
            return None
        errors, missing, closed, end = read
        self.errors.include(errors)
        self.atoms.missing.include(missing)
        return closed, end - at

    def _named(self, name: str, at: int, guessed: bool) -> ClosedJaxpr | None:
        """Return the jaxpr that a word inside a value names, or None."""
        if guessed:
            return self.definitions.guess(name, at)
        return self.definitions.reference(name, at) if name in self.definitions.names else None

    def _value(self, primitive: Primitive, key: str, kind: Kind | None, text: str, at: int) -> Any:
        named = (
            self.definitions.names
            and (kind is None or kind.spelling == "value")
            and key != "name"
            and (not primitive.known or (kind is not None and kind.holds_jaxprs))
        )
        guessed = not primitive.known
        if named and (found := self.definitions.value(text, at, guessed)) is not None:
            return found
        cached = self._values.get((kind, text), self)
        if cached is not self:
            return cached
        if kind is not None and kind.parts[0] is JAXPR and text != "None":
            if not _WORD.fullmatch(text):
                message = f"the value of {key} is not a jaxpr"
                self.errors.add(message, "bad-param", at, at + len(text))
                return Opaque(text)
            self.errors.add(f"{text} is not defined here", "undefined-jaxpr", at, at + len(text))
        if "{ lambda" in text or (
            named and not self.definitions.names.isdisjoint(_WORD.findall(text))
        ):

            def inner(offset: int) -> tuple[ClosedJaxpr, int] | None:
                return self._inner(at + offset)

            def refer(name: str, offset: int) -> ClosedJaxpr | None:
                return self._named(name, at + offset, guessed)

            value = read_value(text, kind, inner, refer if named else None)
            return self._sound(primitive, key, value, kind, text, at)
        plain = text
        if self.reading.classic and "\n" in text:
            plain = self._unindented(text, at)
        value = self._sound(primitive, key, read_value(plain, kind), kind, text, at)
        self._values[kind, text] = value
        return value

    def _unindented(self, text: str, at: int) -> str:
        """Return a value of several lines as it was printed by itself: releases to 0.2.21 align its lines."""
        column = at - self.reading.text.rfind("\n", 0, at) - 1
        first, *rest = text.split("\n")
        lines = [line[column:] if line[:column].isspace() else line for line in rest]
        return "\n".join([first, *lines])

    def _check_end(self, key: str, token: Token, missing: Set[str]) -> None:
        """Report free text that seems to contain the params after it.

        One key may occur in a text, but not several keys that the equation lacks.
        """
        _, text, start, end = token
        keys = {*_KEYS_BELOW.findall(text)} & missing
        if len(keys) > 1:
            message = f"the end of {key} is not found: it holds {', '.join(sorted(keys))}"
            self.errors.add(message, "bad-param", start, end)

    def _sound(
        self, primitive: Primitive, key: str, value: Any, kind: Kind | None, text: str, at: int
    ) -> Any:
        """Return the value; report an error where it was read as plain text that contains something with a meaning."""
        if kind is not None and kind.spelling == "free":
            return value
        if type(value) not in (str, Opaque, PrintedFunction) or text in self.definitions.names:
            return value
        shown = kind is not None and kind.shows_jaxprs
        named = key in name_params(primitive.name)  # the scanner keeps keys out of others
        if not primitive.known and primitive.name not in OLDER:
            return value
        if wrong := fault(text, jaxprs=shown, keys=named):
            self.errors.add(f"the value of {key} {wrong}", "bad-param", at, at + len(text))
        return value

"""The callbacks of the grammar for params: the text of each to the value that it spells."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from jaxprtool.core.kinds.functions import JAXPR
from jaxprtool.ir.diagnostics import Diagnostic
from jaxprtool.ir.jaxpr import ClosedJaxpr, Params, Primitive, Var
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import Opaque, PrintedFunction
from jaxprtool.syntax.definitions import Definitions
from jaxprtool.syntax.earlier_releases import OLDER, declared_params
from jaxprtool.syntax.elided_params import recover_params
from jaxprtool.syntax.params import read_value
from jaxprtool.syntax.scanner import Scanner
from jaxprtool.syntax.tokens import Token
from jaxprtool.syntax.values import fault

__all__ = ["ParamCallbacks"]

# A param as the grammar gives it: the token of its key; its text, or the jaxprs that it holds.
Param: TypeAlias = "tuple[Token, Token | ClosedJaxpr | list[ClosedJaxpr]]"

_WORD = re.compile(r"[^\W\d]\w*")


class ParamCallbacks:
    """Reads the params of equations. The same text for the same kind is read once.

    Attributes:
      definitions: the shared jaxprs that values may name.
      scanner, read_inner, depth: what reads a jaxpr inside another value, and how deep this one is.
      parse_errors, type_errors: those found so far, in all of the text.
    """

    scanner: Scanner
    read_inner: Any
    depth: int
    definitions: Definitions
    parse_errors: list[Diagnostic]
    type_errors: list[Diagnostic]

    def __init__(self) -> None:
        self.values: dict[tuple[Kind | None, str], Any] = {}
        self.repeated: dict[tuple[Any, ...], Params] = {}

    def _error(self, message: str, code: str, start: int, end: int, help: str = "") -> None:
        raise NotImplementedError

    # ---- callbacks

    def on_first_param(self, param: tuple[Token, Any]) -> list[tuple[Token, Any]]:
        return [param]

    def on_more_params(self, params: list[Any], param: tuple[Token, Any]) -> list[Any]:
        params.append(param)
        return params

    def on_param(self, key: Token, value: Token) -> tuple[Token, Any]:
        return key, value

    def on_param_jaxpr(self, key: Token, closed: ClosedJaxpr) -> tuple[Token, Any]:
        return key, closed

    def on_param_jaxprs(
        self, key: Token, _: Token, closed: list[Any], end: Token
    ) -> tuple[Token, Any]:
        del end
        return key, closed

    def on_no_jaxprs(self) -> list[Any]:
        return []

    def on_first_jaxpr(self, closed: ClosedJaxpr) -> list[ClosedJaxpr]:
        return [closed]

    def on_more_jaxprs(self, found: list[Any], closed: ClosedJaxpr) -> list[Any]:
        found.append(closed)
        return found

    def on_more_names(self, found: list[Any], name: Token) -> list[Any]:
        found.append(self.definitions.reference(name[1], name[2]))
        return found

    # ---- values

    def _params(self, primitive: Primitive, params: list[Param]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        declared = declared_params(primitive.name) or primitive.params
        for (_, key, start, end), raw in params:
            value: Any = raw
            if isinstance(raw, tuple):
                declaration = declared.get(key)
                kind = declaration.kind if declaration else None
                value = self._value(primitive, key, kind, raw[1], raw[2])
            elif isinstance(raw, list):
                value = tuple(raw)
            if key in found:
                self._error(f"the param {key} is given twice", "duplicate-param", start, end)
            found[key] = value
        return found

    def _repeated(self, primitive: Primitive, token: Token, binders: list[Var]) -> dict[str, Any]:
        """The params of an equation whose text was read before: one object for equal types of the results."""
        block, start = token[1], token[2]
        key = (block, *[v.aval for v in binders])
        found = self.repeated.get(key)
        if found is None:
            by = start - block.start
            params: list[Param] = [
                ((k, key, a + by, b + by), (v, value, c + by, d + by))
                for (k, key, a, b), (v, value, c, d) in block.params
            ]
            errors = len(self.parse_errors) + len(self.type_errors)
            found = Params(recover_params(primitive, self._params(primitive, params), binders))
            if errors == len(self.parse_errors) + len(self.type_errors):
                self.repeated[key] = found
        return found

    def _inner(self, at: int) -> tuple[ClosedJaxpr, int] | None:
        """A jaxpr that begins at `at`, inside another value, and its length; errors in it are errors of this text."""
        read = self.read_inner(self.scanner, at, self.depth + 1, self.definitions)
        if read is None:
            return None
        builder, closed, end = read
        self.parse_errors += builder.parse_errors
        self.type_errors += builder.type_errors
        return closed, end - at

    def _named(self, name: str, at: int) -> ClosedJaxpr | None:
        """The jaxpr that a word inside a value names, or None."""
        return self.definitions.reference(name, at) if name in self.definitions.names else None

    def _value(self, primitive: Primitive, key: str, kind: Kind | None, text: str, at: int) -> Any:
        named = (
            self.definitions.names
            and (kind is None or kind.spelling == "value")
            and key != "name"
            and (not primitive.known or (kind is not None and kind.holds_jaxprs))
        )
        if named and (found := self.definitions.value(text, at)) is not None:
            return found
        cached = self.values.get((kind, text), self)
        if cached is not self:
            return cached
        if kind is not None and kind.parts[0] is JAXPR and text != "None":
            self._error(f"{text} is not defined here", "undefined-jaxpr", at, at + len(text))
        if "lambda" in text or (
            named and not self.definitions.names.isdisjoint(_WORD.findall(text))
        ):

            def inner(offset: int) -> tuple[ClosedJaxpr, int] | None:
                return self._inner(at + offset)

            def refer(name: str, offset: int) -> ClosedJaxpr | None:
                return self._named(name, at + offset)

            value = read_value(text, kind, inner, refer if named else None)
            return self._sound(primitive, key, value, kind, text, at)
        value = self._sound(primitive, key, read_value(text, kind), kind, text, at)
        if type(value) not in (list, dict):
            self.values[kind, text] = value
        return value

    def _sound(
        self, primitive: Primitive, key: str, value: Any, kind: Kind | None, text: str, at: int
    ) -> Any:
        """The value; an error where it is only text, and something that has a meaning would be lost in it."""
        if (
            (kind is not None and kind.spelling == "free")
            or type(value) not in (str, Opaque, PrintedFunction)
            or text in self.definitions.names
        ):
            return value
        if (primitive.known or primitive.name in OLDER) and (wrong := fault(text)):
            self._error(f"the value of {key} {wrong}", "bad-param", at, at + len(text))
        return value

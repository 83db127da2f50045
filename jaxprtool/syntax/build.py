"""The callbacks of the grammar: tokens to `Jaxpr`s, with names resolved and positions kept."""

from __future__ import annotations

import re
from typing import Any

from jaxprtool.core.primitive import find_primitive
from jaxprtool.ir.avals import AbstractType, OpaqueType, RefType, ShapedArray
from jaxprtool.ir.diagnostics import Diagnostic, JaxprParseError, ScopeError
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Lit, Primitive, Var
from jaxprtool.ir.spans import Excerpt, Source, Span
from jaxprtool.syntax.autodidax import UntypedLit, from_autodidax, type_result
from jaxprtool.syntax.consts import read_const
from jaxprtool.syntax.definitions import Definitions
from jaxprtool.syntax.hidden import recover_params
from jaxprtool.syntax.older import OLDER, from_older
from jaxprtool.syntax.params import read_value
from jaxprtool.syntax.refs import read_reference
from jaxprtool.syntax.scanner import Scanner
from jaxprtool.syntax.tokens import BINDER, WEAK, Token
from jaxprtool.syntax.types import read_scalar, read_type, untyped_scalar

__all__ = ["Builder"]

_MOST_ERRORS = 200
_BINDER = re.compile(f"({BINDER})")
_NAME = re.compile(r"[^\W\d]\w*")
_OUT = re.compile(r"\s*((?:\((?:[^()]|\([^()]*\))*\)|[^\s,()])+)\s*(?:,|\Z)")


class _Scope:
    """A jaxpr under construction: what is bound, and its binders.

    `drops` are the `_` binders so far: (list, index) where each stands.
    """

    __slots__ = ("autodidax", "consts", "drops", "inputs", "start", "vars")

    def __init__(self, start: int, autodidax: bool = False):
        self.vars: dict[str, Var] = {}
        self.consts: list[Var] = []
        self.inputs: list[Var] = []
        self.drops: list[tuple[list[Var], int]] = []
        self.start, self.autodidax = start, autodidax


class Builder:
    """Builds the IR from reductions. One builder reads one text."""

    def __init__(self, source: Source, scanner: Scanner, read_inner: Any, depth: int = 0):
        self.source, self.comments = source, scanner.comments
        self.read_inner, self.depth = read_inner, depth
        self.scopes: list[_Scope] = []
        self.definitions = Definitions(source, scanner.names)
        self.type_errors: list[Diagnostic] = []
        self.parse_errors: list[Diagnostic] = []
        self.types: dict[str, AbstractType] = {}
        self.literals: dict[str, tuple[Any, AbstractType]] = {}
        self.values: dict[tuple[str, str], Any] = {}
        self.dropped_outs: dict[Jaxpr, tuple[list[int], _Scope]] = {}
        self.drop_reads = (-1, 0)  # the operands that read `_` last, and how many times
        self.lone = bool(scanner.tokens) and scanner.tokens[0][0] in ("EQUATION", "REFERENCE")
        if self.lone:
            self.scopes.append(_Scope(0))

    def callbacks(self) -> dict[str, Any]:
        """The methods that build, by the name that the grammar has for each rule."""
        names = (name for name in dir(self) if name.startswith("on_"))
        return {name[3:]: getattr(self, name) for name in names}

    def finish(self, programs: dict[str, ClosedJaxpr]) -> None:
        """Give comments at the end to the last program, and raise what was found wrong, all of it."""
        for closed in list(programs.values())[-1:]:
            self._comment_program(closed, len(self.source.text), "end")
        errors = self.parse_errors + self.type_errors
        if errors:
            errors.sort(key=lambda d: d.span.start if d.span else 0)
            if len(errors) > _MOST_ERRORS:
                rest = len(errors) - _MOST_ERRORS
                last = Diagnostic(
                    f"{rest} more errors like these", "more", errors[_MOST_ERRORS].span
                )
                errors = [*errors[:_MOST_ERRORS], last]
            raise JaxprParseError(errors) if self.parse_errors else ScopeError(errors, programs)

    def _error(self, message: str, code: str, start: int, end: int, help: str = "") -> None:
        found = (
            self.type_errors if code in ("unbound-variable", "bound-twice") else self.parse_errors
        )
        found.append(Diagnostic(message, code, Span(self.source, start, end), help))

    # ---- files and programs

    def on_one_program(self, program: ClosedJaxpr) -> dict[str, ClosedJaxpr]:
        return {"": program}

    def on_named_programs(self, programs: dict[str, ClosedJaxpr]) -> dict[str, ClosedJaxpr]:
        return programs

    def on_first_named(self, token: Token, program: ClosedJaxpr) -> dict[str, ClosedJaxpr]:
        self._comment_program(program, token[2])
        return {token[1]: program}

    def on_more_named(
        self, programs: dict[str, ClosedJaxpr], token: Token, program: ClosedJaxpr
    ) -> dict[str, ClosedJaxpr]:
        if token[1] in programs:
            self._error(f"{token[1]} is defined twice", "duplicate-name", token[2], token[3])
        self._comment_program(program, token[2])
        programs[token[1]] = program
        return programs

    def on_lone_equation(self, eqn: JaxprEqn) -> dict[str, ClosedJaxpr]:
        scope = self.scopes.pop()
        outs = [v for v in eqn.out_binders if not isinstance(v, DropVar)]
        jaxpr = Jaxpr(scope.inputs, [eqn], outs, span=eqn.span)
        jaxpr.cache["lone_equation"] = True
        return {"": ClosedJaxpr(jaxpr)}

    def on_program(self, _: Any, program: ClosedJaxpr) -> ClosedJaxpr:
        program.jaxpr.cache["definitions"] = self.definitions.listed()
        return self.on_program_alone(program)

    def on_program_alone(self, program: ClosedJaxpr) -> ClosedJaxpr:
        self.parse_errors += self.definitions.finish()
        outs = program.jaxpr.outs
        outs[:] = [type_result(x) for x in outs]
        return program

    def on_nothing(self, *_: Any) -> None:
        pass

    def on_definition(self, token: Token, closed: ClosedJaxpr, end: Token) -> None:
        del end
        self._comment_program(closed, token[2])
        self.parse_errors += self.definitions.define(token, closed)

    # ---- jaxprs

    def on_no_binders(self) -> None:
        return None

    def on_binders(self, token: Token) -> Token:
        return token

    def on_head(self, start: Token, consts: Any, _: Token, binders: Any, dot: Token) -> _Scope:
        del dot
        scope = _Scope(start[2])
        self.scopes.append(scope)
        if consts:
            scope.consts = self._binders(consts[1], consts[2])
        if binders:
            scope.inputs = self._binders(binders[1], binders[2])
        return scope

    def on_autodidax_head(self, start: Token, binders: Any, dot: Token) -> _Scope:
        scope = self.on_head(start, None, start, binders, dot)
        scope.autodidax = True
        return scope

    def on_jaxpr_without_equations(self, scope: _Scope, tail: tuple[Token, Any]) -> ClosedJaxpr:
        return self.on_jaxpr(scope, [], tail)

    def on_jaxpr(self, scope: _Scope, eqns: list[JaxprEqn], tail: tuple[Token, Any]) -> ClosedJaxpr:
        self.scopes.pop()
        token, entries = tail
        span = Span(self.source, scope.start, token[3])
        jaxpr = Jaxpr(scope.inputs, eqns, [], (), span)
        jaxpr.const_binders = scope.consts  # the list itself, in which a `_` that is read gets its binder
        jaxpr.outs = self._outs(token, scope, jaxpr)
        closed = ClosedJaxpr(jaxpr, [None] * len(scope.consts))
        if entries:
            self._where(entries, scope, closed)
        if self.comments.present:
            self._attach(jaxpr, token)
        return closed

    def on_tail(self, outs: Token, *_: Token) -> tuple[Token, Any]:
        return outs, None

    def on_tail_where(self, outs: Token, *rest: Any) -> tuple[Token, Any]:
        return outs, rest[-1]

    def _comment_program(self, closed: ClosedJaxpr, start: int, place: str = "head") -> None:
        """Give the comments before `start`, where a name stands, to the jaxpr of that name."""
        lines = self.comments.above.get(start)
        if lines:
            comments = closed.jaxpr.comments or {}
            closed.jaxpr.comments = {**comments, place: lines + comments.get(place, [])}

    def _attach(self, jaxpr: Jaxpr, outs: Token) -> None:
        above = self.comments.above
        found = {"head": above.get(jaxpr.span.start, []), "tail": above.get(outs[2], [])}  # type: ignore[union-attr]
        if found["head"] or found["tail"]:
            jaxpr.comments = found

    def _outs(self, token: Token, scope: _Scope, jaxpr: Jaxpr) -> list[Any]:
        text, pos, outs, dropped = token[1], 0, [], []
        start = token[3] - len(text) - 1
        while pos < len(text) and (m := _OUT.match(text, pos)):
            word = m[1]
            if word == "_" and scope.drops:
                dropped.append(len(outs))
                outs.append(None)
            else:
                outs.append(self._atom(word, scope, start + m.start(1)))
            pos = m.end()
        if pos < len(text) and text[pos:].strip():
            self._error("malformed results", "syntax", start + pos, token[3])
        if dropped:
            self.dropped_outs[jaxpr] = dropped, scope
            self._read_drops(jaxpr, outs, [None] * len(outs))
        return outs

    def _read_drops(self, jaxpr: Jaxpr, outs: list[Any], avals: list[Any]) -> None:
        """Give each `_` among the results the next `_` binder of its type (of any, if it is not known)."""
        positions, scope = self.dropped_outs[jaxpr]
        free = list(scope.drops)
        for i in positions:
            aval = avals[i] if i < len(avals) else None
            fits = [d for d in free if aval is None or d[0][d[1]].aval is aval]
            binders, j = (fits or free or scope.drops)[0]
            if free:
                free.remove((fits or free)[0])
            outs[i] = _undrop(binders, j)

    def _where(
        self, entries: list[tuple[str, Any, Token]], scope: _Scope, closed: ClosedJaxpr
    ) -> None:
        positions = {v.name: i for i, v in enumerate(scope.consts)}
        for kind, name, token in entries:
            if kind == "weak":
                for word in name:
                    self._weaken(word, scope, token)
                continue
            if name not in positions:
                self._error(
                    f"{name} is not a constant of this jaxpr", "not-a-constant", token[2], token[3],
                    "constants are the binders before the `;`",
                )  # fmt: skip
                continue
            i = positions[name]
            try:
                closed.consts[i] = read_const(token[1], scope.consts[i].aval)
            except ValueError as e:
                self._error(f"{e}, the type of {name}" if "shape" in str(e) else str(e), "bad-constant", token[2], token[3])  # fmt: skip

    def _weaken(self, name: str, scope: _Scope, token: Token) -> None:
        var = scope.vars.get(name)
        if var is None:
            self._error(f"{name} is not bound here", "unbound-variable", token[2], token[3])
        elif isinstance(var.aval, ShapedArray):
            var.aval = var.aval.update(weak_type=True)

    def on_no_entries(self, _: Token) -> list[Any]:
        return []

    def on_const_entry(self, entries: list[Any], name: Token, data: Token) -> list[Any]:
        entries.append(("const", name[1], data))
        return entries

    def on_weak_entry(self, entries: list[Any], token: Token) -> list[Any]:
        entries.append(("weak", token[1], token))
        return entries

    # ---- equations

    def on_first_equation(self, eqn: JaxprEqn | list[JaxprEqn]) -> list[JaxprEqn]:
        return eqn if type(eqn) is list else [eqn]  # type: ignore[list-item]

    def on_more_equations(self, eqns: list[JaxprEqn], eqn: Any) -> list[JaxprEqn]:
        if type(eqn) is list:
            eqns += eqn
        else:
            eqns.append(eqn)
        return eqns

    def on_plain(self, token: Token, operands: Token) -> Any:
        return self._equation(token, None, operands, ())

    def on_with_params(
        self, token: Token, _: Token, params: Any, close: Token, operands: Token
    ) -> Any:
        del close
        return self._equation(token, params, operands, ())

    def on_plain_with_jaxprs(self, token: Token, operands: Token, jaxprs: list[ClosedJaxpr]) -> Any:
        return self._equation(token, None, operands, jaxprs)

    def on_with_params_and_jaxprs(
        self, token: Token, _: Token, params: Any, close: Token, operands: Token, jaxprs: Any
    ) -> Any:
        del close
        return self._equation(token, params, operands, jaxprs)

    def _equation(self, token: Token, params: Any, operands: Token, jaxprs: Any) -> Any:
        match, scope = token[1], self.scopes[-1]
        primitive = find_primitive(match[3])
        inputs: list[Any] = []
        known = scope.vars
        for word in operands[1].split():
            atom = known.get(word)
            inputs.append(
                self._atom(word, scope, operands[2], operands[3]) if atom is None else atom
            )
        given = self._params(primitive, params) if params else {}
        binders = self._binders(match[2], token[2]) if match[2] else []
        if scope.autodidax:
            primitive, inputs, given, before = from_autodidax(
                primitive, inputs, given, binders, jaxprs
            )
        elif primitive.name in OLDER:
            primitive, given = from_older(primitive, given)
        given = recover_params(primitive, given, binders)
        span = Span(self.source, token[2], operands[3])
        eqn = JaxprEqn(primitive, inputs, given, binders, span)
        if self.dropped_outs:
            self._resolve_drops(eqn)
        if self.comments.present:
            self._comment(eqn, token[2])
        return [before, eqn] if scope.autodidax and before is not None else eqn  # type: ignore[possibly-unbound]

    def _comment(self, eqn: JaxprEqn, start: int) -> None:
        above, after = self.comments.above.get(start, []), self.comments.after.get(start, "")
        if above or after:
            eqn.comments = (*above, after)

    def _resolve_drops(self, eqn: JaxprEqn) -> None:
        """Now that the types of the results are known, give `_` results of a jaxpr the right binders."""
        avals = [v.aval for v in eqn.out_binders]
        for value in eqn.params.values():
            if isinstance(value, ClosedJaxpr) and value.jaxpr in self.dropped_outs:
                self._read_drops(value.jaxpr, value.jaxpr.outs, avals)
                del self.dropped_outs[value.jaxpr]

    def on_reference(self, token: Token) -> JaxprEqn:
        scope, text = self.scopes[-1], token[1][1]
        start, end = token[2], token[3]
        reference = read_reference(text, scope.vars)
        if reference is None:
            self._error("malformed equation on a reference", "syntax", start, end)
            return JaxprEqn(find_primitive("get"), [], {}, [])
        inputs = [self._atom(word, scope, start, end) for word in reference.operands]
        binders: list[Var] = self._binders(reference.out, start) if reference.out else []
        if reference.primitive == "swap" and not binders:
            binders = [DropVar(_held_by(inputs[1].aval))]  # type: ignore[list-item]
        span = Span(self.source, start, end)
        primitive = find_primitive(reference.primitive)
        params = {**primitive.defaults, **reference.params}
        eqn = JaxprEqn(primitive, inputs, params, binders, span)
        if self.comments.present:
            self._comment(eqn, start)
        return eqn

    # ---- binders and atoms

    def _binders(self, text: str, start: int) -> list[Var]:
        """Bind the names of a run of binders."""
        text = text.rstrip()
        if " " not in text and "\n" not in text and "," not in text:
            pieces = ((0, text),)
        else:
            pieces = [(m.start(), m[0]) for m in _BINDER.finditer(text)]
        scope = self.scopes[-1]
        found: list[Var] = []
        for offset, piece in pieces:
            name, _, kind = piece.partition(":")
            at = start + offset
            aval = self.types.get(kind)
            if aval is None:
                aval = self._type(kind, at + len(name) + 1)
            span = Span(self.source, at, at + len(piece))
            if name == "_":
                scope.drops.append((found, len(found)))
                found.append(DropVar(aval, "_", span))
                continue
            var = Var(aval, name, span)
            if name in scope.vars:
                self._bound_twice(name, scope.vars[name], at)
            scope.vars[name] = var
            found.append(var)
        return found

    def _bound_twice(self, name: str, first: Var, at: int) -> None:
        place = first.span
        where = f" (first at {place})" if place else ""
        self._error(f"{name} is bound twice{where}", "bound-twice", at, at + len(name))

    def _type(self, text: str, at: int) -> AbstractType:
        try:
            found = read_type(text)
        except ValueError as e:
            self._error(str(e), "bad-type", at, at + len(text))
            return OpaqueType(text)
        self.types[text] = found
        return found

    def _atom(self, word: str, scope: _Scope, start: int, end: int = -1) -> Any:
        """A variable, or a literal; an error that stands for a variable otherwise."""
        var = scope.vars.get(word)
        if var is not None:
            return var
        literal = self.literals.get(word)
        if literal is not None:
            return Lit(*literal)
        if word == "_" and scope.drops:
            return self._read_drop(scope, start)
        value, colon, kind = word.rpartition(":")
        if colon:
            return self._literal(word, value, kind, start, end)
        if scope.autodidax and (scalar := untyped_scalar(word)) is not None:
            return UntypedLit(scalar)
        at = self._find(word, start, end)
        if self.lone and _NAME.fullmatch(word):
            scope.inputs.append(Var(OpaqueType("?"), word, Span(self.source, at, at + len(word))))
            scope.vars[word] = scope.inputs[-1]
            return scope.inputs[-1]
        self._not_an_atom(word, scope, at)
        span = Span(self.source, at, at + len(word))
        return scope.vars.setdefault(word, Var(OpaqueType("?"), word, span))

    def _read_drop(self, scope: _Scope, start: int) -> Var:
        """An operand `_`: the text does not say which; successive ones are taken in the order of binding."""
        last, count = self.drop_reads
        count = count + 1 if last == start else 0
        self.drop_reads = start, count
        return _undrop(*scope.drops[min(count, len(scope.drops) - 1)])

    def _not_an_atom(self, word: str, scope: _Scope, at: int) -> None:
        if _NAME.fullmatch(word):
            self._error(f"{word} is not bound", "unbound-variable", at, at + len(word))
        elif untyped_scalar(word) is not None:
            self._error(
                f"the literal {word} has no type", "no-type", at, at + len(word),
                f"write its type after a colon: {word}:f32[]",
            )  # fmt: skip
        else:
            self._error(f"{word} is not an operand", "syntax", at, at + len(word))
        del scope

    def _find(self, word: str, start: int, end: int) -> int:
        """Where a word stands between two offsets (`start`, when it is known exactly)."""
        if end < 0:
            return start
        m = re.compile(rf"(?<!\S){re.escape(word)}(?!\S)").search(self.source.text, start, end)
        return m.start() if m else start

    def _literal(self, word: str, value: str, kind: str, start: int, end: int) -> Lit:
        weak, kind = kind[-1:] == WEAK, kind.removesuffix(WEAK)
        aval = self.types.get(kind) or self._type(kind, start)
        scalar: Any = None
        try:
            if not isinstance(aval, ShapedArray):
                raise ValueError(f"a literal of type {kind}")
            if value != "[...]":
                scalar = read_scalar(value, aval.dtype)
        except ValueError as e:
            at = self._find(word, start, end)
            self._error(str(e), "bad-literal", at, at + len(word))
        if weak and isinstance(aval, ShapedArray):
            aval = aval.update(weak_type=True)
        self.literals[word] = scalar, aval
        return Lit(scalar, aval)

    # ---- params

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

    def _params(self, primitive: Primitive, params: list[tuple[Token, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        declared = primitive.params
        for (_, key, start, end), raw in params:
            if type(raw) is tuple:
                declaration = declared.get(key)
                annotation = declaration.annotation if declaration else ""
                raw = self._value(primitive, key, annotation, raw[1], raw[2])
            elif type(raw) is list:
                raw = tuple(raw)
            if key in found:
                self._error(f"the param {key} is given twice", "duplicate-param", start, end)
            found[key] = raw
        return found

    def _inner(self, text: str, at: int) -> tuple[ClosedJaxpr, int] | None:
        """A jaxpr inside another value; errors in it are errors of this text."""
        read = self.read_inner(Excerpt(self.source, at, text), self.depth + 1)
        if read is None:
            return None
        builder, closed, length = read
        self.parse_errors += builder.parse_errors
        self.type_errors += builder.type_errors
        return closed, length

    def _value(self, primitive: Primitive, key: str, annotation: str, text: str, at: int) -> Any:
        cached = self.values.get((annotation, text), self)
        if cached is not self:
            return cached
        if self.definitions.names and (annotation != "str" and key != "name"):
            if primitive.known and "Jaxpr" not in annotation:
                pass
            elif (found := self.definitions.value(text, at)) is not None:
                return found
        if annotation.startswith("ClosedJaxpr") and text != "None":
            self._error(f"{text} is not defined here", "undefined-jaxpr", at, at + len(text))
        if "lambda" in text:
            return read_value(text, annotation, lambda rest, offset: self._inner(rest, at + offset))
        value = self.values[annotation, text] = read_value(text, annotation)
        if type(value) in (list, dict):
            del self.values[annotation, text]
        return value


def _undrop(binders: list[Var], i: int) -> Var:
    """Make a dropped result one that is read, which keeps its name."""
    old = binders[i]
    if isinstance(old, DropVar):
        binders[i] = Var(old.aval, "_", old.span)
    return binders[i]


def _held_by(aval: Any) -> Any:
    return aval.inner if isinstance(aval, RefType) else aval

"""The callbacks of the grammar: tokens to `Jaxpr`s, with names resolved and positions kept."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from jaxprtool.core.primitive import find_primitive
from jaxprtool.ir.avals import ARRAY_LIMIT, RefType, ShapedArray
from jaxprtool.ir.diagnostics import Diagnostic, JaxprParseError, ScopeError
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import (
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Var,
    Written,
    new_eqn,
)
from jaxprtool.ir.spans import Source, Span
from jaxprtool.syntax.atoms import Atoms, Scope, undrop
from jaxprtool.syntax.autodidax import from_autodidax
from jaxprtool.syntax.build_params import ParamCallbacks
from jaxprtool.syntax.consts import read_const
from jaxprtool.syntax.definitions import Definitions
from jaxprtool.syntax.earlier_releases import OLDER, from_older
from jaxprtool.syntax.elided_params import recover_params
from jaxprtool.syntax.hints import operand_hint, primitive_hint
from jaxprtool.syntax.infer import infer_binders, infer_literals
from jaxprtool.syntax.interface import InterfaceCallbacks
from jaxprtool.syntax.refs import read_reference
from jaxprtool.syntax.scanner import Scanner
from jaxprtool.syntax.tokens import Token

__all__ = ["Builder"]

_MOST_ERRORS = 200
_WORD = re.compile(r"[^\W\d]\w*")
_NO_NAME = re.compile(r"""[\](){}=,;'"]""")  # what stands in no name of a primitive
_OUT = re.compile(r"\s*((?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\]|[^\s,()\[])+)\s*(?:,|\Z)")
_TYPE_ERRORS = frozenset({"unbound-variable", "bound-twice", "interface-count", ARRAY_LIMIT})


class Builder(InterfaceCallbacks, ParamCallbacks):
    """Builds the IR from reductions. One builder reads one text."""

    def __init__(
        self,
        source: Source,
        scanner: Scanner,
        read_inner: Any,
        depth: int = 0,
        outer: Definitions | None = None,
        annotated: bool = False,
    ):
        super().__init__()
        self.source, self.scanner, self.comments = source, scanner, scanner.comments
        self.read_inner, self.depth = read_inner, depth
        self.scopes: list[Scope] = []
        self.places: list[tuple[int, JaxprEqn]] = []  # of primitives' names, for annotations
        self.annotated = annotated
        own: set[str] = set()
        if scanner.names:
            own.update(t[1] for t in scanner.tokens if t[0] == "LET")
        self.definitions = Definitions(source, own, outer)
        self.type_errors: list[Diagnostic] = []
        self.parse_errors: list[Diagnostic] = []
        self.dropped_outs: dict[Jaxpr, tuple[list[int], Scope]] = {}
        lone = bool(scanner.tokens) and scanner.tokens[0][0] in ("EQUATION", "REFERENCE")
        self.atoms = Atoms(source, self._error, scanner.autodidax, lone)
        if lone:
            self.scopes.append(Scope(0))

    def callbacks(self) -> dict[str, Any]:
        """The methods that build, by the name that the grammar has for each rule."""
        return {name[3:]: getattr(self, name) for name in _CALLBACKS}

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
        found = self.type_errors if code in _TYPE_ERRORS else self.parse_errors
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
        written = Written({}, lone_equation=True)
        jaxpr = Jaxpr(scope.inputs, [eqn], outs, span=eqn.span, written=written)
        self._infer_types(program := ClosedJaxpr(jaxpr))
        return {"": program}

    def on_program(self, _: Any, program: ClosedJaxpr) -> ClosedJaxpr:
        amend(program.jaxpr, written=Written(self.definitions.listed()))
        return self.on_program_alone(program)

    def on_program_alone(self, program: ClosedJaxpr) -> ClosedJaxpr:
        self._infer_types(program)
        self.parse_errors += self.definitions.finish()
        return program

    def _infer_types(self, program: ClosedJaxpr) -> None:
        atoms, definitions = self.atoms, self.definitions.shells.values()
        if atoms.untyped_binders:
            sound = not self.parse_errors and not self.type_errors
            self.parse_errors += infer_binders(program, definitions, atoms.wide, sound)
        if atoms.untyped_literals:
            infer_literals([program, *definitions], atoms.wide)
        atoms.untyped_binders = atoms.untyped_literals = False

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

    def on_head(self, start: Token, consts: Any, _: Token, binders: Any, dot: Token) -> Scope:
        del dot
        scope = Scope(start[2])
        self.scopes.append(scope)
        if consts:
            scope.consts = self.atoms.binders(scope, consts[1], consts[2])
        if binders:
            scope.inputs = self.atoms.binders(scope, binders[1], binders[2])
        return scope

    def on_autodidax_head(self, start: Token, binders: Any, dot: Token) -> Scope:
        scope = self.on_head(start, None, start, binders, dot)
        scope.autodidax = True
        return scope

    def on_jaxpr_without_equations(self, scope: Scope, tail: tuple[Token, Any]) -> ClosedJaxpr:
        return self.on_jaxpr(scope, [], tail)

    def on_jaxpr(self, scope: Scope, eqns: list[JaxprEqn], tail: tuple[Token, Any]) -> ClosedJaxpr:
        self.scopes.pop()
        token, entries = tail
        span = Span(self.source, scope.start, token[3])
        jaxpr = Jaxpr(scope.inputs, eqns, (), scope.consts, span, self._comments(scope, token))
        amend(jaxpr, outs=self._outs(token, scope, jaxpr))
        consts = self._where(entries, scope) if entries else [None] * len(scope.consts)
        return ClosedJaxpr(jaxpr, consts)

    def on_tail(self, outs: Token, *_: Token) -> tuple[Token, Any]:
        return outs, None

    def on_tail_where(self, outs: Token, *rest: Any) -> tuple[Token, Any]:
        return outs, rest[-1]

    def _comment_program(self, closed: ClosedJaxpr, start: int, place: str = "head") -> None:
        """Give the comments before `start`, where a name stands, to the jaxpr of that name."""
        lines = self.comments.above.get(start)
        if lines:
            comments = closed.jaxpr.comments or {}
            joined = {**comments, place: [*lines, *comments.get(place, ())]}
            amend(closed.jaxpr, comments=joined)

    def _comments(self, scope: Scope, outs: Token) -> dict[str, list[str]] | None:
        """The lines of comment at the head and the tail of a jaxpr."""
        if not self.comments.present:
            return None
        above = self.comments.above
        found = {"head": above.get(scope.start, []), "tail": above.get(outs[2], [])}
        return found if found["head"] or found["tail"] else None

    def _outs(self, token: Token, scope: Scope, jaxpr: Jaxpr) -> tuple[Any, ...]:
        text: str = token[1]
        outs: list[Any] = []
        dropped: list[int] = []
        pos = 0
        start = token[3] - len(text) - 1
        while pos < len(text) and (m := _OUT.match(text, pos)):
            word = m[1]
            if word == "_" and scope.drops:
                dropped.append(len(outs))
                outs.append(None)
            else:
                outs.append(self.atoms.atom(word, scope, start + m.start(1)))
            pos = m.end()
        if pos < len(text) and text[pos:].strip():
            self._error("malformed results", "syntax", start + pos, token[3])
        if dropped:
            self.dropped_outs[jaxpr] = dropped, scope
            return self._read_drops(jaxpr, outs, [None] * len(outs))
        return tuple(outs)

    def _read_drops(self, jaxpr: Jaxpr, outs: list[Any], avals: list[Any]) -> tuple[Any, ...]:
        """The results, each `_` among them the next `_` binder of its type (of any, if it is not known)."""
        positions, scope = self.dropped_outs[jaxpr]
        drops = scope.drops
        of_type: dict[Any, deque[int]] = {}
        for k, binder in enumerate(drops):
            of_type.setdefault(binder.aval, deque()).append(k)
        free = dict.fromkeys(range(len(drops)))  # in the order of binding
        for i in positions:
            fits = of_type.get(avals[i]) if i < len(avals) and avals[i] is not None else None
            while fits and fits[0] not in free:
                fits.popleft()
            k = fits[0] if fits else next(iter(free), 0)
            free.pop(k, None)
            outs[i] = undrop(drops[k])
        return tuple(outs)

    def _where(self, entries: list[tuple[str, Any, Token]], scope: Scope) -> list[Any]:
        """The values of the constants, None for those that the text does not give; weak types are marked."""
        positions = {v.name: i for i, v in enumerate(scope.consts)}
        consts: list[Any] = [None] * len(scope.consts)
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
                consts[i] = read_const(token[1], scope.consts[i].aval)
            except ValueError as e:
                self._error(f"{e}, the type of {name}" if "shape" in str(e) else str(e), "bad-constant", token[2], token[3])  # fmt: skip
        return consts

    def _weaken(self, name: str, scope: Scope, token: Token) -> None:
        var = scope.vars.get(name)
        if var is None:
            self._error(f"{name} is not bound here", "unbound-variable", token[2], token[3])
        elif isinstance(var.aval, ShapedArray):
            amend(var, aval=var.aval.update(weak_type=True))

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

    def on_with_known_params(self, token: Token, params: Token, operands: Token) -> Any:
        return self._equation(token, None, operands, (), params)

    def on_plain_with_jaxprs(self, token: Token, operands: Token, jaxprs: list[ClosedJaxpr]) -> Any:
        return self._equation(token, None, operands, jaxprs)

    def on_with_params_and_jaxprs(
        self, token: Token, _: Token, params: Any, close: Token, operands: Token, jaxprs: Any
    ) -> Any:
        del close
        return self._equation(token, params, operands, jaxprs)

    def _equation(
        self,
        token: Token,
        params: Any,
        operands: Token,
        jaxprs: Any,
        repeated: Token | None = None,
    ) -> Any:
        match, scope = token[1], self.scopes[-1]
        primitive = find_primitive(match[3])
        if not primitive.known and _NO_NAME.search(match[3]):
            help = primitive_hint(match[3])
            message = (
                "an operation is no call" if help else f"{match[3]} is no name of an operation"
            )
            self._error(message, "syntax", match.start(3), match.end(3), help)
        if "=" in operands[1] and (found := operand_hint(operands[1], operands[2])):
            self._error(found.message, "syntax", found.start, found.end, found.help)
            operands = (
                operands[0],
                operands[1][: found.start - operands[2]],
                operands[2],
                operands[3],
            )
        inputs: list[Any] = []
        known = scope.vars
        for word in operands[1].split():
            atom = known.get(word)
            if atom is None:
                if word.rfind("[") > word.rfind("]"):  # a type with a blank in it
                    inputs = self.atoms.spaced(operands[1], scope, operands[2], operands[3])
                    break
                atom = self.atoms.atom(word, scope, operands[2], operands[3])
            inputs.append(atom)
        given = self._params(primitive, params) if params else {}
        binders = self.atoms.binders(scope, match[2], token[2]) if match[2] else []
        if repeated is not None:
            given = self._repeated(primitive, repeated, binders)
        else:
            if scope.autodidax:
                primitive, inputs, given, before = from_autodidax(primitive, inputs, given, jaxprs)
            elif primitive.name in OLDER:
                primitive, inputs, given = from_older(primitive, inputs, given)
            given = recover_params(primitive, given, binders)
        span = Span(self.source, token[2], operands[3])
        comments = self._comment(token[2]) if self.comments.present else None
        eqn = new_eqn(primitive, inputs, given, binders, span, comments)
        if self.annotated:
            self.places.append((match.start(3), eqn))
        if self.dropped_outs:
            self._resolve_drops(eqn)
        return [before, eqn] if scope.autodidax and before is not None else eqn  # type: ignore[possibly-unbound]

    def _comment(self, start: int) -> tuple[str, ...] | None:
        """The comments of the equation that begins at an offset."""
        above, after = self.comments.above.get(start, []), self.comments.after.get(start, "")
        return (*above, after) if above or after else None

    def _resolve_drops(self, eqn: JaxprEqn) -> None:
        """Now that the types of the results are known, give `_` results of a jaxpr the right binders."""
        avals = [v.aval for v in eqn.out_binders]
        for value in eqn.params.values():
            if isinstance(value, ClosedJaxpr) and value.jaxpr in self.dropped_outs:
                outs = self._read_drops(value.jaxpr, [*value.jaxpr.outs], avals)
                amend(value.jaxpr, outs=outs)
                del self.dropped_outs[value.jaxpr]

    def on_reference(self, token: Token) -> JaxprEqn:
        scope, text = self.scopes[-1], token[1][1]
        start, end = token[2], token[3]
        reference = read_reference(text, scope.vars)
        if reference is None:
            self._error("malformed equation on a reference", "syntax", start, end)
            return JaxprEqn(find_primitive("get"), [], {}, [])
        inputs = [self.atoms.atom(word, scope, start, end) for word in reference.operands]
        if inputs and not isinstance(inputs[0], Var):
            word = reference.operands[0]
            self._error(f"{word} is a number, where a reference has to stand", "syntax", start, end)
        self.atoms.type_stored(reference.primitive, inputs)
        binders: list[Var] = (
            self.atoms.binders(scope, reference.out, start) if reference.out else []
        )
        if reference.primitive.notation == "write" and not binders:
            binders = [DropVar(_held_by(inputs[1].aval))]  # type: ignore[list-item]
        span = Span(self.source, start, end)
        params = {**reference.primitive.defaults, **reference.params}
        comments = self._comment(start) if self.comments.present else None
        eqn = JaxprEqn(reference.primitive, inputs, params, binders, span, comments)
        if self.annotated:
            self.places.append((start, eqn))
        return eqn


_CALLBACKS = [name for name in dir(Builder) if name.startswith("on_")]


def _held_by(aval: Any) -> Any:
    return aval.inner if isinstance(aval, RefType) else aval

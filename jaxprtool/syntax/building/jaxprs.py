"""The callbacks of the grammar for jaxprs: their binders, results and constants."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.frozen import FrozenDict, amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn, Written, new_closed, new_jaxpr
from jaxprtool.ir.spans import new_span
from jaxprtool.syntax.building.atoms import Atoms, Scope
from jaxprtool.syntax.building.drops import Drops
from jaxprtool.syntax.consts import Const, ElementError, read_const
from jaxprtool.syntax.errors import Errors
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.scanning.comments import CommentScanner
from jaxprtool.syntax.tokens import LITERAL, Token

__all__ = ["JaxprCallbacks"]

# An entry of a where section: the name of a constant and its value, or the names of weakly typed variables; and the token that it ends with.
Entry: TypeAlias = "tuple[Token, Token] | tuple[list[str], Token]"

_LITERAL = pattern(LITERAL)
_OUT = pattern(r"\s*((?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\]|[^\s,()\[])+)\s*(?:,|\Z)")


class JaxprCallbacks:
    """Builds jaxprs. `atoms.scopes` has the scope of each jaxpr under construction."""

    def __init__(self, errors: Errors, atoms: Atoms, drops: Drops, comments: CommentScanner):
        self.source, self.errors, self.atoms = errors.source, errors, atoms
        self.drops, self.comments = drops, comments
        self.effects: dict[int, str] = {}

    def on_no_binders(self) -> None:
        return None

    def on_binders(self, token: Token) -> Token:
        return token

    def on_head(
        self, start: Token, consts: Token | None, _: Token, binders: Token | None, dot: Token
    ) -> Scope:
        del dot
        return self._begun(start[2], consts and consts[1:3], binders and binders[1:3])

    def on_whole_head(self, head: Token) -> Scope:
        match: re.Match[str] = head[1]
        consts, binders = [(match[i], match.start(i)) if match[i] else None for i in (2, 4)]
        return self._begun(head[2], consts, binders)

    def _begun(
        self, start: int, consts: tuple[str, int] | None, binders: tuple[str, int] | None
    ) -> Scope:
        """Return the scope of a jaxpr that starts at an offset.

        `consts` and `binders` are the texts of its constants and arguments with their offsets.
        """
        scope = Scope(start)
        self.atoms.scopes.append(scope)
        if consts:
            scope.consts = self.atoms.binders(scope, *consts)
        if binders:
            scope.inputs = self.atoms.binders(scope, *binders, head=True)
        return scope

    def on_autodidax_head(self, start: Token, binders: Token | None, dot: Token) -> Scope:
        scope = self.on_head(start, None, start, binders, dot)
        scope.autodidax = True
        return scope

    def on_jaxpr_without_equations(
        self, scope: Scope, tail: tuple[Token, list[Entry]]
    ) -> ClosedJaxpr:
        return self.on_jaxpr(scope, [], tail)

    def on_jaxpr(
        self, scope: Scope, eqns: list[JaxprEqn], tail: tuple[Token, list[Entry]]
    ) -> ClosedJaxpr:
        self.atoms.scopes.pop()
        token, entries = tail
        span = new_span((self.source, scope.start, token[3], None))
        comments = self.comments.of_jaxpr(scope.start, token[2])
        written = None
        if token[2] in self.effects:
            written = Written(FrozenDict(), effects=self.effects.pop(token[2]))
        dropped, outs = self._outs(token, scope)
        jaxpr = new_jaxpr(scope.inputs, eqns, outs, scope.consts, span, comments, written)
        if dropped:
            amend(jaxpr, outs=self.drops.add(jaxpr, outs, dropped, scope))
        consts = self._where(entries, scope) if entries else [None] * len(scope.consts)
        return new_closed(jaxpr, consts)

    def on_tail(self, outs: Token, *rest: Any) -> tuple[Token, list[Entry]]:
        if len(rest) > 1:
            self._keep_effects(outs, rest[0])
        return outs, []

    def on_tail_where(self, outs: Token, *rest: Any) -> tuple[Token, list[Entry]]:
        *before, entries = rest
        if len(before) > 1:
            self._keep_effects(outs, before[0])
        return outs, entries

    def _keep_effects(self, outs: Token, token: Token) -> None:
        """Keep the text of effects, ` : { Debug }`, for the jaxpr whose results precede it."""
        text = self.source.text[token[2] : token[3]].strip()
        if "\n" in text:
            text = " ".join(text.split())
        self.effects[outs[2]] = f" {text}"

    def _outs(self, token: Token, scope: Scope) -> tuple[list[int], list[Any]]:
        """Return the positions of the results that are `_`, and the results, with None for these."""
        text: str = token[1]
        if "Literal(" in text:
            text = _LITERAL.sub(r"\1", text)
        words = text.split(",")
        if words[-1].isspace() or not words[-1]:
            words.pop()
        variables = [*map(scope.vars.get, map(str.strip, words))]
        if None not in variables:  # as results are, most often
            return [], variables
        outs: list[Any] = []
        dropped: list[int] = []
        pos, start = 0, token[3] - len(text) - 1
        while pos < len(text) and (m := _OUT.match(text, pos)):
            word = m[1]
            if word == "_" and scope.drops:
                dropped.append(len(outs))
                outs.append(None)
            else:
                outs.append(self.atoms.result(word, scope, start + m.start(1)))
            pos = m.end()
        if pos < len(text) and text[pos:].strip():
            help = "results are separated by commas: `in (a, b) }`"
            self.errors.add("malformed results", "syntax", start + pos, token[3], help)
        return dropped, outs

    # ---- where sections

    def on_no_entries(self, _: Token) -> list[Entry]:
        return []

    def on_const_entry(self, entries: list[Entry], name: Token, data: Token) -> list[Entry]:
        entries.append((name, data))
        return entries

    def on_weak_entry(self, entries: list[Entry], token: Token) -> list[Entry]:
        entries.append((token[1], token))
        return entries

    def _where(self, entries: list[Entry], scope: Scope) -> list[Const | None]:
        """Return the values of the constants, None for those that the text does not give; mark weak types."""
        positions = {v.name: i for i, v in enumerate(scope.consts)}
        consts: list[Const | None] = [None] * len(scope.consts)
        for key, token in entries:
            _, text, start, end = token
            if isinstance(key, list):
                for word in key:
                    self._weaken(word, scope, token)
                continue
            name, at = key[1], self.source.text.index(key[1], key[2])
            i = positions.get(name)
            if i is None:
                help = "constants are the binders before the `;`"
                message = f"{name} is not a constant of this jaxpr"
                self.errors.add(message, "not-a-constant", at, at + len(name), help)
                continue
            if consts[i] is not None:
                message = f"the constant {name} is given twice"
                self.errors.add(message, "duplicate-name", at, at + len(name))
            try:
                consts[i] = read_const(text, scope.consts[i].aval)
            except ElementError as e:
                self.errors.add(str(e), "bad-constant", start + e.start, start + e.end, e.help)
            except ValueError as e:
                message = f"{e}, the type of {name}" if "shape" in str(e) else str(e)
                self.errors.add(message, "bad-constant", start, end)
        return consts

    def _weaken(self, name: str, scope: Scope, token: Token) -> None:
        var = scope.vars.get(name)
        if var is None:
            message = f"{name} is not bound here"
            self.errors.add(message, "unbound-variable", token[2], token[3])
        elif isinstance(var.aval, ShapedArray):
            amend(var, aval=var.aval.update(weak_type=True))

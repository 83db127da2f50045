"""Shared definitions, `let f = { ... } in`: one object each, visible everywhere in the program."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from jaxprtool.ir.diagnostics import Diagnostic
from jaxprtool.ir.frozen import amend
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr
from jaxprtool.ir.spans import Source, Span
from jaxprtool.syntax.tokens import Token

__all__ = ["Definitions"]


class Definitions:
    """The shared definitions of a program; used for one program after another.

    A name may be used before its definition, so a use makes an empty `ClosedJaxpr`, which the
    definition fills. A jaxpr inside a value may have definitions of its own, and use those of the
    text around it (`outer`).

    A param of an unknown primitive may hold a jaxpr, or a word that happens to be the name of one:
    the function `solve` may apply a primitive with the param `prim=solve`. Such a word is guessed
    to be a reference. Where this makes the definition use itself, the guess was mistaken: the text
    is read again with the name among the `words`.

    Attributes:
      own: the names that the text defines anywhere.
      names: those and the names of the text around it; no other word can be a reference.
      words: names that are plain words in params of unknown primitives.
      mistaken: names of definitions that use themselves through a guess; those of texts inside
        values too.
    """

    def __init__(
        self,
        source: Source,
        own: set[str],
        outer: Definitions | None = None,
        words: Set[str] = frozenset(),
    ):
        self.source, self.own, self.outer = source, own, outer
        self.names = own | outer.names if outer is not None else own
        self.words: Set[str] = words if outer is None else outer.words
        self.mistaken: set[str] = set() if outer is None else outer.mistaken
        self._reset()

    def _reset(self) -> None:
        self.shells: dict[str, ClosedJaxpr] = {}
        self.defined: dict[str, Token] = {}
        self.first_use: dict[str, int] = {}
        self.uses: dict[str, set[str]] = {}
        self.used: set[str] = set()
        self.guessed: set[str] = set()

    def guess(self, name: str, at: int) -> ClosedJaxpr | None:
        """Return the jaxpr that a word in a param of an unknown primitive names; None where it is a plain word."""
        if name not in self.names or name in self.words:
            return None
        if name in self.own:
            self.guessed.add(name)
        elif self.outer is not None:
            return self.outer.guess(name, at)
        return self.reference(name, at)

    def reference(self, name: str, at: int) -> ClosedJaxpr:
        """Return the jaxpr of this name; it may be filled later."""
        if self.outer is not None and name not in self.own and name in self.outer.names:
            return self.outer.reference(name, at)
        self.first_use.setdefault(name, at)
        self.used.add(name)
        return self._shell(name)

    def _shell(self, name: str) -> ClosedJaxpr:
        found = self.shells.get(name)
        if found is None:
            found = self.shells[name] = ClosedJaxpr(Jaxpr([], [], []))
        return found

    def value(self, text: str, at: int, guessed: bool) -> Any:
        """Return the jaxpr, or the tuple of jaxprs, that a param's value names; None when it names none.

        guessed: whether it may be a plain word, since the primitive is unknown.
        """
        refer = self.guess if guessed else self.reference
        names = self.names - self.words if guessed else self.names
        if text in names:
            return refer(text, at)
        if text[:1] == "(" and text[-1:] == ")":
            words = text[1:-1].split()
            if words and names.issuperset(words):
                return tuple([refer(w, at) for w in words])
        return None

    def define(self, token: Token, closed: ClosedJaxpr) -> list[Diagnostic]:
        """Fill the jaxpr of a name; return the errors found."""
        _, name, start, end = token
        if name in self.defined:
            message = f"{name} is defined twice"
            return [Diagnostic(message, "duplicate-name", Span(self.source, start, end))]
        self.defined[name] = token
        self.uses[name], self.used = self.used, set()
        shell = self._shell(name)
        amend(shell, jaxpr=closed.jaxpr, consts=closed.consts)
        return []

    def listed(self) -> dict[str, ClosedJaxpr]:
        """Return the definitions in the order of the text; printing an unchanged program gives them back."""
        return {name: self.shells[name] for name in self.defined}

    def finish(self) -> list[Diagnostic]:
        """End a program: return errors for names that are not defined, or defined by themselves."""
        errors: list[Diagnostic] = []
        for name, at in self.first_use.items():
            if name not in self.defined:
                span = Span(self.source, at, at + len(name))
                errors.append(Diagnostic(f"{name} is not defined here", "undefined-jaxpr", span))
        recursive = self._recursive()
        self.mistaken |= {n for n in self.guessed.intersection(recursive) if self._uses_itself(n)}
        for name in recursive:
            _, _, start, end = self.defined[name]
            message = f"{name} is defined by itself: jaxprs cannot be recursive"
            errors.append(Diagnostic(message, "recursive-jaxpr", Span(self.source, start, end)))
        self._reset()
        return errors

    def _uses_itself(self, name: str) -> bool:
        reached: set[str] = set()
        todo = [name]
        while todo and name not in reached:
            new = self.uses.get(todo.pop(), set()) - reached
            reached |= new
            todo += new
        return name in reached

    def _recursive(self) -> list[str]:
        """Return the names that remain after repeatedly removing those that use no remaining one."""
        pending = {n: uses & self.defined.keys() for n, uses in self.uses.items()}
        users: dict[str, list[str]] = {}
        for name, uses in pending.items():
            for used in uses:
                users.setdefault(used, []).append(name)
        ready = [n for n, uses in pending.items() if not uses]
        while ready:
            name = ready.pop()
            del pending[name]
            for user in users.get(name, ()):
                pending[user].discard(name)
                if not pending[user]:
                    ready.append(user)
        return list(pending)

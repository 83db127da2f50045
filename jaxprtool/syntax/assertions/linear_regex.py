"""Regular expressions for patterns that a user writes, matched in time linear in the text.

Python's `re` takes exponential time for some expressions. Here all states that the expression can
be in are followed at the same time, so that the time is at most its length times that of the text.
There are no back-references and no look-around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["LinearRegex", "RegexFault"]

_Test = Callable[[str], bool]
_CLASSES: dict[str, _Test] = {
    "d": str.isdigit,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
}
_REPEATS = "*+?"


class RegexFault(ValueError):
    """A text that is no regular expression. `at` is the position of the fault."""

    def __init__(self, message: str, at: int):
        super().__init__(message)
        self.message, self.at = message, at


class _State(NamedTuple):
    """A state of the automaton.

    Attributes:
      takes: the test of the character that it consumes; None where it consumes nothing.
      edge: the end of the text at which it has to be, or "".
      then: the states that follow.
    """

    takes: _Test | None
    edge: str
    then: tuple[int, ...]


_ACCEPT = _State(None, "", ())


class LinearRegex:
    """A regular expression: characters, `.`, `[a-z]`, `\\d \\w \\s` and their opposites, `^ $`, `|`, `( )`, `* + ?`."""

    __slots__ = ("_found", "_start", "_states", "text")

    def __init__(self, text: str):
        """Read an expression. Raises RegexFault."""
        self.text = text
        self._states: list[_State] = [_ACCEPT]
        tree = _Reader(text).whole()
        self._start = self._add(tree, 0)
        self._found: dict[str, bool] = {}

    def search(self, text: str) -> bool:
        """Whether the expression matches somewhere in a text."""
        found = self._found.get(text)
        if found is None:
            found = self._found[text] = self._search(text)
        return found

    def _search(self, text: str) -> bool:
        now: set[int] = set()
        for i in range(len(text) + 1):
            edges = ("^" if i == 0 else "") + ("$" if i == len(text) else "")
            reached = self._closed({*now, self._start}, edges)
            if 0 in reached:
                return True
            if i == len(text):
                return False
            now = set()
            for state in reached:
                takes, _, then = self._states[state]
                if takes is not None and takes(text[i]):
                    now.update(then)
        return False

    def _closed(self, states: set[int], edges: str) -> set[int]:
        """Return the states and those that are reached from them without consuming a character."""
        todo, found = [*states], {*states}
        while todo:
            takes, edge, then = self._states[todo.pop()]
            if takes is None and (not edge or edge in edges):
                new = [s for s in then if s not in found]
                found.update(new)
                todo += new
        return found

    def _add(self, tree: Any, then: int) -> int:
        """Add the states of a part of the expression before a state; returns the first of them."""
        kind, *parts = tree
        if kind == "in order":
            for part in reversed(parts):
                then = self._add(part, then)
            return then
        if kind == "one of":
            return self._new(_State(None, "", tuple([self._add(p, then) for p in parts])))
        if kind == "takes":
            return self._new(_State(parts[0], "", (then,)))
        if kind == "edge":
            return self._new(_State(None, parts[0], (then,)))
        again = self._new(_ACCEPT)
        inside = self._add(parts[0], then if kind == "?" else again)
        self._states[again] = _State(None, "", (inside, then))
        return inside if kind == "+" else again

    def _new(self, state: _State) -> int:
        self._states.append(state)
        return len(self._states) - 1


class _Reader:
    """Reads an expression into a tree of tuples."""

    def __init__(self, text: str):
        self.text, self.at = text, 0

    def whole(self) -> Any:
        found = self.either()
        if self.at < len(self.text):
            raise RegexFault("unmatched `)`", self.at)
        return found

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def next(self) -> str:
        c = self.peek()
        self.at += 1
        if not c:
            raise RegexFault("the regular expression ends too early", len(self.text))
        return c

    def either(self) -> Any:
        parts = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else ("one of", *parts)

    def sequence(self) -> Any:
        parts: list[Any] = []
        while self.peek() not in ("", "|", ")"):
            part = self.one()
            while self.peek() and self.peek() in _REPEATS:
                part = (self.next(), part)
            parts.append(part)
        return ("in order", *parts)

    def one(self) -> Any:
        start = self.at
        c = self.next()
        if c == "(":
            found = self.either()
            if self.peek() != ")":
                raise RegexFault("`(` is not closed", start)
            self.at += 1
            return found
        if c in _REPEATS:
            raise RegexFault(f"there is nothing before `{c}` to repeat", start)
        if c in "^$":
            return ("edge", c)
        if c == ".":
            return ("takes", _anything)
        if c == "[":
            return ("takes", self.members(start))
        return ("takes", self.escaped() if c == "\\" else c.__eq__)

    def escaped(self) -> _Test:
        c = self.next()
        test = _CLASSES.get(c.lower())
        if test is None:
            return c.__eq__
        return test if c.islower() else lambda x: not test(x)

    def members(self, start: int) -> _Test:
        """Return the characters that `[a-z_]` accepts, after its bracket was read."""
        negative = self.peek() == "^"
        self.at += negative
        tests: list[_Test] = []
        while True:
            if not self.peek():
                raise RegexFault("`[` is not closed", start)
            c = self.next()
            if c == "]" and tests:
                break
            if c == "\\":
                tests.append(self.escaped())
            elif self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                tests.append(_between(c, self.next()))
            else:
                tests.append(c.__eq__)
        return lambda x: any(t(x) for t in tests) != negative


def _anything(c: str) -> bool:
    return bool(c)


def _between(first: str, last: str) -> _Test:
    return lambda x: first <= x <= last

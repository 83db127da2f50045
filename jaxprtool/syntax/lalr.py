"""A driver for LALR(1) tables: tokens in, callbacks called in the order of the reductions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from jaxprtool.syntax.tokens import LABELS, Token

__all__ = ["Tables", "UnexpectedToken", "load_tables", "run_tables"]


class Tables(NamedTuple):
    """LALR tables.

    Attributes:
      actions: for each state, token kind -> action: the next state, or ~rule for a reduction.
      gotos: for each state, rule's symbol -> the next state.
      rules: for each rule its symbol, the name of its callback and the number of its parts.
      start: the first state.
      end: the state in which the text is complete.
    """

    actions: list[dict[str, int]]
    gotos: list[dict[str, int]]
    rules: list[tuple[str, str, int]]
    start: int
    end: int


class UnexpectedToken(Exception):
    """A token that the grammar does not allow where it stands."""

    def __init__(self, token: Token, expected: list[str]):
        super().__init__(token, expected)
        self.token, self.expected = token, expected


@cache
def load_tables() -> Tables:
    """The shipped tables of `grammar/reader.lark`."""
    path = os.path.join(
        os.path.dirname(__file__), "tables.json"
    )  # pathlib costs more than the file
    with open(path, encoding="utf-8") as file:
        raw = json.load(file)
    rules = [(symbol, name, size) for symbol, name, size in raw["rules"]]
    return Tables(raw["actions"], raw["gotos"], rules, raw["start"], raw["end"])


def run_tables(
    tables: Tables, tokens: Iterable[Token], callbacks: dict[str, Callable[..., Any]]
) -> Any:
    """Parse `tokens` (the last one is `$END`); return what the last callback returned.

    A callback takes the values of its rule's parts: tokens, and the results of callbacks.

    Raises:
      UnexpectedToken: where the tokens leave the grammar, with the labels of what could follow.
    """
    actions, gotos = tables.actions, tables.gotos
    rules = [(symbol, callbacks[name], size) for symbol, name, size in tables.rules]
    states: list[int] = [tables.start]
    values: list[Any] = []
    state, end = tables.start, tables.end
    for token in tokens:
        kind = token[0]
        while True:
            action = actions[state].get(kind)
            if action is None:
                expected = _expected(tables, states)
                _reduce_what_is_complete(tables, rules, states, values)
                raise UnexpectedToken(token, expected)
            if action >= 0:
                states.append(action)
                values.append(token)
                state = action
                break
            symbol, callback, size = rules[~action]
            if size == 2:  # most are, and need no lists
                last = values.pop()
                values[-1] = callback(values[-1], last)
                del states[-2:]
            elif size:
                parts = values[-size:]
                del values[-size:], states[-size:]
                values.append(callback(*parts))
            else:
                values.append(callback())
            state = gotos[states[-1]][symbol]
            if state == end:
                return values[0]
            states.append(state)
    raise AssertionError("tokens without $END or JUNK at the end")


def _reduce_what_is_complete(
    tables: Tables,
    rules: list[tuple[str, Callable[..., Any], int]],
    states: list[int],
    values: list[Any],
) -> None:
    """Make the reductions that are complete before a token that does not fit, so that errors in them are found too."""
    while True:
        found = {a for a in tables.actions[states[-1]].values() if a < 0}
        if len(found) != 1:
            return
        symbol, callback, size = rules[~found.pop()]
        parts = values[len(values) - size :]
        del values[len(values) - size :], states[len(states) - size :]
        state = tables.gotos[states[-1]][symbol]
        if not size or state == tables.end:
            return
        values.append(callback(*parts))
        states.append(state)


def _expected(tables: Tables, states: list[int]) -> list[str]:
    """Return labels of the tokens that could follow: those that the state can shift, after reductions."""
    labels: list[str] = []
    for kind, label in LABELS.items():
        stack = list(states)
        while True:
            action = tables.actions[stack[-1]].get(kind)
            if action is None:
                break
            if action >= 0:
                labels.append(label)
                break
            symbol, _, size = tables.rules[~action]
            if size:
                del stack[-size:]
            state = tables.gotos[stack[-1]][symbol]
            if state == tables.end:
                labels.append(label)
                break
            stack.append(state)
    return labels

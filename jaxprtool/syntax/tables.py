"""The LALR tables of `grammar/reader.lark`, exported to JSON: `python -m jaxprtool.syntax.tables`.

Lark builds them; reading a text only needs `tables.json`, because importing Lark and building the tables would cost
more than reading most files does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["build_tables", "grammar_folder", "lark_parser", "main"]

TABLES_PATH = Path(__file__).with_name("tables.json")


def grammar_folder() -> Path:
    """`grammar/`: beside the package in an installed wheel, beside `jaxprtool/` in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "grammar", package.parent / "grammar"):
        if (folder / "reader.lark").exists():
            return folder
    raise FileNotFoundError("grammar/reader.lark is missing from the installation")


def lark_parser() -> Any:
    """Lark's own LALR parser of `grammar/reader.lark`; its input is a list of our scanner's tokens."""
    import lark

    class TokenLexer(lark.lexer.Lexer):
        def __init__(self, conf: Any):
            del conf

        def lex(self, data: Any, *_: Any) -> Iterator[lark.Token]:  # type: ignore[override]
            return (lark.Token(kind, value) for kind, value, *_ in data if kind != "$END")

    text = (grammar_folder() / "reader.lark").read_text(encoding="utf-8")
    return lark.Lark(text, parser="lalr", lexer=TokenLexer, keep_all_tokens=True)


def build_tables() -> dict[str, Any]:
    """The tables as plain data (see `lalr.Tables`), numbered in an order that depends on the grammar only."""
    table = lark_parser().parser.parser._parse_table
    start, end = table.start_states["start"], table.end_states["start"]
    numbers = _number_states(table.states, start)
    found = {r for row in table.states.values() for a, r in row.values() if str(a) == "Reduce"}
    rules = sorted(found, key=_rule_key)
    actions: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    for state in numbers:
        row: dict[str, int] = {}
        jumps: dict[str, int] = {}
        for symbol, (action, target) in sorted(table.states[state].items()):
            if str(action) == "Reduce":
                row[symbol] = ~rules.index(target)
            else:
                (jumps if symbol.islower() else row)[symbol] = numbers[target]
        actions.append(row)
        gotos.append(jumps)
    return {
        "start": numbers[start],
        "end": numbers[end],
        "rules": [[r.origin.name, r.alias, len(r.expansion)] for r in rules],
        "actions": actions,
        "gotos": gotos,
    }


def _rule_key(rule: Any) -> tuple[str, ...]:
    return rule.origin.name, rule.alias, *(s.name for s in rule.expansion)


def _number_states(states: dict[Any, Any], start: Any) -> dict[Any, int]:
    """Number the states in the order in which a walk from the first one finds them."""
    numbers, todo = {start: 0}, [start]
    for state in todo:
        for _, (action, target) in sorted(states[state].items()):
            if str(action) == "Shift" and target not in numbers:
                numbers[target] = len(todo)
                todo.append(target)
    return numbers


def main() -> None:
    """Write `tables.json`."""
    rows = build_tables()
    parts = [f'"start": {rows["start"]}', f'"end": {rows["end"]}']
    for key in ("rules", "actions", "gotos"):
        lines = ",\n  ".join(json.dumps(row) for row in rows[key])
        parts.append(f'"{key}": [\n  {lines}\n]')
    TABLES_PATH.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

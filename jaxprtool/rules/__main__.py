"""`python -m jaxprtool.rules [COLUMN | [--primitive] NAME]`: print the table of rules, with
primitives as rows and interpreters as columns.

With the name of a column: the rule of each primitive in it, and where that is written. With the
name of a primitive: its whole row, with everything known about the primitive.
"""

from __future__ import annotations

import itertools
import sys
import textwrap
from pathlib import Path
from typing import Any

import jaxprtool
from jaxprtool.core.declared import signature
from jaxprtool.core.primitive import declared_primitive, vocabulary
from jaxprtool.core.rule_table import Unsupported
from jaxprtool.interpreters.jvp import MadeRule
from jaxprtool.ir.declaration import REQUIRED, Param
from jaxprtool.ir.jaxpr import Primitive, Value
from jaxprtool.ir.synonyms import PRIMITIVES as SYNONYMS
from jaxprtool.ir.synonyms import close_names, meant
from jaxprtool.rules.define import COLUMNS, FACTS, FEW, PLACES
from jaxprtool.syntax.releases.history import history

__all__ = ["column_text", "main", "row_text", "table_text"]

_ROOT = Path(jaxprtool.__file__).parent.parent


def _unwrapped(rule: Any) -> Value:
    """Return the function behind a bound method, a `functools.partial` or the rule of a maker."""
    rule = rule.tangent if isinstance(rule, MadeRule) else getattr(rule, "func", rule)
    return getattr(rule, "__func__", rule)


def rule_name(rule: Any) -> str:
    """Return the name of a rule for the table: that of its maker, or its own.

    It is `-` where a rule is absent on purpose, and "" where there is none.
    """
    if rule is None:
        return ""
    if isinstance(rule, Unsupported):
        return "-"
    qualified = getattr(_unwrapped(rule), "__qualname__", None)
    if qualified is None:
        return type(rule).__name__
    return qualified.split(".")[0].replace("<lambda>", "lambda")


def rule_place(rule: Any) -> str:
    """`file:line` of a rule's code; "" for one without code of its own."""
    found = _unwrapped(rule)
    code = getattr(found, "__code__", None) or getattr(type(found).__call__, "__code__", None)
    if code is None or isinstance(rule, Unsupported):
        return ""
    return _place(code.co_filename, code.co_firstlineno)


def _place(file: str, line: int) -> str:
    """`file:line`, relative to the package where the file is below its folder."""
    path = Path(file)
    return f"{path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path}:{line}"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n"


def _primitives() -> list[Value]:
    """All primitives, by name."""
    return sorted(vocabulary().values(), key=lambda p: p.name)


def table_text() -> str:
    """Return the whole table, one line for each primitive and one column for each interpreter.

    A cell is the name of a rule, `-` where the rule is absent on purpose, or blank where none is
    needed.
    """
    rows = [["primitive", *COLUMNS]]
    for p in _primitives():
        rows.append([p.name, *(rule_name(table.find(p)) for table in COLUMNS.values())])
    return _aligned(rows)


def column_text(column: str) -> str:
    """Return one column: primitive, rule, and `file:line` or why there is no rule.

    For a column of facts: primitive and fact.
    """
    if column in FACTS:
        return _aligned([[p.name, str(FACTS[column][p])] for p in _primitives()])
    rows = []
    for p in _primitives():
        rule = (COLUMNS | FEW)[column].find(p)
        place = rule.why if isinstance(rule, Unsupported) else rule_place(rule) if rule else ""
        rows.append([p.name, rule_name(rule), place])
    return _aligned(rows)


def row_text(primitive: Primitive) -> str:
    """Return one row: signature, mathematics, params and their kinds, the rule in each column, its
    history, and where it is written.
    """
    parts = [signature(primitive) + "\n", _indented(_mathematics(primitive))]
    if primitive.params:
        params = [_param(p) for p in primitive.params.values()]
        kinds = dict.fromkeys(k for p in primitive.params.values() for k in p.kind.parts)
        described = [[kind.name, kind.describe()] for kind in kinds]
        parts += ["\nparams:\n", _indented(_aligned(params))]
        parts += ["\nkinds:\n", _indented(_aligned(described))]
    columns = [[name, *_served(table.find(primitive))] for name, table in COLUMNS.items()]
    columns += [[name, *_served(table.find(primitive))] for name, table in FEW.items()]
    columns += [[name, str(table[primitive]), ""] for name, table in FACTS.items()]
    parts += ["\ncolumns:\n", _indented(_aligned(columns))]
    changes = [[releases, words] for releases, words in history(primitive.name)]
    if changes:
        parts += ["\nhistory:\n", _indented(_aligned(changes))]
    return "".join(parts) + "\nsource:\n" + _indented(_aligned(_sources(primitive)))


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ")


def _mathematics(primitive: Primitive) -> str:
    """Return the docstring of the stub up to its lines on params."""
    lines = itertools.takewhile(
        lambda line: line.partition(": ")[0] not in primitive.params, primitive.doc.splitlines()
    )
    return "\n".join(lines).strip() + "\n"


_PRINTED = {
    "never": "printed",
    "default": "printed unless default",
    "blank": "printed unless blank",
    "always": "printed when lossless",
    "implied": "not printed",
}


def _param(param: Param) -> list[str]:
    """Return a param's name, kind, default, how the text form treats it, and its documentation."""
    default = "required" if param.default is REQUIRED else f"= {param.default!r}"
    words = [_PRINTED[param.hidden]]
    words += [
        name
        for name in ("first", "acts_along", "met_first", "named_by_call")
        if getattr(param, name)
    ]
    if param.recover is not None:
        words.append(f"recover={rule_name(param.recover)}")
    return [param.name, param.kind.name, default, ", ".join(words), param.doc]


def _served(rule: Any) -> tuple[str, str]:
    """Return the rule in a column as `module:name`, and its `file:line`; or why there is none."""
    if rule is None:
        return "none", ""
    if isinstance(rule, Unsupported):
        return f"unsupported: {rule.why}", ""
    found = _unwrapped(rule)
    name = getattr(found, "__qualname__", type(rule).__qualname__).partition(".<locals>")[0]
    module = getattr(found, "__module__", type(rule).__module__)
    return f"{module}:{name.replace('<lambda>', 'lambda')}", rule_place(rule)


def _sources(primitive: Primitive) -> list[list[str]]:
    """Return the places of the stub and of the `define` calls: rows of ("stub" or "define",
    `file:line`).
    """
    rows = [["define", _place(*place)] for place in PLACES.get(primitive, ())]
    if primitive.stub is None:
        return rows
    code = primitive.stub.__code__
    return [["stub", _place(code.co_filename, code.co_firstlineno)], *rows]


def _suggestion(name: str) -> str:
    """Return "; did you mean ...?" with the primitives whose names are close; "" if there are
    none.
    """
    known = meant(name, SYNONYMS)
    first = [known] if known else []
    near = first + [n for n in close_names(name, vocabulary()) if n not in first]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def main(args: list[str]) -> int:
    """Print the matrix, a column or a row, as the arguments select; returns the exit status."""
    names = [*COLUMNS, *FEW, *FACTS]
    known = len(args) == 1 and args[0] not in names and declared_primitive(args[0])  # a column wins
    named = args if known else args[1:] if args[:1] == ["--primitive"] else []
    if len(named) == 1:
        found = declared_primitive(named[0])
        if found is None:
            print(f"there is no primitive {named[0]}{_suggestion(named[0])}", file=sys.stderr)
            return 2
        print(row_text(found), end="")
        return 0
    if len(args) > 1 or (args and args[0] not in names):
        usage = "usage: python -m jaxprtool.rules [COLUMN | PRIMITIVE]"
        hint = _suggestion(args[0]) if len(args) == 1 else ""
        print(f"{usage}{hint}; columns: {', '.join(names)}", file=sys.stderr)
        return 2
    print(column_text(args[0]) if args else table_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Match items against patterns: types with holes, params, operands, filters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.analyses.asking.called import Called
from jaxprtool.analyses.asking.items import Item, array_of
from jaxprtool.syntax.assertions.filters import FIELDS, OF_VALUES, amount, value_tokens
from jaxprtool.syntax.assertions.linear_regex import LinearRegex
from jaxprtool.syntax.assertions.nodes import (
    Comparison,
    Filter,
    Operand,
    Param,
    Pattern,
    TypePattern,
)

__all__ = ["ORDERS", "fits", "holds", "matches", "needs_context"]

ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SURROUNDINGS = ("scope", "inside", "depth")
_NEGATIVE = ("!=", "!~")


def needs_context(*filters: Filter) -> bool:
    """Whether filters ask for what surrounds an equation."""
    todo = [*filters]
    while todo:
        found = todo.pop()
        if not isinstance(found, Comparison):
            todo += found.parts
        elif found.attribute.field in _SURROUNDINGS:
            return True
    return False


def matches(item: Item, pattern: Pattern) -> bool:
    """Whether an item matches the rest of a pattern; its name has been compared already."""
    if pattern.results and not _fit_all(pattern.results, item.types("out")):
        return False
    for p in pattern.params:
        if not _param_holds(p, item.param(p.key)):
            return False
    if pattern.operands and not _operands_fit(pattern.operands, item):
        return False
    return not pattern.filters or all(holds(f, item) for f in pattern.filters)


def _fit_all(patterns: Sequence[TypePattern], avals: Sequence[Any]) -> bool:
    """Whether the types of the first results fit these patterns."""
    if len(patterns) > len(avals):
        return False
    return all(fits(p, aval) for p, aval in zip(patterns, avals, strict=False))


def _operands_fit(patterns: Sequence[Operand], item: Item) -> bool:
    """Whether operands fit patterns in this order; others may stand between them."""
    rest = iter(zip(item.types("in"), item.names("in"), item.literals(), strict=True))
    return all(any(_operand_fits(p, *x) for x in rest) for p in patterns)


def _operand_fits(pattern: Operand, aval: Any, called: Called, literal: Any) -> bool:
    if pattern.literal is not None:
        number = isinstance(literal, (int, float)) and literal == pattern.literal
        return number
    if pattern.name is not None and not called.has(pattern.name):
        return False
    return pattern.type is None or fits(pattern.type, aval)


def fits(pattern: TypePattern, aval: Any) -> bool:
    """Whether a type fits a pattern; references count as the type of what they hold."""
    aval = array_of(aval)
    shape = getattr(aval, "shape", None)
    if shape is None:
        return False
    if pattern.dtype is not None and pattern.dtype != aval.dtype.short:
        return False
    if pattern.memory and pattern.memory != aval.memory:
        return False
    return pattern.dims is None or dims_fit(pattern.dims, shape)


def dims_fit(dims: Sequence[Any], shape: Sequence[Any]) -> bool:
    """Whether a shape fits dimensions with `...` and holes (None)."""
    if ... in dims:
        at = dims.index(...)
        after = len(dims) - at - 1
        if len(shape) < len(dims) - 1:
            return False
        return dims_fit(dims[:at], shape[:at]) and dims_fit(
            dims[at + 1 :], shape[len(shape) - after :]
        )
    if len(dims) != len(shape):
        return False
    return all(d is None or d == n for d, n in zip(dims, shape, strict=True))


# -- params -------------------------------------------------------------------------------------------


def _param_holds(param: Param, text: str | None) -> bool:
    return _free_holds(param.op, param.value, text)


def _free_holds(op: str, value: Any, text: str | None) -> bool:
    """Whether a comparison with a text holds, as numbers where both are; a missing text (None) differs from everything."""
    if text is None:
        return op in _NEGATIVE
    if isinstance(value, LinearRegex):
        return value.search(text) == (op == "~")
    if op in ("==", "!="):
        return tokens_fit(value_tokens(value), value_tokens(text)) == (op == "==")
    a, b = amount(text), amount(value)
    return a is not None and b is not None and ORDERS[op](a, b)


def tokens_fit(pattern: Sequence[str], tokens: Sequence[str]) -> bool:
    """Whether the tokens of a value fit those of a pattern, in which `_` stands for a part between commas."""
    at = 0
    for piece in pattern:
        if piece == "_":
            end = _part_end(tokens, at)
            if end == at:
                return False
            at = end
        elif at < len(tokens) and _same_token(piece, tokens[at]):
            at += 1
        else:
            return False
    return at == len(tokens)


def _same_token(a: str, b: str) -> bool:
    return a == b or b.rpartition(".")[2] == a  # `HIGHEST` for `Precision.HIGHEST`


def _part_end(tokens: Sequence[str], at: int) -> int:
    """Return where the part ends that begins at a token."""
    depth = 0
    while at < len(tokens):
        depth += (tokens[at] in "({") - (tokens[at] in ")}")
        if depth < 0 or (depth == 0 and tokens[at] == ","):
            return at
        at += 1
    return at


# -- filters ------------------------------------------------------------------------------------------


def holds(filter: Filter, item: Item) -> bool:
    """Whether a filter holds of an item."""
    if isinstance(filter, Comparison):
        return _comparison_holds(filter, item)
    if filter.kind == "and":
        return all(holds(f, item) for f in filter.parts)
    if filter.kind == "or":
        return any(holds(f, item) for f in filter.parts)
    return not holds(filter.parts[0], item)


def _comparison_holds(c: Comparison, item: Item) -> bool:
    """Whether a comparison holds. For operands and results it has to hold of each (or of `any`), and there has to be one."""
    attribute = c.attribute
    if attribute.field == "param":
        return _free_holds(c.op, c.value, item.param(attribute.key))
    kind, test = FIELDS[attribute.field], _test
    found: list[Any]
    if attribute.field not in OF_VALUES:
        return _test(kind, c.op, c.value, item.field(attribute.field))
    if attribute.field == "name":
        test, found = _test_of_name, [*item.names(attribute.of)]
    else:
        found = [_of_type(array_of(t), attribute.field) for t in item.types(attribute.of)]
    if attribute.position is not None:
        found = found[attribute.position : attribute.position + 1]
    results = [test(kind, c.op, c.value, x) for x in found]
    return any(results) if c.some else bool(results) and all(results)


def _of_type(aval: Any, field: str) -> Any:
    if field == "type":
        return str(aval)
    if getattr(aval, "shape", None) is None:
        return None
    found: dict[str, Callable[[], Any]] = {
        "dtype": lambda: aval.dtype.short,
        "shape": lambda: aval.shape,
        "rank": lambda: aval.ndim,
        "size": lambda: aval.size if aval.size >= 0 else None,
        "bytes": lambda: aval.nbytes if aval.size >= 0 else None,
        "memory": lambda: aval.memory or "device",
        "weak": lambda: str(aval.weak_type),
    }
    return found[field]()


def _test_of_name(kind: str, op: str, wanted: Any, found: Called) -> bool:
    """As `_test`, for the names of a value: one of them has to fit."""
    if op in ("==", "!="):
        return found.has(wanted) == (op == "==")
    return _test("texts", op, wanted, found.texts or None)


def _test(kind: str, op: str, wanted: Any, found: Any) -> bool:
    """Whether a comparison of a found property (None: missing) with a wanted one holds."""
    if found is None:
        return op in _NEGATIVE
    if kind == "texts":
        if op in _NEGATIVE:
            return not any(_test("text", _OPPOSITE[op], wanted, x) for x in found)
        return any(_test("text", op, wanted, x) for x in found)
    if op in ("~", "!~"):
        return wanted.search(found) == (op == "~")
    if kind == "shape":
        return dims_fit(wanted, found) == (op == "==")
    return ORDERS[op](found, wanted)


_OPPOSITE = {"!=": "==", "!~": "~"}

"""What kind of value each param takes, by the annotation in its declaration.

`int`, `bool`, `float`, `str`, `Text`, `DType`, `ClosedJaxpr`, tuples of them (`tuple[int, ...]`, `tuple[int, int]`; lists are
taken too) and `... | None` are checked. Any other annotation, such as `Any`, says nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxprtool.ir.avals import SymbolicDim
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import ClosedJaxpr, Primitive
from jaxprtool.ir.params import Opaque

__all__ = ["wrong_param"]


class Kind(NamedTuple):
    """What an annotation asks for: in words, in words for many of them, and whether a value is that."""

    one: str
    many: str
    fits: Callable[[Any], bool]


def _is_int(x: Any) -> bool:
    if type(x) is int:
        return True
    return not isinstance(x, bool) and (hasattr(x, "__index__") or isinstance(x, SymbolicDim))


def _is_bool(x: Any) -> bool:
    return type(x) is bool or type(x).__name__ in ("bool", "bool_")


def _is_float(x: Any) -> bool:
    return not isinstance(x, (bool, complex)) and hasattr(x, "__float__")


def _is_name(x: Any) -> bool:
    """Functions have names such as `<lambda>`, which are no words."""
    return isinstance(x, (str, Opaque))


_SIMPLE = {
    "int": Kind("an integer", "integers", _is_int),
    "bool": Kind("True or False", "booleans", _is_bool),
    "float": Kind("a number", "numbers", _is_float),
    "str": Kind("a name", "names", _is_name),
    "Text": Kind("a text", "texts", _is_name),
    "DType": Kind("an element type", "element types", lambda x: isinstance(x, DType)),
    "ClosedJaxpr": Kind("a jaxpr", "jaxprs", lambda x: isinstance(x, ClosedJaxpr)),
    "Any": Kind("a value", "values", lambda x: True),
}


@functools.cache
def _kind(annotation: str) -> Kind | None:
    if annotation.endswith(" | None"):
        inner = _kind(annotation.removesuffix(" | None"))
        if inner is None:
            return None
        one, many, fits = inner
        return Kind(f"{one}, or None", f"{many} or None", lambda x: x is None or fits(x))
    if annotation.startswith("tuple[") and annotation.endswith("]"):
        return _tuple_kind(annotation[len("tuple[") : -1])
    return _SIMPLE.get(annotation)


def _split(text: str) -> list[str]:
    """The parts between commas that are not inside of brackets."""
    parts, depth = [""], 0
    for c in text.replace(", ", ","):
        depth += (c == "[") - (c == "]")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += ", " if c == "," else c
    return parts


def _tuple_kind(inside: str) -> Kind | None:
    """Of `int, ...`: any number of them; of `int, int`: as many as there are."""
    if inside.endswith(", ...") and len(_split(inside)) == 2:
        item = _kind(inside.removesuffix(", ..."))
        if item is None:
            return None
        one, many, fits = f"a tuple of {item.many}", f"tuples of {item.many}", item.fits
        return Kind(one, many, lambda x: isinstance(x, (tuple, list)) and all(map(fits, x)))
    names = _split(inside)
    items = [_kind(name) for name in names]
    if None in items or len(set(names)) != 1:
        return None
    n, each = len(items), items[0]
    words = f"{n} {each.many}"  # type: ignore[union-attr]
    fits = each.fits  # type: ignore[union-attr]

    def is_row(x: Any) -> bool:
        return isinstance(x, (tuple, list)) and len(x) == n and all(map(fits, x))

    return Kind(f"a tuple of {words}", f"tuples of {words}", is_row)


_checked: dict[Primitive, list[tuple[str, Kind]]] = {}


def wrong_param(primitive: Primitive, params: dict[str, Any]) -> tuple[str, Any, str] | None:
    """The first param whose value is not of the declared kind: its name, value, and what it has to be."""
    kinds = _checked.get(primitive)
    if kinds is None:
        found = [(name, _kind(p.annotation)) for name, p in primitive.params.items()]
        kinds = _checked[primitive] = [(n, k) for n, k in found if k is not None]
    for name, kind in kinds:
        if name in params and not kind.fits(params[name]):
            return name, params[name], kind.one
    return None

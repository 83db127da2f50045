"""What kind of value each param takes, by the annotation in its declaration.

`int`, `bool`, `float`, `str`, `DType`, `ClosedJaxpr`, tuples of them (`tuple[int, ...]`, `tuple[int, int]`; lists are
taken too), unions (`A | B`) and the names below are checked. `Any`, and any other annotation, says nothing.

    Types        a tuple of types of values
    Names        the name of an axis, or a tuple of names
    Groups       groups of members of an axis: tuples of integers
    Options      pairs of a name or a position, and a value
    Pairs        pairs of integers
    Platforms    tuples of names of platforms; None for any
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxprtool.ir.avals import AbstractType, SymbolicDim
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import ClosedJaxpr, Primitive
from jaxprtool.ir.params import Opaque

__all__ = ["Groups", "Names", "Options", "Pairs", "Platforms", "Types", "wrong_params"]

# Annotations of stubs.
Types = Names = Groups = Options = Pairs = Platforms = Any


class Kind(NamedTuple):
    """What an annotation asks for: in words, in words for many of them, and whether a value is that."""

    one: str
    many: str
    fits: Callable[[Any], bool]


def _is_int(x: Any) -> bool:
    if type(x) is int:
        return -1 << 63 <= x < 1 << 63
    return not isinstance(x, bool) and (hasattr(x, "__index__") or isinstance(x, SymbolicDim))


def _is_bool(x: Any) -> bool:
    return type(x) is bool or type(x).__name__ in ("bool", "bool_")


def _is_float(x: Any) -> bool:
    return not isinstance(x, (bool, complex)) and hasattr(x, "__float__")


def _is_name(x: Any) -> bool:
    """Functions have names such as `<lambda>`, which are no words."""
    return isinstance(x, (str, Opaque))


def _each(is_item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, (tuple, list)) and all(map(is_item, x))


def _is_axis_name(x: Any) -> bool:
    """JAX takes any object as the name of an axis; a text holds words, and objects in angle brackets."""
    return isinstance(x, (str, Opaque)) or _is_int(x)


def _is_pair(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and len(x) == 2 and all(map(_is_int, x))


def _is_option(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and len(x) == 2 and isinstance(x[0], (str, int))


def _is_platforms(x: Any) -> bool:
    return x is None or (isinstance(x, (tuple, list)) and all(isinstance(n, str) for n in x))


_SIMPLE = {
    "int": Kind("an integer", "integers", _is_int),
    "bool": Kind("True or False", "booleans", _is_bool),
    "float": Kind("a number", "numbers", _is_float),
    "str": Kind("a name", "names", _is_name),
    "Text": Kind("a text", "texts", _is_name),
    "DType": Kind("an element type", "element types", lambda x: isinstance(x, DType)),
    "ClosedJaxpr": Kind("a jaxpr", "jaxprs", lambda x: isinstance(x, ClosedJaxpr)),
    "None": Kind("None", "None", lambda x: x is None),
    "Any": Kind("a value", "values", lambda x: True),
    "Types": Kind("a tuple of types", "types", _each(lambda x: isinstance(x, AbstractType))),
    "Names": Kind(
        "a name, or a tuple of names",
        "names",
        lambda x: _is_axis_name(x) or _each(_is_axis_name)(x),
    ),
    "Groups": Kind("a tuple of tuples of integers", "groups", _each(_each(_is_int))),
    "Pairs": Kind("a tuple of pairs of integers", "pairs", _each(_is_pair)),
    "Options": Kind("a tuple of pairs", "pairs", _each(_is_option)),
    "Platforms": Kind("a tuple of tuples of names", "tuples of names", _each(_is_platforms)),
}


@functools.cache
def _kind(annotation: str) -> Kind | None:
    parts = _split(annotation.replace(" | ", "|"), "|")
    if len(parts) > 1:
        kinds = [_kind(p) for p in parts]
        if None in kinds:
            return None
        ones, manies, fits = zip(*kinds, strict=True)  # type: ignore[arg-type]
        return Kind(", or ".join(ones), " or ".join(manies), lambda x: any(f(x) for f in fits))
    if annotation.startswith("tuple[") and annotation.endswith("]"):
        return _tuple_kind(annotation[len("tuple[") : -1])
    return _SIMPLE.get(annotation)


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators that are not inside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "[") - (c == "]")
        if c == separator and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def _tuple_kind(inside: str) -> Kind | None:
    """Of `int, ...`: any number of them; of `int, int`: as many as there are."""
    names = _split(inside, ",")
    if len(names) == 2 and names[1] == "...":
        item = _kind(names[0])
        if item is None:
            return None
        one, many = f"a tuple of {item.many}", f"tuples of {item.many}"
        return Kind(one, many, _each(item.fits))
    items = [_kind(name) for name in names]
    if None in items or len(set(names)) != 1:
        return None
    n, each = len(items), items[0]
    words = f"{n} {each.many}"  # type: ignore[union-attr]
    fits = _each(each.fits)  # type: ignore[union-attr]
    return Kind(f"a tuple of {words}", f"tuples of {words}", lambda x: fits(x) and len(x) == n)


_checked: dict[Primitive, list[tuple[str, Kind]]] = {}


def wrong_params(primitive: Primitive, params: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """The params whose value is not of the declared kind: name, value, and what it has to be."""
    kinds = _checked.get(primitive)
    if kinds is None:
        found = [(name, _kind(p.annotation)) for name, p in primitive.params.items()]
        kinds = _checked[primitive] = [(n, k) for n, k in found if k is not None]
    return [
        (name, params[name], kind.one)
        for name, kind in kinds
        if name in params and not kind.fits(params[name])
    ]

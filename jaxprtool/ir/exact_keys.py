"""Cache keys that tell apart values which Python takes for equal: 0.0 and -0.0, 1, 1.0 and True.

Programs that are computed with one of them are not those of another.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, cast

from jaxprtool.ir.frozen import FrozenDict

__all__ = ["HashableParams", "kind_of"]


class HashableParams:
    """The params of an equation as a cache key.

    Attributes:
      items: the params; lists and dicts in them are hashable.
    """

    __slots__ = ("_key", "items")

    def __init__(self, params: Mapping[str, Any]):
        self.items = {k: _hashable(v) for k, v in params.items()}
        self._key = tuple([(k, kind_of(v), v) for k, v in self.items.items()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashableParams) and self._key == other._key

    def __hash__(self) -> int:
        """Raises TypeError where a param has no hash."""
        return hash(self._key)


def kind_of(v: Any) -> Hashable:
    """Return what tells apart values that are equal to Python: types, and the signs of zeros."""
    if isinstance(v, float):
        return type(v), math.copysign(1.0, v)
    if isinstance(v, complex):
        return type(v), math.copysign(1.0, v.real), math.copysign(1.0, v.imag)
    kind = cast("type[Any]", type(v))
    if _is(v, tuple, list):
        return (kind, *map(kind_of, v))
    if _is(v, dict):
        return (kind, *map(kind_of, v.values()))
    return kind


def _is(v: Any, *types: type[Any]) -> bool:
    return isinstance(v, types)


def _hashable(v: Any) -> Any:
    try:
        hash(v)
    except TypeError:
        if _is(v, dict):
            return FrozenDict[Any, Any]({k: _hashable(x) for k, x in v.items()})
        if _is(v, tuple, list) and not hasattr(v, "_fields"):
            return tuple(map(_hashable, v))
    return v

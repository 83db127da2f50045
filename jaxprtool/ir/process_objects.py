"""Keys that tell apart objects of a process in params whose texts do not: two `<lambda>`s, two
instances of a class.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Any, cast

from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.params import Opaque, PrintedFunction, Record

__all__ = ["process_objects"]

# types whose values hold no object of the process
_PLAIN = frozenset({int, bool, float, str, type(None), DType})
_ADDRESS = " at 0x"
_ANONYMOUS = "<lambda>"


class _Same:
    """The key of an object of this process.

    Keys are equal where the objects are identical or compare equal.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return False
        return self.value is other.value or _are_equal(self.value, other.value)

    def __hash__(self) -> int:
        return hash(_Same)  # one hash for all, since objects of different classes may be equal


def _are_equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # objects of a user, whose comparison may raise anything
        return False


def process_objects(values: Collection[Any]) -> tuple[Hashable, ...]:
    """Return a key for each object in the params that is printed with an address, in their order.

    The keys of two objects are equal where the objects are known to be one. An object of which only
    the text is known has a key that is equal to no other, unless the text shows a function of a
    module, whose name identifies it: that has no key.
    """
    if all(map(_is_plain, values)):
        return ()
    return tuple([key for value in values for x in _addressed(value) for key in _keys(x)])


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a name or an element type, or a tuple of them, as most params are."""
    return type(value) in _PLAIN or (
        type(value) is tuple and _PLAIN.issuperset(map(type, cast("tuple[Any, ...]", value)))
    )


def _keys(x: Opaque | Record) -> Iterator[Hashable]:
    value = getattr(x, "value", None)
    if value is not None:
        yield _Same(value)
    elif not isinstance(x, PrintedFunction) or x.is_local or _ANONYMOUS in x.path:
        yield object()


def _addressed(value: Any) -> Iterator[Opaque | Record]:
    parts: Any = value
    if isinstance(value, dict):
        yield from _all_addressed([*parts.values()])
    elif isinstance(value, (tuple, list)):
        yield from _all_addressed([*parts])
    elif isinstance(value, Opaque):
        if _ADDRESS in value.text:
            yield value
    elif isinstance(value, Record):
        inner = [*_all_addressed((*value.args, *value.fields.values()))]
        is_live = inner and getattr(value, "value", None) is not None
        yield from [value] if is_live else inner


def _all_addressed(values: Iterable[Any]) -> Iterator[Opaque | Record]:
    for x in values:
        yield from _addressed(x)

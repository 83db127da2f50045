"""Values of params that are not numbers, strings, containers or jaxprs.

A param value is one of: None, bool, int, float, complex, str, tuple, list, dict, frozenset, slice,
Ellipsis, `DType`, `ShapedArray`, `ClosedJaxpr`, or one of the classes below. `str(value)` is what JAX prints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from jaxprtool.ir.frozen import Frozen, FrozenDict, amend, refuse_change, refuse_removal, set_field

if TYPE_CHECKING:
    from types import EllipsisType

    from jaxprtool.ir.dtypes import DType

__all__ = [
    "ElementClass",
    "EnumMember",
    "LostRule",
    "NumpyScalar",
    "Opaque",
    "OrderedSet",
    "ParamValue",
    "PrintedArray",
    "PrintedFunction",
    "RangeTuple",
    "Record",
    "Structured",
    "Word",
    "spelled",
]


# The values that the module's docstring lists. A type checker narrows them with `isinstance`.
ParamValue: TypeAlias = "bool | int | float | complex | str | tuple[Any, ...] | list[Any] | dict[Any, Any] | frozenset[Any] | slice[Any, Any, Any] | EllipsisType | DType | Frozen | Record | Opaque | None"


class Word(str):
    """A bare name where a string would be quoted: an enum member, a dtype, a function's name.

    `GatherScatterMode.CLIP` is `Word("GatherScatterMode.CLIP")`; `member` is its last part.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    @property
    def member(self) -> str:
        """What stands after the last dot."""
        return self.rpartition(".")[2]


class LostRule(str):
    """The name of a custom derivative rule that a running JAX had and the program lacks, because tracing it failed.

    Attributes:
      reason: the type and the first line of the exception.
    """

    reason: str
    __setattr__ = refuse_change
    __delattr__ = refuse_removal

    def __new__(cls, name: str, reason: str) -> LostRule:
        self = super().__new__(cls, name)
        set_field(self, "reason", reason)
        return self

    def __reduce__(self):
        return LostRule, (str(self), self.reason)


class NumpyScalar(int):
    """An integer that prints as NumPy prints its scalars inside containers: `np.int64(1)`."""

    type_name: str
    __setattr__ = refuse_change
    __delattr__ = refuse_removal

    def __new__(cls, value: int, type_name: str = "np.int64") -> NumpyScalar:
        self = super().__new__(cls, value)
        set_field(self, "type_name", type_name)
        return self

    def __repr__(self) -> str:
        return f"{self.type_name}({int(self)})"

    def __str__(self) -> str:
        return str(int(self))


class RangeTuple(tuple[int, ...]):
    """A tuple of consecutive integers that prints as a range: `range(0, 3)`."""

    bounds: range
    __setattr__ = refuse_change
    __delattr__ = refuse_removal

    def __new__(cls, bounds: range) -> RangeTuple:
        self = super().__new__(cls, bounds)
        set_field(self, "bounds", bounds)
        return self

    def __reduce__(self):
        return RangeTuple, (self.bounds,)

    def __repr__(self) -> str:
        return repr(self.bounds)


class OrderedSet(frozenset[Any]):
    """A set that prints its members in the order in which they were given: `frozenset({'j', 'i'})`."""

    order: tuple[Any, ...]
    __setattr__ = refuse_change
    __delattr__ = refuse_removal

    def __new__(cls, members: Iterable[Any]) -> OrderedSet:
        order = tuple(members)
        self = super().__new__(cls, order)
        set_field(self, "order", order)
        return self

    def __reduce__(self):
        return OrderedSet, (self.order,)

    def __repr__(self) -> str:
        return f"frozenset({{{', '.join(map(repr, self.order))}}})"


class Structured(Frozen, ABC):
    """Base of values with fields that JAX prints in a notation of their own, not as a Python literal.

    Attributes:
      spelled: the text that it was read from, where this release spells it in another way; else "".
      live: the object of a running JAX that it stands for, or None.

    Equality ignores both.
    """

    __slots__ = ("live", "spelled")
    spelled: str
    live: Any

    def _fill(self, **fields: Any) -> None:
        """Set the fields. Constructors call this."""
        amend(self, spelled="", live=None, **fields)

    @abstractmethod
    def _key(self) -> tuple[Any, ...]:
        """Return the fields that decide equality of two values of the class."""

    @abstractmethod
    def _text(self) -> str:
        """Return the value as this release spells it."""

    def _state(self) -> Any:
        """Return the state that `__reduce__` adds to the fields; None for none."""
        return (None, {"spelled": self.spelled}) if self.spelled else None

    def __setstate__(self, state: Any) -> None:
        amend(self, **state[1])

    @property
    def usual(self) -> str:
        """The text of the value as this release spells it."""
        return self._text()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structured) and (
            type(self) is type(other) and self._key() == other._key()
        )

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return self.spelled or self._text()


AnyStructured = TypeVar("AnyStructured", bound=Structured)


def spelled(value: AnyStructured, text: str) -> AnyStructured:
    """Make a value that was just constructed print as `text`; returns the value."""
    if text != repr(value):
        amend(value, spelled=text)
    return value


class EnumMember(Structured):
    """A member of an enum as JAX prints it inside containers: `<AccuracyMode.HIGHEST: 1>`.

    Attributes:
      enum: the name of the enum.
      name: the name of the member.
      value: the value that the Python enum gives the member.
    """

    __slots__ = ("enum", "name", "value")
    enum: str
    name: str
    value: ParamValue

    def __init__(self, enum: str, name: str, value: ParamValue):
        self._fill(enum=enum, name=name, value=value)

    def _key(self) -> tuple[Any, ...]:
        return self.enum, self.name, self.value

    def __reduce__(self):
        return EnumMember, self._key()

    def _text(self) -> str:
        return f"<{self.enum}.{self.name}: {self.value!r}>"


class ElementClass(Structured):
    """A class of NumPy's scalars, which stands for an element type: `<class 'numpy.float32'>`.

    Attributes:
      dtype: the element type.
      qualified: the name of the class with its module.
    """

    __slots__ = ("dtype", "qualified")
    dtype: DType
    qualified: str

    def __init__(self, dtype: DType, qualified: str):
        self._fill(dtype=dtype, qualified=qualified)

    def _key(self) -> tuple[Any, ...]:
        return self.dtype, self.qualified

    def __reduce__(self):
        return ElementClass, self._key()

    @property
    def name(self) -> str:
        """The name of the element type, as the `name` of a NumPy dtype."""
        return self.dtype.name

    def _text(self) -> str:
        return f"<class '{self.qualified}'>"


class PrintedArray(Structured):
    """A NumPy array as it prints: `array([0, 1], dtype=int32)`; line breaks and blanks of the print are kept.

    Attributes:
      rows: the elements, in lists nested once per axis; `...` stands for elements that the print
        leaves out.
      fields: `dtype` and `shape`, where the print has them.
      exact: whether `spelled` shows all elements with all their digits.
    """

    __slots__ = ("exact", "fields", "rows")
    rows: Any
    fields: FrozenDict[str, Any]
    exact: bool

    def __init__(self, rows: Any, fields: dict[str, Any], exact: bool = True):
        self._fill(rows=rows, fields=FrozenDict(fields), exact=exact)

    def _key(self) -> tuple[Any, ...]:
        return repr(self.rows), self.fields

    def __reduce__(self):
        return PrintedArray, (self.rows, dict(self.fields), self.exact), self._state()

    def _text(self) -> str:
        named = [f", {k}={v}" for k, v in self.fields.items()]
        return f"array({self.rows!r}{''.join(named)})".replace("Ellipsis", "...")

    @property
    def whole(self) -> PrintedArray:
        """The array with a print that shows all elements it holds."""
        return self if self.exact else PrintedArray(self.rows, self.fields)


class Record(Frozen):
    """A named constructor: `GatherDimensionNumbers(offset_dims=(0,), ...)`.

    Fields are read as attributes; positional arguments are `args`.
    """

    __slots__ = ("args", "fields", "name")
    name: str
    args: tuple[Any, ...]
    fields: FrozenDict[str, Any]

    def __init__(self, name: str, args: tuple[Any, ...] = (), /, **fields: Any):
        amend(self, name=name, args=args, fields=FrozenDict(fields))

    def __getattr__(self, field: str) -> Any:
        try:
            return object.__getattribute__(self, "fields")[field]
        except KeyError:
            raise AttributeError(f"{self.name} has no field {field!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_record, (self.name, self.args, dict(self.fields))

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.args, tuple(self.fields.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.fields.items()]
        return f"{self.name}({', '.join(parts)})"


def _rebuild_record(name: str, args: tuple[Any, ...], fields: dict[str, Any]) -> Record:
    return Record(name, args, **fields)


class Opaque(Frozen):
    """A text outside of the literal grammar. It prints unchanged; a program that has it cannot be run.

    A blank keeps a text that begins with `=` apart from the `=` of its param.
    """

    __slots__ = ("text",)
    text: str

    def __init__(self, text: str):
        amend(self, text=f" {text}" if text.startswith("=") else text)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


class PrintedFunction(Opaque):
    """The printed form of a Python function, `<function f.<locals>.g at 0x7f00>`.

    Attributes:
      path: the parts of its qualified name: `f`, `<locals>`, `g`.
      name: its name, `g`.
      qualified: its qualified name.
      maker: the qualified name of the function in which it was defined, `f`; its own for a function
        defined in no other.
      is_local: whether it was defined inside a function.
    """

    __slots__ = ("path",)
    path: tuple[str, ...]

    def __init__(self, text: str, path: tuple[str, ...]):
        super().__init__(text)
        amend(self, path=path)

    def __reduce__(self) -> tuple[Any, ...]:
        return PrintedFunction, (self.text, self.path)

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def qualified(self) -> str:
        return ".".join(self.path)

    @property
    def is_local(self) -> bool:
        return _LOCALS in self.path

    @property
    def maker(self) -> str:
        return ".".join(self.path[: self.path.index(_LOCALS)] if self.is_local else self.path)


_LOCALS = "<locals>"

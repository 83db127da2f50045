"""Kinds of numbers and of tuples of numbers, and of element types."""

from __future__ import annotations

import operator
import re
from functools import cache
from typing import Annotated, Any

from jaxprtool.core.kinds.containers import EachOperandOf, PrintedList, TupleOf
from jaxprtool.ir.avals import AbstractType, SymbolicDim
from jaxprtool.ir.dtypes import DType, dtype_of, find_dtype
from jaxprtool.ir.kinds import UNREAD, Kind
from jaxprtool.ir.params import ElementClass, Opaque, ParamValue, Record, Word

__all__ = [
    "AXES",
    "AXIS",
    "DIMENSION",
    "BOOLEAN",
    "BRACKETS",
    "ELEMENT_TYPE",
    "FLAGS",
    "INTEGER",
    "NUMBER",
    "PADDING",
    "PAIR",
    "PERMUTATION",
    "POLYNOMIAL",
    "SHAPE",
    "TYPE",
    "TypeKind",
    "Axes",
    "Axis",
    "Dimension",
    "EachOperand",
    "ElementType",
    "ElementTypeOrClass",
    "Flags",
    "Indices",
    "Padding",
    "PaddingConfig",
    "Permutation",
    "Scalar",
    "Shape",
    "Size",
    "Strides",
    "Types",
]


def _polynomial(depth: int, between: str = "-+*^") -> str:
    """Return a pattern for polynomials of names, calls and brackets nested at most `depth` deep.

    Examples are `2*a + 1` and `max(a, -1*(b + 1))`.
    """
    term = r"\d+(?!\w)|[^\W\d]\w*+(?!\()"
    if depth:
        term += rf"|(?:[^\W\d]\w*+\(|\((?![^()]*,)){_polynomial(depth - 1, '-+*^,')}\)"
    term = rf"(?:-\s?)?(?:{term})"
    return rf"{term}(?:\s*[{between}]\s*{term})*+"


POLYNOMIAL = _polynomial(3)
_INTEGER = re.compile(r"-?[0-9]{1,18}")


def _brackets(depth: int) -> str:
    return rf"\((?:[^()]|{_brackets(depth - 1)})*+\)" if depth else r"\([^()]*+\)"


BRACKETS = _brackets(4)  # nested, as in tuples of tuples of polynomials
_ONE = rf"(?:[^,()]|{BRACKETS})++"


@cache
def _items() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns for a tuple of sizes and for one size.

    Compiled on demand, as few programs have symbolic sizes.
    """
    several = rf"\({_ONE}(?:,|(?:,{_ONE})++,?+)\s*+\)"
    return re.compile(several), re.compile(_ONE)


@cache
def _dimension() -> re.Pattern[str]:
    """Return the pattern of a polynomial. Compiled on demand, as few programs have one."""
    return re.compile(POLYNOMIAL)


class Integer(Kind):
    """Integers of 64 bits, and the sizes of shape-polymorphic programs."""

    def fits(self, value: ParamValue) -> bool:
        if type(value) is int:
            return -1 << 63 <= value < 1 << 63
        return not isinstance(value, (bool, type)) and (
            hasattr(value, "__index__") or isinstance(value, SymbolicDim)
        )

    def given(self, value: Any) -> Any:
        odd = type(value) is not int and not isinstance(value, (bool, SymbolicDim))
        try:
            return operator.index(value) if odd else value
        except TypeError:
            return value


class SizeKind(Integer):
    """Integers, and in a text the dimensions of shape-polymorphic programs: `2*a + 1`, `floordiv(a, 2)`."""

    def read(self, value: ParamValue) -> Any:
        if isinstance(value, (Word, Record, Opaque)) and _dimension().fullmatch(text := str(value)):
            return SymbolicDim(text)
        return value


class Sizes(TupleOf):
    """Tuples of sizes, or of tuples of sizes.

    With polynomials, `(2*a, b)`, the literal grammar cannot read them.
    """

    def read(self, value: ParamValue) -> Any:
        found = _sizes(value.text) if isinstance(value, Opaque) else None
        return super().read(value) if found is None else found


def _sizes(text: str) -> tuple[Any, ...] | None:
    """Return the sizes in `(2*a, b)`, or the tuples of sizes in `((0, a, 0), (0, 1, 0))`; None for other texts."""
    several, one = _items()
    if not several.fullmatch(text):
        return None
    items = [_sizes(i) or _size(i) for i in map(str.strip, one.findall(text[1:-1]))]
    return None if None in items else tuple(items)


def _size(text: str) -> int | SymbolicDim | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    return SymbolicDim(text) if _dimension().fullmatch(text) else None


class Boolean(Kind):
    """True and False, also NumPy's, and 1 and 0, which JAX accepts and prints as they are."""

    def fits(self, value: ParamValue) -> bool:
        if type(value) is int:
            return value in (0, 1)
        return type(value) is bool or type(value).__name__ in ("bool", "bool_")

    def given(self, value: Any) -> Any:
        return bool(value) if self.fits(value) and type(value) is not int else value


def _unboxed(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number; return other values as they are."""
    return value.item() if getattr(value, "shape", None) == () else value


class Number(Kind):
    """Real numbers."""

    def fits(self, value: ParamValue) -> bool:
        if isinstance(value, (bool, complex, type)) or not hasattr(value, "__float__"):
            return False
        return getattr(value, "shape", ()) == ()

    def given(self, value: Any) -> Any:
        return _unboxed(value)


class ElementType(Kind):
    """Element types, by their short or their long names in a text."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, DType)

    def read_text(self, text: str) -> Any:
        return find_dtype(text.rstrip()) or UNREAD

    def read(self, value: ParamValue) -> Any:
        if isinstance(value, ElementClass):  # `<class 'numpy.float32'>`, 0.2.20
            return value.dtype
        found = find_dtype(value) if isinstance(value, Word) else None
        return value if found is None else found

    def given(self, value: Any) -> Any:
        return dtype_of(value) or value


class ElementOrClass(ElementType):
    """Element types, and classes of NumPy that stand for them."""

    def read(self, value: ParamValue) -> Any:
        return value if isinstance(value, ElementClass) else super().read(value)

    def given(self, value: Any) -> Any:
        return value if isinstance(value, ElementClass) else super().given(value)

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, (DType, ElementClass))


class TypeKind(Kind):
    """Types of values."""

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, AbstractType)


class ScalarKind(Kind):
    """Python numbers (complex ones too) and booleans."""

    code = "fill-value"

    def fits(self, value: ParamValue) -> bool:
        return isinstance(value, (bool, int, float, complex))

    def given(self, value: Any) -> Any:
        return _unboxed(value)


INTEGER = Integer("int", "an integer", "integers")
BOOLEAN = Boolean("bool", "True or False", "booleans")
NUMBER = Number("float", "a number", "numbers")
ELEMENT_TYPE = ElementType("DType", "an element type", "element types")
ELEMENT_CLASS = ElementOrClass(
    "ElementTypeOrClass", "an element type", "element types", "or a class of NumPy's for one"
)
TYPE = TypeKind("Type", "a type", "types")

SCALAR = ScalarKind("Scalar", "a number", "numbers")

AXIS = Integer("Axis", "an integer", "integers", "an axis, the first is 0")
SIZE = Integer("Size", "an integer", "integers", "a number of elements along an axis")
DIMENSION = SizeKind("Dimension", "an integer", "integers", "a number of elements along an axis")
AXES = TupleOf(INTEGER, name="Axes", note="axes, the first is 0")
SHAPE = Sizes(DIMENSION, name="Shape", note="the number of elements along each axis")
INDICES = Sizes(DIMENSION, name="Indices", note="an index along each axis")
STRIDES = Sizes(DIMENSION, name="Strides", note="a step along each axis")
PERMUTATION = TupleOf(INTEGER, name="Permutation", note="each axis of the operand once")
PAIR = Sizes(DIMENSION, 2)
PADDING = Sizes(
    PAIR, name="Padding", note="for each axis the numbers of elements put before and after it"
)
PADDING_CONFIG = Sizes(
    Sizes(DIMENSION, 3),
    name="PaddingConfig",
    note="for each axis the numbers of elements put before it, after it, and between its elements",
)
FLAGS = PrintedList(BOOLEAN, name="Flags", note="JAX prints a list")
TYPES = TupleOf(TYPE, name="Types", one="a tuple of types")

Axis = Annotated[int, AXIS]
ElementTypeOrClass = Annotated[Any, ELEMENT_CLASS]
Scalar = Annotated[complex, SCALAR]
Size = Annotated[int, SIZE]
Dimension = Annotated[int, DIMENSION]
Axes = Annotated[tuple[int, ...], AXES]
Indices = Annotated[tuple[int, ...], INDICES]
Shape = Annotated[tuple[int, ...], SHAPE]
Strides = Annotated[tuple[int, ...], STRIDES]
Permutation = Annotated[tuple[int, ...], PERMUTATION]
Padding = Annotated[tuple[tuple[int, int], ...], PADDING]
PaddingConfig = Annotated[tuple[tuple[int, int, int], ...], PADDING_CONFIG]
Flags = Annotated[tuple[bool, ...], FLAGS]
EachOperand = Annotated[tuple[bool, ...], EachOperandOf(BOOLEAN, name="EachOperand")]
Types = Annotated[tuple[AbstractType, ...], TYPES]

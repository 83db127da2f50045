"""Values of constants in a file: `where a = [0.0, 1.0]`, `a = npz("file.npz", "key")`, `a =
base64("f32[2]", "AAAAAAAAgD8=")`.

Reading a file does not import NumPy: values stay nested lists (or bytes, or the name of the file
that holds them) until a backend makes arrays of them. Base64 encodes the elements in C order, each
with its lowest byte first, a `bool` being a byte; it is written for more than 1 KB, and for NaNs
other than the usual one. A float0 has no bytes: `base64("float0[4096]", "")`.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from jaxprtool.core.trace import words_of_key
from jaxprtool.ir.dtypes import BFLOAT16, BOOL, DType
from jaxprtool.ir.jaxpr import Aval
from jaxprtool.syntax.patterns import pattern
from jaxprtool.syntax.tokens import PARENTHESES
from jaxprtool.syntax.types import Scalar, exact_text, is_usual_nan, read_scalar

__all__ = [
    "LARGE",
    "UNREAD",
    "ArrayBytes",
    "ArrayRef",
    "ArrayText",
    "Const",
    "ElementError",
    "UnreadConstant",
    "format_const",
    "has_bytes",
    "has_odd_nans",
    "is_large",
    "read_const",
]

NestedLists: TypeAlias = (
    "Scalar | list[NestedLists]"  # the values of an array, as `tolist` gives them
)

LARGE = 1024  # bytes: a constant of more is no list of numbers in what we write

_NPZ = pattern(r"npz\(\s*\"([^\"]*)\"\s*,\s*\"([^\"]*)\"\s*\)")
_BASE64 = pattern(r"base64\(\s*\"([^\"]*)\"\s*,\s*\"([^\"]*)\"\s*\)")
_CALL = pattern(r"(npz|base64)\(")
_SPELLED = {"npz": 'npz("FILE.npz", "NAME")', "base64": 'base64("f32[2]", "AAAAAAAAgD8=")'}
_CODES = {  # of the module `struct`, by element type; those whose elements have no code stay lists
    **{f"{k}{8 * (1 << i)}": c for k, codes in (("int", "bhiq"), ("uint", "BHIQ")) for i, c in enumerate(codes)},
    **{"bool": "?", "float16": "e", "bfloat16": "H", "float32": "f", "float64": "d"},
    **{"complex64": "f", "complex128": "d"},
}  # fmt: skip
_PIECE = pattern(rf"\s*([\[\],]|[^\s\[\](),]*+{PARENTHESES}|[^\s\[\],]+)")


class ElementError(ValueError):
    """A fault inside the value of a constant.

    Attributes:
      start: its offset in the text of the value.
      end: the offset after it.
      help: what to write instead, or "".
    """

    def __init__(self, message: str, start: int, end: int, help: str = ""):
        super().__init__(message)
        self.start, self.end, self.help = start, end, help


class ArrayText:
    """The values of a constant as a file spells them.

    Attributes:
      values: a Python scalar, or lists of lists of them; for a PRNG key the words of its data.
      shape: the shape of the array (for keys, without the axis of the words).
      dtype: its element type.
    """

    __slots__ = ("dtype", "shape", "values")

    def __init__(self, values: NestedLists, shape: tuple[int, ...], dtype: DType):
        self.values, self.shape, self.dtype = values, shape, dtype

    def tolist(self) -> NestedLists:
        """The values, as `numpy.ndarray.tolist` would give them."""
        return self.values

    def item(self) -> NestedLists:
        """The only value, as `numpy.ndarray.item` would give it."""
        return self.values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayText):
            return NotImplemented
        return (repr(self.values), self.shape, self.dtype) == (
            repr(other.values),
            other.shape,
            other.dtype,
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype.name))

    def __repr__(self) -> str:
        return f"ArrayText({self.values!r}, {self.shape}, {self.dtype})"


class UnreadConstant(ArrayText):
    """A placeholder for a constant that has no type in the text and that nothing reads; no text shows it."""

    __slots__ = ()


UNREAD = UnreadConstant(False, (), BOOL)


class ArrayBytes:
    """The values of a constant as bytes, as decoded from base64 in a file.

    Attributes:
      data: the elements in C order, each with its lowest byte first.
      shape: the shape of the array (for keys, without the axis of the words).
      dtype: its element type; for a PRNG key that of the key.
    """

    __slots__ = ("data", "dtype", "shape")

    def __init__(self, data: bytes, shape: tuple[int, ...], dtype: DType):
        self.data, self.shape, self.dtype = data, shape, dtype

    def tobytes(self) -> bytes:
        """The bytes, as `numpy.ndarray.tobytes` would give them on a machine that puts the lowest byte first."""
        return self.data

    def tolist(self) -> NestedLists:
        """The values, as `numpy.ndarray.tolist` would give them."""
        if self.dtype.kind == "0":
            values: list[NestedLists] = [False] * math.prod(self.shape)
        else:
            values = [*_elements(self.data, self.dtype)]
        shape = _data_shape(self.shape, self.dtype)
        for size in reversed(shape[1:]):
            values = [values[i : i + size] for i in range(0, len(values), size)] if size else []
        return values if shape else values[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayBytes):
            return NotImplemented
        return (self.data, self.shape, self.dtype) == (other.data, other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.data, self.shape, self.dtype.name))

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        text = base64.b64encode(self.data).decode()
        return f'base64("{self.dtype}[{dims}]", "{text}")'


def _elements(data: bytes, dtype: DType) -> Iterable[Scalar]:
    """Return the elements encoded by these bytes."""
    code = _CODES["uint32" if dtype.kind == "k" else dtype.name]
    if code in "?e":
        return (x for (x,) in struct.iter_unpack(f"<{code}", data))
    numbers = array(code, data)
    if sys.byteorder == "big":
        numbers.byteswap()
    if dtype is BFLOAT16:  # the upper half of an f32
        numbers = array("f", array("I", [x << 16 for x in numbers]).tobytes())
    if dtype.kind == "c":
        return (complex(*z) for z in zip(numbers[::2], numbers[1::2], strict=True))
    return numbers


class ArrayRef:
    """An array in an `.npz` file beside the text.

    Attributes:
      file: the file's name, relative to the folder of the text.
      key: the array's name in it.
      shape, dtype: those of the array, as its binder declares them; the file is not opened.
    """

    __slots__ = ("dtype", "file", "key", "shape")

    def __init__(self, file: str, key: str, shape: tuple[int, ...], dtype: DType):
        self.file, self.key, self.shape, self.dtype = file, key, shape, dtype

    def at(self, file: str) -> ArrayRef:
        """Return the same array with another name of its file."""
        return ArrayRef(file, self.key, self.shape, self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayRef) and (self.file, self.key) == (other.file, other.key)

    def __hash__(self) -> int:
        return hash((self.file, self.key))

    def __repr__(self) -> str:
        return f'npz("{self.file}", "{self.key}")'


Const: TypeAlias = ArrayText | ArrayBytes | ArrayRef


def read_const(text: str, aval: Aval) -> Const:
    """Return the constant that a text spells, for a binder of type `aval`.

    Raises:
      ValueError: when it is malformed, or its shape or element type is not the binder's.
    """
    dtype, shape = getattr(aval, "dtype", None), getattr(aval, "shape", None)
    if not isinstance(dtype, DType) or shape is None:
        raise ValueError(f"a value of type {aval} cannot be written in a file")
    if m := _NPZ.fullmatch(text.strip()):
        return ArrayRef(m[1], m[2], shape, dtype)
    if m := _BASE64.fullmatch(text.strip()):
        return _read_base64(m[1], m[2], aval, shape)
    if m := _CALL.match(text.strip()):
        raise ValueError(f"malformed {m[1]}: it is written {_SPELLED[m[1]]}")
    values = _nested(text, dtype)
    _check_shape(values, _data_shape(shape, dtype), aval)
    return ArrayText(values, shape, dtype)


def _read_base64(spelled: str, text: str, aval: Any, shape: tuple[int, ...]) -> ArrayBytes:
    if spelled != str(aval.strong):
        raise ValueError(f"the values are {spelled}, and have to be {aval}")
    if not has_bytes(aval.dtype):
        raise ValueError(f"values of type {aval.dtype} are written as lists")
    size = math.prod(_data_shape(shape, aval.dtype)) * _item_bytes(aval.dtype)
    if len(text) != 4 * (-(-size // 3)):
        raise ValueError(f"{aval} has {size} bytes, and the base64 text does not")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("malformed base64") from None
    if len(data) != size or (aval.dtype.kind == "b" and data.strip(b"\0\1")):
        raise ValueError(f"the bytes are not those of {aval}")
    return ArrayBytes(data, shape, aval.dtype)


def has_bytes(dtype: Any) -> bool:
    """Whether values of an element type can be written as base64."""
    return isinstance(dtype, DType) and (dtype.kind in "k0" or dtype.name in _CODES)


def _data_shape(shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """Return the shape of the data written for an array: for keys, with the axis of the words."""
    return (*shape, dtype.bits // 32) if dtype.kind == "k" else shape


def _item_bytes(dtype: DType) -> int:
    """Return the bytes of an element, or of a word of a key."""
    if dtype.kind == "0":
        return 0
    return 4 if dtype.kind == "k" else max(dtype.bits // 8, 1)


def _nested(text: str, dtype: DType) -> NestedLists:
    """Read nested lists from their text, without recursion."""
    stack: list[list[NestedLists]] = [[]]
    pos, complete = 0, False  # whether a value has just ended
    while m := _PIECE.match(text, pos):
        piece = m[1]
        if piece == ",":
            if not complete or len(stack) < 2:
                break
            complete = False
        elif piece == "]":
            if len(stack) < 2:
                break
            done = stack.pop()
            stack[-1].append(done)
            complete = True
        elif complete:
            break
        elif piece == "[":
            stack.append([])
        else:
            try:
                stack[-1].append(_element(piece, dtype))
            except ValueError as e:
                raise ElementError(str(e), m.start(1), m.end(1)) from None
            complete = True
        pos = m.end()
    if len(stack) != 1 or len(stack[0]) != 1 or text[pos:].strip():
        m = _PIECE.match(text, pos)
        if m is None:
            raise ValueError("malformed list of values")
        help = "elements are separated by commas, and every `[` has its `]`"
        raise ElementError(f"malformed list of values at {m[1]}", m.start(1), m.end(1), help)
    return stack[0][0]


def _element(piece: str, dtype: DType) -> Scalar:
    try:
        return int(piece) if dtype.kind in "k?" else read_scalar(piece, dtype)
    except ValueError as e:
        raise ValueError(str(e) if dtype.kind not in "k?" else f"{piece} is no integer") from None


def _check_shape(values: NestedLists, shape: tuple[int, ...], aval: Any) -> None:
    level = [values]
    for size in shape:
        lists = [v for v in level if isinstance(v, list) and len(v) == size]
        if len(lists) < len(level):
            raise ValueError(f"the values do not have the shape of {aval}")
        level = [x for v in lists for x in v]
    if any(isinstance(v, list) for v in level):
        raise ValueError(f"the values do not have the shape of {aval}")


def is_large(value: Any) -> bool:
    """Whether an array is too large to be written as a list."""
    data = words_of_key(value)
    return getattr(data, "nbytes", 0) > LARGE or (
        isinstance(data, ArrayBytes) and len(data.data) > LARGE
    )


def format_const(value: Any, aval: Any) -> str:
    """Return the text of a constant of type `aval`: nested lists of Python scalars, base64, or a reference.

    Args:
      value: an array (NumPy's, or one read from a file), keys, or a Python number.
      aval: the type of its binder.
    """
    if isinstance(value, (ArrayRef, ArrayBytes)):
        return repr(value)
    data = words_of_key(value)
    dtype: Any = getattr(aval, "dtype", None)
    if getattr(dtype, "kind", None) == "0":
        many = math.prod(aval.shape) > LARGE
        return repr(ArrayBytes(b"", aval.shape, dtype)) if many else _no_values(aval.shape)
    if (
        hasattr(data, "tobytes")
        and has_bytes(dtype)
        and (is_large(data) or has_odd_nans(data, dtype))
    ):
        if sys.byteorder == "big":
            data = data.byteswap()
        return repr(ArrayBytes(data.tobytes(), aval.shape, dtype))
    return _numbers(data.tolist() if hasattr(data, "tolist") else data)


def _no_values(shape: Sequence[int]) -> str:
    """Return the text of an array of float0, whose elements have only one value, as NumPy prints it."""
    text = "(b'',)"
    for n in reversed(shape):
        text = f"[{', '.join([text] * n)}]"
    return text


def _numbers(value: NestedLists) -> str:
    """Return nested lists of numbers as text. Keeps the sign of a NaN, which Python drops."""
    text = repr(value)
    if "nan" not in text:
        return text
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    if isinstance(value, complex):
        real, imag = _numbers(value.real), _numbers(value.imag)
        odd = "(" in real or "(" in imag
        return exact_text(value) if odd else f"({real}{'' if imag[0] == '-' else '+'}{imag}j)"
    usual = value == value or is_usual_nan(math.copysign(value, 1.0))
    if not usual:
        return exact_text(value)
    return "-nan" if value != value and math.copysign(1.0, value) < 0 else text


_NAN_BITS = {  # of the parts of an element: a code of `struct`, infinity, and the usual NaN
    "float16": ("H", 0x7C00, 0x7E00),
    "bfloat16": ("H", 0x7F80, 0x7FC0),
    **dict.fromkeys(("float32", "complex64"), ("I", 0x7F80 << 16, 0x7FC0 << 16)),
    **dict.fromkeys(("float64", "complex128"), ("Q", 0x7FF0 << 48, 0x7FF8 << 48)),
}


def has_odd_nans(data: Any, dtype: DType) -> bool:
    """Whether an array holds a NaN with another sign or payload than the usual one."""
    if dtype.name not in _NAN_BITS:
        return False
    code, infinity, usual = _NAN_BITS[dtype.name]
    sign = 1 << (8 * array(code).itemsize - 1)
    parts = array(code, data.tobytes())
    return any((x & (sign - 1)) > infinity and x != usual for x in parts)

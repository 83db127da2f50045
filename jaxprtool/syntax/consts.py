"""Values of constants in a file: `where a = [0.0, 1.0]`, or `a = npz("file.npz", "key")`.

Reading a file costs no NumPy: values stay nested lists (or the name of the file that holds them) until a backend
makes arrays of them.
"""

from __future__ import annotations

import re
from typing import Any

from jaxprtool.core.trace import words_of_key
from jaxprtool.ir.dtypes import DType
from jaxprtool.syntax.types import read_scalar

__all__ = ["ArrayRef", "ArrayText", "format_const", "read_const"]

_NPZ = re.compile(r"npz\(\s*\"([^\"]*)\"\s*,\s*\"([^\"]*)\"\s*\)")
_PIECE = re.compile(r"\s*([\[\],]|\([^()]*\)|[^\s\[\],]+)")


class ArrayText:
    """The values of a constant as they stand in a file.

    Attributes:
      values: a Python scalar, or lists of lists of them; for a PRNG key the words of its data.
      shape: the shape of the array (for keys, with the axis of the words).
      dtype: its element type.
    """

    __slots__ = ("dtype", "shape", "values")

    def __init__(self, values: Any, shape: tuple[int, ...], dtype: DType):
        self.values, self.shape, self.dtype = values, shape, dtype

    def tolist(self) -> Any:
        """The values, as `numpy.ndarray.tolist` would give them."""
        return self.values

    def item(self) -> Any:
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


class ArrayRef:
    """An array in an `.npz` file beside the text.

    Attributes:
      file: the file's name, relative to the folder of the text.
      key: the array's name in it.
    """

    __slots__ = ("file", "key")

    def __init__(self, file: str, key: str):
        self.file, self.key = file, key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayRef) and (self.file, self.key) == (other.file, other.key)

    def __hash__(self) -> int:
        return hash((self.file, self.key))

    def __repr__(self) -> str:
        return f'npz("{self.file}", "{self.key}")'


def read_const(text: str, aval: Any) -> ArrayText | ArrayRef:
    """The constant that a text spells, for a binder of type `aval`.

    Raises:
      ValueError: when it is malformed, or its shape or element type is not the binder's.
    """
    if m := _NPZ.fullmatch(text.strip()):
        return ArrayRef(m[1], m[2])
    dtype, shape = getattr(aval, "dtype", None), getattr(aval, "shape", None)
    if not isinstance(dtype, DType) or shape is None:
        raise ValueError(f"a value of type {aval} cannot be written in a file")
    if dtype.kind == "k":
        shape = (*shape, dtype.bits // 32)
    values = _nested(text, dtype)
    _check_shape(values, shape, aval)
    return ArrayText(values, shape, dtype)


def _nested(text: str, dtype: DType) -> Any:
    """Nested lists from their text, without recursion."""
    stack: list[list[Any]] = [[]]
    pos = 0
    while m := _PIECE.match(text, pos):
        pos, piece = m.end(), m[1]
        if piece == "[":
            stack.append([])
        elif piece == "]":
            if len(stack) < 2:
                break
            done = stack.pop()
            stack[-1].append(done)
        elif piece != ",":
            stack[-1].append(_element(piece, dtype))
    if len(stack) != 1 or len(stack[0]) != 1 or text[pos:].strip():
        raise ValueError("malformed list of values")
    return stack[0][0]


def _element(piece: str, dtype: DType) -> Any:
    try:
        return int(piece) if dtype.kind in "k?" else read_scalar(piece, dtype)
    except ValueError as e:
        raise ValueError(str(e) if dtype.kind not in "k?" else f"{piece} is no integer") from None


def _check_shape(values: Any, shape: tuple[int, ...], aval: Any) -> None:
    level = [values]
    for size in shape:
        if not all(isinstance(v, list) and len(v) == size for v in level):
            raise ValueError(f"the values do not have the shape of {aval}")
        level = [x for v in level for x in v]
    if any(isinstance(v, list) for v in level):
        raise ValueError(f"the values do not have the shape of {aval}")


def format_const(value: Any) -> str:
    """The text of a constant: `repr` of nested lists of Python scalars, or a reference."""
    if isinstance(value, ArrayRef):
        return repr(value)
    data = words_of_key(value)
    return repr(data.tolist() if hasattr(data, "tolist") else data)

"""The index of an equation on a reference: from its text to numbers, slices and operands, and what it selects.

In text an index is `[i,2,1:3,j:j+4,:]`, or `[...]` for everything; several follow one another where a reference to
a part is indexed again. JAX's print drops the strides of slices; ours are Python's: `0:8:2`, `j:j+7:2`.

Selection is NumPy's: numbers and arrays of numbers go together, and slices stay. Outside of the cell it is JAX's:
a negative operand counts from the end, a number or slice is then moved into the cell, and of arrays of
numbers those that are outside read the nearest element and write nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.dtypes import INT32
from jaxprtool.makers.indexing import CLIP_MODE, DROP_MODE, Windows, scatter_added

__all__ = [
    "Index",
    "Operand",
    "add_at",
    "read",
    "read_index",
    "selected_shape",
    "where_numbers_go",
    "write",
]


class Operand(int):
    """The position of an operand among those of the index."""


class Range(NamedTuple):
    """A slice: its start (a number or an `Operand`), its size, and the distance of its elements."""

    start: Any
    size: int
    stride: int = 1

    @property
    def span(self) -> int:
        """How far it is from its first element to its last, both counted."""
        return (self.size - 1) * self.stride + 1 if self.size else 0


Index = tuple[Any, ...]  # for each dimension a Range, a number or an Operand

_GROUP = re.compile(r"\[([^\]]*)\]")
_DYNAMIC = re.compile(r"\$(\d+):\$\1\+(\d+)(?::([1-9]\d*))?")
_STATIC = re.compile(r"(\d*):(\d*)(?::([1-9]\d*))?")


def read_index(name: str, index: Any, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """The index of an equation, for a cell of that shape: one `Index` after the other.

    Ill-typed when it has another form, or other dimensions.
    """
    if not isinstance(index, tuple):
        ill_typed(f"{name}: the index {index} cannot be read", "bad-param")
    return _read("".join(f"${p}" if isinstance(p, int) else str(p) for p in index), name, shape)


@functools.lru_cache(maxsize=1024)
def _read(text: str, name: str, shape: tuple[int, ...]) -> tuple[Index, ...]:
    if _GROUP.sub("", text):
        ill_typed(f"{name}: the index {text} transforms the reference", "unsupported-index")
    found = []
    for group in _GROUP.findall(text):
        items = group.split(",") if group else []
        if items == ["..."]:
            items = [":"] * len(shape)
        if len(items) != len(shape):
            ill_typed(f"{name}: the index [{group}] is for {len(items)} axes of {list(shape)}")
        one = tuple(_item(name, i, n) for i, n in zip(items, shape, strict=True))
        found.append(one)
        shape = tuple(x.size for x in one if type(x) is Range)
    return tuple(found)


def _item(name: str, text: str, size: int) -> Any:
    if text.startswith("$") and text[1:].isdigit():
        return Operand(text[1:])
    if m := _DYNAMIC.fullmatch(text):
        return _range(name, text, Operand(m[1]), int(m[2]), int(m[3] or 1), size)
    if m := _STATIC.fullmatch(text):
        start, stop = int(m[1] or 0), int(m[2] or size)
        return _range(name, text, start, stop - start, int(m[3] or 1), size)
    if re.fullmatch(r"-?\d+", text):
        if not -size <= int(text) < size:
            ill_typed(
                f"{name}: the index {text} is out of range for an axis of {size}", "axis-range"
            )
        return int(text) % size
    ill_typed(f"{name}: the index {text} cannot be read", "unsupported-index")


def _range(name: str, text: str, start: Any, length: int, stride: int, size: int) -> Range:
    """The slice of every stride-th of `length` elements, for an axis of `size`."""
    first = 0 if type(start) is Operand else start
    if not 0 <= length <= size - first:
        ill_typed(f"{name}: the slice {text} is out of range for an axis of {size}", "axis-range")
    return Range(start, -(-length // stride), stride)


def where_numbers_go(numbers: Sequence[bool]) -> int:
    """The axis of the selection at which the numbers' axes start: where they are, or the front.

    numbers: for each axis of the cell whether its index is a number or an array of them.
    """
    at = [i for i, x in enumerate(numbers) if x]
    together = bool(at) and at == list(range(at[0], at[-1] + 1))
    return at[0] if together else 0


def _first_number(index: Index) -> int:
    return where_numbers_go([type(x) is not Range for x in index])


def selected_shape(index: Index, operands: Sequence[Any]) -> tuple[int, ...]:
    """The shape that an index selects; `operands` are the types of the index's operands."""
    sizes = tuple(x.size for x in index if type(x) is Range)
    arrays = [operands[x].shape for x in index if type(x) is Operand and operands[x].shape]
    at = _first_number(index)
    return (*sizes[:at], *(arrays[0] if arrays else ()), *sizes[at:])


def _has_arrays(index: Index, operands: Sequence[Any]) -> bool:
    return any(type(x) is Operand and get_aval(operands[x]).shape for x in index)


# -- in pure operations ------------------------------------------------------------------------


class _Block(NamedTuple):
    """The smallest block of a cell that has all that is selected, less the gaps between its elements."""

    starts: list[Any]
    spans: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(-(-n // k) for n, k in zip(self.spans, self.strides, strict=True))

    @property
    def dense(self) -> bool:
        return all(k == 1 for k in self.strides)


def _block(index: Index, operands: Sequence[Any], shape: Sequence[int]) -> _Block:
    starts, spans, strides = [], [], []
    for x, n in zip(index, shape, strict=True):
        if type(x) is Operand and get_aval(operands[x]).shape:
            starts.append(0)
            spans.append(n)
        else:
            at = x.start if type(x) is Range else x
            starts.append(_from_the_end(operands[at], n) if type(at) is Operand else at)
            spans.append(x.span if type(x) is Range else 1)
        strides.append(x.stride if type(x) is Range else 1)
    return _Block(starts, tuple(spans), tuple(strides))


def _from_the_end(k: Any, size: int) -> Any:
    """k, or k + size where it is negative."""
    dtype = get_aval(k).dtype
    if dtype.kind == "u":
        return k
    if dtype.bits < INT32.bits:
        k = lax.convert_element_type(k, new_dtype=INT32)
    return lax.select_n(lax.lt(k, 0), k, lax.add(k, size))


def _read_block(x: Any, block: _Block) -> Any:
    """What is at the elements of a block, an array of `block.shape`."""
    if block.dense and block.spans == get_aval(x).shape:
        return x
    if all(type(s) is int for s in block.starts):
        limits = tuple(s + n for s, n in zip(block.starts, block.spans, strict=True))
        strides = None if block.dense else block.strides
        return lax.slice(
            x, start_indices=tuple(block.starts), limit_indices=limits, strides=strides
        )
    part = lax.dynamic_slice(x, *_same_type(block.starts), slice_sizes=block.spans)
    if block.dense:
        return part
    zeros = (0,) * len(block.spans)
    return lax.slice(part, start_indices=zeros, limit_indices=block.spans, strides=block.strides)


def _same_type(starts: list[Any]) -> list[Any]:
    """Starts of one dtype: i32 where they are of several."""
    dtypes = {get_aval(s).dtype for s in starts if type(s) is not int}
    if len(dtypes) <= 1:
        return starts
    return [s if type(s) is int else lax.convert_element_type(s, new_dtype=INT32) for s in starts]


def _write_block(x: Any, block: _Block, part: Any) -> Any:
    """x with part, an array of `block.shape`, at the elements of a block."""
    if not block.dense:
        whole = block._replace(strides=(1,) * len(block.spans))
        part = _spread(part, block, _read_block(x, whole))
    if get_aval(part).shape == get_aval(x).shape:
        return part
    return lax.dynamic_update_slice(x, part, *_same_type(block.starts))


def _spread(part: Any, block: _Block, between: Any) -> Any:
    """The elements of part with those of `between`, an array of `block.spans`, in the gaps."""
    aval = get_aval(part)
    gaps = tuple((0, 0, k - 1) for k in block.strides)
    there = lax.broadcast_in_dim(True, shape=aval.shape, broadcast_dimensions=())
    mask = lax.pad(there, False, padding_config=gaps)
    zero = scalar_lit(False if aval.dtype.kind == "b" else 0, aval.dtype)
    return lax.select_n(mask, between, lax.pad(part, zero, padding_config=gaps))


def _gathered(index: Index, operands: Sequence[Any], shape: Sequence[int]) -> tuple[Any, Windows]:
    """For an index with arrays, in its block of that shape: the index vectors, and the windows."""
    at = [i for i, x in enumerate(index) if type(x) is Operand and get_aval(operands[x]).shape]
    arrays = [_from_the_end(operands[index[i]], shape[i]) for i in at]
    of_arrays = get_aval(arrays[0]).shape
    columns = [
        lax.reshape(
            a if get_aval(a).dtype is INT32 else lax.convert_element_type(a, new_dtype=INT32),
            new_sizes=(*of_arrays, 1),
        )
        for a in arrays
    ]
    n = len(of_arrays)
    vectors = columns[0] if len(columns) == 1 else lax.concatenate(*columns, dimension=n)
    dropped = [i for i, x in enumerate(index) if type(x) is not Range]
    first, n_kept = _first_number(index), len(index) - len(dropped)
    window = [k if k < first else k + n for k in range(n_kept)]
    return vectors, Windows(tuple(window), tuple(dropped), tuple(at))


def read(x: Any, index: Index, operands: Sequence[Any]) -> Any:
    """x[index]."""
    block = _block(index, operands, get_aval(x).shape)
    part = _read_block(x, block)
    if _has_arrays(index, operands):
        vectors, windows = _gathered(index, operands, block.shape)
        dropped = windows.collapsed
        slice_sizes = tuple(1 if i in dropped else n for i, n in enumerate(block.shape))
        numbers = windows.gather_numbers()
        return lax.gather(
            part, vectors, dimension_numbers=numbers, slice_sizes=slice_sizes, mode=CLIP_MODE
        )
    numbers = tuple(i for i, item in enumerate(index) if type(item) is not Range)
    return lax.squeeze(part, dimensions=numbers) if numbers else part


def write(x: Any, index: Index, operands: Sequence[Any], value: Any) -> Any:
    """x with x[index] = value."""
    block = _block(index, operands, get_aval(x).shape)
    if not _has_arrays(index, operands):
        fits = get_aval(value).shape == block.shape
        return _write_block(x, block, value if fits else lax.reshape(value, new_sizes=block.shape))
    vectors, windows = _gathered(index, operands, block.shape)
    numbers = windows.scatter_numbers()
    part = _read_block(x, block)
    part = lax.scatter(part, vectors, value, dimension_numbers=numbers, mode=DROP_MODE)
    return _write_block(x, block, part)


def add_at(x: Any, index: Index, operands: Sequence[Any], value: Any) -> Any:
    """x with value added to x[index]; an element that is selected twice is added to twice."""
    if not _has_arrays(index, operands):
        return write(x, index, operands, lax.add_any(read(x, index, operands), value))
    block = _block(index, operands, get_aval(x).shape)
    vectors, windows = _gathered(index, operands, block.shape)
    part = scatter_added(_read_block(x, block), vectors, value, windows, mode=DROP_MODE)
    return _write_block(x, block, part)

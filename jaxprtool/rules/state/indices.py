"""Which elements of an array an index of a reference selects, and reading and writing them by pure
operations.

As in NumPy, integers and arrays of integers broadcast together, and slices keep their axes. As in
JAX, negative operands count from the end, and integers and slices that are out of bounds are moved
into the array. Elements of arrays of integers that are out of bounds read the nearest element and
write nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import Opaque
from jaxprtool.ir.references import (
    Bitcast,
    Fragments,
    Indexer,
    Item,
    Operand,
    RefIndex,
    Reshape,
    Transpose,
)
from jaxprtool.makers.indexing import CLIP_MODE, DROP_MODE, Windows, scatter_combined

__all__ = [
    "Index",
    "Path",
    "Range",
    "add_at",
    "combined_at",
    "look",
    "look_back",
    "read",
    "resolved",
    "selected_shape",
    "viewed",
    "where_numbers_go",
    "write",
]


class Range(NamedTuple):
    """A slice: `size` elements from `start` on, at distances of `stride`."""

    start: int | Operand
    size: int
    stride: int = 1

    @property
    def span(self) -> int:
        """The number of elements from the first one to the last one, both included."""
        return (self.size - 1) * self.stride + 1 if self.size else 0


Index = tuple[int | Operand | Range, ...]  # one for each axis; an int is not negative
Path = tuple[Index | Reshape | Transpose | Bitcast, ...]  # applied one after the other


@functools.lru_cache(maxsize=1024)
def resolved(name: str, index: RefIndex, shape: tuple[int, ...]) -> Path:
    """Return the index of an equation for an array of that shape, as a sequence of `Index`es and
    views.

    Raises a type error if it contains other transforms, or does not fit the shape.

    Args:
      name: the equation's primitive, for messages.
      index: the index.
      shape: the shape of the array.
    """
    if not index.steps:
        return (tuple([Range(0, n) for n in shape]),)
    found: list[Any] = []
    for step in index.steps:
        if isinstance(step, Opaque):
            ill_typed(f"{name}: the index {index} transforms the reference", "unsupported-index")
        if not isinstance(step, Indexer):
            shape = _viewed_shape(name, step, shape)
            found.append(step)
            continue
        if len(step.items) != len(shape):
            ill_typed(f"{name}: the index {step} is for {len(step.items)} axes of {list(shape)}")
        one = tuple(_resolved_item(name, x, n) for x, n in zip(step.items, shape, strict=True))
        found.append(one)
        shape = tuple(x.size for x in one if isinstance(x, Range))
    return tuple(found)


def _viewed_shape(
    name: str, step: Reshape | Transpose | Bitcast, shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the shape of a view of an array."""
    if isinstance(step, Bitcast):
        return shape
    if isinstance(step, Transpose):
        if sorted(step.permutation) != [*range(len(shape))]:
            ill_typed(f"{name}: the index {step} is for other axes than those of {list(shape)}")
        return tuple(shape[i] for i in step.permutation)
    if math.prod(step.shape) != math.prod(shape):
        ill_typed(f"{name}: the index {step} is for another size than that of {list(shape)}")
    return step.shape


def viewed(name: str, step: Reshape | Transpose | Bitcast, aval: ShapedArray) -> ShapedArray:
    """Return the type of a view of an array."""
    if not isinstance(step, Bitcast):
        return aval.update(shape=_viewed_shape(name, step, aval.shape))
    if step.dtype.bits != aval.dtype.bits:
        ill_typed(f"{name}: the index {step} changes the size of {aval.dtype}", "unsupported-index")
    return aval.update(dtype=step.dtype)


def look(x: Value, step: Reshape | Transpose | Bitcast) -> Value:
    """Return the view of an array."""
    if isinstance(step, Bitcast):
        return lax.bitcast_convert_type(x, new_dtype=step.dtype)
    if isinstance(step, Transpose):
        return lax.transpose(x, permutation=step.permutation)
    return lax.reshape(x, new_sizes=step.shape)


def look_back(x: Value, step: Reshape | Transpose | Bitcast, aval: ShapedArray) -> Value:
    """Return the array of type aval of which x is the view."""
    if isinstance(step, Bitcast):
        return lax.bitcast_convert_type(x, new_dtype=aval.dtype)
    if isinstance(step, Transpose):
        order = sorted(range(len(step.permutation)), key=step.permutation.__getitem__)
        return lax.transpose(x, permutation=tuple(order))
    return lax.reshape(x, new_sizes=aval.shape)


def _resolved_item(name: str, item: Item, size: int) -> int | Operand | Range:
    if isinstance(item, Operand):
        return item
    if isinstance(item, int):
        if not -size <= item < size:
            ill_typed(
                f"{name}: the index {item} is out of range for an axis of {size}", "axis-range"
            )
        return item % size
    if isinstance(item, Fragments) or isinstance(item.size, Operand):
        ill_typed(f"{name}: the index {item} cannot be read", "unsupported-index")
    first = item.start if isinstance(item.start, int) else 0
    length = -((first - size) // item.stride) if item.size is None else item.size
    found = Range(item.start, length, item.stride)
    if not 0 <= found.span <= size - first:
        ill_typed(f"{name}: the slice {item} is out of range for an axis of {size}", "axis-range")
    return found


def _arrays(index: Index, operands: Sequence[Value]) -> list[tuple[int, Value]]:
    """Return the dimensions whose index is an array of numbers, and these arrays."""
    found = [(i, operands[x.position]) for i, x in enumerate(index) if isinstance(x, Operand)]
    return [(i, x) for i, x in found if get_aval(x).shape]


def where_numbers_go(numbers: Sequence[bool]) -> int:
    """Return the axis of the selection at which the axes of the arrays of integers are.

    They are at the position of the integers if these are adjacent, otherwise they come first.

    Args:
      numbers: for each axis of the array whether its index is an integer or an array of integers.
    """
    at = [i for i, x in enumerate(numbers) if x]
    together = bool(at) and at == list(range(at[0], at[-1] + 1))
    return at[0] if together else 0


def _first_number(index: Index) -> int:
    return where_numbers_go([not isinstance(x, Range) for x in index])


def selected_shape(index: Index, operands: Sequence[Value]) -> tuple[int, ...]:
    """Return the shape that an index selects; `operands` are the types of the index's operands."""
    sizes = tuple(x.size for x in index if isinstance(x, Range))
    arrays = [x.shape for _, x in _arrays(index, operands)]
    at = _first_number(index)
    return (*sizes[:at], *(arrays[0] if arrays else ()), *sizes[at:])


# -- in pure operations ------------------------------------------------------------------------


class _Block(NamedTuple):
    """The smallest strided block of an array that has all selected elements.

    Attributes:
      starts: the first element along each axis: an int or a traced value.
      spans: the number of elements from the first to the last one along each axis, both included.
      strides: the stride along each axis.
    """

    starts: list[Any]
    spans: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(-(-n // k) for n, k in zip(self.spans, self.strides, strict=True))

    @property
    def dense(self) -> bool:
        return all(k == 1 for k in self.strides)


def _block(index: Index, operands: Sequence[Value], shape: Sequence[int]) -> _Block:
    starts, spans, strides = [], [], []
    arrays = dict(_arrays(index, operands))
    for i, (x, n) in enumerate(zip(index, shape, strict=True)):
        if i in arrays:
            starts.append(0)
            spans.append(n)
        else:
            at = x.start if isinstance(x, Range) else x
            starts.append(
                _from_the_end(operands[at.position], n) if isinstance(at, Operand) else at
            )
            spans.append(x.span if isinstance(x, Range) else 1)
        strides.append(x.stride if isinstance(x, Range) else 1)
    return _Block(starts, tuple(spans), tuple(strides))


def _from_the_end(k: Any, size: int) -> Value:
    """Return k, or k + size where k is negative."""
    dtype = get_aval(k).dtype
    if dtype.kind == "u":
        return k
    if dtype.bits < INT32.bits:
        k = lax.convert_element_type(k, new_dtype=INT32)
    return lax.select_n(lax.lt(k, 0), k, lax.add(k, size))


def _read_block(x: Value, block: _Block) -> Value:
    """Return the elements of a block, an array of `block.shape`."""
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


def _same_type(starts: list[Aval]) -> list[Aval]:
    """Return the starts in one dtype: i32 if they have several."""
    dtypes = {get_aval(s).dtype for s in starts if type(s) is not int}
    if len(dtypes) <= 1:
        return starts
    return [s if type(s) is int else lax.convert_element_type(s, new_dtype=INT32) for s in starts]


def _write_block(x: Value, block: _Block, part: Value) -> Value:
    """Return x with the elements of a block replaced by part, an array of `block.shape`."""
    if not block.dense:
        whole = block._replace(strides=(1,) * len(block.spans))
        part = _spread(part, block, _read_block(x, whole))
    if get_aval(part).shape == get_aval(x).shape:
        return part
    return lax.dynamic_update_slice(x, part, *_same_type(block.starts))


def _spread(part: Value, block: _Block, between: Any) -> Value:
    """Return an array of `block.spans` with the elements of part at the strides, and those of
    `between` in the gaps.
    """
    aval = get_aval(part)
    gaps = tuple((0, 0, k - 1) for k in block.strides)
    there = lax.broadcast_in_dim(True, shape=aval.shape, broadcast_dimensions=())
    mask = lax.pad(there, False, padding_config=gaps)
    zero = scalar_lit(False if aval.dtype.kind == "b" else 0, aval.dtype)
    return lax.select_n(mask, between, lax.pad(part, zero, padding_config=gaps))


def _gathered(
    index: Index, operands: Sequence[Value], shape: Sequence[int]
) -> tuple[Value, Windows]:
    """Return the index vectors and windows of the gather that reads an index with arrays from a
    block of that shape.
    """
    found = _arrays(index, operands)
    at, arrays = [i for i, _ in found], [_from_the_end(x, shape[i]) for i, x in found]
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
    dropped = [i for i, x in enumerate(index) if not isinstance(x, Range)]
    first, n_kept = _first_number(index), len(index) - len(dropped)
    window = [k if k < first else k + n for k in range(n_kept)]
    return vectors, Windows(tuple(window), tuple(dropped), tuple(at))


def read(x: Value, index: Index, operands: Sequence[Value]) -> Value:
    """Return x[index]."""
    block = _block(index, operands, get_aval(x).shape)
    part = _read_block(x, block)
    if _arrays(index, operands):
        vectors, windows = _gathered(index, operands, block.shape)
        dropped = windows.collapsed
        slice_sizes = tuple(1 if i in dropped else n for i, n in enumerate(block.shape))
        numbers = windows.gather_numbers()
        return lax.gather(
            part, vectors, dimension_numbers=numbers, slice_sizes=slice_sizes, mode=CLIP_MODE
        )
    numbers = tuple(i for i, item in enumerate(index) if not isinstance(item, Range))
    return lax.squeeze(part, dimensions=numbers) if numbers else part


def write(x: Value, index: Index, operands: Sequence[Value], value: Value) -> Value:
    """Return x after x[index] = value."""
    block = _block(index, operands, get_aval(x).shape)
    if not _arrays(index, operands):
        fits = get_aval(value).shape == block.shape
        return _write_block(x, block, value if fits else lax.reshape(value, new_sizes=block.shape))
    vectors, windows = _gathered(index, operands, block.shape)
    numbers = windows.scatter_numbers()
    part = _read_block(x, block)
    part = lax.scatter(part, vectors, value, dimension_numbers=numbers, mode=DROP_MODE)
    return _write_block(x, block, part)


def add_at(x: Value, index: Index, operands: Sequence[Value], value: Value) -> Value:
    """Return x after x[index] += value; an element that is selected twice is incremented twice."""
    if not _arrays(index, operands):
        return write(x, index, operands, lax.add_any(read(x, index, operands), value))
    return combined_at(lax.scatter_add, lax.add)(x, index, operands, value)


def combined_at(scatter: Any, op: Any) -> Callable[..., Value]:
    """Return a function of (x, index, operands, value): x after x[index] = op(x[index], value).

    The index must have arrays. `scatter` is the scatter of `op`, which applies all updates of an
    element.
    """

    def put(x: Value, index: Index, operands: Sequence[Value], value: Value) -> Value:
        block = _block(index, operands, get_aval(x).shape)
        vectors, windows = _gathered(index, operands, block.shape)
        part = _read_block(x, block)
        part = scatter_combined(scatter, op, part, vectors, value, windows, mode=DROP_MODE)
        return _write_block(x, block, part)

    return put

"""NumPy's functions that move, join and create elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.core.trace import scalar_lit
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.dtypes import BOOL, INT32
from jaxprtool.ops import binary, bitwise, comparison, joining, select, shape, slicing
from jaxprtool.ops.arrays.promotion import (
    as_dtype,
    as_integer,
    as_sizes,
    broadcast_to,
    dtype_named,
    dtype_of_value,
    result_dtype,
    shape_of,
)
from jaxprtool.ops.arrays.reductions import normalize_axes, normalize_axis

__all__ = ["SHAPING", "expand_dims", "reshape", "transpose"]


def reshape(a: Any, shape_: Any = None, order: str = "C", *, newshape: Any = None) -> Any:
    """a in another shape; one dimension may be -1."""
    sizes = shape_ if shape_ is not None else newshape
    sizes = as_sizes(sizes)
    size, known = math.prod(shape_of(a)), math.prod(d for d in sizes if d != -1)
    if sizes.count(-1) == 1 and known and size % known == 0:
        sizes = tuple(size // known if d == -1 else d for d in sizes)
    if math.prod(sizes) != size or min(sizes, default=0) < 0:
        fail(UsageError, f"{size} elements do not fit the shape {sizes}", "reshape")
    if order != "C":
        fail(UnsupportedError, f"reshape in order {order!r}", "reshape")
    return a if sizes == shape_of(a) else shape.reshape(a, new_sizes=sizes)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """a with its axes in another order, by default the reverse one."""
    ndim = len(shape_of(a))
    given = axes if axes is None or isinstance(axes, (tuple, list, range)) else (axes,)
    axes = range(ndim)[::-1] if given is None else [normalize_axis(i, ndim) for i in given]
    if sorted(axes) != list(range(ndim)):
        fail(UsageError, f"{tuple(axes)} is no permutation of {ndim} axes", "permutation")
    if tuple(axes) == tuple(range(ndim)):
        return a
    return shape.transpose(a, permutation=tuple(axes))


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """a with two axes exchanged."""
    order = list(range(len(shape_of(a))))
    i, j = normalize_axis(axis1, len(order)), normalize_axis(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return transpose(a, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """a with some axes at other positions, the rest in order."""
    ndim = len(shape_of(a))
    pair = [x if isinstance(x, (tuple, list)) else (x,) for x in (source, destination)]
    sources, targets = ([normalize_axis(i, ndim) for i in x] for x in pair)
    order = [i for i in range(ndim) if i not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return transpose(a, order)


def squeeze(a: Any, axis: Any = None) -> Any:
    """a without axes of size 1."""
    sizes = shape_of(a)
    if axis is None:
        axes = tuple(i for i, d in enumerate(sizes) if d == 1)
    else:
        axes = normalize_axes(axis, len(sizes))
    if any(sizes[i] != 1 for i in axes):
        fail(
            UsageError, f"squeeze of axes {axes} of shape {sizes}: one is not of size 1", "squeeze"
        )
    return shape.squeeze(a, dimensions=axes) if axes else a


def expand_dims(a: Any, axis: Any) -> Any:
    """a with new axes of size 1."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = len(shape_of(a)) + len(axes)
    new = normalize_axes(axes, ndim)
    sizes = iter(shape_of(a))
    out = tuple(1 if i in new else next(sizes) for i in range(ndim))
    kept = tuple(i for i in range(ndim) if i not in new)
    return shape.broadcast_in_dim(a, shape=out, broadcast_dimensions=kept)


def _typed(arrays: Sequence[Any]) -> list[Any]:
    arrays = list(arrays)
    if not arrays:
        fail(UsageError, "there is no array to join", "concatenate")
    dtype = result_dtype(*arrays)
    return [as_dtype(a, dtype) for a in arrays]


def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Any:
    """The arrays one after the other along an axis; None joins them flat."""
    typed = _typed(arrays)
    if axis is None:
        typed, axis = [reshape(a, (-1,)) for a in typed], 0
    axis = normalize_axis(axis, len(typed[0].shape))
    return typed[0] if len(typed) == 1 else joining.concatenate(*typed, dimension=axis)


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """The arrays side by side along a new axis."""
    typed = _typed(arrays)
    return concatenate([expand_dims(a, axis) for a in typed], axis)


def _at_least(a: Any, ndim: int) -> Any:
    missing = ndim - len(shape_of(a))
    return expand_dims(a, tuple(range(missing))) if missing > 0 else a


def hstack(arrays: Sequence[Any]) -> Any:
    """Joined along the second axis, or the first of one-dimensional arrays."""
    raised = [_at_least(a, 1) for a in _typed(arrays)]
    return concatenate(raised, 0 if len(raised[0].shape) == 1 else 1)


def split(a: Any, sections: Any, axis: int = 0) -> list[Any]:
    """Equal parts of a along an axis (a number), or the parts between positions (a sequence)."""
    axis = normalize_axis(axis, len(shape_of(a)))
    size = shape_of(a)[axis]
    if isinstance(sections, (tuple, list)) or shape_of(sections):
        cuts = [0, *(slice(as_integer(s, "a position")).indices(size)[1] for s in sections), size]
    else:
        sections = as_integer(sections, "the number of parts")
        if sections <= 0 or size % sections:
            fail(UsageError, f"{size} elements do not split into {sections} equal parts", "split")
        cuts = list(range(0, size + 1, size // sections))
    return [_part(a, axis, i, j) for i, j in itertools.pairwise(cuts)]


def _part(a: Any, axis: int, start: int, stop: int) -> Any:
    sizes = shape_of(a)
    starts = tuple(start if i == axis else 0 for i in range(len(sizes)))
    limits = tuple(max(stop, start) if i == axis else d for i, d in enumerate(sizes))
    return slicing.slice(a, start_indices=starts, limit_indices=limits)


def flip(a: Any, axis: Any = None) -> Any:
    """a with the order along some axes reversed."""
    return shape.rev(a, dimensions=normalize_axes(axis, len(shape_of(a))))


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """a with its elements moved along an axis, or along each of some, round the end."""
    if isinstance(shift, (tuple, list)) or isinstance(axis, (tuple, list)):
        shifts, axes = (x if isinstance(x, (tuple, list)) else [x] for x in (shift, axis))
        for n, i in _pairs(shifts, axes):
            a = roll(a, n, i)
        return a
    if axis is None:
        return reshape(roll(reshape(a, (-1,)), shift, 0), shape_of(a))
    axis = normalize_axis(axis, len(shape_of(a)))
    size = shape_of(a)[axis]
    cut = -as_integer(shift, "the shift") % size if size else 0
    parts = [_part(a, axis, cut, size), _part(a, axis, 0, cut)] if cut else [a]
    return concatenate(parts, axis)


def _pairs(xs: Sequence[Any], ys: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The elements of two lists, side by side; the only element of one goes with each of the other."""
    if 1 not in (len(xs), len(ys)) and len(xs) != len(ys):
        fail(UsageError, f"{len(xs)} shifts along {len(ys)} axes", "roll")
    n = max(len(xs), len(ys)) if xs and ys else 0
    return [*zip(*(list(x) * n if len(x) == 1 else x for x in (xs, ys)), strict=True)]


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """An array of a's shape (or another) and type with one value everywhere."""
    target = dtype_of_value(a) if dtype is None else dtype_named(dtype)
    sizes = shape_of(a) if shape is None else as_sizes(shape)
    return broadcast_to(as_dtype(fill_value, target), sizes)


def _triangle(lower: bool) -> Callable[..., Any]:
    def keep(m: Any, k: int = 0) -> Any:
        sizes = shape_of(m)
        if len(sizes) < 2:
            fail(UsageError, f"a triangle of an array of shape {sizes}", "triangle")
        flat = sizes[-2:]
        rows = shape.iota(dtype=INT32, shape=flat, dimension=0)
        columns = shape.iota(dtype=INT32, shape=flat, dimension=1)
        k = as_integer(k, "the diagonal")
        # lower keeps column <= row + k, upper column >= row + k
        edge = rows if k == 0 else binary.add(rows, scalar_lit(k, INT32))
        mask = (comparison.le if lower else comparison.ge)(columns, edge)
        zeros = full_like(m, 0)
        return select.select_n(broadcast_to(mask, sizes), zeros, m)

    return keep


def pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """array with a constant around it."""
    if mode != "constant" or isinstance(constant_values, (tuple, list)):
        fail(UnsupportedError, f"pad with mode={mode!r}: only one constant is possible", "pad")
    ndim = len(shape_of(array))
    pad_width = pad_width.tolist() if hasattr(pad_width, "tolist") else pad_width
    if isinstance(pad_width, int):
        widths = [(pad_width, pad_width)] * ndim
    elif all(isinstance(w, int) for w in pad_width):
        low, high = pad_width if len(pad_width) == 2 else pad_width * 2
        widths = [(low, high)] * ndim
    else:
        widths = list(pad_width) * ndim if len(pad_width) == 1 else list(pad_width)
    if len(widths) != ndim:
        fail(UsageError, f"{len(widths)} paddings for {ndim} axes", "pad")
    config = tuple([(*(as_integer(n, "a width") for n in pair), 0) for pair in widths])
    if any(min(low, high) < 0 for low, high, _ in config):
        fail(UsageError, f"a width of {pad_width} is negative", "pad")
    value = as_dtype(constant_values, dtype_of_value(array))
    return joining.pad(array, value, padding_config=config)


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element of a `repeats` times in a row."""
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    axis = normalize_axis(axis, len(shape_of(a)))
    if shape_of(repeats) not in ((), (1,)):
        fail(UnsupportedError, "repeat with a number for each element", "repeat")
    repeats = as_integer(repeats[0] if shape_of(repeats) else repeats, "the number of repeats")
    sizes = shape_of(a)
    wide = expand_dims(a, axis + 1)
    copies = broadcast_to(wide, (*sizes[: axis + 1], repeats, *sizes[axis + 1 :]))
    return reshape(copies, (*sizes[:axis], sizes[axis] * repeats, *sizes[axis + 1 :]))


def tile(a: Any, reps: Any) -> Any:
    """a laid side by side, `reps` times along each axis."""
    counts = as_sizes(reps.tolist() if hasattr(reps, "tolist") else reps)
    a = _at_least(a, len(counts))
    counts = (1,) * (len(shape_of(a)) - len(counts)) + tuple(counts)
    for axis, n in enumerate(counts):
        if n != 1:
            a = concatenate([a] * n, axis) if n > 0 else _part(a, axis, 0, 0)
    return a


def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """Differences of neighbours along an axis, n times."""
    axis = normalize_axis(axis, len(shape_of(a)))
    for _ in range(n):
        size = shape_of(a)[axis]
        if not size:
            return a
        later, earlier = _part(a, axis, 1, size), _part(a, axis, 0, size - 1)
        a = bitwise.xor(later, earlier) if dtype_of_value(a) is BOOL else binary.sub(later, earlier)
    return a


def meshgrid(*xs: Any, indexing: str = "xy") -> list[Any]:
    """Grids of coordinates."""
    xs = tuple([reshape(x, (-1,)) for x in xs])
    if indexing not in ("xy", "ij"):
        fail(UsageError, f"meshgrid with indexing={indexing!r}: it is 'xy' or 'ij'", "option")
    order = [1, 0, *range(2, len(xs))] if indexing == "xy" and len(xs) > 1 else range(len(xs))
    position = {k: i for i, k in enumerate(order)}
    sizes = tuple(shape_of(xs[k])[0] for k in order)
    return [
        shape.broadcast_in_dim(x, shape=sizes, broadcast_dimensions=(position[k],))
        for k, x in enumerate(xs)
    ]


def ravel(a: Any, order: str = "C") -> Any:
    """a as a vector."""
    return reshape(a, (-1,), order)


def size(a: Any, axis: Any = None) -> int:
    """The number of elements, or that along some axes."""
    return math.prod(shape_of(a)[i] for i in normalize_axes(axis, len(shape_of(a))))


SHAPING: dict[str, Callable[..., Any]] = {
    "reshape": reshape,
    "ravel": ravel,
    "transpose": transpose,
    "permute_dims": transpose,
    "matrix_transpose": lambda a: swapaxes(a, -1, -2),
    "swapaxes": swapaxes,
    "moveaxis": moveaxis,
    "squeeze": squeeze,
    "expand_dims": expand_dims,
    "concatenate": concatenate,
    "concat": concatenate,
    "stack": stack,
    "vstack": lambda arrays: concatenate([_at_least(a, 2) for a in _typed(arrays)], 0),
    "hstack": hstack,
    "split": split,
    "broadcast_to": lambda array, shape: broadcast_to(array, as_sizes(shape)),
    "zeros_like": lambda a, dtype=None, shape=None: full_like(a, 0, dtype, shape),
    "ones_like": lambda a, dtype=None, shape=None: full_like(a, 1, dtype, shape),
    "empty_like": lambda a, dtype=None, shape=None: full_like(a, 0, dtype, shape),
    "full_like": full_like,
    "tril": _triangle(True),
    "triu": _triangle(False),
    "pad": pad,
    "flip": flip,
    "flipud": lambda m: flip(m, 0),
    "fliplr": lambda m: flip(m, 1),
    "roll": roll,
    "repeat": repeat,
    "tile": tile,
    "diff": diff,
    "meshgrid": meshgrid,
    "atleast_1d": lambda a: _at_least(a, 1),
    "atleast_2d": lambda a: _at_least(a, 2),
    "copy": lambda a: a,
    "shape": shape_of,
    "ndim": lambda a: len(shape_of(a)),
    "size": size,
}

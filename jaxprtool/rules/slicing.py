"""Rules of slices with static and with dynamic starts."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import materialize
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.jvp import Zero, instantiate, linear
from jaxprtool.interpreters.transpose import is_linear, not_linear, transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import (
    check_same_dtype,
    check_sizes,
    full,
    inserted,
    static_impl,
    with_shape,
)
from jaxprtool.makers.indexing import CLIP_MODE, Windows, batched_indices
from jaxprtool.makers.keys import MOVES_KEYS
from jaxprtool.rules.define import define

# -- slice -----------------------------------------------------------------------------------------


def _slice_type(x: Aval, *, start_indices: Any, limit_indices: Any, strides: Any) -> Aval:
    steps = (1,) * x.ndim if strides is None else strides
    if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
        ill_typed(
            f"slice needs one start, limit and stride for each axis of {x}, got "
            f"start_indices {start_indices}, limit_indices {limit_indices}, strides {strides}",
            "dimension-count",
        )
    shape = []
    for i, (n, a, b, step) in enumerate(
        zip(x.shape, start_indices, limit_indices, steps, strict=True)
    ):
        if not 0 <= a <= b <= n:
            ill_typed(
                f"slice start_indices[{i}]={a} and limit_indices[{i}]={b} are not within {x}",
                "slice-range",
            )
        if step <= 0:
            ill_typed(f"slice strides[{i}]={step} is not positive", "slice-stride")
        shape.append(-((a - b) // step))
    return with_shape(x, tuple(shape))


def _slice_impl(
    xp: Namespace, x: Value, *, start_indices: Any, limit_indices: Any, strides: Any
) -> Value:
    steps = strides or (None,) * x.ndim
    parts = zip(start_indices, limit_indices, steps, strict=True)
    return operator.itemgetter(tuple([builtins.slice(*p) for p in parts]))


def _slice_transpose(
    ct: Value, x: Value, *, start_indices: Any, limit_indices: Any, strides: Any
) -> Value:
    config = []
    steps = strides or (1,) * x.ndim
    for size, n, low, step in zip(get_aval(ct).shape, x.shape, start_indices, steps, strict=True):
        covered = size if step == 1 else (size - 1) * step + 1 if size else 0
        config.append((low, n - low - covered, step - 1))
    if all(c == (0, 0, 0) for c in config):
        return ct
    return lax.pad(ct, full(ShapedArray((), x.dtype), 0), padding_config=tuple(config))


def _slice_batch(
    size: int, vals: Value, dims: Any, *, start_indices: Any, limit_indices: Any, strides: Any
) -> OutAndDim:
    at = dims[0]
    out = lax.slice(
        vals[0],
        start_indices=inserted(start_indices, at, 0),
        limit_indices=inserted(limit_indices, at, size),
        strides=None if strides is None else inserted(strides, at, 1),
    )
    return out, at


define(
    lax.slice,
    abstract_eval=_slice_type,
    impl=static_impl(_slice_impl),
    jvp=linear,
    transpose=transpose_unary(_slice_transpose),
    batch=_slice_batch,
    lower=lambda ctx, x, *, start_indices, limit_indices, strides: ctx.slice(
        x, start_indices, limit_indices, strides
    ),
    cost=FREE,
    keys=MOVES_KEYS,
    masks="both",
    elements="chosen",
    sums="kept",
)

# -- dynamic_slice ---------------------------------------------------------------------------------


def _check_starts(
    name: str, starts: Sequence[Value], shape: tuple[int, ...], x: Value, rank: int
) -> None:
    if len(starts) != rank:
        ill_typed(f"{name} needs {rank} start indices for {x}, got {len(starts)}", "operand-count")
    for s in starts:
        if s.shape != shape:
            kind = f"of shape {shape}" if shape else "of rank 0"
            ill_typed(f"{name} needs start indices {kind}, got {s}", "operand-shapes")
        if not s.dtype.is_integer or s.dtype is not starts[0].dtype:
            types = ", ".join(str(s) for s in starts)
            ill_typed(f"{name} needs start indices of one integer type, got {types}")


def _check_slice_sizes(name: str, sizes: Sequence[int], shape: Sequence[int], x: Value) -> None:
    check_sizes(name, "slice_sizes", sizes)
    if len(sizes) != len(shape) or any(s > n for s, n in zip(sizes, shape, strict=True)):
        ill_typed(f"{name} slice_sizes {tuple(sizes)} do not fit in {x}", "slice-range")


def _dynamic_slice_type(x: Aval, *starts: Aval, slice_sizes: Sequence[int]) -> Aval:
    _check_starts("dynamic_slice", starts, (), x, x.ndim)
    _check_slice_sizes("dynamic_slice", slice_sizes, x.shape, x)
    return with_shape(x, tuple(slice_sizes))


def _window(starts: Sequence[Value], parts: Sequence[tuple[int, int]]) -> tuple[Value, ...]:
    """Return the NumPy index of a slice; `parts` has the size and the largest start along each
    axis.
    """
    return tuple(
        [
            builtins.slice(a := min(max(int(s), 0), largest), a + n)
            for s, (n, largest) in zip(starts, parts, strict=True)
        ]
    )


def _dynamic_slice_impl(xp: Namespace, x: Value, *_: Value, slice_sizes: Sequence[int]) -> Value:
    parts = [(s, n - s) for s, n in zip(slice_sizes, x.shape, strict=True)]
    return lambda v, *starts: v[_window(starts, parts)]


def _dynamic_slice_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, slice_sizes: Sequence[int]
) -> PrimalAndTangent:
    (x, *starts), t = primals, tangents[0]
    out = lax.dynamic_slice(x, *starts, slice_sizes=slice_sizes)
    if type(t) is Zero:
        return out, Zero(get_aval(out))
    return out, lax.dynamic_slice(t, *starts, slice_sizes=slice_sizes)


def _fixed_starts(name: str, starts: Sequence[Value]) -> None:
    if any(is_linear(s) for s in starts):
        not_linear(name, "a start index depends on them")


def _dynamic_slice_transpose(
    ct: Value, x: Value, *starts: Value, slice_sizes: Sequence[int]
) -> list[Value]:
    _fixed_starts("dynamic_slice", starts)
    return [lax.dynamic_update_slice(full(x.aval, 0), ct, *starts), *[None] * len(starts)]


def _start_like(starts: Sequence[Value]) -> Value:
    """Return a start index 0 of the same type as the others."""
    return scalar_lit(0, get_aval(starts[0]).dtype if starts else INT32)


def _needed(
    starts: Sequence[Value], dims: Sequence[int | None], sizes: Sequence[int], shape: Sequence[int]
) -> tuple[list[Value], list[Value]]:
    """Return the starts and their batch axes.

    Along an axis that the slice covers, only start 0 is possible, so a batched start is replaced by
    0.
    """
    zero, whole = _start_like(starts), [s == n for s, n in zip(sizes, shape, strict=True)]
    return (
        [zero if w and d is not None else s for s, d, w in zip(starts, dims, whole, strict=True)],
        [None if w else d for d, w in zip(dims, whole, strict=True)],
    )


def _start_vectors(
    starts: Sequence[Value],
    dims: Sequence[int | None],
    sizes: Sequence[int],
    shape: Sequence[int],
    size: int,
) -> tuple[Value, tuple[int, ...]]:
    """Return the starts of each example as vectors along a last axis, and the axes of their
    components.

    Axes that the slice covers are left out.
    """
    axes = [i for i, (s, n) in enumerate(zip(sizes, shape, strict=True)) if s != n]
    columns = [
        lax.broadcast_in_dim(
            starts[i], shape=(size, 1), broadcast_dimensions=() if dims[i] is None else (0,)
        )
        for i in axes
    ]
    vectors = columns[0] if len(axes) == 1 else lax.concatenate(*columns, dimension=1)
    return vectors, tuple(axes)


def _slice_windows(
    axes: tuple[int, ...], rank: int, size: int, dim: int | None, shape: Sequence[int]
) -> tuple[Windows, tuple[int, ...]]:
    """Return the windows of a gather or scatter of one slice of `shape` for each example, and the
    slice sizes; the batch axis of the result is the first.
    """
    w, _ = batched_indices(Windows(tuple(range(rank)), (), axes), 0, 0, dim)
    return w, tuple(shape) if dim is None else inserted(shape, dim, min(size, 1))


def _dynamic_slice_batch(
    size: int, vals: Sequence[Value], dims: Sequence[int | None], *, slice_sizes: Sequence[int]
) -> OutAndDim:
    (x, *starts), (dim, *start_dims) = vals, dims
    shape = get_aval(x).shape if dim is None else _without(get_aval(x).shape, dim)
    starts, start_dims = _needed(starts, start_dims, slice_sizes, shape)
    if all(d is None for d in start_dims):
        if dim is None:
            return lax.dynamic_slice(x, *starts, slice_sizes=slice_sizes), None
        starts = inserted(starts, dim, _start_like(starts))
        sizes = inserted(slice_sizes, dim, size)
        return lax.dynamic_slice(x, *starts, slice_sizes=sizes), dim
    vectors, axes = _start_vectors(starts, start_dims, slice_sizes, shape, size)
    w, sizes = _slice_windows(axes, len(shape), size, dim, slice_sizes)
    out = lax.gather(
        x,
        vectors,
        dimension_numbers=w.gather_numbers(),
        slice_sizes=sizes,
        mode=CLIP_MODE,
        unique_indices=dim is not None,
        indices_are_sorted=dim is not None,
    )
    return out, 0


def _without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :]


define(
    lax.dynamic_slice,
    abstract_eval=_dynamic_slice_type,
    impl=static_impl(_dynamic_slice_impl),
    jvp=_dynamic_slice_jvp,
    transpose=_dynamic_slice_transpose,
    batch=_dynamic_slice_batch,
    lower=lambda ctx, x, *starts, slice_sizes: ctx.op(
        "dynamic_slice", x, *starts, slice_sizes=tuple(slice_sizes)
    ),
    cost=FREE,
    keys=MOVES_KEYS,
    masks="both",
    steers="indices",
    elements="chosen",
)

# -- dynamic_update_slice --------------------------------------------------------------------------


def _update_type(x: Aval, update: Aval, *starts: Aval) -> Aval:
    _check_starts("dynamic_update_slice", starts, (), x, x.ndim)
    check_same_dtype("dynamic_update_slice", (x, update))
    _check_update("dynamic_update_slice", x, update, 0)
    return x.strong


def _check_update(name: str, x: Value, update: Value, n_batch: int) -> None:
    fits = x.ndim == update.ndim and x.shape[:n_batch] == update.shape[:n_batch]
    if not fits or any(s > n for s, n in zip(update.shape, x.shape, strict=True)):
        ill_typed(f"{name} cannot write {update} into {x}", "slice-range")


def _update_impl(xp: Namespace, x: Value, update: Value, *_: Value) -> Value:
    if not x.ndim:
        return lambda v, u: u
    parts = [(s, n - s) for s, n in zip(update.shape, x.shape, strict=True)]

    def run(v: Value, u: Value, *starts: Value) -> Value:
        out = v.copy()
        out[_window(starts, parts)] = u
        return out

    return run


def _update_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    (x, update, *starts), (dx, du) = primals, tangents[:2]
    out = lax.dynamic_update_slice(x, update, *starts)
    if type(dx) is Zero and type(du) is Zero:
        return out, Zero(get_aval(out))
    return out, lax.dynamic_update_slice(instantiate(dx), instantiate(du), *starts)


def _update_transpose(ct: Value, x: Value, update: Value, *starts: Value) -> list[Value]:
    _fixed_starts("dynamic_update_slice", starts)
    aval = update.aval if is_linear(update) else get_aval(update)
    dx = du = None
    if is_linear(x):
        dx = lax.dynamic_update_slice(ct, full(with_shape(x.aval, aval.shape), 0), *starts)
    if is_linear(update):
        du = lax.dynamic_slice(ct, *starts, slice_sizes=aval.shape)
    return [dx, du, *[None] * len(starts)]


def _update_batch(size: int, vals: Value, dims: Any) -> OutAndDim:
    (x, update, *starts), (dim, update_dim, *start_dims) = vals, dims
    x_shape, sizes = (
        get_aval(v).shape if d is None else _without(get_aval(v).shape, d)
        for v, d in ((x, dim), (update, update_dim))
    )
    starts, start_dims = _needed(starts, start_dims, sizes, x_shape)
    if all(d is None for d in start_dims):
        if dim is None and update_dim is None:
            return lax.dynamic_update_slice(x, update, *starts), None
        at = dim if dim is not None else update_dim
        starts = inserted(starts, at, _start_like(starts))
        x, update = materialize(x, dim, size, at), materialize(update, update_dim, size, at)
        return lax.dynamic_update_slice(x, update, *starts), at
    vectors, axes = _start_vectors(starts, start_dims, sizes, x_shape, size)
    if dim is None:
        x, dim = materialize(x, None, size), 0
    w, _ = _slice_windows(axes, len(sizes), size, dim, sizes)
    out = lax.scatter(
        x,
        vectors,
        materialize(update, update_dim, size),
        dimension_numbers=w.scatter_numbers(),
        mode=CLIP_MODE,
        unique_indices=True,
        indices_are_sorted=True,
    )
    return out, dim


define(
    lax.dynamic_update_slice,
    abstract_eval=_update_type,
    impl=static_impl(_update_impl),
    jvp=_update_jvp,
    transpose=_update_transpose,
    batch=_update_batch,
    lower=lambda ctx, x, update, *starts: ctx.op("dynamic_update_slice", x, update, *starts),
    cost=FREE,
    keys=MOVES_KEYS,
    masks="both",
    steers="indices",
    elements="placed",
    sums="kept",
)

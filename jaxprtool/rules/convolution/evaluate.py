"""Evaluation of convolutions on NumPy: the patches of lhs as the rows of a matrix, times the kernel
as another matrix.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.evaluation.limits import check_room
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.jaxpr import Value
from jaxprtool.makers.axes import inverse_permutation
from jaxprtool.makers.windows import padder
from jaxprtool.rules.convolution.types import Specs, conv_type, specs_of, take

__all__ = ["conv_impl"]

# If the patches have more elements than this, they are made for one example at a time.
_MAX_PATCHES = 1 << 25

# A NumPy array has at most 64 axes; the view of all windows has each spatial axis twice, and one of
# groups.
_MAX_RANK = 32

# The number of multiplications up to which OpenBLAS uses one thread, and from which several are
# faster.
_ONE_THREAD, _MANY_THREADS = 1 << 18, 1 << 27


class _Layout(NamedTuple):
    """The sizes of a convolution on NumPy, and a view of the windows of lhs, [batch, *space,
    features].

    Attributes:
      groups: the number of groups, of features or of the batch.
      by_batch: whether the groups divide the batch.
      batch: the batch size of the result.
      depth: the input features of one group.
      outs: the output features of one group.
      kernel: the spatial sizes of the kernel.
      out_space: the spatial sizes of the result.
      strides: the window strides.
      dilation: the dilation of the kernel.
    """

    groups: int
    by_batch: bool
    batch: int
    depth: int
    outs: int
    kernel: tuple[int, ...]
    out_space: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def rows(self) -> int:
        return math.prod(self.out_space)

    @property
    def columns(self) -> int:
        return math.prod(self.kernel) * self.depth

    def windows(self, xp: Namespace, v: Value) -> Value:
        """Return the view [group, batch, *out_space, *kernel, depth] of lhs."""
        batch, *space, feature = v.strides
        group = batch * self.batch if self.by_batch else feature * self.depth
        moves = _jumps(space, self.strides, self.out_space)
        inside = _jumps(space, self.dilation, self.kernel)
        shape = (self.groups, self.batch, *self.out_space, *self.kernel, self.depth)
        strides = (group, batch, *moves, *inside, feature)
        return xp.lib.stride_tricks.as_strided(v, shape, strides, writeable=False)


def _jumps(strides: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return the distance in bytes between neighbours along each axis; 0 along an axis of size 1,
    whose step may be too large for an address.
    """
    return [
        stride * step if size > 1 else 0
        for stride, step, size in zip(strides, steps, sizes, strict=True)
    ]


def _layout(x: Value, y: Value, out: Value, specs: Specs, params: dict[str, Any]) -> _Layout:
    by_batch = params["batch_group_count"] > 1
    groups = params["batch_group_count"] if by_batch else params["feature_group_count"]
    outs, depth, *kernel = take(y.shape, specs.rhs)
    batch, _, *out_space = take(out.shape, specs.out)
    return _Layout(
        groups,
        by_batch,
        batch,
        depth,
        outs // groups,
        tuple(kernel),
        tuple(out_space),
        tuple(params["window_strides"]),
        tuple(params["rhs_dilation"]),
    )


def conv_impl(xp: Namespace, x: Value, y: Value, **params: Any) -> Callable[..., Any]:
    """Multiply the patches of lhs, as rows of a matrix, by the kernel.

    Narrow floats are multiplied in f32.
    """
    specs, out = specs_of(params["dimension_numbers"]), conv_type(x, y, **params)
    if len(specs.lhs) > _MAX_RANK:
        message = (
            f"NumPy has no convolutions of arrays of rank {len(specs.lhs)}; at most {_MAX_RANK}"
        )
        fail(UnsupportedError, message, "rank")
    layout, dtype = _layout(x, y, out, specs, params), xp.dtype_of_aval(out.dtype)
    narrow = out.dtype.kind == "f" and out.dtype.bits < 32
    inner = xp.dtype_of_aval(FLOAT32) if narrow else dtype
    lhs_order = (specs.lhs[0], *specs.lhs[2:], specs.lhs[1])
    rhs_order = (*specs.rhs[2:], specs.rhs[1], specs.rhs[0])
    back = inverse_permutation((specs.out[0], *specs.out[2:], specs.out[1]))
    pads = [
        (low, high, d - 1)
        for (low, high), d in zip(params["padding"], params["lhs_dilation"], strict=True)
    ]
    pad = padder(xp, take(x.shape, lhs_order), inner, [(0, 0, 0), *pads, (0, 0, 0)])
    depthwise = layout.depth == layout.outs == 1 and not layout.by_batch
    multiply = _depthwise if depthwise else _matrix_product
    zero = xp.zeros((), inner)[()]
    empty = not (out.size and x.size and y.size)

    def run(v: Value, w: Value) -> Value:
        if empty:
            return xp.zeros(out.shape, dtype)
        v = pad(v.transpose(lhs_order).astype(inner, copy=False), zero)
        w = w.transpose(rhs_order).astype(inner, copy=False)
        product = multiply(xp, layout, v, w).reshape(layout.batch, *layout.out_space, -1)
        return product.transpose(back).astype(dtype, copy=False)

    return run


def _matrix_product(xp: Namespace, layout: _Layout, v: Value, w: Value) -> Value:
    """Return the result [batch, rows, features], by one matrix product for each group."""
    groups, batch, rows = layout.groups, layout.batch, layout.rows
    w = w.reshape(layout.columns, groups, layout.outs).transpose(1, 0, 2)
    windows = layout.windows(xp, v)
    steps = 1 if groups * batch * rows * layout.columns <= _MAX_PATCHES else batch
    at_once = groups * rows * layout.columns * batch // max(steps, 1)
    check_room(at_once * w.dtype.itemsize, "conv_general_dilated")
    parts = []
    for i in range(steps):
        some = windows if steps == 1 else windows[:, i : i + 1]
        patches = some.reshape(groups, -1, layout.columns)
        product = _product(xp, patches, w)
        parts.append(product.reshape(groups, -1, rows, layout.outs))
    whole = parts[0] if steps == 1 else xp.concatenate(parts, 1)
    return whole if groups == 1 else whole.transpose(1, 2, 0, 3)


def _product(xp: Namespace, patches: Value, w: Value) -> Value:
    """Return [group, rows, columns] times [group, columns, outs].

    Products of medium size are cut into pieces for which BLAS uses one thread: on a busy machine,
    waiting for threads takes longer than the product.
    """
    (groups, rows, columns), outs = patches.shape, w.shape[-1]
    piece = _ONE_THREAD // max(columns * outs, 1)
    if piece < 4 or rows <= piece or groups * rows * columns * outs > _MANY_THREADS:
        return xp.matmul(patches, w)
    cut = rows // piece * piece
    out = xp.empty((groups, rows, outs), w.dtype)
    for g in range(groups):
        pieces = patches[g, :cut].reshape(-1, piece, columns)
        xp.matmul(pieces, w[g], out=out[g, :cut].reshape(-1, piece, outs))
        if cut < rows:
            xp.matmul(patches[g, cut:], w[g], out=out[g, cut:])
    return out


def _depthwise(xp: Namespace, layout: _Layout, v: Value, w: Value) -> Value:
    """Return [batch, *out_space, features] where each feature is convolved separately, as a sum
    over the kernel.
    """
    windows = layout.windows(xp, v)[..., 0]
    windows = windows.transpose(*range(1, windows.ndim), 0)  # [batch, *out_space, *kernel, feature]
    w, n = w.reshape(*layout.kernel, layout.groups), len(layout.kernel)
    every = (slice(None),) * (1 + n)
    total = None
    for place in itertools.product(*map(range, layout.kernel)):
        term = windows[(*every, *place)] * w[place]
        total = term if total is None else xp.add(total, term, out=total)
    return total

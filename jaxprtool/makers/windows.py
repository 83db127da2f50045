"""Windows that slide over the axes of an array: helpers of the rules of pooling, convolution and padding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.evaluation.limits import check_room
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import inserted

__all__ = ["Windows", "check_entries", "dilated", "padded_size", "padder", "strided_size"]

Pads = tuple[tuple[int, int], ...]


# -- sizes -----------------------------------------------------------------------------------------


def dilated(n: int, dilation: int) -> int:
    """Return the size of an axis with `dilation - 1` holes between its elements."""
    return (n - 1) * dilation + 1 if n > 0 else 0


def padded_size(n: int, low: int, high: int, interior: int) -> int:
    """Return the size of an axis after padding.

    It is negative where negative padding removes more than there is.
    """
    between = max(n - 1, 0) * interior if interior else 0
    return low + n + between + high


def strided_size(n: int, window: int, stride: int) -> int:
    """Return the number of positions of a window on an axis."""
    return (n - window) // stride + 1 if n >= window else 0


def check_entries(name: str, ndim: int, least: int = 1, **params: Sequence[int]) -> None:
    """Reject params that do not have one entry for each of `ndim` axes, each at least `least`."""
    for param, values in params.items():
        if len(values) != ndim:
            ill_typed(
                f"{name} {param} {tuple(values)} must have one entry for each of {ndim} axes",
                "dimension-count",
            )
        for v in values:
            if v < least:
                rule = "negative" if least == 0 else f"less than {least}"
                ill_typed(f"{name} {param} {tuple(values)} has an entry that is {rule}", "bad-size")


class Windows(NamedTuple):
    """Where windows lie on an array: one entry of each field for each axis.

    Attributes:
      dimensions: the size of the window.
      strides: the steps between windows.
      padding: (low, high), the numbers of elements added at the two ends of the axis; negative
        numbers remove elements.
      base_dilation: the distance at which the array's elements are placed.
      window_dilation: the distance between elements of the window.
    """

    dimensions: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Pads
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    def check(self, name: str, aval: Aval) -> tuple[int, ...]:
        """Return the shape of the array of windows; raise a type error when the fields do not fit `aval`."""
        check_entries(
            name,
            aval.ndim,
            window_dimensions=self.dimensions,
            window_strides=self.strides,
            base_dilation=self.base_dilation,
            window_dilation=self.window_dilation,
        )
        if len(self.padding) != aval.ndim:
            ill_typed(
                f"{name} padding {self.padding} must have one entry for each axis of {aval}",
                "dimension-count",
            )
        return self.out_shape(aval.shape)

    def out_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the array of windows."""
        return tuple(
            strided_size(dilated(n, base) + low + high, dilated(size, inner), stride)
            for n, size, stride, (low, high), base, inner in zip(shape, *self, strict=True)
        )

    def batched(self, dim: int) -> Windows:
        """Return the same windows on an array with one more axis, along which they have size 1."""
        return Windows(
            inserted(self.dimensions, dim, 1),
            inserted(self.strides, dim, 1),
            inserted(self.padding, dim, (0, 0)),
            inserted(self.base_dilation, dim, 1),
            inserted(self.window_dilation, dim, 1),
        )

    @property
    def pad_config(self) -> tuple[tuple[int, int, int], ...]:
        """The param of the `pad` that pads the array for the windows: (low, high, interior) for each axis."""
        return tuple(
            (low, high, base - 1)
            for (low, high), base in zip(self.padding, self.base_dilation, strict=True)
        )

    def offsets(self, out_shape: Sequence[int]) -> Iterator[tuple[slice, ...]]:
        """Yield for each element of the window, in order, an index of the padded array that selects it in all windows.

        They are yielded one at a time, because a window may have more elements than fit into
        memory. Where there are no windows, nothing is yielded.
        """
        if 0 in out_shape:
            return
        axes = [*zip(self.strides, self.window_dilation, out_shape, strict=True)]
        for place in _places(self.dimensions):
            yield tuple(
                _slice(k * inner, n, stride)
                for k, (stride, inner, n) in zip(place, axes, strict=True)
            )


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the indices of an array of these sizes, the last axis fastest."""
    if not sizes:
        yield ()
        return
    for first in _places(sizes[:-1]):
        for k in range(sizes[-1]):
            yield (*first, k)


def _slice(start: int, count: int, step: int) -> slice:
    return slice(start, start + max((count - 1) * step + 1, 0), step)


# -- padding on NumPy ------------------------------------------------------------------------------


def _pad_axis(n: int, low: int, high: int, interior: int) -> tuple[slice, slice]:
    """Return which elements of an axis are kept, and their positions after padding."""
    step, size = interior + 1, padded_size(n, low, high, interior)
    first = max(0, -(low // step))  # the first i with low + i * step >= 0
    last = min(n - 1, (size - 1 - low) // step)
    if last < first:
        return slice(0, 0), slice(0, 0)
    return slice(first, last + 1), slice(low + first * step, low + last * step + 1, step)


def padder(xp: Namespace, shape: Sequence[int], dtype: Any, config: Any) -> Callable[..., Value]:
    """Return a function (values of a shape, fill) -> padded values, for (low, high, interior) for each axis.

    The result is a new array, except where nothing is padded or removed: then it is the values
    themselves.
    """
    if not any(any(c) for c in config):
        return lambda v, fill: v
    axes = [_pad_axis(n, *c) for n, c in zip(shape, config, strict=True)]
    source, target = (tuple(a[i] for a in axes) for i in range(2))
    size = tuple(max(padded_size(n, *c), 0) for n, c in zip(shape, config, strict=True))

    nbytes = math.prod(size) * xp.dtype(dtype).itemsize

    def run(v: Value, fill: Value) -> Value:
        check_room(nbytes, "padding")
        out = xp.full(size, fill, dtype)
        out[target] = v[source]
        return out

    return run

"""Make batches of arguments from one value, take elements out of batches, and stack results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprtool.backends.arrays import generate
from jaxprtool.backends.numpy_eval import KeyArray

__all__ = ["batch", "element", "stacked"]


def batch(x: Any, aval: Any, axis: int, size: int, position: int) -> Any:
    """Return a batch whose first element is a value, and whose others are random values of its type.

    Args:
      x: the value.
      aval: its type.
      axis: the position of the batch axis.
      size: the number of elements.
      position: the position of the argument.
    """
    others = [generate("random", k, position, aval) for k in range(1, size)]
    return _joined([x, *others], axis)


def element(x: Any, axis: int | None, k: int) -> Any:
    """Return an element of a batch; the value itself where it is not batched."""
    if axis is None:
        return x
    if isinstance(x, KeyArray):
        return KeyArray(x.impl, np.take(x.data, k, axis))
    return np.take(np.asarray(x), k, axis)


def stacked(values: Sequence[Any]) -> Any:
    """Stack results along a new first axis."""
    return _joined(values, 0)


def _joined(values: Sequence[Any], axis: int) -> Any:
    if isinstance(values[0], KeyArray):
        return KeyArray(values[0].impl, np.stack([x.data for x in values], axis))
    return np.stack([np.asarray(x) for x in values], axis)

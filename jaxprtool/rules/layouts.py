"""Layouts of results in programs with explicitly sharded types, for operations that move dimensions.

An operand without a layout counts as one whose dimensions are not split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.axes import inserted, removed
from jaxprtool.interpreters.layouts import declare_layout

__all__: list[str] = []

Spec = tuple[str | None, ...]


def _spec(aval: Any) -> Spec:
    return aval.spec or (None,) * aval.ndim


def _transpose(ins: Sequence[Any], out: Any, *, permutation: Sequence[int]) -> list[Any]:
    return [_spec(ins[0])[i] for i in permutation]


def _reduce(ins: Sequence[Any], out: Any, *, axes: Sequence[int], **_: Any) -> Spec:
    return removed(_spec(ins[0]), axes)


def _broadcast(
    ins: Sequence[Any], out: Any, *, broadcast_dimensions: Sequence[int], **_: Any
) -> list[Any]:
    spec: list[str | None] = [None] * out.ndim
    for i, axis in enumerate(broadcast_dimensions):
        if ins[0].shape[i] == out.shape[axis]:
            spec[axis] = _spec(ins[0])[i]
    return spec


def _squeeze(ins: Sequence[Any], out: Any, *, dimensions: Sequence[int]) -> Spec:
    return removed(_spec(ins[0]), [d % ins[0].ndim for d in dimensions])


def _expand(ins: Sequence[Any], out: Any, *, dimensions: Sequence[int]) -> Spec:
    spec = _spec(ins[0])
    for d in sorted(d % out.ndim for d in dimensions):
        spec = inserted(spec, d, None)
    return spec


def _dot_general(ins: Sequence[Any], out: Any, *, dimension_numbers: Any, **_: Any) -> list[Any]:
    """Batch dimensions, then the free ones of the left operand, then those of the right one."""
    (left, right), (left_batch, right_batch) = dimension_numbers
    x, y = map(_spec, ins[:2])
    batch = [x[i] or y[j] for i, j in zip(left_batch, right_batch, strict=True)]
    free = [s for i, s in enumerate(x) if i not in (*left, *left_batch)]
    return [*batch, *free, *[s for i, s in enumerate(y) if i not in (*right, *right_batch)]]


declare_layout(lax.transpose, _transpose)
declare_layout(lax.broadcast_in_dim, _broadcast)
declare_layout(lax.squeeze, _squeeze)
declare_layout(lax.expand_dims, _expand)
declare_layout(lax.dot_general, _dot_general)
for _op in (
    lax.reduce_sum,
    lax.reduce_prod,
    lax.reduce_max,
    lax.reduce_min,
    lax.reduce_and,
    lax.reduce_or,
    lax.reduce_xor,
    lax.argmax,
    lax.argmin,
):
    declare_layout(_op, _reduce)

"""The row of `pgather`, which JAX had until 0.5: elements at indices along named and positional
axes.

`out[i, ...] = src[idx[i], ...]`, where idx counts the positions along all `axes` in row-major
order, and position k along a named axis is the value of member k. It is computed as `all_gather`,
then `gather`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import bound_axes, current_axes
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.jvp import Zero
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.stage import stage
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.sharding import varying_axes, with_varying
from jaxprtool.makers.axes import check_axes, removed, reshaped, transposed, varied
from jaxprtool.makers.calls import inline_transpose
from jaxprtool.makers.decomposed import run_as
from jaxprtool.makers.indexing import DROP_MODE
from jaxprtool.ops.gather import GatherDimensionNumbers
from jaxprtool.ops.parallel import names_of
from jaxprtool.rules.define import define
from jaxprtool.rules.parallel.groups import mapped
from jaxprtool.rules.parallel.traffic import sent_rows
from jaxprtool.rules.parallel.types import check_bound, positions_of

__all__: list[str] = []


def _pgather_type(src: Aval, idx: Aval, *, axes: Sequence[Any]) -> Aval:
    """The type rule: the axes of idx, then those axes of src that are not gathered along."""
    check_bound("pgather", names_of(axes))
    check_axes("pgather", "axes", positions_of(axes), src.ndim, src)
    if not idx.dtype.is_integer:
        ill_typed(f"pgather: idx must be integers, not {idx}", "operand-dtype")
    shape = (*idx.shape, *removed(src.shape, positions_of(axes)))
    out = src.update(shape=shape, weak_type=False, spec=())
    return with_varying(out, _varying(src, idx), current_axes().sizes)


def _varying(*avals: Aval) -> list[str]:
    return list(dict.fromkeys(n for a in avals for n in varying_axes(a)))


def _pgather(
    in_avals: Sequence[Aval] | None, src: Value, idx: Value, *, axes: Sequence[Any]
) -> Value:
    """Express pgather by other operations."""
    names, sizes = names_of(axes), current_axes().sizes
    if names:
        counts = [sizes[n] for n in names]
        src = varied(src, [n for n in names if n in current_axes().varying])
        src = lax.all_gather(src, axis_name=names, axis_size=math.prod(counts))
        src = reshaped(src, (*counts, *get_aval(src).shape[1:]))
    named = iter(range(len(names)))
    front = [len(names) + a if isinstance(a, int) else next(named) for a in axes]
    shape = get_aval(src).shape
    src = transposed(src, [*front, *[i for i in range(len(shape)) if i not in front]])
    rest = get_aval(src).shape[len(front) :]
    rows = reshaped(src, (math.prod(shape[i] for i in front), *rest))
    varying = _varying(get_aval(rows), get_aval(idx))
    rows, idx = varied(rows, varying), varied(idx, varying)
    n = get_aval(idx).ndim
    return lax.gather(
        rows,
        reshaped(idx, (*get_aval(idx).shape, 1)),
        dimension_numbers=GatherDimensionNumbers(range(n, n + len(rest)), (0,), (0,)),
        slice_sizes=(1, *rest),
        mode=DROP_MODE,
    )


def _staged(avals: Sequence[Any], axes: Sequence[Any]) -> ClosedJaxpr:
    return stage(lambda *xs: [_pgather(None, *xs, axes=axes)], [a.strong for a in avals])


def _pgather_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, axes: Sequence[int]
) -> PrimalAndTangent:
    (src, idx), (t, _) = primals, tangents
    out = lax.pgather(src, idx, axes=axes)
    return out, Zero(get_aval(out)) if type(t) is Zero else lax.pgather(t, idx, axes=axes)


def _pgather_transpose(ct: Value, src: Value, idx: Value, *, axes: Sequence[int]) -> list[Value]:
    if is_linear(idx):
        not_linear("pgather", "idx depends on them")
    return inline_transpose([ct], [src, idx], _staged([src.aval, get_aval(idx)], axes))


def _pgather_batch(axis_size: int, vals: Value, dims: Any, *, axes: Any) -> OutAndDim:
    avals = [get_aval(x).strong for x in vals]
    return mapped(lambda *xs: _pgather(None, *xs, axes=axes), avals, axis_size, vals, dims)


def _pgather_lower(
    ctx: LoweringContext, src: HloValue, idx: HloValue, *, axes: Sequence[int]
) -> HloValue:
    with bound_axes(ctx.mesh.sizes if ctx.mesh is not None else {}):
        closed = _staged(ctx.in_avals, axes)
    return ctx.inline(closed, [src, idx])[0]


define(
    lax.pgather,
    abstract_eval=_pgather_type,
    impl=run_as(_pgather),
    jvp=_pgather_jvp,
    transpose=_pgather_transpose,
    batch=_pgather_batch,
    lower=_pgather_lower,
    cost=FREE,
    sends=sent_rows,
)

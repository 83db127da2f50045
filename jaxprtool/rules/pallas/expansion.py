"""Expansion of a kernel to a loop over the grid in pure operations, as JAX lowers its interpret mode."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.partition import split_list
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.discharge import discharge_jaxpr
from jaxprtool.interpreters.lower import LoweringContext
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import hoist_consts, stage
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.makers.axes import full
from jaxprtool.makers.decomposed import lowered_as
from jaxprtool.rules.pallas.layout import Block, Layout, held, layout_of, nothing_in
from jaxprtool.rules.pallas.places import index_map_of
from jaxprtool.rules.pallas.threading import with_grid

__all__ = ["lower_call"]

_I32 = ShapedArray((), INT32)


def _i32(n: int) -> Value:
    return scalar_lit(n, INT32)


def _kernel(in_avals: Sequence[Aval], *operands: Value, **params: Any) -> list[Value]:
    """Return the results of a kernel: by a `scan` where the sizes of the grid are known, otherwise by a `while`."""
    layout = layout_of(in_avals, params)
    dynamic, scalars, arrays = split_list(operands, layout.n_dynamic, layout.n_index)
    given = iter(dynamic)
    sizes = [
        lax.convert_element_type(next(given), new_dtype=INT32) if n is None else _i32(n)
        for n in layout.grid
    ]
    starts = [
        arrays[layout.aliases[o]] if o in layout.aliases else full(b.aval, nothing_in(b.aval.dtype))
        for o, b in enumerate(layout.blocks[layout.n_in :])
    ]
    cells = [_padded(x, b) for x, b in zip([*arrays, *starts], layout.blocks, strict=True)]
    scratch = [held("scratch", a) for a in layout.scratch]
    cells += [full(h, nothing_in(h.dtype)) for h in scratch]
    step = _Step(layout, params)
    consts = [*sizes, *scalars]
    carry = [_i32(0), *cells]
    avals = [get_aval(x).strong for x in (*consts, *carry)]
    body = hoist_consts(stage(step, avals))
    total = 1
    for n in layout.grid:
        total *= n or 0
    if None in layout.grid:
        outs = _while(body, consts, carry, sizes)
    else:
        outs = lax.scan_call(
            *consts, *carry, jaxpr=body, length=total, num_consts=len(consts), num_carry=len(carry)
        )
    first = 1 + layout.n_in
    results = zip(outs[first : first + layout.n_out], layout.blocks[layout.n_in :], strict=True)
    return [_unpadded(x, b) for x, b in results]


def _while(
    body: ClosedJaxpr, consts: list[Value], carry: list[Value], sizes: Sequence[Value]
) -> list[Value]:
    total = _i32(1)
    for n in sizes:
        total = lax.mul(total, n)
    avals = [get_aval(x).strong for x in carry]
    cond = stage(lambda end, i, *_: [lax.lt(i, end)], [_I32, *avals])
    return lax.while_call(
        total,
        *consts,
        *carry,
        cond_jaxpr=cond,
        body_jaxpr=body,
        cond_nconsts=1,
        body_nconsts=len(consts),
    )


class _Step:
    """One step of the loop: (sizes, operands of index maps, number of the grid point, arrays,
    scratch) -> the carry.
    """

    def __init__(self, layout: Layout, params: dict[str, Any]):
        self.layout, n = layout, len(layout.grid)
        self.seen = [k not in params["vmapped_dims"] for k in range(n)]
        self.kernel = discharge_jaxpr(with_grid(params["jaxpr"], sum(self.seen)))
        found = [index_map_of(k, b) for k, b in enumerate(layout.blocks)]
        self.maps = [None if m is None else discharge_jaxpr(m) for m in found]

    def __call__(self, *values: Value) -> list[Value]:
        layout = self.layout
        sizes, scalars, (i,), arrays, scratch = split_list(
            values, len(layout.grid), layout.n_index, 1, len(layout.blocks)
        )
        point = _point(i, sizes)
        at = [self.starts(k, point, scalars) for k in range(len(layout.blocks))]
        parts = [_read(x, b, s) for x, b, s in zip(arrays, layout.blocks, at, strict=True)]
        seen = [*compress(point, self.seen), *compress(sizes, self.seen)]
        outs = apply_jaxpr(self.kernel, [*seen, *scalars, *parts, *scratch])
        _, parts, scratch = split_list(outs, layout.n_index, len(layout.blocks))
        arrays = [
            _write(x, b, s, p) for x, b, s, p in zip(arrays, layout.blocks, at, parts, strict=True)
        ]
        return [lax.add(i, _i32(1)), *arrays, *scratch]

    def starts(self, k: int, point: Sequence[Value], scalars: Sequence[Value]) -> list[Value]:
        """Return the first element of block k along each dimension."""
        block, map_ = self.layout.blocks[k], self.maps[k]
        if map_ is None:
            return [_i32(0)] * len(block.dims)
        places = apply_jaxpr(map_, [*point, *scalars])[: len(block.dims)]
        found = []
        for place, dim in zip(places, block.dims, strict=True):
            place = lax.convert_element_type(place, new_dtype=INT32)
            found.append(place if dim.step == 1 else lax.mul(place, _i32(dim.step)))
        return found


def _point(i: Value, sizes: Sequence[Value]) -> list[Value]:
    """Return the coordinates of the grid point with this number. The last axis is the fastest."""
    found: list[Value] = []
    for k, n in enumerate(reversed(sizes)):
        last = k + 1 == len(sizes)
        found.append(i if last else lax.rem(i, n))
        i = i if last else lax.div(i, n)
    return found[::-1]


def _padded(x: Value, block: Block) -> Value:
    if not any(map(any, block.padding)):
        return x
    nothing = scalar_lit(nothing_in(block.aval.dtype), block.aval.dtype)
    config = tuple((low, high, 0) for low, high in block.padding)
    return lax.pad(x, nothing, padding_config=config)


def _unpadded(x: Value, block: Block) -> Value:
    shape = block.aval.shape
    if get_aval(x).shape == shape:
        return x
    lows = tuple(low for low, _ in block.padding)
    ends = tuple(low + n for low, n in zip(lows, shape, strict=True))
    return lax.slice(x, start_indices=lows, limit_indices=ends)


def _read(x: Value, block: Block, starts: Sequence[Value]) -> Value:
    if get_aval(x).shape != block.shape:
        x = lax.dynamic_slice(x, *starts, slice_sizes=block.shape)
    return lax.squeeze(x, dimensions=block.squeezed) if block.squeezed else x


def _write(x: Value, block: Block, starts: Sequence[Value], part: Value) -> Value:
    if block.squeezed:
        part = lax.reshape(part, new_sizes=block.shape)
    if get_aval(x).shape == block.shape:
        return part
    return lax.dynamic_update_slice(x, part, *starts)


_lowered = lowered_as(_kernel)
_SAYS_WHAT = (
    *("jaxpr", "grid_mapping", "out_avals", "input_output_aliases", "index_maps", "vmapped_dims"),
)


def lower_call(ctx: LoweringContext, *operands: Value, **params: Any) -> list[Value]:
    """Write a call of the loop. Hints to a compiler of kernels are left out."""
    return _lowered(ctx, *operands, **{k: params[k] for k in _SAYS_WHAT})

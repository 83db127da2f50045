"""Derivatives and batches of kernels, as in JAX: the kernel itself is differentiated, and a batch
is one more axis of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.partition import split_list
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import materialize, one_by_one
from jaxprtool.interpreters.contracts import OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.interpreters.discharge import discharge_jaxpr
from jaxprtool.interpreters.jvp import Zero, fill_zeros, instantiate, jvp_jaxpr
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import Record
from jaxprtool.ir.references import RefIndex
from jaxprtool.makers.axes import full
from jaxprtool.rules.pallas.layout import Block, Layout, held, layout_of
from jaxprtool.rules.pallas.places import index_map_of

__all__ = ["batch_call", "jvp_call"]

_WHOLE = RefIndex()


def _refused(what: str) -> None:
    fail(UnsupportedError, f"pallas_call with {what} has no derivative, in JAX neither", "no-rule")


def _with_blocks(params: dict[str, Any], layout: Layout, order: Sequence[int]) -> dict[str, Any]:
    """Return params with the blocks in the given order, which may repeat a block."""
    mapping, maps = params["grid_mapping"], params["index_maps"]
    records = tuple(mapping.block_mappings[i] for i in order)
    return {
        **params,
        "grid_mapping": Record("GridMapping", grid=mapping.grid, block_mappings=records),
        "index_maps": tuple(maps[i] for i in order) if maps else (),
    }


# -- jvp ---------------------------------------------------------------------------------------


def jvp_call(primals: Any, tangents: Any, **params: Any) -> PrimalAndTangent:
    """The jvp rule: one kernel computes results and tangents.

    It reads the blocks of both, and applies the derivative of the discharged kernel.
    """
    layout = layout_of([get_aval(x).strong for x in primals], params)
    if layout.n_dynamic or layout.n_index:
        _refused("a size of the grid, or an operand of index maps, that is not known")
    if layout.aliases:
        _refused("aliases")
    live = [i for i, t in enumerate(tangents) if type(t) is not Zero]
    ins = range(layout.n_in)
    outs = range(layout.n_in, len(layout.blocks))
    smooth = [i for i in outs if layout.blocks[i].aval.dtype.kind in "fc"]
    made = {
        **_with_blocks(params, layout, [*ins, *live, *outs, *smooth]),
        "jaxpr": _jvp_kernel(params["jaxpr"], layout, live),
        "out_avals": (
            *params["out_avals"],
            *[layout.blocks[i].aval for i in smooth],
        ),
    }
    results = lax.pallas_call(*primals, *[instantiate(tangents[i]) for i in live], **made)
    primals_out, given = results[: layout.n_out], iter(results[layout.n_out :])
    flags = [i in smooth for i in outs]
    return primals_out, fill_zeros(flags, given, map(get_aval, primals_out))


def _jvp_kernel(kernel: ClosedJaxpr, layout: Layout, live: Sequence[int]) -> ClosedJaxpr:
    """Return the kernel of results and tangents.

    Its arguments are references: (operands, their tangents, results, their tangents, scratch, its
    tangents). Integers among the results and the scratch have no tangents.
    """
    refs = [v.aval.strong for v in kernel.jaxpr.in_binders]
    n, k = layout.n_in, layout.n_out
    outs, scratch = range(n, n + k), range(n + k, len(refs))
    moved = [*live, *[i for i in (*outs, *scratch) if held("a cell", refs[i]).dtype.kind in "fc"]]
    where = {i: len(refs) + j for j, i in enumerate(moved)}  # the tangent of each
    types = [*refs, *[refs[i] for i in moved]]
    order = [
        *range(n),
        *[where[i] for i in live],
        *outs,
        *[where[i] for i in outs if i in where],
        *scratch,
        *[where[i] for i in scratch if i in where],
    ]
    nonzeros = [i in where for i in range(len(refs))]
    derivative, flags = jvp_jaxpr(discharge_jaxpr(kernel), nonzeros, instantiate_outs=False)
    live_outs = [i for i, flag in enumerate(flags) if flag]

    def run(*cells: Value) -> list[Value]:
        by_place = dict(zip(order, cells, strict=True))
        values = [lax.get(by_place[i], index=_WHOLE) for i in range(len(types))]
        found = apply_jaxpr(derivative, values)
        for i in (*outs, *scratch):
            after = {i: found[i]}
            if i in where:
                moved = found[len(refs) + live_outs.index(i)] if flags[i] else None
                after[where[i]] = full(refs[i].inner, 0) if moved is None else moved
            for k, x in after.items():
                if x is not values[k]:  # otherwise the cell holds it already
                    lax.swap(by_place[k], x, index=_WHOLE)
        return []

    made = stage(run, [types[i] for i in order])
    smaller, _ = dce_jaxpr(made.jaxpr, keep_inputs=True)
    return made.replace(jaxpr=smaller)


# -- batches -----------------------------------------------------------------------------------


def batch_call(axis_size: int, vals: Any, dims: Any, **params: Any) -> OutAndDim:
    """The batch rule: add a first axis to the grid, which is hidden from the kernel."""
    shapes = zip(vals, dims, strict=True)
    avals = [_unbatched(get_aval(x).strong, d) for x, d in shapes]
    layout = layout_of(avals, params)
    first = layout.n_dynamic + layout.n_index
    if any(d is not None for d in dims[:first]):
        return one_by_one(lax.pallas_call.primitive, vals, dims, axis_size, params)
    fixed, operands = split_list(vals, first)
    in_dims: list[int | None] = list(dims[first:])
    for i in layout.aliases.values():
        operands[i], in_dims[i] = materialize(operands[i], in_dims[i], axis_size), 0
    all_dims = [*in_dims, *[0] * layout.n_out]
    mapping, scalars = params["grid_mapping"], avals[layout.n_dynamic : first]
    records = [
        _more(r, b, d)
        for r, b, d in zip(mapping.block_mappings, layout.blocks, all_dims, strict=True)
    ]
    maps = tuple(
        _batched_map(k, b, d, len(layout.grid), scalars)
        for k, (b, d) in enumerate(zip(layout.blocks, all_dims, strict=True))
    )
    made = {
        **params,
        "grid_mapping": Record(
            "GridMapping", grid=(int(axis_size), *mapping.grid), block_mappings=tuple(records)
        ),
        "index_maps": maps,
        "vmapped_dims": (0, *[d + 1 for d in params["vmapped_dims"]]),
        "out_avals": tuple(a.update(shape=(int(axis_size), *a.shape)) for a in params["out_avals"]),
    }
    return lax.pallas_call(*fixed, *operands, **made), [0] * layout.n_out


def _unbatched(aval: ShapedArray, dim: int | None) -> ShapedArray:
    if dim is None:
        return aval
    return aval.update(shape=(*aval.shape[:dim], *aval.shape[dim + 1 :]))


def _more(record: Record | None, block: Block, dim: int | None) -> Record | None:
    """Return the record of a block with one more dimension, which is squeezed.

    A block without a record is the whole array.
    """
    if dim is None:
        return record
    shape = block.aval.shape if record is None else record.block_shape
    return Record("BlockMapping", block_shape=(*shape[:dim], Record("Squeezed"), *shape[dim:]))


def _batched_map(
    k: int, block: Block, dim: int | None, n_grid: int, scalars: Sequence[Aval]
) -> ClosedJaxpr:
    """Return the index map of a block for a grid with one more axis in front."""
    found = index_map_of(k, block)

    def place(new: Value, *rest: Value) -> list[Value]:
        if found is None:
            places: list[Any] = [scalar_lit(0, INT32)] * len(block.dims)
        else:
            places = list(apply_jaxpr(found, rest))
        if dim is not None:
            places.insert(dim, new)
        return places

    ids = [ShapedArray((), INT32)] * (1 + n_grid)
    refs = [RefType(a) for a in scalars] if found is None else found.in_avals[n_grid:]
    return stage(place, [*ids, *refs])

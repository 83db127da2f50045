"""The row of `pallas_call`: its type, and its evaluation on NumPy as a loop over the grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.runs import Run
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.cost import cost_jaxpr
from jaxprtool.interpreters.evaluation.grid import Grid, running_on
from jaxprtool.interpreters.evaluation.limits import check_room, steps
from jaxprtool.interpreters.evaluation.state_values import Cell
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, JaxprEqn, Value
from jaxprtool.ir.walk import all_eqns
from jaxprtool.rules.define import define
from jaxprtool.rules.pallas.expansion import lower_call
from jaxprtool.rules.pallas.layout import Block, Layout, grid_of, held, layout_of, nothing_in
from jaxprtool.rules.pallas.places import index_map_of
from jaxprtool.rules.pallas.transformed import batch_call, jvp_call

__all__: list[str] = []


# -- types -------------------------------------------------------------------------------------


def _types(*avals: Aval, **params: Any) -> list[Aval]:
    jaxpr: ClosedJaxpr = params["jaxpr"]
    for a in avals:
        if not isinstance(a, ShapedArray):
            ill_typed(f"pallas_call takes arrays, and not {a}", "operand-types")
    layout = layout_of(avals, params)
    if jaxpr.jaxpr.outs:
        n = len(jaxpr.jaxpr.outs)
        ill_typed(f"pallas_call: its jaxpr has {counted(n, 'result')}, and needs none")
    _check_grid(avals, layout, params["vmapped_dims"])
    _check_cells(avals, layout, jaxpr)
    _check_index_maps(avals, layout)
    for o, i in layout.aliases.items():
        if layout.blocks[i].aval is not layout.blocks[layout.n_in + o].aval:
            ill_typed(
                f"pallas_call: input_output_aliases has operand {i}, {layout.blocks[i].aval}, "
                f"and result {o}, {layout.blocks[layout.n_in + o].aval}",
                "param-value",
            )
    n_seen = len(layout.grid) - len(params["vmapped_dims"])
    _check_axes(jaxpr, n_seen)
    return [b.aval for b in layout.blocks[layout.n_in :]]


def _check_grid(avals: Sequence[Any], layout: Layout, vmapped: Sequence[int]) -> None:
    for a in avals[: layout.n_dynamic]:
        if a.shape or not a.dtype.is_integer:
            ill_typed(f"pallas_call: a size of the grid is an integer, and not {a}")
    if any(not 0 <= d < len(layout.grid) for d in vmapped) or len({*vmapped}) != len(vmapped):
        ill_typed(
            f"pallas_call: vmapped_dims={vmapped}, and the grid is {layout.grid}", "param-value"
        )


def _check_cells(avals: Sequence[Aval], layout: Layout, jaxpr: ClosedJaxpr) -> None:
    """Check that the references that the kernel takes match the blocks that it is given."""
    binders = jaxpr.jaxpr.in_binders
    first = layout.n_index
    for k, (v, a) in enumerate(zip(binders, avals[layout.n_dynamic :], strict=False)):
        if k < first and held(f"operand {k} of index maps", v.aval) is not a:
            ill_typed(
                f"pallas_call: operand {k} of index maps is {a}, and its jaxpr takes {v.aval}"
            )
    for k, block in enumerate(layout.blocks):
        shape = tuple(d.size for d in block.dims if not d.squeezed)
        wanted = block.aval.update(shape=shape)
        if held(f"block {k}", binders[first + k].aval) is not wanted:
            ill_typed(
                f"pallas_call: block {k} of grid_mapping is {wanted}, and its jaxpr takes {binders[first + k].aval}",
                "argument-type",
            )


def _check_index_maps(avals: Sequence[Aval], layout: Layout) -> None:
    for k, block in enumerate(layout.blocks):
        if block.index_map is None:
            continue
        takes, gives = block.index_map.in_avals, block.index_map.out_avals
        n = len(layout.grid) + layout.n_index
        integers = all(
            isinstance(a, ShapedArray) and a.dtype.is_integer and not a.shape for a in gives
        )
        if len(takes) != n or len(gives) != len(block.dims) or not integers:
            ill_typed(
                f"pallas_call: the map of block {k} in index_maps takes {counted(len(takes), 'argument')} and gives {gives}; "
                f"it needs to take {n} and to give {counted(len(block.dims), 'integer')}",
                "rule-type",
            )


def _check_axes(jaxpr: ClosedJaxpr, n: int) -> None:
    for eqn in all_eqns(jaxpr.jaxpr):
        if eqn.primitive in _OF_GRID:
            axis = eqn.params["axis"]
            if isinstance(axis, int) and not 0 <= axis < n:
                ill_typed(
                    f"pallas_call: its jaxpr has {eqn.primitive}[axis={axis}], and the grid has {n} axes",
                    "axis-range",
                )


_OF_GRID = (lax.program_id.primitive, lax.num_programs.primitive)


# -- evaluation --------------------------------------------------------------------------------


def _run(xp: Namespace, *values: Value, **params: Any) -> list[Value]:
    """Evaluate as JAX's interpret mode does.

    Blocks are written back into copies of the arrays, those of operands too.
    """
    layout = layout_of([get_aval(x).strong for x in values], params)
    given = iter(values[: layout.n_dynamic])
    sizes = [int(next(given)) if n is None else n for n in layout.grid]
    first = layout.n_dynamic + layout.n_index
    scalars = [Cell(xp.array(x), RefType(get_aval(x))) for x in values[layout.n_dynamic : first]]
    operands = values[first:]
    starts = [
        operands[layout.aliases[o]] if o in layout.aliases else _nothing(xp, b.aval)
        for o, b in enumerate(layout.blocks[layout.n_in :])
    ]
    arrays = [_padded(xp, x, b) for x, b in zip([*operands, *starts], layout.blocks, strict=True)]
    scratch = [Cell(_nothing(xp, held("scratch", a)), a) for a in layout.scratch]
    maps = [index_map_of(k, b) for k, b in enumerate(layout.blocks)]
    vmapped, kernel = params["vmapped_dims"], params["jaxpr"]
    seen = [k for k in range(len(sizes)) if k not in vmapped]
    int32 = xp.dtype_of_aval(INT32)
    points = itertools.product(*map(range, sizes))
    for _, point in zip(steps("pallas_call", math.prod(sizes)), points, strict=False):
        ids = [xp.asarray(i, int32) for i in point]
        blocks = [
            _view(x, b, xp.run(m, [*ids, *scalars]) if m else [0] * len(b.dims))
            for x, b, m in zip(arrays, layout.blocks, maps, strict=True)
        ]
        with running_on(Grid([point[k] for k in seen], [sizes[k] for k in seen])):
            xp.run(kernel, [*scalars, *blocks, *scratch])
    results = zip(arrays[layout.n_in :], layout.blocks[layout.n_in :], strict=True)
    return [_unpadded(x, b) for x, b in results]


def _nothing(xp: Namespace, aval: ShapedArray) -> Value:
    return xp.full(aval.shape, nothing_in(aval.dtype), xp.dtype_of_aval(aval.dtype))


def _padded(xp: Namespace, x: Value, block: Block) -> Value:
    """Return a copy of an array with padding before and after it, filled with the value for unwritten elements."""
    widths = block.padding
    shape = tuple(n + low + high for n, (low, high) in zip(block.aval.shape, widths, strict=True))
    check_room(math.prod(shape) * block.aval.dtype.itemsize, "pallas_call")
    out = _nothing(xp, block.aval.update(shape=shape))
    out[_inside(block)] = x
    return out


def _inside(block: Block) -> tuple[Any, ...]:
    """Return the index of the array within its padded copy."""
    pairs = zip(block.aval.shape, block.padding, strict=True)
    return (*[slice(low, low + n) for n, (low, _) in pairs], ...)


def _unpadded(x: Value, block: Block) -> Value:
    return x[_inside(block)]


def _view(x: Value, block: Block, places: Sequence[Value]) -> Cell:
    """Return a reference to the block at a position, which is clamped into the array as in a dynamic slice."""
    index: list[Any] = []
    for n, dim, place in zip(x.shape, block.dims, places, strict=True):
        start = min(max(int(place) * dim.step, 0), n - dim.size)
        index.append(start if dim.squeezed else slice(start, start + dim.size))
    shape = tuple(d.size for d in block.dims if not d.squeezed)
    return Cell(x[(*index, ...)], RefType(block.aval.update(shape=shape)))


# -- the row -----------------------------------------------------------------------------------


def _cost(ins: Sequence[Aval], outs: Sequence[Aval], **params: Any) -> Any:
    """The cost rule: the cost of the kernel times the number of grid points.

    A size that an operand gives counts as 1.
    """
    return cost_jaxpr(params["jaxpr"]) * _points(params)


def _points(params: dict[str, Any]) -> int:
    return math.prod(1 if size is None else size for size in grid_of(params))


def _dce(eqn: JaxprEqn, used_outs: Sequence[bool]) -> tuple[JaxprEqn, list[bool]]:
    """Keep the whole call: a kernel computes all of its results or none."""
    return eqn, [True] * len(eqn.inputs)


_FORWARD = "JAX has no reverse derivative of a kernel; give the function a custom_vjp rule"

define(
    lax.pallas_call,
    abstract_eval=_types,
    impl=_run,
    jvp=jvp_call,
    transpose=unsupported(_FORWARD),
    linearize=unsupported(_FORWARD),
    batch=batch_call,
    lower=lower_call,
    cost=_cost,
    dce=_dce,
    derivative="rule",
    effects="inside",
    runs=lambda params: [Run("jaxpr", params["jaxpr"], _points(params))],
)

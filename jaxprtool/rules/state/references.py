"""Rows of `new_ref`, `empty_ref`, `freeze`, `free_ref`, `get`, `swap`, `addupdate` and `run_state`.

They are evaluated on cells, NumPy arrays that are changed in place. For transformations and XLA,
references are discharged first (`interpreters/discharge.py`): the program becomes one without
references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.bind import base_trace, set_current_trace
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.runs import call_of
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import FREE, cost_jaxpr
from jaxprtool.interpreters.discharge import State, discharge_jaxpr
from jaxprtool.interpreters.evaluation.state_values import Cell
from jaxprtool.interpreters.jvp import instantiate
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.diagnostics import counted
from jaxprtool.ir.dtypes import BOOL
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.references import Operand
from jaxprtool.makers.keys import MOVES_KEYS
from jaxprtool.rules.define import define
from jaxprtool.rules.state.indices import (
    Index,
    Path,
    Range,
    add_at,
    look,
    look_back,
    read,
    resolved,
    selected_shape,
    viewed,
    where_numbers_go,
    write,
)

__all__ = [
    "NO_RULES",
    "discharge_get",
    "discharge_swap",
    "in_pure_operations",
    "inside",
    "part_of_cell",
    "write_path",
    "written_type",
]

_DISCHARGED = unsupported("references are discharged first; `jaxprtool discharge` does")
NO_RULES = dict.fromkeys(("jvp", "transpose", "batch", "lower"), _DISCHARGED)


def _inner(name: str, ref: Value) -> ShapedArray:
    """Return the type of the array in a reference; raise a type error for anything else."""
    if not isinstance(ref, RefType) or not isinstance(ref.inner, ShapedArray):
        ill_typed(f"{name} needs a reference to an array, and its operand is {ref}")
    return ref.inner.strong


def _same_array(aval: Aval, other: Aval) -> bool:
    """Whether two types have the same shape and element type, whatever their memory, sharding and varying axes."""
    arrays = isinstance(aval, ShapedArray) and isinstance(other, ShapedArray)
    return arrays and aval.shape == other.shape and aval.dtype is other.dtype


# -- new_ref, freeze ---------------------------------------------------------------------------


def _new_type(value: Aval, *, memory_space: ParamValue, **_: ParamValue) -> RefType:
    if not isinstance(value, ShapedArray):
        ill_typed(f"new_ref makes a reference to an array, and its operand is {value}")
    return RefType(value.strong, "" if memory_space is None else str(memory_space))


def _new_cell(xp: Namespace, value: Value, **_: ParamValue) -> Cell:
    array = xp.array(value)  # a copy: the cell is changed in place
    return Cell(array, RefType(get_aval(array)))


define(
    lax.new_ref,
    abstract_eval=_new_type,
    impl=_new_cell,
    cost=FREE,
    varying="rule",
    discharge=lambda value, *, memory_space, **_: State(value, RefType(get_aval(value))),
    **NO_RULES,
)


def _held_type(ty: Any) -> ShapedArray:
    """Return the type of the contents, given by a param."""
    if not isinstance(ty, ShapedArray):
        ill_typed(f"empty_ref ty={ty} is not the type of an array", "param-value")
    return ty.strong


def _empty_type(*, ty: ParamValue, memory_space: ParamValue, pin: bool) -> RefType:
    return RefType(_held_type(ty), "" if memory_space is None else str(memory_space))


def _empty_cell(xp: Namespace, *, ty: ParamValue, **_: ParamValue) -> Cell:
    held = _held_type(ty)
    return Cell(xp.zeros(held.shape, xp.dtype_of_aval(held.dtype)), RefType(held))


def _empty_state(*, ty: ParamValue, **_: ParamValue) -> State:
    held = _held_type(ty)
    zero = scalar_lit(False if held.dtype.kind == "b" else 0, held.dtype)
    return State(lax.broadcast_in_dim(zero, shape=held.shape), RefType(held))


define(
    lax.empty_ref,
    abstract_eval=_empty_type,
    impl=_empty_cell,
    cost=FREE,
    varying="rule",
    discharge=_empty_state,
    **NO_RULES,
)
define(
    lax.freeze,
    abstract_eval=lambda ref: _inner("freeze", ref),
    impl=lambda xp, cell: cell.value[()],
    cost=FREE,
    discharge=lambda ref: ref.value,
    effects=True,
    liveness="consumes",
    varying="rule",
    **NO_RULES,
)


def _free_type(ref: Aval) -> list[Aval]:
    _inner("free_ref", ref)
    return []


define(
    lax.free_ref,
    abstract_eval=_free_type,
    impl=lambda xp, cell: [],
    cost=FREE,
    discharge=lambda ref: [],
    liveness="consumes",
    **NO_RULES,
)


# -- get, swap, addupdate ----------------------------------------------------------------------


def _path(name: str, inner: Any, operands: Sequence[Any], params: dict[str, Any]) -> Path:
    """Return the index of an equation, checked against the types of its operands."""
    index = params["index"]
    path, used = resolved(name, index, inner.shape), [x.position for x in index.operands()]
    if used != [*range(len(operands))]:
        given, needed = counted(len(operands), "operand"), ", ".join(map(str, index.operands()))
        ill_typed(
            f"{name} has the index {index}, with {needed or 'no operands'}, and {given} for it",
            "operand-count",
        )
    for k, aval in enumerate(operands):
        if not aval.dtype.is_integer:
            ill_typed(f"{name}: operand {k} of the index is no integer", "operand-types")
    return path


class _Operands(NamedTuple):
    """The operands after the reference and the value.

    Attributes:
      positions: the operands of the index.
      mask: the mask of the elements that are read or written; None for all.
      other: the value of masked elements in a read; None for none.
    """

    positions: Sequence[Any]
    mask: Any
    other: Any


def _operands(operands: Sequence[Value], params: dict[str, ParamValue]) -> _Operands:
    rest = list(operands)
    other = rest.pop() if params["other"] else None
    mask = rest.pop() if params["mask"] else None
    return _Operands(rest, mask, other)


def _selected(
    name: str, ref: Value, operands: Sequence[Any], params: dict[str, Any]
) -> ShapedArray:
    inner = _inner(name, ref)
    if len(operands) < params["mask"] + params["other"]:
        flags = f"mask={params['mask']} and other={params['other']}"
        ill_typed(
            f"{name} with {flags} has only {counted(len(operands), 'operand')} for them",
            "operand-count",
        )
    given = _operands(operands, params)
    for step in _path(name, inner, given.positions, params):
        inner = (
            inner.update(shape=selected_shape(step, given.positions))
            if isinstance(step, tuple)
            else viewed(name, step, inner)
        )
    mask_type = inner.update(dtype=BOOL)
    if given.mask is not None and not _same_array(given.mask, mask_type):
        ill_typed(f"{name} takes the mask {given.mask}, and {mask_type} is needed", "mask-type")
    others = (inner, inner.update(shape=(), spec=()))
    if given.other is not None and (
        given.mask is None or not any(_same_array(given.other, a) for a in others)
    ):
        ill_typed(f"{name} takes other={given.other} beside a mask, of {inner}", "mask-type")
    return inner


def _get_type(ref: Aval, *operands: Aval, **params: ParamValue) -> ShapedArray:
    return _selected("get", ref, operands, params)


def written_type(
    name: str, ref: Aval, value: Aval, operands: Sequence[Aval], params: Any
) -> ShapedArray:
    """Check that a value fits the elements that an index selects, and return their type."""
    part = _selected(name, ref, operands, params)
    if not _same_array(value, part):
        ill_typed(f"{name} puts {value} where {part} is")
    return part


def _numpy_index(
    xp: Namespace, index: Index, operands: Sequence[Value], shape: Sequence[int]
) -> Value:
    """Return an index in NumPy's form.

    Elements of arrays of integers in it may still be out of bounds.
    """
    found = []
    for x, n in zip(index, shape, strict=True):
        at: Any = x.start if isinstance(x, Range) else x
        if isinstance(at, Operand):
            at = operands[at.position]
            at = xp.where(at < 0, at + n, at)
        if isinstance(x, Range):
            start = min(max(int(at), 0), n - x.span)
            found.append(slice(start, start + x.span, x.stride))
        elif isinstance(x, Operand) and not at.shape:
            found.append(min(max(int(at), 0), n - 1))
        else:
            found.append(at)
    return tuple(found)


def _clipped(xp: Namespace, index: tuple[Value, ...], shape: Sequence[int]) -> tuple[Value, ...]:
    """Return the index with all integers clipped to the bounds of the array."""
    return tuple(
        x if type(x) in (slice, int) else xp.clip(x, 0, n - 1)
        for x, n in zip(index, shape, strict=True)
    )


def inside(
    xp: Namespace, index: tuple[Value, ...], value: Value, shape: Sequence[int]
) -> tuple[Value, Value]:
    """Return an index and the value to write there, both without the elements that are out of
    bounds.
    """
    arrays = [i for i, x in enumerate(index) if type(x) not in (slice, int)]
    if not arrays:
        return index, value
    kept = xp.logical_and.reduce([(index[i] >= 0) & (index[i] < shape[i]) for i in arrays])
    if kept.all():
        return index, value
    small = tuple(x[kept] if i in arrays else x for i, x in enumerate(index))
    before = where_numbers_go([type(x) is not slice for x in index])
    return small, value[(slice(None),) * before + (kept,)]


def part_of_cell(
    xp: Namespace, cell: Cell, operands: Sequence[Value], params: Any
) -> tuple[Value, Value]:
    """Return the array to which the last index of an equation applies (a view of the cell's array), and that index."""
    array, index = cell.value, ()
    path: Any = resolved("reference", params["index"], array.shape)
    for i, one in enumerate(path):
        index = _numpy_index(xp, one, operands, array.shape)
        if i + 1 < len(path):
            array = array[(*_clipped(xp, index, array.shape), ...)]
    return array, index


def _is_plain(shape: tuple[int, ...], params: dict[str, Any]) -> bool:
    """Whether NumPy can use the index: it has no reshapes, transposes or bitcasts, and there is no
    mask.
    """
    path = resolved("reference", params["index"], shape)
    return not params["mask"] and all(isinstance(step, tuple) for step in path)


def in_pure_operations(rule: Callable[..., Value], cell: Cell, args: Any, params: Any) -> Value:
    """Evaluate by a discharge rule: apply it to the contents of a cell, and store the new contents
    there.
    """
    before = cell.value.copy()  # a copy, since a result may be a view of it
    state = State(before, cell.aval)
    with set_current_trace(base_trace()):
        out = rule(state, *args, **params)
    if state.value is not before:
        cell.value[...] = state.value
    return out


def _get(xp: Namespace, cell: Cell, *operands: Value, **params: ParamValue) -> Value:
    if not _is_plain(cell.value.shape, params):
        return in_pure_operations(discharge_get, cell, operands, params)
    given = _operands(operands, params)
    array, index = part_of_cell(xp, cell, given.positions, params)
    return xp.array(array[_clipped(xp, index, array.shape)])[()]


def _swap(xp: Namespace, cell: Cell, value: Value, *operands: Value, **params: ParamValue) -> Value:
    if not _is_plain(cell.value.shape, params):
        return in_pure_operations(discharge_swap, cell, (value, *operands), params)
    given = _operands(operands, params)
    array, index = part_of_cell(xp, cell, given.positions, params)
    old = xp.array(array[_clipped(xp, index, array.shape)])[()]
    index, value = inside(xp, index, value, array.shape)
    array[index] = value
    return old


def _addupdate(
    xp: Namespace, cell: Cell, value: Value, *operands: Value, **params: ParamValue
) -> list[Value]:
    if not _is_plain(cell.value.shape, params):
        return in_pure_operations(_discharge_add, cell, (value, *operands), params)
    given = _operands(operands, params)
    array, index = part_of_cell(xp, cell, given.positions, params)
    xp.add.at(array, *inside(xp, index, value, array.shape))
    return []


def _read_path(x: Value, path: Path, operands: Sequence[Value]) -> Value:
    for step in path:
        x = read(x, step, operands) if isinstance(step, tuple) else look(x, step)
    return x


def write_path(
    x: Value, path: Path, operands: Sequence[Value], value: Value, put: Callable[..., Value]
) -> Value:
    """Return x with a value written at the end of a path of indices and views; `put` does the last write."""
    if not path:
        return value
    first, *rest = path
    if not isinstance(first, tuple):
        part = write_path(look(x, first), tuple(rest), operands, value, put)
        return look_back(part, first, get_aval(x).strong)
    if not rest:
        return put(x, first, operands, value)
    part = write_path(read(x, first, operands), tuple(rest), operands, value, put)
    return write(x, first, operands, part)


class _Room:
    """A cell that is padded at its end while a masked slice with a dynamic start is read or
    written.

    JAX does not move such a slice into the bounds of the cell, since the mask excludes the elements
    outside.
    """

    def __init__(self, ref: State, path: Path, mask: Any):
        one = path[0] if len(path) == 1 else ()
        last = one if isinstance(one, tuple) else ()
        moves = any(isinstance(x, Range) and isinstance(x.start, Operand) for x in last)
        self.ref, self.aval = ref, get_aval(ref.value).strong
        widths = [x.span if isinstance(x, Range) else 1 for x in last]
        self.needed = mask is not None and moves
        self.config = tuple((0, n, 0) for n in widths)

    @property
    def value(self) -> Value:
        if not self.needed:
            return self.ref.value
        zero = scalar_lit(False if self.aval.dtype.kind == "b" else 0, self.aval.dtype)
        return lax.pad(self.ref.value, zero, padding_config=self.config)

    def without(self, x: Value) -> Value:
        """Remove the padding."""
        if not self.needed:
            return x
        starts = (0,) * self.aval.ndim
        return lax.slice(x, start_indices=starts, limit_indices=self.aval.shape)


def discharge_get(ref: State, *operands: Value, **params: Any) -> Value:
    """Return the contents of a cell at an index."""
    given = _operands(operands, params)
    path = resolved("get", params["index"], get_aval(ref.value).shape)
    found = _read_path(_Room(ref, path, given.mask).value, path, given.positions)
    return found if given.other is None else _choose(given.mask, found, given.other)


def _choose(mask: Value, yes: Value, no: Value) -> Value:
    """Return `yes` where mask holds, and elsewhere `no`, which may be a scalar."""
    shape = get_aval(yes).shape
    if get_aval(no).shape != shape:
        no = lax.broadcast_in_dim(no, shape=shape, broadcast_dimensions=())
    return lax.select_n(mask, no, yes)


def discharge_swap(ref: State, value: Value, *operands: Value, **params: Any) -> Value:
    """Return the old contents of a cell at an index, and store a value there."""
    given = _operands(operands, params)
    path = resolved("swap", params["index"], get_aval(ref.value).shape)
    room = _Room(ref, path, given.mask)
    cell = room.value
    old = _read_path(cell, path, given.positions)
    if given.mask is not None:
        old, value = _choose(given.mask, old, value), _choose(given.mask, value, old)
    ref.value = room.without(write_path(cell, path, given.positions, value, write))
    return old


def _discharge_add(ref: State, value: Value, *operands: Value, **params: Any) -> list[Value]:
    given = _operands(operands, params)
    path = resolved("addupdate", params["index"], get_aval(ref.value).shape)
    if given.mask is not None:
        value = _choose(given.mask, value, scalar_lit(0, get_aval(value).dtype))
    ref.value = write_path(ref.value, path, given.positions, value, add_at)
    return []


define(
    lax.get,
    abstract_eval=_get_type,
    impl=_get,
    cost=FREE,
    varying="rule",
    discharge=discharge_get,
    **NO_RULES,
)
define(
    lax.swap,
    abstract_eval=lambda ref, value, *operands, **params: written_type(
        "swap", ref, value, operands, params
    ),
    impl=_swap,
    cost=FREE,
    discharge=discharge_swap,
    effects=True,
    varying="rule",
    **NO_RULES,
)


def _add_types(ref: Aval, value: Aval, *operands: Aval, **params: ParamValue) -> list[Aval]:
    part = written_type("addupdate", ref, value, operands, params)
    if part.dtype.kind not in "iufc":
        ill_typed(f"addupdate adds numbers, and does not take {part}", "operand-dtype")
    return []


define(
    lax.addupdate,
    abstract_eval=_add_types,
    impl=_addupdate,
    cost=lambda ins, outs, **_: max(ins[1].size, 0),
    discharge=_discharge_add,
    varying="rule",
    **NO_RULES,
)


# -- run_state ---------------------------------------------------------------------------------


def _run_types(
    *avals: Aval, jaxpr: ClosedJaxpr, is_initialized: ParamValue, **_: ParamValue
) -> list[Aval]:
    if not isinstance(jaxpr, ClosedJaxpr):
        ill_typed(f"run_state: the param jaxpr is not a jaxpr: {jaxpr}", "bad-param")
    if not isinstance(is_initialized, (tuple, list)):
        ill_typed(
            f"run_state: is_initialized is {is_initialized}, and has to be a tuple", "bad-param"
        )
    if not all(is_initialized):
        ill_typed(
            f"run_state: is_initialized={is_initialized}: cells that hold nothing at the start are not known here"
        )
    binders = jaxpr.jaxpr.in_binders
    if len(avals) != len(binders):
        ill_typed(
            f"run_state: its jaxpr takes {counted(len(binders), 'reference')}, and {counted(len(avals), 'operand')} are given",
            "argument-count",
        )
    for i, (a, v) in enumerate(zip(avals, binders, strict=True)):
        if _inner("run_state: its jaxpr", v.aval) is not a:
            ill_typed(
                f"run_state: operand {i} is {a}, and the jaxpr takes {v.aval} there",
                "argument-type",
            )
    if jaxpr.jaxpr.outs:
        ill_typed(
            f"run_state: its jaxpr has {counted(len(jaxpr.jaxpr.outs), 'result')}, and needs none"
        )
    return list(avals)


def _run(xp: Namespace, *args: Value, jaxpr: ClosedJaxpr, **_: ParamValue) -> list[Value]:
    cells = [_new_cell(xp, x) for x in args]
    xp.run(jaxpr, cells)
    return [c.value[()] for c in cells]


def _discharge_run(*args: Value, jaxpr: ClosedJaxpr, **_: ParamValue) -> list[Value]:
    return apply_jaxpr(discharge_jaxpr(jaxpr), args)


define(
    lax.run_state,
    abstract_eval=_run_types,
    impl=_run,
    cost=lambda ins, outs, *, jaxpr, **_: cost_jaxpr(jaxpr),
    runs=call_of("jaxpr"),
    discharge=_discharge_run,
    varying="rule",
    **NO_RULES,
)


# -- broadcast_to ------------------------------------------------------------------------------


def _broadcast_type(x: Aval, *, shape: tuple[int, ...]) -> ShapedArray:
    extra = len(shape) - len(x.shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[extra:], strict=True)):
        ill_typed(f"broadcast_to: {x} does not stretch to shape={shape}", "param-value")
    return x.update(shape=tuple(shape))


def _stretched(x: Value, shape: tuple[int, ...]) -> Value:
    """Broadcast x to a shape by `broadcast_in_dim`, which has a transpose rule."""
    extra = len(shape) - len(get_aval(x).shape)
    kept = tuple(range(extra, len(shape)))
    return lax.broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept)


def _broadcast_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, shape: tuple[int, ...]
) -> PrimalAndTangent:
    return lax.broadcast_to(*primals, shape=shape), _stretched(instantiate(tangents[0]), shape)


def _broadcast_transpose(ct: Value, x: Value, *, shape: tuple[int, ...]) -> list[Value]:
    extra = len(shape) - len(x.aval.shape)
    axes = [i for i in range(len(shape)) if i < extra or x.aval.shape[i - extra] != shape[i]]
    summed = lax.reduce_sum(ct, axes=tuple(axes)) if axes else ct
    return [lax.reshape(summed, new_sizes=x.aval.shape)]


def _broadcast_batch(
    axis_size: int, vals: Value, dims: Any, *, shape: tuple[int, ...]
) -> OutAndDim:
    x = moveaxis(vals[0], dims[0], 0)
    own = get_aval(x).shape[1:]
    kept = (0, *range(1 + len(shape) - len(own), 1 + len(shape)))
    return lax.broadcast_in_dim(x, shape=(axis_size, *shape), broadcast_dimensions=kept), 0


define(
    lax.broadcast_to,
    abstract_eval=_broadcast_type,
    impl=lambda xp, x, *, shape: xp.broadcast_to(x, shape),
    jvp=_broadcast_jvp,
    transpose=_broadcast_transpose,
    batch=_broadcast_batch,
    lower=lambda ctx, x, *, shape: ctx.broadcast(
        x, ctx.out_aval, range(len(shape) - len(x.aval.shape), len(shape))
    ),
    cost=FREE,
    keys=MOVES_KEYS,
    elements="kept",
)

"""The layout of a `pallas_call`: which operands are grid sizes, which are for index maps, and the
blocks of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import RefType, ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, are, counted, fail
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr
from jaxprtool.ir.params import Opaque, Record, Word

__all__ = ["Block", "Dim", "Layout", "held", "layout_of", "nothing_in"]


class Dim(NamedTuple):
    """A dimension of a block.

    Attributes:
      size: the number of elements.
      step: by how many elements the block moves when its position in the index map grows by 1.
      squeezed: whether the dimension is hidden from the kernel.
      padding: the number of elements to add before and after the array.
    """

    size: int
    step: int
    squeezed: bool = False
    padding: tuple[int, int] = (0, 0)


class Block(NamedTuple):
    """The part of an array that a kernel gets at each grid point.

    Attributes:
      aval: the type of the array.
      dims: the dimensions of the block.
      index_map: (grid point, operands of index maps) -> the block's position along each dimension;
        None where the block is the whole array.
    """

    aval: ShapedArray
    dims: tuple[Dim, ...]
    index_map: ClosedJaxpr | None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.dims)

    @property
    def squeezed(self) -> tuple[int, ...]:
        """The dimensions that the kernel does not see."""
        return tuple(i for i, d in enumerate(self.dims) if d.squeezed)

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """The padding before and after the array along each dimension, so that blocks of `Blocked`
        dimensions divide it.
        """
        found = []
        for n, d in zip(self.aval.shape, self.dims, strict=True):
            low, high = d.padding
            inside = n + low + high
            found.append((low, high + (-inside % d.size if d.size else 0)))
        return tuple(found)


class Layout(NamedTuple):
    """The operands and results of a `pallas_call`.

    Attributes:
      grid: the sizes of the grid; None for one that an operand gives.
      n_dynamic: the number of operands that give sizes of the grid.
      n_index: the number of operands of the index maps, which come next.
      blocks: the blocks of the remaining operands, then those of the results.
      n_out: the number of results.
      scratch: the types of the references that the kernel gets after the blocks.
      aliases: result -> the operand with whose value it starts, counted among the operands with
        blocks.
    """

    grid: tuple[int | None, ...]
    n_dynamic: int
    n_index: int
    blocks: tuple[Block, ...]
    n_out: int
    scratch: tuple[Aval, ...]
    aliases: dict[int, int]

    @property
    def n_in(self) -> int:
        return len(self.blocks) - self.n_out


def grid_of(params: dict[str, Any]) -> tuple[int | None, ...]:
    """Return the sizes of the grid; None for one that an operand gives."""
    return tuple([_grid_size(n) for n in params["grid_mapping"].grid])


def layout_of(in_avals: Sequence[Aval], params: dict[str, Any]) -> Layout:
    """Return the layout for the types of the operands and the params; raise a type error where they
    do not fit together.
    """
    jaxpr: ClosedJaxpr = params["jaxpr"]
    mapping, outs = params["grid_mapping"], params["out_avals"]
    if outs is None:
        ill_typed(
            "pallas_call: out_avals is None, and has to be the types of the results", "bad-param"
        )
    grid = grid_of(params)
    n_dynamic, n_out = grid.count(None), len(outs)
    records = mapping.block_mappings
    n_index = len(in_avals) - n_dynamic - (len(records) - n_out)
    binders = jaxpr.jaxpr.in_binders
    if n_index < 0 or len(records) < n_out or n_index + len(records) > len(binders):
        ill_typed(
            f"pallas_call: {counted(len(in_avals), 'operand')} and {counted(n_out, 'result')} in out_avals do not fit "
            f"{counted(len(records), 'block')} in grid_mapping and {counted(len(binders), 'argument')} of its jaxpr",
            "argument-count",
        )
    maps = params["index_maps"]
    if maps and len(maps) != len(records):
        ill_typed(
            f"pallas_call: there {are(len(records))} blocks, and index_maps has {len(maps)}",
            "param-value",
        )
    arrays = [*in_avals[n_dynamic + n_index :], *outs]
    blocks = tuple(
        _block(i, record, aval, maps[i] if maps else None)
        for i, (record, aval) in enumerate(zip(records, arrays, strict=True))
    )
    scratch = tuple([v.aval for v in binders[n_index + len(blocks) :]])
    aliases = _aliases(params["input_output_aliases"], n_index, len(blocks) - n_out, n_out)
    return Layout(grid, n_dynamic, n_index, blocks, n_out, scratch, aliases)


def _aliases(pairs: Any, n_index: int, n_in: int, n_out: int) -> dict[int, int]:
    """Return `Layout.aliases`.

    The pairs count operands from the first one after the sizes of the grid.
    """
    for i, o in pairs:
        if not (n_index <= i < n_index + n_in and 0 <= o < n_out):
            ill_typed(
                f"pallas_call: input_output_aliases={pairs}, and there are {n_in} operands with blocks after {n_index} "
                f"for index maps, and {counted(n_out, 'result')}",
                "param-value",
            )
    return {o: i - n_index for i, o in pairs}


def _grid_size(n: Any) -> int | None:
    if type(n) is int and n >= 0:
        return n
    if n is None or isinstance(n, (Word, Opaque)):  # DynamicGridDim
        return None
    ill_typed(f"pallas_call: grid_mapping has the size {n} of the grid", "param-value")


def _block(i: int, record: Record | None, aval: Aval, index_map: Any) -> Block:
    if not isinstance(aval, ShapedArray):
        ill_typed(f"pallas_call has blocks of arrays, and {aval} is none")
    if record is None:
        return Block(aval.strong, tuple([Dim(n, n) for n in aval.shape]), None)
    shape = record.block_shape
    if len(shape) != aval.ndim:
        ill_typed(
            f"pallas_call: block {i} of grid_mapping has {counted(len(shape), 'dimension')}, and is of {aval}",
            "param-value",
        )
    if index_map is None:
        index_map = record.fields.get("index_map_jaxpr")
    found = index_map if isinstance(index_map, ClosedJaxpr) else None
    block = Block(aval.strong, tuple([_dim(i, d) for d in shape]), found)
    for n, d, (low, high) in zip(aval.shape, block.dims, block.padding, strict=True):
        if n + low + high < d.size:  # only possible for an empty axis: others are padded to a block
            ill_typed(
                f"pallas_call: block {i} of grid_mapping has {counted(d.size, 'element')} along an axis of {aval}",
                "param-value",
            )
    return block


def _dim(i: int, d: Any) -> Dim:
    """Return one dimension of a block from JAX's record; releases before 0.5 write a number, or None."""
    if d is None or d in _UNSEEN:
        return Dim(1, 1, squeezed=True)
    if type(d) is int and d >= 0:
        return Dim(d, d)
    if isinstance(d, Record) and d.name in ("Squeezed", "Mapped"):
        return Dim(1, 1, squeezed=True)
    if isinstance(d, Record) and type(size := d.fields.get("block_size")) is int and size >= 0:
        if d.name == "Blocked":
            return Dim(size, size)
        if d.name == "Element":
            low, high = d.fields.get("padding", (0, 0))
            return Dim(size, 1, padding=(low, high))
    return ill_typed(
        f"pallas_call: block {i} of grid_mapping has the dimension {d}, which is not known here",
        "unsupported-block",
    )


_UNSEEN = (Word("Squeezed"), Word("Mapped"))


def held(what: str, ref: Aval) -> ShapedArray:
    """Return the type of the array that a reference holds, for semaphores an array of integers.

    Raises a type error for anything else than a reference to an array.
    """
    found = ref.held if isinstance(ref, RefType) else None
    if found is None:
        ill_typed(f"pallas_call: its jaxpr takes {ref} for {what}, and not a reference to an array")
    return found


def nothing_in(dtype: DType) -> Any:
    """Return the value of elements that were never written: NaN, the smallest integer, False."""
    if dtype.kind in "fc":
        return float("nan")
    if dtype.kind == "b":
        return False
    if dtype.kind in "iu":
        return -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    return fail(
        UnsupportedError, f"a kernel with cells of {dtype} cannot run here", "unsupported-type"
    )

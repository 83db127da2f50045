"""Kinds of the params that say how a kernel is called: the grid, and the blocks of arrays."""

from __future__ import annotations

from typing import Annotated, Any

from jaxprtool.core.kinds.containers import NOTHING, TupleOf
from jaxprtool.core.kinds.enums import EnumKind
from jaxprtool.core.kinds.functions import NAME
from jaxprtool.core.kinds.numbers import BOOLEAN
from jaxprtool.core.kinds.objects import BookkeepingOf, Dictionary, ObjectOfJax
from jaxprtool.core.kinds.placement import MESH
from jaxprtool.ir.kinds import Kind
from jaxprtool.ir.params import ParamValue, Record

__all__ = [
    "ATOMIC_OP",
    "AtomicOpType",
    "CompilerHints",
    "CostEstimate",
    "Debug",
    "GridMapping",
    "Interpreted",
    "KernelBackend",
    "KernelMesh",
    "KernelName",
    "Metadata",
]


class GridMappingKind(Kind):
    """Records of the sizes of a grid, and of the blocks that a kernel gets at each of its points."""

    code = "grid-mapping"
    holds_jaxprs = True  # releases to 0.5 print the maps of indices

    def fits(self, value: ParamValue) -> bool:
        if not isinstance(value, Record) or value.name != "GridMapping":
            return False
        grid, blocks = value.fields.get("grid"), value.fields.get("block_mappings")
        return isinstance(grid, tuple) and BLOCKS.fits(blocks)


class BlockKind(Kind):
    """Records of the shape of a block; None for a whole array, to 0.4.30."""

    def fits(self, value: ParamValue) -> bool:
        return value is None or (
            isinstance(value, Record) and isinstance(value.fields.get("block_shape"), tuple)
        )


BLOCKS = TupleOf(BlockKind("BlockMapping", "a BlockMapping(block_shape)", "block mappings"))
GRID_MAPPING = GridMappingKind(
    "GridMapping",
    "a GridMapping(grid, block_mappings)",
    "grid mappings",
    "the grid of a kernel, and a BlockMapping(block_shape) for each of its blocks",
)
_DICTIONARY = Dictionary("dict", "a dict", "dicts")
_HINTS = ObjectOfJax("CompilerParams", "compiler params", "compiler params", classes=r"\w*Params")
_COST = ObjectOfJax("CostEstimate", "a cost estimate", "cost estimates", classes="CostEstimate")
_MESH_OF_CORES = ObjectOfJax("KernelMesh", "a mesh", "meshes", classes=r"\w*Mesh")
_NAME = (NAME, NOTHING)
ATOMIC_OP = EnumKind("AtomicOpType", ("XCHG", "ADD", "MAX", "MIN", "AND", "OR", "XOR"))

AtomicOpType = Annotated[Any, ATOMIC_OP]
GridMapping = Annotated[Any, GRID_MAPPING]
CompilerHints = Annotated[Any, BookkeepingOf(_HINTS, _DICTIONARY, NOTHING, name="CompilerHints")]
CostEstimate = Annotated[Any, BookkeepingOf(_COST, NOTHING, name="CostEstimate")]
Debug = Annotated[Any, BookkeepingOf(BOOLEAN, name="Debug")]
Interpreted = Annotated[Any, BookkeepingOf(BOOLEAN, _HINTS, name="Interpreted")]
KernelBackend = Annotated[Any, BookkeepingOf(*_NAME, name="KernelBackend")]
KernelMesh = Annotated[Any, BookkeepingOf(_MESH_OF_CORES, MESH, NOTHING, name="KernelMesh")]
KernelName = Annotated[Any, BookkeepingOf(*_NAME, name="KernelName")]
Metadata = Annotated[Any, BookkeepingOf(_DICTIONARY, NOTHING, name="Metadata")]

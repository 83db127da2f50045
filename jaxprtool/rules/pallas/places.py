"""The index maps of blocks, which return their positions."""

from __future__ import annotations

from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.rules.pallas.layout import Block

__all__ = ["index_map_of"]


def index_map_of(k: int, block: Block) -> ClosedJaxpr | None:
    """Return the index map of a block: (grid point, operands of index maps) -> its position along each dimension.

    Args:
      k: the number of the block, for the message.
      block: the block.

    Returns:
      The map; None for a block that is the whole array.

    Raises:
      UsageError: the text does not have the map.
    """
    if block.index_map is not None:
        return block.index_map
    if block.shape != block.aval.shape:
        fail(
            UsageError,
            f"pallas_call: the index map of block {k}, {list(block.shape)} of {block.aval}, is not in the text",
            "no-index-map",
            help="jaxprtool.from_jax has it, and the files that jaxprtool writes from a live program",
        )
    return None

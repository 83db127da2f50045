"""Operations of one example at a time over a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.partition import merge_lists, partition_list
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import moveaxis
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.jaxpr import Value
from jaxprtool.ir.params import ParamValue

__all__ = ["one_by_one"]


def one_by_one(
    op: Any,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    axis_size: int,
    params: dict[str, ParamValue],
) -> OutAndDim:
    """Apply an operation with several results to each example in turn.

    Args:
      op: the binding function.
      vals, dims: its operands, and the batch axis of each or None.
      axis_size: the number of examples.
      params: its params.
    """
    batched = [d is not None for d in dims]
    moved = [x if d is None else moveaxis(x, d, 0) for x, d in zip(vals, dims, strict=True)]
    fixed, examples = partition_list(batched, moved)
    slices = [get_aval(x) for x in examples]
    slices = [a.update(shape=a.shape[1:]) for a in slices]

    def step(*args: Value) -> list[Value]:
        return op(*merge_lists(batched, args[: len(fixed)], args[len(fixed) :]), **params)

    body = stage(step, [*[get_aval(x).strong for x in fixed], *slices])
    outs = lax.scan_call(
        *fixed, *examples, jaxpr=body, length=axis_size, num_consts=len(fixed), num_carry=0
    )
    return outs, [0] * len(outs)

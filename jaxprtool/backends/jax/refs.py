"""Indices of references between JAX, where they are trees of objects, and our text with operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from jaxprtool.backends.jax.private import (
    Literal,
    Var,
    indexer,
    shown_transform,
    strided_slice,
    type_of,
)
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.rules.state.indices import Operand, Range, read_index, selected_shape

__all__ = ["index_from_jax", "index_to_jax", "references_and_indices"]


def index_from_jax(eqn: Any) -> tuple[Any, ...]:
    """The index of JAX's equation on a reference, as `syntax.refs` has it: text, and operands' positions."""
    operands = _indices(eqn)
    marks = {v: f"\0{i}\0" for i, v in enumerate(filter(_is_var, operands))}
    transforms = jax.tree.unflatten(eqn.params["tree"], operands)
    text = "".join(_text(t, marks) for t in transforms) or "[...]"
    pieces = text.split("\0")
    return tuple(int(p) if i % 2 else p for i, p in enumerate(pieces) if p)


def references_and_indices(eqn: Any) -> list[Any]:
    """The operands of JAX's equation on a reference that are operands of ours: a literal index is in the text."""
    n = _first_index(eqn)
    return [*eqn.invars[:n], *filter(_is_var, eqn.invars[n:])]


def _indices(eqn: Any) -> list[Any]:
    return eqn.invars[_first_index(eqn) :]


def _first_index(eqn: Any) -> int:
    return 1 if eqn.primitive.name == "get" else 2


def _is_var(x: Any) -> bool:
    return isinstance(x, Var)


def _text(transform: Any, marks: dict[Any, str]) -> str:
    """What JAX prints, and the strides of slices, which it does not print."""
    text = shown_transform(transform, marks)
    indices = getattr(transform, "indices", ())
    if all(getattr(x, "stride", 1) == 1 for x in indices):
        return text
    items = text[1:-1].split(",")
    return f"[{','.join(map(_with_stride, items, indices))}]"


def _with_stride(text: str, x: Any) -> str:
    if getattr(x, "stride", 1) == 1:
        return text
    start = text.partition(":")[0]
    span = Range(0, x.size, x.stride).span
    stop = f"{start}+{span}" if isinstance(x.start, Var) else x.start + span
    return f"{start}:{stop}:{x.stride}"


def index_to_jax(eqn: JaxprEqn, inputs: Sequence[Any]) -> tuple[list[Any], Any]:
    """The operands of JAX's equation on a reference, and its param `tree`, for one of ours.

    Args:
      eqn: the equation.
      inputs: its inputs as JAX's atoms.
    """
    n = _first_index(eqn)
    avals = [x.aval for x in eqn.inputs[n:]]
    shape = eqn.inputs[0].aval.strong.inner.shape
    transforms = []
    for index in read_index(eqn.primitive.name, eqn.params["index"], shape):
        if not _whole(index, shape):
            items = tuple(_item(x, inputs[n:]) for x in index)
            arrays = [avals[x].shape for x in index if type(x) is Operand]
            transforms.append(indexer(items, shape, max(arrays, key=len, default=())))
        shape = selected_shape(index, avals)
    leaves, tree = jax.tree.flatten(tuple(transforms))
    atoms = [Literal(x, type_of(x)) if type(x) is int else x for x in leaves]
    return [*inputs[:n], *atoms], tree


def _whole(index: tuple[Any, ...], shape: Sequence[int]) -> bool:
    return all(x == Range(0, n) for x, n in zip(index, shape, strict=True))


def _item(x: Any, operands: Sequence[Any]) -> Any:
    if type(x) is Range:
        start = operands[x.start] if type(x.start) is Operand else x.start
        return strided_slice(start, x.size, x.stride)
    return operands[x] if type(x) is Operand else x

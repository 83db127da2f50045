"""Convert indices of references between JAX's, which are trees of objects, and ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from jaxprtool.backends.jax.private import (
    Literal,
    Var,
    indexer,
    own_module,
    shown_transform,
    strided_slice,
    type_of,
)
from jaxprtool.backends.jax.releases import named, since
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import dtype_of
from jaxprtool.ir.jaxpr import JaxprEqn
from jaxprtool.ir.params import Opaque
from jaxprtool.ir.references import (
    Bitcast,
    Indexer,
    Item,
    Operand,
    RefIndex,
    Reshape,
    Step,
    Transpose,
)
from jaxprtool.ir.settled import number_of, slice_of
from jaxprtool.rules.state.indices import Range, resolved, selected_shape, viewed

__all__ = ["drops_what_was_there", "index_from_jax", "index_to_jax", "references_and_indices"]


def index_from_jax(eqn: Any) -> RefIndex:
    """The index of JAX's equation on a reference."""
    transforms = jax.tree.unflatten(eqn.params["tree"], _indices(eqn))
    positions = iter(range(len(eqn.invars)))
    return RefIndex(*[_step(t, positions) for t in transforms])


def references_and_indices(eqn: Any) -> list[Any]:
    """Return the operands of JAX's equation on a reference that are operands of ours too: a literal
    is a part of our index.
    """
    n, end = _first_index(eqn), len(eqn.invars) - eqn.params.get("n_more", 0)
    return [*eqn.invars[:n], *filter(_is_var, eqn.invars[n:end]), *eqn.invars[end:]]


def _indices(eqn: Any) -> list[Any]:
    """Return the operands of the index, without those after it: the mask, and the value where it is False."""
    return eqn.invars[_first_index(eqn) : len(eqn.invars) - eqn.params.get("n_more", 0)]


def _first_index(eqn: Any) -> int:
    return 1 if eqn.primitive.name == "get" else 2


def _is_var(x: Any) -> bool:
    return isinstance(x, Var)


def _step(transform: Any, positions: Iterator[int]) -> Step:
    """Convert one of JAX's transforms of a reference; its operands take the next positions."""
    name = type(transform).__name__
    if name == "NDIndexer":
        pairs = zip(transform.indices, transform.shape, strict=True)
        return Indexer(tuple([_item(x, size, positions) for x, size in pairs]))
    if name == "ReshapeTransform":
        return Reshape(tuple(transform.shape))
    if name == "TransposeTransform":
        return Transpose(tuple(transform.permutation))
    if name == "BitcastTransform" and (dtype := dtype_of(transform.dtype)) is not None:
        return Bitcast(dtype)
    return Opaque(shown_transform(transform, {}))


def _item(x: Any, size: int, positions: Iterator[int]) -> Item:
    """The index of a dimension of this size."""
    if type(x).__name__ != "Slice":
        return number_of(_number(x, positions), size)
    return slice_of(_number(x.start, positions), _number(x.size, positions), x.stride, size)


def _number(x: Any, positions: Iterator[int]) -> int | Operand:
    return Operand(next(positions)) if _is_var(x) else int(getattr(x, "val", x))


def index_to_jax(eqn: JaxprEqn, inputs: Sequence[Any]) -> tuple[list[Any], Any]:
    """Return the operands and the param `tree` of JAX's equation on a reference, for one of ours.

    Args:
      eqn: the equation.
      inputs: its inputs as JAX's atoms.
    """
    n = _first_index(eqn)
    avals = [x.aval for x in eqn.inputs[n:]]
    name, inner = eqn.primitive.name, eqn.inputs[0].aval.strong.inner
    transforms = []
    ours = eqn.params["index"]
    # one index for each step, and one for the whole cell where there is no step
    for step, index in zip(ours.steps, resolved(name, ours, inner.shape), strict=False):
        if not isinstance(index, tuple):
            transforms.append(_view(index))
            inner = viewed(name, index, inner)
            continue
        shape = inner.shape
        items = [
            own if isinstance(own, int) else _item_to_jax(x, inputs[n:])
            for own, x in zip(step.items, index, strict=True)
        ]
        arrays = [avals[x.position].shape for x in index if isinstance(x, Operand)]
        transforms.append(indexer(items, shape, max(arrays, key=len, default=())))
        inner = inner.update(shape=selected_shape(index, avals))
    leaves, tree = jax.tree.flatten(tuple(transforms))
    atoms = [_number_to_jax(x) if type(x) is int else x for x in leaves]
    return [*inputs[:n], *atoms], tree


def _number_to_jax(n: int) -> Any:
    """Return an index as a literal of JAX's; its rules read the shape, which a Python integer lacks."""
    aval = type_of(n)
    return Literal(aval.dtype.type(n), aval)


def drops_what_was_there(eqn: JaxprEqn) -> bool:
    """Whether a store was read in its longer form, `_:f32[], r[0] <- r[0], v`, which drops the old value.

    JAX prints it since 0.10.
    """
    old = [v.name for v in eqn.out_binders]
    return eqn.primitive.notation == "write" and old == ["_"] and since(0, 10)


def _view(step: Reshape | Transpose | Bitcast) -> Any:
    """Return JAX's object for a view of a reference; its classes have these names since 0.9."""
    name = type(step).__name__
    cls = getattr(own_module("state.types"), f"{name}Transform", None)
    if cls is None:
        fail(UnsupportedError, f"{named()} has no view {step} of a reference", "opaque-param")
    if isinstance(step, Bitcast):
        return cls(np_dtype(step.dtype))
    return cls(step.permutation if isinstance(step, Transpose) else step.shape)


def _item_to_jax(x: int | Operand | Range, operands: Sequence[Any]) -> Any:
    if isinstance(x, Range):
        start = operands[x.start.position] if isinstance(x.start, Operand) else x.start
        return strided_slice(start, x.size, x.stride)
    return operands[x.position] if isinstance(x, Operand) else x

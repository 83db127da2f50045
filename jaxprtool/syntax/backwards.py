"""Shapes that only the use of a value decides: those of `broadcast_in_dim 1.0:f32[]`, where the text has no type of its result.

From 0.9.1 on JAX does not print the param `shape`, and under `print_shapes=False` not the type of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import JaxprEqn, Lit, Var
from jaxprtool.syntax.elided_params import recover_params
from jaxprtool.syntax.infer import is_untyped, result_types
from jaxprtool.syntax.types import UNTYPED

__all__ = ["Awaited", "awaited", "decided_shape", "with_result"]

_PROBE = 7, 5  # a shape that no equation asks for


class Awaited(NamedTuple):
    """A variable whose shape is open.

    Attributes:
      dtype: its element type.
      source: the equation that makes it, or the variable of the jaxpr around that it is.
    """

    dtype: DType
    source: JaxprEqn | Var


def awaited(eqn: JaxprEqn, known: dict[Any, Awaited]) -> Awaited | None:
    """What is known of the result of an equation whose shape its use may decide; None for any other equation.

    It is one without the param that its result type tells, or one of such a value and scalars, element by element.
    """
    if len(eqn.out_binders) != 1 or not eqn.primitive.known or any(map(is_untyped, eqn.inputs)):
        return None
    open_ = [x for x in eqn.inputs if x.aval is UNTYPED]
    if not open_:
        missing = [k for k, _ in eqn.primitive.recovered if k not in eqn.params]
        aval = eqn.inputs[0].aval if len(eqn.inputs) == 1 else None
        return Awaited(aval.dtype, eqn) if missing and isinstance(aval, ShapedArray) else None
    if len(open_) > 1 or open_[0] not in known:
        return None
    if any(x is not open_[0] and getattr(x.aval, "shape", None) != () for x in eqn.inputs):
        return None
    probe = Lit(None, ShapedArray(_PROBE, known[open_[0]].dtype))
    found = result_types(eqn, [probe if x is open_[0] else x for x in eqn.inputs])
    if found is None or not isinstance(found[0], ShapedArray) or found[0].shape != _PROBE:
        return None
    return Awaited(found[0].dtype, eqn)


def with_result(eqn: JaxprEqn, aval: ShapedArray) -> dict[str, Any] | None:
    """The params of an equation whose result has this type; None where it cannot have it."""
    params = recover_params(eqn.primitive, dict(eqn.params), [Var(aval)])
    found = result_types(eqn.replace(params=params), eqn.inputs)
    return params if found is not None and found[0].shape == aval.shape else None


def decided_shape(eqn: JaxprEqn, place: int, dtype: DType) -> tuple[tuple[Any, ...], bool] | None:
    """The shape of an operand that has the shape of another one, where the equation takes no other.

    Args:
      eqn: the equation; its other operands have types.
      place: which operand.
      dtype: its element type.

    Returns:
      The shape, and whether it is sure: some operations broadcast axes of size 1, and have the same results then.
    """
    around = [x.aval for i, x in enumerate(eqn.inputs) if i != place]
    around += [v.aval for v in eqn.out_binders]
    for shape in dict.fromkeys(a.shape for a in around if isinstance(a, ShapedArray)):
        results = _results(eqn, place, dtype, shape) if shape else None
        if results is not None:
            if any(_results(eqn, place, dtype, other) is not None for other in _others(shape)):
                return None
            ones = [_results(eqn, place, dtype, other) for other in _of_size_one(shape)]
            found = [other for other in ones if other is not None]
            return None if any(other != results for other in found) else (shape, not found)
    return None


def _results(eqn: JaxprEqn, place: int, dtype: DType, shape: Sequence[Any]) -> Any:
    """The shapes of the results for an operand of this shape; None where the equation is ill-typed then."""
    operands = list(eqn.inputs)
    operands[place] = Lit(None, ShapedArray(tuple(shape), dtype))
    found = result_types(eqn, operands)
    shapes = None if found is None else [getattr(a, "shape", None) for a in found]
    told = [getattr(v.aval, "shape", None) for v in eqn.out_binders]
    if shapes is None or any(
        v.aval is not UNTYPED and a != b
        for v, a, b in zip(eqn.out_binders, shapes, told, strict=True)
    ):
        return None
    return shapes


def _others(shape: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Shapes near a shape: one of an axis more or less, and of an axis of another size than 1.

    A scalar is none of them: operations take one beside arrays, but JAX broadcasts nothing to it.
    """
    yield (1, *shape)
    yield (*shape, 1)
    for i, size in enumerate(shape):
        before, after = shape[:i], shape[i + 1 :]
        if len(shape) > 1:
            yield (*before, *after)
        for other in (size + 1, size - 1, 0):
            if other not in (1, -1, size):
                yield (*before, other, *after)


def _of_size_one(shape: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """A shape with 1 for one of its sizes."""
    for i, size in enumerate(shape):
        if size != 1:
            yield (*shape[:i], 1, *shape[i + 1 :])

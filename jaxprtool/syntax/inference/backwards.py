"""Infer shapes from uses: the shape of `broadcast_in_dim 1.0:f32[]`, say, where the text has no type of its result.

From 0.9.1 on JAX does not print the param `shape`, and under `print_shapes=False` not the type of
the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.jaxpr import JaxprEqn, Lit, Var
from jaxprtool.syntax.elided_params import recover_params
from jaxprtool.syntax.infer import is_untyped, result_types
from jaxprtool.syntax.types import UNTYPED

__all__ = [
    "Awaited",
    "Decision",
    "awaited",
    "decided_shape",
    "least_shapes",
    "open_operands",
    "unused_shapes",
    "with_result",
]

_PROBE = 7, 5  # an unlikely shape, to probe with
_MOST_AXES = 5


class Awaited(NamedTuple):
    """A variable whose shape is open.

    Attributes:
      dtype: its element type.
      source: the equation that makes it; for an argument of an inner jaxpr, the variable of the
        jaxpr around that is passed as it.
      alike: whether it has the same shape as the open operands of its equation.
    """

    dtype: DType
    source: JaxprEqn | Var
    alike: bool = True


class Decision(NamedTuple):
    """The shape that an equation implies for its operands whose shapes are open.

    Attributes:
      shape: the shape.
      sure: whether the equation accepts no other shape; some operations broadcast axes of size 1,
        with the same results.
      results: the types of the results, which are the same for any shape that the equation accepts.
    """

    shape: tuple[Any, ...]
    sure: bool
    results: Sequence[Any]


def open_operands(eqn: JaxprEqn) -> list[Var]:
    """Return the operands of an equation that have no type yet, each once."""
    return [x for x in dict.fromkeys(eqn.inputs) if type(x) is Var and x.aval is UNTYPED]


def awaited(eqn: JaxprEqn, known: dict[Any, Awaited]) -> Awaited | None:
    """Return what is known of the result of an equation whose shape a use may decide; None for any other equation.

    Such an equation lacks the param that its result type would imply, or has open operands.
    """
    if len(eqn.out_binders) != 1 or not eqn.primitive.known or any(map(is_untyped, eqn.inputs)):
        return None
    open_ = open_operands(eqn)
    if not open_:
        missing = [k for k, _ in eqn.primitive.recovered if k not in eqn.params]
        aval = eqn.inputs[0].aval if len(eqn.inputs) == 1 else None
        return Awaited(aval.dtype, eqn) if missing and isinstance(aval, ShapedArray) else None
    if any(x not in known for x in open_):
        return None
    told = [x.aval.shape for x in eqn.inputs if isinstance(x.aval, ShapedArray) and x.aval.shape]
    shape = told[0] if told else _PROBE
    operands = _with_shape(eqn, {x: known[x].dtype for x in open_}, shape)
    found = result_types(eqn, operands)
    if found is None or not isinstance(found[0], ShapedArray):
        return None
    if not told and found[0].shape != _PROBE:
        return None
    return Awaited(found[0].dtype, eqn, not told)


def _with_shape(eqn: JaxprEqn, dtypes: dict[Any, DType], shape: Sequence[Any]) -> list[Any]:
    """Return the operands of an equation with literals of this shape in the place of the open ones."""
    probes = {x: Lit(None, ShapedArray(tuple(shape), dtype)) for x, dtype in dtypes.items()}
    return [probes.get(x, x) if type(x) is Var else x for x in eqn.inputs]


def with_result(eqn: JaxprEqn, aval: ShapedArray) -> dict[str, Any] | None:
    """Return the params of an equation for a result of this type; None where it cannot have this type."""
    params = recover_params(eqn.primitive, dict(eqn.params), [Var(aval)])
    found = result_types(eqn.replace(params=params), eqn.inputs)
    return params if found is not None and found[0].shape == aval.shape else None


def decided_shape(eqn: JaxprEqn, dtypes: dict[Any, DType]) -> Decision | None:
    """Return the shape of the open operands where it is that of another operand or result, and the
    equation accepts no other.

    Args:
      eqn: the equation; its other operands have types.
      dtypes: the element types of the operands whose shape is open.
    """
    around = [x.aval for x in eqn.inputs] + [v.aval for v in eqn.out_binders]
    for shape in dict.fromkeys(a.shape for a in around if isinstance(a, ShapedArray)):
        results = _results(eqn, dtypes, shape) if shape else None
        if results is not None:
            groups = [[x] for x in dtypes] + ([list(dtypes)] if len(dtypes) > 1 else [])
            tries = [(other, g) for other in _others(shape) for g in groups]
            if any(_results(eqn, dtypes, shape, g, other) is not None for other, g in tries):
                return None
            ones = [
                _results(eqn, dtypes, shape, g, other)
                for other in _of_size_one(shape)
                for g in groups
            ]
            found = [other for other in ones if other is not None]
            if any(_shapes(other) != _shapes(results) for other in found):
                return None
            return Decision(shape, not found, results)
    return None


def unused_shapes(known: dict[Any, Awaited], x: Var) -> Iterator[tuple[Any, ...]]:
    """Yield shapes for a value that nothing uses, one of which fits: that of the operand it is made
    of, with axes of size 1 added.
    """
    shapes = [()]
    while (at := known.get(x)) is not None:
        if isinstance(at.source, Var):
            return
        for y in at.source.inputs:
            if isinstance(y.aval, ShapedArray):
                shapes.append(y.aval.shape)
        x = next(iter(open_operands(at.source)), at.source.out_binders[0])
        if x is at.source.out_binders[0]:
            break
    longest = max(shapes, key=len)
    for count in range(_MOST_AXES):
        for before in range(count, -1, -1):
            yield (1,) * before + longest + (1,) * (count - before)


def least_shapes(eqn: JaxprEqn, known: dict[Any, Awaited]) -> dict[Var, tuple[Any, ...]] | None:
    """Return the least shapes that the open operands of an equation may have; None where none fit.

    All of them have to be arrays with new axes, which are taken to have size 1. The equation has to
    determine the number of axes. For integers where only one size of a new last axis fits, that
    size is taken: this holds for the indices of gather and scatter, whose last axis is as long as
    an index vector. That there are no further axes is likely, but not certain. Where other sizes
    are possible with the same result types, there is no least shape (an example are values written
    into an array).
    """
    made: dict[Var, JaxprEqn] = {}
    for x in open_operands(eqn):
        source = known[x].source if x in known else x
        if isinstance(source, Var) or open_operands(source):
            return None
        made[x] = source
    if not made or not all(isinstance(e.inputs[0].aval, ShapedArray) for e in made.values()):
        return None
    dtypes = {x: known[x].dtype for x in made}
    if (of_index := _index_shape(eqn, made, dtypes)) is not None:
        return of_index
    fitting: list[tuple[dict[Var, tuple[Any, ...]], Sequence[Any]]] = []
    for rank in range(1, _MOST_AXES + 2):
        shapes = {x: _with_axes(e, dtypes[x], rank) for x, e in made.items()}
        found = {x: s for x, s in shapes.items() if s is not None}
        if len(found) == len(shapes) and (types := _types_for(eqn, dtypes, found)) is not None:
            fitting.append((found, types))
    if len(fitting) == 1 and _is_told(eqn, dtypes, *fitting[0]):
        return fitting[0][0]
    return None


def _index_shape(
    eqn: JaxprEqn, made: dict[Var, JaxprEqn], dtypes: dict[Any, DType]
) -> dict[Var, tuple[Any, ...]] | None:
    """Return the shape of one operand of integers with a new last axis, where only one size of it fits."""
    (x, source), *others = made.items()
    before = source.inputs[0].aval
    if others or dtypes[x].kind not in "iu" or not isinstance(before, ShapedArray):
        return None
    shapes = [(*before.shape, size) for size in range(1, _MOST_AXES + 1)]
    fitting = [s for s in shapes if _results(eqn, dtypes, s) is not None]
    if len(fitting) == 1 and with_result(source, before.update(shape=fitting[0])):
        return {x: fitting[0]}
    return None


def _with_axes(made: JaxprEqn, dtype: DType, rank: int) -> tuple[Any, ...] | None:
    """Return the shape of an array with axes of size 1 added to reach a rank, at positions that the
    equation `made` allows.
    """
    aval = made.inputs[0].aval
    before = aval.shape if isinstance(aval, ShapedArray) else ()
    new = rank - len(before)
    if not before or new < 1:
        return None
    for places in itertools.combinations(range(rank), new):
        sizes = iter(before)
        shape = tuple([1 if i in places else next(sizes) for i in range(rank)])
        if with_result(made, ShapedArray(shape, dtype)) is not None:
            return shape
    return None


def _types_for(
    eqn: JaxprEqn, dtypes: dict[Any, DType], shapes: dict[Var, tuple[Any, ...]]
) -> Sequence[Any] | None:
    """Return the types of the results for shapes of the open operands."""
    lits = {x: Lit(None, ShapedArray(shapes[x], dtypes[x])) for x in dtypes}
    found = result_types(eqn, [lits.get(x, x) if type(x) is Var else x for x in eqn.inputs])
    told = [getattr(v.aval, "shape", None) for v in eqn.out_binders]
    if found is None or any(
        v.aval is not UNTYPED and a != b
        for v, a, b in zip(eqn.out_binders, _shapes(found), told, strict=True)
    ):
        return None
    return found


def _is_told(
    eqn: JaxprEqn,
    dtypes: dict[Any, DType],
    shapes: dict[Var, tuple[Any, ...]],
    types: Sequence[Any],
) -> bool:
    """Whether the types of the results change wherever an axis of size 1 becomes longer."""
    for x, shape in shapes.items():
        for i, size in enumerate(shape):
            for longer in (2, 3, 4) if size == 1 else ():
                other = {**shapes, x: (*shape[:i], longer, *shape[i + 1 :])}
                found = _types_for(eqn, dtypes, other)
                if found is not None and _shapes(found) == _shapes(types):
                    return False
    return True


def _shapes(avals: Sequence[Any]) -> list[Any]:
    return [getattr(a, "shape", None) for a in avals]


def _results(
    eqn: JaxprEqn,
    dtypes: dict[Any, DType],
    shape: Sequence[Any],
    changed: Sequence[Any] = (),
    other: Sequence[Any] = (),
) -> Sequence[Any] | None:
    """Return the types of the results where the open operands have one shape, and those in `changed` another one.

    None where that is ill-typed.
    """
    return _types_for(eqn, dtypes, {x: tuple(other if x in changed else shape) for x in dtypes})


def _others(shape: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield shapes near a shape: with one axis more or less, or with another size (but not 1) of an axis.

    A scalar is not among them: operations accept one beside arrays, but JAX makes no broadcast to a
    scalar's shape.
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
    """Yield the shape with 1 in the place of one of its sizes."""
    for i, size in enumerate(shape):
        if size != 1:
            yield (*shape[:i], 1, *shape[i + 1 :])

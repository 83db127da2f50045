"""Read meshes and partition specs as JAX prints them: calls with `'axis': size`, and commas after a last argument.

Mesh('x': 2, 'y': 4, axis_types=(Auto, Explicit))       P('x', None)       from 0.7 on
Mesh('x': 2, 'y': 4)                                     PartitionSpec('x', None)
Mesh(device_ids=array([[0, 1], [2, 3]]), axis_names=('x', 'y'))            to 0.4.35
AbstractMesh((('x', 2), ('y', 4)), axis_types=None)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool.ir.params import ParamValue, PrintedArray, Structured, Word
from jaxprtool.ir.sharding import Mesh, PartitionSpec

__all__ = ["PLACEMENTS"]

Fields = dict[str, Any]


def _mesh(name: str, sizes: Fields, args: list[Any], fields: Fields) -> Mesh:
    """Return the mesh of a call's arguments.

    Raises ValueError where they are not those of a mesh.
    """
    fields = dict(fields)
    if args or "device_ids" in fields or "axis_sizes" in fields:
        sizes = _listed(args, fields)
    types = fields.pop("axis_types", None)
    kinds = None if types is None else [_axis_type(t) for t in types]
    if not all(type(n) is str and type(size) is int and size > 0 for n, size in sizes.items()):
        raise ValueError(f"not sizes of axes: {sizes}")
    return Mesh(sizes, kinds, name, fields)


def _axis_type(word: Any) -> str:
    if not isinstance(word, Word):
        raise ValueError(f"no type of an axis: {word}")
    return word.member


def _listed(args: list[Any], fields: Fields) -> Fields:
    """Return sizes that are printed apart from the names, as pairs, or as the grid of the device numbers."""
    if args:
        (pairs,) = args
        return {str(name): size for name, size in pairs}
    names = fields.pop("axis_names", None)
    if names is None:
        raise ValueError("no names of axes")
    if "axis_sizes" in fields:
        return dict(zip(names, fields.pop("axis_sizes"), strict=True))
    grid = fields.pop("device_ids")
    if not isinstance(grid, PrintedArray):
        raise ValueError(f"no grid of devices: {grid}")
    shape: list[int] = []
    at: ParamValue = grid.rows
    while isinstance(at, list):
        shape.append(len(at))
        at = at[0] if at else None
    return dict(zip(names, shape, strict=True))


def _spec(name: str, sizes: Fields, args: list[Any], fields: Fields) -> PartitionSpec:
    """Return the partition spec of a call's arguments.

    Raises ValueError where they are not those of one.
    """
    del name
    kind = fields.pop("unreduced_kind", "sum")
    if sizes or not fields.keys() <= {"unreduced", "reduced"}:
        raise ValueError("no partition spec")
    if kind not in ("sum", "max", "min"):
        raise ValueError("neither a sum nor a maximum")
    if not all(isinstance(axes, frozenset) for axes in fields.values()):
        raise ValueError("no sets of axes")
    return PartitionSpec(*args, **fields, kind="" if kind == "sum" else str(kind))


# Readers of the constructors: (name, sizes of axes in it, arguments, fields) -> the value.
PLACEMENTS: dict[str, Callable[[str, Fields, list[Any], Fields], Structured]] = {
    "AbstractMesh": _mesh,
    "Mesh": _mesh,
    "P": _spec,
    "PartitionSpec": _spec,
}

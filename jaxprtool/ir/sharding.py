"""Meshes, partition specs, and varying axes in types.

In computations a spec is a tuple with, for each leading dimension, the tuple of mesh axes that it is split over (`Spec`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from types import MappingProxyType
from typing import Any, overload

from jaxprtool.ir.avals import NO_GROUPS, AbstractType, AxisGroups, ShapedArray, Spec
from jaxprtool.ir.params import ParamValue, Record, Structured, Word

__all__ = [
    "Mesh",
    "PartitionSpec",
    "batch_spec",
    "find_mesh",
    "find_spec",
    "known_mesh",
    "mentioned",
    "mesh_axes",
    "partition_specs",
    "shard_shape",
    "specs_of",
    "sums_of",
    "unshard_shape",
    "varying_axes",
    "with_varying",
]


class Mesh(Structured):
    """A grid of devices with named axes.

    Attributes:
      sizes: axis name -> size, in the order of the mesh: device numbers are row-major.
      axis_types: the type of each axis: `Explicit` (types show its use: `f32[8@x]`), `Auto` or
        `Manual`.
      constructor: JAX's class: `Mesh`, or `AbstractMesh` for one without devices.
      fields: the other fields that JAX prints (`device_kind`).
    """

    __slots__ = ("axis_types", "constructor", "fields", "sizes")
    sizes: Mapping[str, int]
    axis_types: tuple[str, ...]
    constructor: str
    fields: Mapping[str, Any]

    def __init__(
        self,
        sizes: Mapping[str, int],
        axis_types: Sequence[str] | None = None,
        constructor: str = "Mesh",
        fields: Mapping[str, Any] | None = None,
    ):
        types = ("Auto",) * len(sizes) if axis_types is None else tuple(axis_types)
        self._fill(
            sizes=MappingProxyType(dict(sizes)),
            axis_types=types,
            constructor=constructor,
            fields=MappingProxyType(dict(fields or {})),
        )

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.sizes.values())

    @property
    def explicit(self) -> frozenset[str]:
        """The axes of type `Explicit`, whose use types show."""
        pairs = zip(self.sizes, self.axis_types, strict=False)
        return frozenset(name for name, kind in pairs if kind == "Explicit")

    @property
    def grid(self) -> Mesh:
        """A `Mesh` of the same sizes with all other fields at their defaults."""
        return Mesh(self.sizes)

    def _key(self) -> tuple[Any, ...]:
        return tuple(self.sizes.items()), self.axis_types, self.constructor, repr(dict(self.fields))

    def __reduce__(self):
        fields = dict(self.sizes), self.axis_types, self.constructor, dict(self.fields)
        return Mesh, fields, self._state()

    def _text(self) -> str:
        parts = [f"{n!r}: {size}" for n, size in self.sizes.items()]
        types = ", ".join(self.axis_types) + ("," if len(self.axis_types) == 1 else "")
        parts += [f"axis_types=({types})", *[f"{k}={v!r}" for k, v in self.fields.items()]]
        return f"{self.constructor}({', '.join(parts)})"


class PartitionSpec(Structured):
    """Which mesh axes each dimension of an array is split over: P("i", None, ("j", "k")).

    Dimensions without an entry, or with None, are not split. Along an axis that is not mentioned
    every device holds a copy.

    Attributes:
      dims: for each leading dimension an axis, several axes, None, or the word `UNCONSTRAINED`.
      unreduced: the axes over which the array is still to be summed.
      reduced: the axes over which the array was summed.
      spec: `dims` as tuples of axes; () for an unconstrained dimension.
      kind: "max" or "min" where a maximum or minimum is to be taken instead of the sum; "" for a
        sum.
    """

    __slots__ = ("dims", "kind", "reduced", "spec", "unreduced")
    dims: tuple[Any, ...]
    unreduced: frozenset[str]
    reduced: frozenset[str]
    spec: Spec
    kind: str

    def __init__(
        self,
        *dims: str | Sequence[str] | None,
        unreduced: Iterable[str] = (),
        reduced: Iterable[str] = (),
        kind: str = "",
    ):
        axes = frozenset(unreduced), frozenset(reduced)
        spec = tuple(map(_axes, dims))
        self._fill(dims=dims, spec=spec, unreduced=axes[0], reduced=axes[1], kind=kind)

    @property
    def groups(self) -> AxisGroups:
        """The unreduced and the reduced axes, sorted."""
        return AxisGroups((), sorted(self.unreduced), sorted(self.reduced), self.kind)

    def _key(self) -> tuple[Any, ...]:
        return self.dims, self.unreduced, self.reduced, self.kind

    def __reduce__(self):
        return _partition_spec, self._key(), self._state()

    def _text(self) -> str:
        sets = {"unreduced": self.unreduced, "reduced": self.reduced}
        named = [f"{k}={{{', '.join(map(repr, sorted(v)))}}}" for k, v in sets.items() if v]
        named += [f"unreduced_kind={self.kind}"] if self.kind else []
        parts = [repr(d) for d in self.dims]
        return f"P({', '.join(parts + named)})" if named else f"P{_tuple_text(parts)}"


def _partition_spec(
    dims: Any, unreduced: Iterable[str], reduced: Iterable[str], kind: str = ""
) -> PartitionSpec:
    return PartitionSpec(*dims, unreduced=unreduced, reduced=reduced, kind=kind)


def _axes(dim: Any) -> tuple[str, ...]:
    """Return the axes that an entry of a `PartitionSpec` names.

    Raises ValueError where they are no names.
    """
    if dim is None or (isinstance(dim, Word) and dim.member == "UNCONSTRAINED"):
        return ()
    axes = (dim,) if isinstance(dim, str) else tuple(dim)
    if not all(isinstance(a, str) and not isinstance(a, Word) for a in axes):
        raise ValueError(f"not the names of axes: {dim}")
    return axes


def known_mesh(value: ParamValue) -> Mesh:
    """Return the mesh that a param holds. Raises ValueError when its value is no mesh."""
    if not isinstance(value, Mesh):
        raise ValueError(f"not a mesh: {value}")
    return value


def find_mesh(value: ParamValue) -> Mesh | None:
    """Return the mesh in a sharding; None where there is none."""
    if isinstance(value, Mesh):
        return value
    found = value.fields.values() if isinstance(value, Record) else ()
    return next((x for x in found if isinstance(x, Mesh)), None)


def specs_of(value: ParamValue) -> tuple[Spec, ...]:
    """Return the partition specs that a param holds. Raises ValueError when they cannot be read."""
    return tuple(p.spec for p in _members(value))


def sums_of(value: ParamValue) -> tuple[AxisGroups, ...]:
    """Return the unreduced and reduced axes of each partition spec that a param holds.

    Raises as `specs_of` does.
    """
    return tuple(p.groups for p in _members(value))


def _members(value: ParamValue) -> list[PartitionSpec]:
    members = value if isinstance(value, (tuple, list)) else (None,)
    specs = [p for p in members if isinstance(p, PartitionSpec)]
    if len(specs) < len(members):
        raise ValueError(f"not a tuple of partition specs: {value}")
    return specs


def find_spec(value: ParamValue) -> Spec | None:
    """Return the partition spec in a sharding; unconstrained dimensions are not split.

    None where there is none, or where it has unreduced or reduced axes too.
    """
    found = value.fields.get("spec") if isinstance(value, Record) else value
    if not isinstance(found, PartitionSpec) or found.unreduced or found.reduced:
        return None
    return found.spec


def partition_specs(
    specs: Iterable[Spec], sums: Iterable[AxisGroups] = ()
) -> tuple[PartitionSpec, ...]:
    """Return specs as the value of a param; `sums` are the unreduced and reduced axes of each."""
    pairs = zip(specs, chain(sums, repeat(NO_GROUPS)), strict=False)
    return tuple(
        PartitionSpec(
            *[None if not d else d[0] if len(d) == 1 else d for d in spec],
            unreduced=groups.unreduced,
            reduced=groups.reduced,
            kind=groups.kind,
        )
        for spec, groups in pairs
    )


def _tuple_text(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def mesh_axes(value: Any, mesh: Mesh) -> tuple[str, ...]:
    """Return the axes that a param `newly_manual_axes` holds, in the order of the mesh."""
    return tuple(n for n in mesh.sizes if n in value)


def mentioned(spec: Spec) -> frozenset[str]:
    """Return the axes that a spec splits some dimension over."""
    return frozenset(a for axes in spec for a in axes)


def batch_spec(spec: Spec, dim: int | None) -> Spec:
    """Return the spec with a new dimension at `dim` that is not split; the spec itself for None."""
    if dim is None:
        return spec
    padded = spec + ((),) * (dim - len(spec))
    return (*padded[:dim], (), *padded[dim:]) if len(spec) > dim else spec


def _factors(spec: Spec, mesh: Mesh) -> list[int]:
    return [math.prod(mesh.sizes[a] for a in axes) for axes in spec]


def shard_shape(shape: tuple[int, ...], spec: Spec, mesh: Mesh) -> tuple[int, ...]:
    """Return the shape of one shard.

    Raises:
      ValueError: the spec is too long, or a dimension is not divisible by the number of its shards.
    """
    if len(spec) > len(shape):
        raise ValueError("the spec is longer than the shape")
    out = list(shape)
    for i, n in enumerate(_factors(spec, mesh)):
        if out[i] % n:
            raise ValueError(f"dimension {i} of size {out[i]} is not divisible by {n}")
        out[i] //= n
    return tuple(out)


def unshard_shape(shape: tuple[int, ...], spec: Spec, mesh: Mesh) -> tuple[int, ...]:
    """Return the shape of the whole array. Raises ValueError when the spec is too long."""
    if len(spec) > len(shape):
        raise ValueError("the spec is longer than the shape")
    factors = _factors(spec, mesh)
    return tuple(n * (factors[i] if i < len(factors) else 1) for i, n in enumerate(shape))


# -- varying axes in types ---------------------------------------------------------------------


def varying_axes(aval: AbstractType) -> tuple[str, ...]:
    """Return the axes along which a value of this type varies: (i, j) of `f32[2]{V:(i,j)}`."""
    return getattr(aval, "vary", NO_GROUPS).varying


@overload
def with_varying(
    aval: ShapedArray, names: Iterable[str], order: Iterable[str] = ()
) -> ShapedArray: ...


@overload
def with_varying(
    aval: AbstractType, names: Iterable[str], order: Iterable[str] = ()
) -> AbstractType: ...


def with_varying(
    aval: AbstractType, names: Iterable[str], order: Iterable[str] = ()
) -> AbstractType:
    """Return the same type, varying along exactly the axes `names`.

    Args:
      order: the order in which axes are printed; axes that are not in it come last.
    """
    wanted = set(names)
    if not isinstance(aval, ShapedArray) or (not wanted and not aval.vary):
        return aval
    ordered = [n for n in dict.fromkeys(order) if n in wanted]
    ordered += [n for n in dict.fromkeys(names) if n not in ordered]
    return aval.update(vary=aval.vary.replace_varying(ordered))

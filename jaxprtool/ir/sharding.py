"""Meshes, partition specs and varying axes, read from the text that jaxprs print for them.

A spec is a tuple with, for each leading dimension, the tuple of mesh axes that it is split over.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.params import Opaque

__all__ = [
    "Mesh",
    "Spec",
    "batch_spec",
    "axis_set",
    "find_spec",
    "mentioned",
    "mesh_text",
    "read_axis_set",
    "read_mesh",
    "read_specs",
    "shard_shape",
    "specs_text",
    "unshard_shape",
    "varying_axes",
    "with_varying",
]

Spec = tuple[tuple[str, ...], ...]

_AXIS = re.compile(r"'([^']*)': (\d+)")
_OLD_MESH = re.compile(r"array\((.*)\), axis_names=\(([^()]*)\)", re.S)
_SPEC = re.compile(r"\b(?:P|PartitionSpec)\((?:[^()]|\([^()]*\))*\)")
_TYPES = re.compile(r"axis_types=\(([^()]*)\)")


class Mesh:
    """A grid of devices with named axes.

    Attributes:
      sizes: axis name -> size, in the order of the mesh: device numbers are row-major.
      explicit: the axes whose use stands in types (`f32[8@x]`).
    """

    __slots__ = ("explicit", "sizes")

    def __init__(self, sizes: Mapping[str, int], explicit: Iterable[str] = ()):
        self.sizes, self.explicit = dict(sizes), frozenset(explicit)

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.sizes.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and list(self.sizes.items()) == list(other.sizes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.sizes.items()))

    def __repr__(self) -> str:
        return mesh_text(self.sizes).text


def read_mesh(value: Any) -> Mesh:
    """The mesh that a param holds. Raises ValueError when it is none."""
    return value if isinstance(value, Mesh) else _read_mesh(str(value))


@functools.cache
def _read_mesh(text: str) -> Mesh:
    pairs = _AXIS.findall(text)
    if pairs:
        types = _TYPES.search(text)
        kinds = [t.strip() for t in types[1].split(",") if t.strip()] if types else []
        explicit = [n for (n, _), k in zip(pairs, kinds, strict=False) if k == "Explicit"]
        return Mesh({n: int(size) for n, size in pairs}, explicit)
    old = _OLD_MESH.search(text)
    if old:
        shape, grid = [], ast.literal_eval(old[1])
        while isinstance(grid, list):
            shape.append(len(grid))
            grid = grid[0]
        names = [n.strip(" '\"") for n in old[2].split(",") if n.strip()]
        return Mesh(dict(zip(names, shape, strict=True)))
    if not text.startswith(("Mesh(", "AbstractMesh(")):
        raise ValueError(f"not a mesh: {text}")
    return Mesh({})


def mesh_text(sizes: Mapping[str, int]) -> Opaque:
    """A mesh as JAX prints it."""
    axes = "".join(f"'{n}': {size}, " for n, size in sizes.items())
    types = ", ".join(["Auto"] * len(sizes)) + ("," if len(sizes) == 1 else "")
    return Opaque(f"Mesh({axes}axis_types=({types}))")


def read_specs(value: Any) -> tuple[Spec, ...]:
    """The partition specs that a param holds. Raises ValueError when they cannot be read."""
    return _read_specs(str(value))


def find_spec(value: Any) -> Spec | None:
    """The partition spec in a param that holds a sharding; unconstrained dimensions are not split. None without one
    that can be read."""
    found = _SPEC.search(str(value))
    try:
        return _read_specs(f"({found[0].replace('UNCONSTRAINED', 'None')},)")[0] if found else None
    except ValueError:
        return None


@functools.cache
def _read_specs(text: str) -> tuple[Spec, ...]:
    try:
        body = ast.parse(text.replace("\n", " "), mode="eval").body
        items = body.elts if isinstance(body, ast.Tuple) else None
        if items is None:
            raise ValueError
        return tuple(_spec(call) for call in items)
    except (SyntaxError, ValueError, AttributeError):
        raise ValueError(f"not a tuple of partition specs: {text}") from None


def _spec(call: Any) -> Spec:
    if not isinstance(call, ast.Call) or getattr(call.func, "id", "") not in ("P", "PartitionSpec"):
        raise ValueError
    if call.keywords:
        raise ValueError
    dims = [ast.literal_eval(arg) for arg in call.args]
    return tuple(() if d is None else (d,) if isinstance(d, str) else tuple(d) for d in dims)


def specs_text(specs: Iterable[Spec]) -> Opaque:
    """Specs as JAX prints them."""
    shown = [f"P{_tuple_text([_dim_text(d) for d in spec])}" for spec in specs]
    return Opaque(_tuple_text(shown))


def _dim_text(axes: tuple[str, ...]) -> str:
    if len(axes) == 1:
        return repr(axes[0])
    return _tuple_text([repr(a) for a in axes]) if axes else "None"


def _tuple_text(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def read_axis_set(value: Any, mesh: Mesh) -> tuple[str, ...]:
    """The axes that a `newly_manual_axes` holds, in the order of the mesh."""
    names = (
        value
        if isinstance(value, (set, frozenset, tuple))
        else re.findall(r"'([^']*)'", str(value))
    )
    return tuple(n for n in mesh.sizes if n in set(names))


def axis_set(names: Iterable[str]) -> frozenset[str]:
    """Axes as the value of `newly_manual_axes`."""
    return frozenset(names)


def mentioned(spec: Spec) -> frozenset[str]:
    """The axes that a spec splits something over."""
    return frozenset(a for axes in spec for a in axes)


def batch_spec(spec: Spec, dim: int | None) -> Spec:
    """The spec with a dimension inserted that is not split."""
    if dim is None:
        return spec
    padded = spec + ((),) * (dim - len(spec))
    return (*padded[:dim], (), *padded[dim:]) if len(spec) > dim else spec


def _factors(spec: Spec, mesh: Mesh) -> list[int]:
    return [math.prod(mesh.sizes[a] for a in axes) for axes in spec]


def shard_shape(shape: tuple[int, ...], spec: Spec, mesh: Mesh) -> tuple[int, ...]:
    """The shape of one shard. Raises ValueError when a dimension is not a multiple."""
    if len(spec) > len(shape):
        raise ValueError("the spec is longer than the shape")
    out = list(shape)
    for i, n in enumerate(_factors(spec, mesh)):
        if out[i] % n:
            raise ValueError(f"dimension {i} of size {out[i]} is not divisible by {n}")
        out[i] //= n
    return tuple(out)


def unshard_shape(shape: tuple[int, ...], spec: Spec, mesh: Mesh) -> tuple[int, ...]:
    """The shape of the whole array. Raises ValueError when the spec is too long."""
    if len(spec) > len(shape):
        raise ValueError("the spec is longer than the shape")
    factors = _factors(spec, mesh)
    return tuple(n * (factors[i] if i < len(factors) else 1) for i, n in enumerate(shape))


# -- varying axes in types ---------------------------------------------------------------------

_VARYING = re.compile(r"V:(?:\(([^()]*)\)|([^,{}()]+))(?:, )?")


@functools.cache
def _varying(vary: str) -> tuple[str, ...]:
    found = _VARYING.search(vary)
    if found is None:
        return ()
    return tuple(a.strip() for a in (found[1] or found[2]).split(","))


def varying_axes(aval: Any) -> tuple[str, ...]:
    """The axes along which a value of this type varies: (i, j) of `f32[2]{V:(i,j)}`."""
    vary = getattr(aval, "vary", "")
    return _varying(vary) if vary else ()


def with_varying(aval: ShapedArray, names: Iterable[str], order: Iterable[str] = ()) -> ShapedArray:
    """The same type, varying along exactly these axes.

    order: the order in which axes are printed; those that are not in it come last.
    """
    wanted = set(names)
    if not isinstance(aval, ShapedArray) or (not wanted and not aval.vary):
        return aval
    ordered = [n for n in dict.fromkeys(order) if n in wanted]
    ordered += [n for n in dict.fromkeys(names) if n not in ordered]
    rest = _VARYING.sub("", aval.vary).strip("{}").rstrip(", ")
    axes = ordered[0] if len(ordered) == 1 else f"({','.join(ordered)})"
    groups = [f"V:{axes}"] * bool(ordered) + [rest] * bool(rest)
    return aval.update(vary=f"{{{', '.join(groups)}}}" if groups else "")

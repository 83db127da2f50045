"""Convert types with placements to JAX's: split over explicit axes of a mesh (`f32[8@x]`), or
varying in a `shard_map` (`{V:i}`).

Our types name axes; JAX's hold the mesh. It is that of the enclosing `shard_map` or `jit`, of the
live jaxpr that a program was read from, or of the process (`jax.set_mesh`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from jaxprtool.backends.jax.private import (
    SUMS_IN_TYPES,
    array_type,
    axes_in_scope,
    bound_axes,
    tracked_varying,
)
from jaxprtool.core.kinds.placement import SHARDING
from jaxprtool.ir.jaxpr import JaxprEqn

__all__ = [
    "HOLD_A_MESH",
    "HOLD_A_SHARDING",
    "Surroundings",
    "entered",
    "fill_sharding",
    "first_mesh",
    "manual_mesh",
    "mapped_over",
    "mesh_of_live",
    "on_mesh",
    "placed_aval",
    "spec_of",
    "tracking",
    "uses_mesh",
]


def uses_mesh(mesh: Any) -> bool:
    """Whether types mention a mesh: one of its axes is explicit or manual."""
    return mesh is not None and any(t != AxisType.Auto for t in mesh.axis_types)


HOLD_A_MESH = ("mesh", "ctx_mesh")  # params
HOLD_A_SHARDING = ("sharding", "out_sharding", "dst_sharding")


def first_mesh(meshes: Iterable[Any], shardings: Iterable[Any]) -> Any:
    """Return the first mesh that is not empty, else the first of a sharding that types mention;
    None where there is none.
    """
    for mesh in meshes:
        if not getattr(mesh, "empty", True):  # a kernel's mesh is of another kind
            return mesh.abstract_mesh
    found = (x.mesh.abstract_mesh for x in shardings if type(x) is NamedSharding)
    return next(filter(uses_mesh, found), None)


def manual_mesh(mesh: Any, axes: Any) -> AbstractMesh:
    """Return the mesh of types inside a `shard_map` over some of its axes."""
    return mesh.abstract_mesh.update_axis_types(dict.fromkeys(axes, AxisType.Manual))


def on_mesh(params: dict[str, Any], mesh: Any) -> dict[str, Any]:
    """Replace the meshes in the shardings of params, as read from text without the kind of devices,
    by the mesh itself.
    """
    if not uses_mesh(mesh):
        return params

    def same(x: Any) -> Any:
        if type(x) is not NamedSharding or x.mesh == mesh:
            return x
        alike = x.mesh.shape == mesh.shape and x.mesh.axis_types == mesh.axis_types
        return NamedSharding(mesh, x.spec) if alike else x

    return {k: same(x) for k, x in params.items()}


def mesh_of_live(jaxpr: Any) -> Any:
    """Return the mesh of the arguments of a jaxpr of JAX's; else that of the process; None where there is none."""
    for v in () if jaxpr is None else (*jaxpr.in_avals, *jaxpr.out_avals):
        mesh = getattr(getattr(v, "sharding", None), "mesh", None)
        if mesh is not None and not mesh.empty:
            return mesh
    current = jax.sharding.get_abstract_mesh()
    return None if current.empty else current


@contextlib.contextmanager
def _in_mesh(mesh: Any, sizes: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Make an abstract mesh current for JAX's rules inside the block, with axes over which they can reduce.

    Args:
      mesh: the mesh.
      sizes: names and sizes of its manual axes.
    """
    with jax.sharding.use_abstract_mesh(mesh), bound_axes(sizes):
        yield


@contextlib.contextmanager
def entered(mesh: Any) -> Iterator[None]:
    """Make the mesh current while jaxprs are made whose types are on it: JAX's rules look at the
    axes of the current mesh.
    """
    if not uses_mesh(mesh):
        yield
        return
    manual = [
        (n, mesh.shape[n])
        for n, t in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if t == AxisType.Manual
    ]
    with _in_mesh(mesh, manual):
        yield


def tracking(name: str, params: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Set whether types track varying axes, while the jaxprs of an equation are made: in a
    `shard_map` if it checks them.
    """
    return tracked_varying(params["check_vma"]) if name == "shard_map" else contextlib.nullcontext()


@contextlib.contextmanager
def mapped_over(name: str, params: Mapping[str, Any]) -> Iterator[None]:
    """Put the axes that an equation of JAX's maps over in scope, while its jaxprs are read: Python
    functions may use them.

    Args:
      name: the primitive; only `shard_map` and `xla_pmap` map over axes.
      params: the equation's, by the names of the newest release.
    """
    if name == "shard_map":
        new = params["newly_manual_axes"]
        mesh = manual_mesh(params["mesh"], new)
        with _in_mesh(mesh, [(n, mesh.shape[n]) for n in new]), tracking(name, params):
            yield
    elif name == "xla_pmap":
        with bound_axes([(params["axis_name"], params["axis_size"])]):
            yield
    else:
        yield


class Surroundings(NamedTuple):
    """The mesh and named axes around an equation, for a Python function that it calls later.

    Attributes:
      mesh: the current abstract mesh; None outside of one.
      sizes: the named axes, with their sizes.
      tracked: whether types track varying axes.
    """

    mesh: Any
    sizes: tuple[tuple[str, int], ...]
    tracked: bool

    @classmethod
    def now(cls) -> Surroundings:
        """Return those of the equation whose jaxprs or params are being read: see `mapped_over`."""
        mesh = jax.sharding.get_abstract_mesh()
        return cls(None if mesh.empty else mesh, *axes_in_scope())

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Return a context that puts them in scope for JAX's functions."""
        axes = bound_axes(self.sizes) if self.mesh is None else _in_mesh(self.mesh, self.sizes)
        with axes, tracked_varying(self.tracked):
            yield

    def typed(self, aval: Any, struct: Any) -> Any:
        """Return JAX's type of an array with the shape and dtype of `struct`, and the varying axes
        of one of our types.
        """
        if self.mesh is None or not aval.annotated:
            return struct
        return placed_aval(aval, struct.shape, struct.dtype, False, self.mesh)


def spec_of(aval: Any, mesh: Any) -> PartitionSpec:
    """Return JAX's spec for one of our types on a mesh, with its unreduced and reduced axes.

    Axes over which a `shard_map` maps are left out where JAX has them in the type.
    """
    parts = [axes if len(axes) > 1 else axes[0] if axes else None for axes in aval.spec]
    sums = {k: frozenset(getattr(aval.vary, k)) - _in_types(mesh) for k in _SUMS}
    named: dict[str, Any] = {k: axes for k, axes in sums.items() if axes}
    if aval.vary.kind and sums["unreduced"]:
        named["unreduced_kind"] = kind_of_sum(aval.vary.kind)
    return PartitionSpec(*parts or [None] * len(aval.shape), **named)


def kind_of_sum(kind: str) -> Any:
    """Return JAX's object for the kind of reduction over unreduced axes.

    Raises ValueError where this release has only sums.
    """
    known = getattr(jax.sharding, "UnreducedKind", None)
    if known is None:
        raise ValueError(f"the installed JAX has no unreduced_kind={kind}")
    return known[kind]


_SUMS = ("unreduced", "reduced")


def _in_types(mesh: Any) -> frozenset[str]:
    """Return the axes of a mesh whose unreduced state types hold, instead of specs."""
    return frozenset(mesh.manual_axes if SUMS_IN_TYPES else ())


def placed_aval(aval: Any, shape: Any, dtype: Any, on_host: bool, mesh: Any) -> Any:
    """Return a type as JAX's, with a shape and a dtype of JAX's, on a mesh.

    Raises:
      ValueError: it names axes that the mesh does not have.
    """
    groups = {k: frozenset(getattr(aval.vary, k)) for k in ("varying", *_SUMS)}
    if not set().union(*groups.values()) <= set(mesh.axis_names):
        raise ValueError(f"the mesh has no such axes: {aval.vary}")
    groups |= {k: groups[k] & _in_types(mesh) for k in _SUMS}
    sharding = NamedSharding(mesh, spec_of(aval, mesh))
    return array_type(shape, dtype, aval.weak_type, on_host=on_host, sharding=sharding, axes=groups)


def fill_sharding(
    eqn: JaxprEqn,
    prim: Any,
    params: dict[str, Any],
    inputs: Sequence[Any],
    outs: Sequence[Any],
    mesh: Any,
) -> None:
    """Give JAX's params of an equation a sharding that JAX does not print, where only the type of
    the result determines it.

    That is where JAX's own rule finds another type for the result, or none: for a product over a
    dimension that is split, say.
    """
    if mesh is None or AxisType.Explicit not in mesh.axis_types:
        return
    for key, declared in eqn.primitive.params.items():
        hidden = declared.hidden == "always" and SHARDING in declared.kind.parts
        if hidden and params.get(key) is None and not _is_found(prim, params, inputs, outs):
            params[key] = NamedSharding(mesh, spec_of(eqn.out_binders[0].aval, mesh))


def _is_found(
    prim: Any, params: dict[str, Any], inputs: Sequence[Any], outs: Sequence[Any]
) -> bool:
    """Whether JAX's type rule finds the type of an equation's result."""
    try:
        found, _ = prim.abstract_eval(*[x.aval for x in inputs], **params)
    except Exception:  # it refuses what it cannot decide
        return False
    return found == outs[0].aval

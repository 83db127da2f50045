"""Translate what evaluation computes for all devices of a mesh at once into what the text says: types and values of one device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.provenance import Origin
from jaxprtool.analyses.places import Place, Step
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.evaluation.observe import (
    Axes,
    DeviceAxes,
    Standing,
    device_at,
    devices_of,
)
from jaxprtool.ir.jaxpr import Atom, JaxprEqn, Lit
from jaxprtool.ir.walk import sub_jaxprs

__all__ = ["Local", "Shares", "element_of", "local_of", "shares_of"]


class Local(NamedTuple):
    """A result, and the operands, of an equation that ran for all devices at once.

    Attributes:
      type: the type of the result on one device.
      indices: the indices of the first bad elements there; empty where the equation is only part of
        what ran for the written one.
      devices: the device of each of these elements.
      n_devices: how many devices there are.
      operands: the type of each operand on one device.
    """

    type: str
    indices: list[tuple[int, ...]]
    devices: list[dict[str, int]]
    n_devices: int
    operands: list[str]


def local_of(origin: Origin, written: JaxprEqn) -> Local | None:
    """Return an origin as single devices see it; None where its result is that of one device, or of no mesh.

    Args:
      origin: where bad values began, with the equation that ran.
      written: the equation of the program in whose place it ran.
    """
    eqn, meshes = origin.eqn, _at_once(origin.path)
    if eqn is None or not meshes:
        return None
    found = origin.described
    if not found.type or found.result >= len(written.out_binders):
        return None
    standing = origin.path[-1].standing
    out = written.out_binders[found.result]
    axes = _device_axes(eqn.out_binders[found.result], out, meshes, standing)
    indices: list[tuple[int, ...]] = []
    devices: list[dict[str, int]] = []
    if axes:
        of_devices = {axis for axis, _ in axes}
        indices = [
            tuple([x for k, x in enumerate(i) if k not in of_devices]) for i in found.indices
        ]
        devices = [
            {name: k for axis, mesh in axes for name, k in device_at(i[axis], mesh).items()}
            for i in found.indices
        ]
    elif eqn.primitive is written.primitive:
        return None
    types = [str(x.aval) for x in eqn.inputs]
    if len(written.inputs) == len(eqn.inputs):
        for k, (x, y) in enumerate(zip(eqn.inputs, written.inputs, strict=True)):
            if _device_axes(x, y, meshes, standing):
                types[k] = str(y.aval)
    n = math.prod(_size(mesh) for _, mesh in axes or ())
    return Local(str(out.aval), indices, devices, n, types)


def element_of(
    ran: Place, written: JaxprEqn, result: int, index: Sequence[int]
) -> tuple[str, tuple[int, ...], dict[str, int]] | None:
    """Return the type of a result on one device, and of one of its elements the index there and the device; None where it is that of one device.

    Args:
      ran: the place of the equation that ran, for all devices at once perhaps.
      written: the equation of the program in whose place it ran.
      result: the position of the result.
      index: of the element, in what was computed.
    """
    meshes = _at_once(ran.path)
    if not meshes or result >= len(written.out_binders):
        return None
    out = written.out_binders[result]
    axes = _device_axes(ran.eqn.out_binders[result], out, meshes, ran.path[-1].standing)
    if not axes or len(index) != len(_shape(ran.eqn.out_binders[result])):
        return None
    stacked = dict(axes)
    there = tuple([i for k, i in enumerate(index) if k not in stacked])
    device = {n: i for k, mesh in axes for n, i in device_at(index[k], mesh).items()}
    return str(out.aval), there, device


class Shares(NamedTuple):
    """What an equation that ran for all devices at once has computed on each of them.

    Attributes:
      places: the place on each device.
      devices: for each place, which device of each mesh it is on.
      ins, outs: for each operand and each result the axes along which devices are stacked; () where
        it is the same on all.
    """

    places: list[Place]
    devices: list[dict[Axes, int]]
    ins: list[DeviceAxes]
    outs: list[DeviceAxes]

    def of(self, values: Sequence[Any], axes: Sequence[DeviceAxes], i: int) -> list[Any]:
        """Return the values at place i, whose axes are `ins` or `outs`."""
        at = self.devices[i]
        found: list[Any] = []
        for x, mine in zip(values, axes, strict=True):
            for axis, mesh in sorted(mine, reverse=True):
                x = _share(x, axis, at.get(mesh, 0))
            found.append(x)
        return found


def shares_of(eqn: JaxprEqn, place: Place) -> Shares | None:
    """Return for which devices an equation ran at once, and where their values are; None where it is only part of the written one.

    Args:
      eqn: the equation that ran.
      place: the place of the written equation in whose place it ran.
    """
    written, meshes = place.eqn, _at_once(place.path)
    if any(devices_of(closed.jaxpr) is not None for closed in sub_jaxprs(eqn)):
        return None  # a loop over the devices, each of which has run the written equation
    standing = place.path[-1].standing if place.path else None
    outs = _all_axes(eqn.out_binders, written.out_binders, meshes, standing)
    if outs is None:
        return None
    ins = _all_axes(eqn.inputs, written.inputs, meshes, standing) or [()] * len(eqn.inputs)
    ways: list[tuple[tuple[Step, ...], dict[Axes, int]]] = [((), {})]
    varying, told = {mesh for axes in outs for _, mesh in axes}, set[str]()
    for k, step in enumerate(place.path):
        mesh = _left(step, place.path[k:])
        if step.device and told.issuperset(step.device):
            continue
        if mesh not in varying:
            ways = [((*way, step), at) for way, at in ways]
            continue
        told.update(name for name, _ in step.mesh or ())
        ways = [
            ((*way, step, _on_device(step, mesh, i, place.path[k:])), {**at, mesh: i})
            for way, at in ways
            for i in range(_size(mesh))
        ]
    places = [place._replace(path=way) for way, _ in ways]
    return Shares(places, [at for _, at in ways], ins, outs)


def _all_axes(
    ran: Sequence[Atom], written: Sequence[Atom], meshes: Sequence[Axes], standing: Standing | None
) -> list[DeviceAxes] | None:
    """Return for each value the axes along which devices are stacked; None where one is only part of the written value."""
    if len(ran) != len(written):
        return None
    pairs = list(zip(ran, written, strict=True))
    axes = [_device_axes(x, y, meshes, standing) for x, y in pairs]
    parts = [not a and _is_part(x, y, standing) for a, (x, y) in zip(axes, pairs, strict=True)]
    return None if any(parts) else axes


def _is_part(ran: Atom, written: Atom, standing: Standing | None) -> bool:
    """Whether a value, which is the same on all devices, is not the written one."""
    named = standing is None or type(ran) is Lit or ran in standing.axes
    return not named or _shape(ran) != _shape(written)


def _share(x: Any, axis: int, number: int) -> Any:
    xp = numpy_namespace()
    if isinstance(x, xp.KeyArray):
        return xp.KeyArray(x.impl, _share(x.data, axis, number))
    return x[(slice(None),) * axis + (number,)]


def _at_once(path: Sequence[Step]) -> list[Axes]:
    """Return the meshes whose devices run at once, the outermost first: those that no step tells apart."""
    left = [_left(step, path[k:]) for k, step in enumerate(path)]
    return [mesh for mesh in left if mesh]


def _left(step: Step, path: Sequence[Step]) -> Axes:
    """Return the axes of a step's mesh along which devices run at once.

    path: the steps from this one on, which may tell some devices apart.
    """
    if step.mesh is None or step.step is not None:
        return ()
    apart = {name for other in path for name in other.device}
    return tuple([(name, size) for name, size in step.mesh if name not in apart])


def _on_device(step: Step, mesh: Axes, i: int, path: Sequence[Step]) -> Step:
    """Return the step of device i of those along `mesh`; the steps of `path` tell its coordinates along the other axes."""
    at = device_at(i, mesh)
    for other in path:
        at |= other.device
    number = 0
    for name, size in step.mesh or ():
        number = number * size + at[name]
    return step._replace(step=number)


def _size(mesh: Axes) -> int:
    return math.prod(size for _, size in mesh)


def _shape(x: Atom) -> tuple[Any, ...]:
    return getattr(x.aval, "shape", ())


def _device_axes(
    ran: Atom, written: Atom, meshes: Sequence[Axes], standing: Standing | None
) -> DeviceAxes:
    """Return the axes along which the values of devices are stacked; () where there are none, or it is not known which they are."""
    before, after = _shape(ran), _shape(written)
    if standing is not None and type(ran) is not Lit:
        known = standing.axes.get(ran, ())
        of_devices = {axis for axis, _ in known}
        rest = tuple([n for i, n in enumerate(before) if i not in of_devices])
        return known if rest == after else ()
    if len(meshes) != 1:
        return ()
    n = _size(meshes[0])
    axes = [
        i for i, size in enumerate(before) if size == n and before[:i] + before[i + 1 :] == after
    ]
    return ((axes[0], meshes[0]),) if len(axes) == 1 else ()

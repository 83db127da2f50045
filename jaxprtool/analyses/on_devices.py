"""What evaluation computes of all devices of a mesh at once, as the text has it: the types of one device, and which one it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.provenance import Origin
from jaxprtool.analyses.places import Place, Step, device_at
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.interpreters.observe import Standing, devices_of
from jaxprtool.ir.jaxpr import Atom, JaxprEqn, Lit
from jaxprtool.ir.walk import sub_jaxprs

__all__ = ["Local", "Shares", "local_of", "shares_of"]


class Local(NamedTuple):
    """A result, and the operands, of an equation that ran for all devices at once.

    Attributes:
      type: the type of the result on one device.
      indices: where the first bad elements are there; empty where the equation is a part of what ran in the place of one as written.
      devices: the device of each of these.
      n_devices: how many devices there are.
      operands: the type of each operand on one device.
    """

    type: str
    indices: list[tuple[int, ...]]
    devices: list[dict[str, int]]
    n_devices: int
    operands: list[str]


def local_of(origin: Origin, written: JaxprEqn) -> Local | None:
    """What an origin is on single devices; None where the result is that of one device, or of no mesh.

    Args:
      origin: where bad values began; it has the equation that ran.
      written: the equation of the program in whose place it ran.
    """
    eqn, mesh = origin.eqn, _mesh_of(origin.path)
    if eqn is None or not mesh or not origin.type or origin.result >= len(written.out_binders):
        return None
    standing = origin.path[-1].standing
    n = math.prod(size for _, size in mesh)
    out = written.out_binders[origin.result]
    axis = _axis_of_devices(eqn.out_binders[origin.result], out, n, standing)
    indices: list[tuple[int, ...]] = []
    devices: list[dict[str, int]] = []
    if axis is not None:
        indices = [(*i[:axis], *i[axis + 1 :]) for i in origin.indices]
        devices = [device_at(i[axis], mesh) for i in origin.indices]
    elif eqn.primitive is written.primitive:
        return None
    types = [str(x.aval) for x in eqn.inputs]
    if len(written.inputs) == len(eqn.inputs):
        for k, (x, y) in enumerate(zip(eqn.inputs, written.inputs, strict=True)):
            if _axis_of_devices(x, y, n, standing) is not None:
                types[k] = str(y.aval)
    return Local(str(out.aval), indices, devices, n, types)


class Shares(NamedTuple):
    """What an equation that ran for all devices at once has computed on them.

    Attributes:
      places: the place of each device.
      ins, outs: for each operand and each result the axis along which the devices stand; None where it is the same on all.
    """

    places: list[Place]
    ins: list[int | None]
    outs: list[int | None]

    def of(self, values: Sequence[Any], axes: Sequence[int | None], number: int) -> list[Any]:
        """The values of a device, whose axes are `ins` or `outs`."""
        pairs = zip(values, axes, strict=True)
        return [x if axis is None else _share(x, axis, number) for x, axis in pairs]


def shares_of(eqn: JaxprEqn, place: Place) -> Shares | None:
    """Which devices an equation ran for at once, and where their values stand; None where it is a part of what is written.

    Args:
      eqn: the equation that ran.
      place: that of the written one, in whose place it ran.
    """
    written, mesh = place.eqn, _mesh_of(place.path)
    if any(devices_of(closed.jaxpr) is not None for closed in sub_jaxprs(eqn)):
        return None  # a loop over the devices, each of which has run what is written
    at = next((i for i, step in enumerate(place.path) if step.mesh), None)
    at_once = at is not None and bool(mesh) and place.path[at].step is None
    n = math.prod(size for _, size in mesh) if at_once else 0
    standing = place.path[-1].standing if place.path else None
    outs = _axes(eqn.out_binders, written.out_binders, n, standing)
    if outs is None:
        return None
    same: list[int | None] = [*repeat(None, len(eqn.inputs))]
    ins = _axes(eqn.inputs, written.inputs, n, standing) or same
    if at is None or all(axis is None for axis in outs):
        return Shares([place], ins, [None] * len(outs))
    on = place.path[at]
    before, after = place.path[: at + 1], place.path[at + 1 :]
    ways = [(*before, on._replace(step=i), *after) for i in range(n)]
    return Shares([place._replace(path=way) for way in ways], ins, outs)


def _axes(
    ran: Sequence[Atom], written: Sequence[Atom], n: int, standing: Standing | None
) -> list[int | None] | None:
    """For each value the axis along which its devices stand; None where one is not that of the program, but a part of it."""
    if len(ran) != len(written):
        return None
    pairs = list(zip(ran, written, strict=True))
    axes = [_axis_of_devices(x, y, n, standing) for x, y in pairs]
    parts = [
        axis is None and _is_part(x, y, standing) for axis, (x, y) in zip(axes, pairs, strict=True)
    ]
    return None if any(parts) else axes


def _is_part(ran: Atom, written: Atom, standing: Standing | None) -> bool:
    """Whether a value, which is the same on all devices, is not that of the program."""
    named = standing is None or type(ran) is Lit or ran in standing.axis
    return not named or _shape(ran) != _shape(written)


def _share(x: Any, axis: int, number: int) -> Any:
    xp = numpy_namespace()
    if isinstance(x, xp.KeyArray):
        return xp.KeyArray(x.impl, _share(x.data, axis, number))
    return x[(slice(None),) * axis + (number,)]


def _mesh_of(path: Sequence[Step]) -> Sequence[tuple[str, int]]:
    """The mesh whose devices run at once; of several inside each other nobody knows which axis of a value is whose."""
    found = [step.mesh for step in path if step.mesh is not None]
    return found[0] if len(found) == 1 else ()


def _shape(x: Atom) -> tuple[Any, ...]:
    return getattr(x.aval, "shape", ())


def _axis_of_devices(ran: Atom, written: Atom, n: int, standing: Standing | None) -> int | None:
    """The axis along which the values of all devices stand; None where there is none, or nobody knows which of several it is."""
    before, after = _shape(ran), _shape(written)
    axes = [
        i for i, size in enumerate(before) if size == n and before[:i] + before[i + 1 :] == after
    ]
    if standing is None or type(ran) is Lit:
        return axes[0] if len(axes) == 1 else None
    known = standing.axis.get(ran)
    return known if known in axes else None

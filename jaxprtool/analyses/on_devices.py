"""What evaluation computes of all devices of a mesh at once, as the text has it: the types of one device, and which one it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.places import Step, device_at
from jaxprtool.analyses.provenance import Origin
from jaxprtool.ir.jaxpr import JaxprEqn

__all__ = ["Local", "local_of"]


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
    n = math.prod(size for _, size in mesh)
    aval = written.out_binders[origin.result].aval
    axis = _axis_of_devices(eqn.out_binders[origin.result].aval, aval, n)
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
            if _axis_of_devices(x.aval, y.aval, n) is not None:
                types[k] = str(y.aval)
    return Local(str(aval), indices, devices, n, types)


def _mesh_of(path: Sequence[Step]) -> Sequence[tuple[str, int]]:
    """The mesh whose devices run at once; of several inside each other nobody knows which axis of a value is whose."""
    found = [step.mesh for step in path if step.mesh is not None]
    return found[0] if len(found) == 1 else ()


def _axis_of_devices(ran: Any, written: Any, n: int) -> int | None:
    """The axis along which the values of all devices stand; None where there is none."""
    before, after = getattr(ran, "shape", ()), getattr(written, "shape", ())
    if len(before) != len(after) + 1:
        return None
    axes = (i for i, size in enumerate(before) if size == n)
    return next((i for i in axes if (*before[:i], *before[i + 1 :]) == after), None)

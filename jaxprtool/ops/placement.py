"""Primitives that place values on devices, in memories or in order, and do not change their
elements.
"""

from jaxprtool.core.kinds.enums import CopySemantics
from jaxprtool.core.kinds.numbers import ElementTypeOrClass, Shape
from jaxprtool.core.kinds.objects import Options
from jaxprtool.core.kinds.placement import (
    Destinations,
    Layout,
    MemorySpace,
    Mesh,
    Sharding,
    UnconstrainedDims,
)
from jaxprtool.core.primitive import primitive, shown

__all__ = [
    "device_put",
    "empty",
    "empty2",
    "layout_constraint",
    "sharding_constraint",
    "tie",
    "xla_metadata_value",
]


@primitive(multiple_results=True)
def device_put(
    *operands,
    devices: Destinations,
    srcs: Destinations = shown(()),
    copy_semantics: tuple[CopySemantics, ...] = shown(()),
):
    """The operands, moved to devices.

    devices: for each operand, the device, sharding or memory space, or None to leave it in place.
    srcs: for each operand, the device, sharding or memory space that it comes from, or None.
    copy_semantics: for each operand: reuse its buffer if possible, always copy it, or donate it.
    """


@primitive
def sharding_constraint(
    operand,
    *,
    sharding: Sharding | None,
    layout: Layout | None = shown(None),
    context_mesh: Mesh | None = shown(None),
    unconstrained_dims: UnconstrainedDims | None = shown(frozenset()),
):
    """operand, with a given sharding over the devices of a mesh.

    sharding: the sharding.
    layout: the layout in memory, or None for any.
    context_mesh: the mesh of the context, or None.
    unconstrained_dims: the axes whose sharding the compiler chooses.
    """


@primitive
def layout_constraint(operand, *, layout: Layout | None):
    """operand, with a given layout in memory.

    layout: the order of the axes in memory, and the sizes of tiles.
    """


@primitive
def tie(first, second):
    """second; the compiler computes first before it."""


@primitive
def xla_metadata_value(operand, *, xla_metadata_kvs: Options):
    """operand; the XLA operation that computes it gets attributes.

    xla_metadata_kvs: the attributes, as pairs (name, value).
    """


@primitive
def empty(*, shape: Shape, dtype: ElementTypeOrClass, out_sharding: Sharding | None = shown(None)):
    """An array with unspecified elements; here, and in JAX on CPUs, zeros.

    shape: its shape.
    dtype: its element type.
    out_sharding: its sharding, or None.
    """


@primitive
def empty2(*, dtype: ElementTypeOrClass, memory_space: MemorySpace | None = shown(None)):
    """A scalar with an unspecified value; here and in JAX zero.

    dtype: its element type.
    memory_space: the memory that holds it, or None for the default one.
    """

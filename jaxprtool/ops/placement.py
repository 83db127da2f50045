"""Where values are, and in what order things happen: identities to the mathematics."""

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
    """The operands, each on a device.

    devices: for each operand the device, sharding or memory space, None for where it is.
    srcs: for each operand where it comes from, or None.
    copy_semantics: for each operand whether the buffer is used again, lent or copied.
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
    """operand, laid out over the devices of a mesh in the way of a sharding.

    sharding: the sharding.
    layout: the layout in memory, or None.
    context_mesh: the mesh of the context.
    unconstrained_dims: axes about which the sharding says nothing.
    """


@primitive
def layout_constraint(operand, *, layout: Layout | None):
    """operand, laid out in memory in a way.

    layout: the order of the axes in memory, and the tiles.
    """


@primitive
def tie(first, second):
    """second, which depends on first all the same."""


@primitive
def xla_metadata_value(operand, *, xla_metadata_kvs: Options):
    """operand, the operation that makes which carries attributes for XLA.

    xla_metadata_kvs: the attributes, as pairs of a name and a value.
    """


@primitive
def empty(*, shape: Shape, dtype: ElementTypeOrClass, out_sharding: Sharding | None = shown(None)):
    """An array of any contents; here, as on a CPU in JAX, of zeros.

    shape: its shape.
    dtype: its element type.
    out_sharding: its sharding, or None.
    """


@primitive
def empty2(*, dtype: ElementTypeOrClass, memory_space: MemorySpace | None = shown(None)):
    """A scalar of any value; here, as in JAX, zero.

    dtype: its element type.
    memory_space: where it is.
    """

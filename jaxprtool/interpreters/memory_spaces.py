"""Memory spaces of arrays: `f32<host>[3]` is in the memory of the host."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import COPY_SEMANTICS
from jaxprtool.core.kinds.placement import MEMORY
from jaxprtool.core.trace import get_aval
from jaxprtool.ir.jaxpr import Value

__all__ = ["put_in_memory"]

_ALWAYS_COPY = COPY_SEMANTICS.word("ALWAYS_COPY")


def put_in_memory(x: Value, memory: str) -> Value:
    """Return an array in the memory of this name (`host`; "" is the device's), moved by a
    `device_put` where necessary.
    """
    if get_aval(x).memory == memory:
        return x
    space = MEMORY.word(memory.capitalize() or "Device")
    return lax.device_put(x, devices=(space,), srcs=(None,), copy_semantics=(_ALWAYS_COPY,))[0]

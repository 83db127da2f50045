"""Rows of `create_linear`, `pin` and `unpin`: buffers that a compiler must not move; CPUs have
none.
"""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import OpaqueType, ShapedArray
from jaxprtool.ir.jaxpr import Aval
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.outside import array_types, out_of_reach
from jaxprtool.rules.define import define

__all__: list[str] = []


_SPACES = (None, "hbm", "vmem")


def _buffer_of(aval: Any, space: ParamValue) -> OpaqueType:
    """Return the type of a buffer that holds a value of this type, in JAX's printed form."""
    if not isinstance(aval, ShapedArray):
        ill_typed(f"a buffer holds an array, and not {aval}", "operand-types")
    if space is not None and str(space) not in _SPACES:
        ill_typed(f"a buffer is in hbm or vmem, and not in {space}", "param-value")
    held = f"{aval.dtype.name}[{','.join(map(str, aval.shape))}]"
    weak = ", weak_type=True" if aval.weak_type else ""
    where = None if space is None else f"'{space}'"
    return OpaqueType(f"AbstractLinVal(inner_aval=ShapedArray({held}{weak}), memory_space={where})")


def _unpin_type(buffer: Aval, *, out_avals: Any) -> ShapedArray:
    held = array_types("unpin", out_avals or ())
    if len(held) != 1 or not isinstance(buffer, OpaqueType):
        ill_typed(f"unpin needs a buffer that was pinned, and its operand is {buffer}")
    weak = held[0].update(weak_type=True)
    if all(_buffer_of(a, space) is not buffer for a in (held[0], weak) for space in _SPACES):
        ill_typed(f"unpin gives {held[0]} of {buffer}", "operand-types")
    return held[0]


_ON_NO_CPU = "it is of buffers in the memory of a TPU"
for _op, _rule in (
    (lax.create_linear, lambda *, ty, memory_space: _buffer_of(ty, memory_space)),
    (lax.pin, lambda operand, *, to: _buffer_of(operand, to)),
    (lax.unpin, _unpin_type),
):
    define(
        _op,
        abstract_eval=_rule,
        effects=True,
        varying="rule",
        **out_of_reach(_op.primitive.name, _ON_NO_CPU),
    )

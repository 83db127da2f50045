"""Rows of `psend` and `precv`, the two halves of a `ppermute`; JAX implements them on GPUs only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.ir.avals import AbstractToken, ShapedArray
from jaxprtool.ir.jaxpr import Aval
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.outside import out_of_reach
from jaxprtool.ops.parallel import names_of
from jaxprtool.rules.define import define
from jaxprtool.rules.parallel.traffic import sent_along
from jaxprtool.rules.parallel.types import check_ends, group_size

__all__: list[str] = []

_TOKEN = AbstractToken()
_WHY = "JAX has it on GPUs alone; ppermute is both halves in one"


def _send_type(operand: Aval, *, axis_name: ParamValue, perm: Any) -> Aval:
    check_ends("psend", perm, group_size("psend", names_of(axis_name), None))
    return _TOKEN


def _receive_type(token: Aval, *, out_shape: Any, axis_name: ParamValue, perm: Any) -> Aval:
    if token is not _TOKEN:
        ill_typed(f"precv takes a token, and its operand is {token}", "operand-types")
    if not isinstance(out_shape, ShapedArray):
        ill_typed(f"precv: {out_shape} is not the type of an array", "param-value")
    check_ends("precv", perm, group_size("precv", names_of(axis_name), None))
    return out_shape.strong


def _sent(ins: Any, outs: Any, members: int, **params: Any) -> int:
    """The sends rule: `precv`, whose first operand is a token, sends nothing."""
    return 0 if ins and ins[0] is _TOKEN else sent_along(ins, outs, members, **params)


_RULES: tuple[tuple[Any, Callable[..., Aval]], ...] = (
    (lax.psend, _send_type),
    (lax.precv, _receive_type),
)

for _op, _type in _RULES:
    define(
        _op,
        abstract_eval=_type,
        **out_of_reach(_op.primitive.name, _WHY),
        varying="rule",
        sends=_sent,
        effects=True,
    )

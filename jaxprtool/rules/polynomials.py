"""The row of `polynomial`: Horner's rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import broadcast_batch
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero, add_tangents, instantiate
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import check_same_dtype
from jaxprtool.makers.decomposed import decomposed
from jaxprtool.makers.elementwise import (
    broadcast_avals,
    broadcast_to,
    check_kind,
    full_like,
    unbroadcast,
)
from jaxprtool.rules.define import define

__all__: list[str] = []

_UNROLLED = 8  # the largest number of terms that JAX unrolls, if the equation does not say


def _type(x: Aval, *coefficients: Aval, **_: Any) -> Aval:
    if not coefficients:
        ill_typed("polynomial has no coefficients", "operand-count")
    check_kind("polynomial", x, "iufc")
    check_same_dtype("polynomial", (x, *coefficients))
    return broadcast_avals("polynomial", (x, *coefficients))


def _horner(
    in_avals: Sequence[Aval], x: Value, *coefficients: Value, unroll: int | None = None
) -> Value:
    """Evaluate the polynomial by Horner's rule.

    With many terms, JAX writes a loop that starts from zero, so that the result is NaN for infinite
    x; the same is done here.
    """
    shape = broadcast_avals("polynomial", in_avals).shape
    x, *terms = [broadcast_to(c, shape) for c in (x, *coefficients)]
    loops = len(terms) > (_UNROLLED if unroll is None else unroll)
    out = full_like(x, 0) if loops else terms.pop()
    for c in reversed(terms):
        out = lax.add(lax.mul(out, x), c)
    return out


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> PrimalAndTangent:
    x, *coefficients = primals
    x_dot, *dots = tangents
    out = lax.polynomial(*primals, **params)
    shape, tangent = get_aval(out).shape, Zero(get_aval(out).tangent())
    if type(x_dot) is not Zero:
        _, *rest = coefficients
        slopes = [lax.mul(full_like(c, k), c) if k > 1 else c for k, c in enumerate(rest, 1)]
        if slopes:
            moved = lax.mul(x_dot, _of(x, slopes, params))
            tangent = add_tangents(tangent, broadcast_to(moved, shape))
    if any(type(t) is not Zero for t in dots):
        moved = _of(x, [instantiate(t) for t in dots], params)
        tangent = add_tangents(tangent, broadcast_to(moved, shape))
    return out, tangent


def _of(x: Value, coefficients: list[Value], params: Any) -> Value:
    """Bind `polynomial`; return the coefficient if there is only one."""
    if len(coefficients) > 1:
        return lax.polynomial(x, *coefficients, **params)
    return coefficients[0]


def _transpose(ct: Value, x: Value, *coefficients: Value, **_: Any) -> list[Value | None]:
    if is_linear(x):
        not_linear("polynomial", "its first operand is among them")
    cts: list[Value | None] = [None]
    shape, power = get_aval(ct).shape, ct
    for k, c in enumerate(coefficients):
        cts.append(unbroadcast(power, c.aval) if is_linear(c) else None)
        if k + 1 < len(coefficients):
            power = lax.mul(power, broadcast_to(x, shape))
    return cts


define(
    lax.polynomial,
    abstract_eval=_type,
    jvp=_jvp,
    transpose=_transpose,
    batch=broadcast_batch,
    **decomposed(_horner),
    cost=AS_LOWERED,
)

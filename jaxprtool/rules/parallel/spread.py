"""Rows of the collectives that are composed of others: `pbroadcast_dynamic` and `pdot`.

`pbroadcast_dynamic` is the sum along the axis of the value of the source, and zeros of the other
members. `pdot` is the sum along named axes of the `dot_general` of each member's operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import bound_axes
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.jvp import Zero, bilinear
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.stage import stage
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.avals import NO_GROUPS
from jaxprtool.ir.dtypes import BOOL, INT32
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import varying_axes
from jaxprtool.makers.axes import full, varied
from jaxprtool.makers.calls import inline_transpose
from jaxprtool.makers.decomposed import run_as
from jaxprtool.ops.parallel import names_of
from jaxprtool.rules.define import define
from jaxprtool.rules.parallel.groups import mapped
from jaxprtool.rules.parallel.reductions import sum_along
from jaxprtool.rules.parallel.traffic import sent_twice
from jaxprtool.rules.parallel.types import check_bound

__all__: list[str] = []

InTermsOfOthers = Callable[..., Value]


def _staged(f: InTermsOfOthers, avals: Sequence[Any], params: dict[str, Any]) -> ClosedJaxpr:
    return stage(lambda *xs: [f(None, *xs, **params)], [a.strong for a in avals])


def _batch_as(f: InTermsOfOthers) -> Callable[..., Value]:
    def rule(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
        avals = [get_aval(x).strong for x in vals]
        return mapped(lambda *xs: f(None, *xs, **params), avals, axis_size, vals, dims)

    return rule


def _lower_as(f: InTermsOfOthers) -> Callable[..., Value]:
    def rule(ctx: LoweringContext, *operands: HloValue, **params: Any) -> HloValue:
        with bound_axes(ctx.mesh.sizes if ctx.mesh is not None else {}):
            closed = _staged(f, ctx.in_avals, params)
        return ctx.inline(closed, operands)[0]

    return rule


# -- pbroadcast_dynamic --------------------------------------------------------------------------


def _from_source_type(x: Aval, source: Aval, *, axis_name: ParamValue) -> Aval:
    """The type rule: the type of x."""
    names = names_of(axis_name)
    check_bound("pbroadcast_dynamic", names)
    if source.shape or source.dtype is not INT32:
        ill_typed(f"pbroadcast_dynamic: source is {source}, and has to be i32[]", "operand-types")
    return x


def _from_source(
    in_avals: Sequence[Aval] | None, x: Value, source: Value, *, axis_name: ParamValue
) -> Value:
    aval, names = get_aval(x), names_of(axis_name)
    here = lax.eq(*_together(lax.axis_index(axis_name=axis_name), source))
    which = lax.broadcast_in_dim(here, shape=aval.shape) if aval.shape else here
    if aval.dtype is BOOL:
        x = lax.convert_element_type(x, new_dtype=INT32)
    none = full(get_aval(x).update(vary=NO_GROUPS), 0)
    which, none, x = _together(which, none, x)
    total = sum_along(lax.select_n(which, none, x), names)
    if aval.dtype is BOOL:
        total = lax.convert_element_type(total, new_dtype=BOOL)
    return varied(total, varying_axes(aval))


def _together(*xs: Value) -> list[Value]:
    """Return the values, cast so that their types vary along the same axes."""
    names = list(dict.fromkeys(n for x in xs for n in varying_axes(get_aval(x))))
    return [varied(x, names) for x in xs]


def _from_source_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], **params: ParamValue
) -> PrimalAndTangent:
    (x, source), (t, _) = primals, tangents
    out = lax.pbroadcast_dynamic(x, source, **params)
    if type(t) is Zero:
        return out, Zero(get_aval(out))
    return out, lax.pbroadcast_dynamic(t, source, **params)


def _from_source_transpose(ct: Value, x: Value, source: Value, **params: Any) -> list[Value]:
    """The transpose rule: the source gets the sum of all cotangents, the other members zero."""
    if is_linear(source):
        not_linear("pbroadcast_dynamic", "the source depends on them")
    closed = _staged(_from_source, [x.aval, get_aval(source)], params)
    return inline_transpose([ct], [x, source], closed)


define(
    lax.pbroadcast_dynamic,
    abstract_eval=_from_source_type,
    impl=run_as(_from_source),
    jvp=_from_source_jvp,
    transpose=_from_source_transpose,
    batch=_batch_as(_from_source),
    lower=_lower_as(_from_source),
    cost=FREE,
    varying="rule",
    steers="operand 1",
    sends=sent_twice,
)


# -- pdot ----------------------------------------------------------------------------------------


def _pdot(
    in_avals: Sequence[Aval] | None,
    lhs: Value,
    rhs: Value,
    *,
    axis_name: ParamValue,
    pos_contract: Any,
    pos_batch: Any,
    precision: ParamValue = None,
) -> Value:
    numbers = tuple(map(tuple, pos_contract)), tuple(map(tuple, pos_batch))
    out = lax.dot_general(lhs, rhs, dimension_numbers=numbers, precision=precision)
    names = names_of(axis_name)
    return sum_along(out, names) if names else out


def _pdot_type(lhs: Aval, rhs: Aval, **params: Any) -> Aval:
    check_bound("pdot", names_of(params["axis_name"]))
    for key in ("pos_contract", "pos_batch"):
        if not isinstance(params[key], (tuple, list)) or len(params[key]) != 2:
            ill_typed(f"pdot: {key}={params[key]} is no pair of axes", "param-value")
    return _staged(_pdot, [lhs, rhs], params).jaxpr.out_avals[0]


def _pdot_transpose(ct: Value, lhs: Value, rhs: Value, **params: Any) -> list[Value]:
    avals = [x.aval if is_linear(x) else get_aval(x) for x in (lhs, rhs)]
    return inline_transpose([ct], [lhs, rhs], _staged(_pdot, avals, params))


define(
    lax.pdot,
    abstract_eval=_pdot_type,
    impl=run_as(_pdot),
    jvp=bilinear,
    transpose=_pdot_transpose,
    batch=_batch_as(_pdot),
    lower=_lower_as(_pdot),
    cost=AS_LOWERED,
    varying="rule",
    sends=sent_twice,
)

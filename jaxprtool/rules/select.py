"""Rows of `select_n` and `clamp`.

Operands have equal shapes; the selector and the bounds may also be scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero, instantiate, jvp_terms
from jaxprtool.interpreters.lower import HloValue, LoweringContext, hlo
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR, is_linear, not_linear
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import check_same_dtype
from jaxprtool.makers.elementwise import (
    check_kind,
    full_like,
    in_bytes,
)
from jaxprtool.makers.keys import MOVES_KEYS
from jaxprtool.rules.define import define

# -- select_n ------------------------------------------------------------------------------------


def _select_n_type(which: Any, *cases: Aval) -> Aval:
    if len(cases) == 0:
        ill_typed("select_n needs at least one case", "operand-count")
    check_kind("select_n", which, "biu")
    if which.dtype.kind == "b" and len(cases) > 2:
        ill_typed(
            f"select_n with a boolean selector chooses between two cases, and {len(cases)} are given",
            "operand-count",
            help="use an i32 selector for more cases",
        )
    first: Any = next(iter(cases))
    for case in cases:
        if case is not first and (case.shape != first.shape or case.dtype is not first.dtype):
            given = ", ".join(map(str, cases))
            ill_typed(f"select_n: the cases have to have one type, not {given}", "operand-types")
    if which.shape and which.shape != first.shape:
        ill_typed(
            f"select_n: the selector {which} has neither rank 0 nor the shape of the cases {first}",
            "operand-shapes",
        )
    return first


_MANY = 10_000  # from this size on, checking all elements costs little compared to making an array


def _select_n_impl(xp: Namespace, which: Any, *cases: Value) -> Value:
    """Evaluate; an index out of range selects the nearest case."""
    if which.dtype.kind == "b":
        if which.size > _MANY and which.shape:  # often all are equal, and no new array is needed
            if not which.any():
                return cases[0]
            if which.all():
                return cases[-1]
        return xp.where(which, cases[-1], cases[0])
    out = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        out = xp.where(which <= i, cases[i], out)
    return out


def _select_n_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> PrimalAndTangent:
    which, *cases = primals
    out = lax.select_n(which, *cases)
    moving = [t for t in tangents[1:] if type(t) is not Zero]
    if not moving:
        return out, Zero(get_aval(out))
    zero = None if len(moving) == len(cases) else instantiate(Zero(get_aval(out)))
    return out, lax.select_n(which, *[zero if type(t) is Zero else t for t in tangents[1:]])


def _select_n_transpose(ct: Value, which: Any, *cases: Value) -> Value:
    if is_linear(which):
        not_linear("select_n", "the selector depends on them")
    zero = instantiate(Zero(get_aval(ct)))
    boolean = get_aval(which).dtype.kind == "b"

    def chosen(i: int) -> Value:
        if len(cases) == 1:
            return ct
        if boolean:
            return lax.select_n(which, zero, ct) if i else lax.select_n(which, ct, zero)
        return lax.select_n(_takes(which, i, len(cases)), zero, ct)

    return [None, *[chosen(i) if is_linear(c) else None for i, c in enumerate(cases)]]


def _takes(which: Any, i: int, n: int) -> Value:
    """Return whether an integer selector takes case i of n, elementwise; n is at least 2."""
    if i == 0:
        return lax.le(which, 0)
    return lax.ge(which, i) if i == n - 1 else lax.eq(which, i)


def _select_n_batch(axis_size: int, vals: Sequence[Value], dims: Sequence[int | None]) -> OutAndDim:
    """The batch rule: the batch axis is where the first batched operand has it that is not a scalar
    selector; such a selector is only broadcast if it is batched.
    """
    rank = get_aval(vals[1]).ndim - (dims[1] is not None)
    which, which_dim = vals[0], dims[0]
    scalar = get_aval(which).ndim - (which_dim is not None) == 0
    candidates = dims[1:] if scalar else dims
    target = next((d for d in candidates if d is not None), 0)
    cases = [materialize(x, d, axis_size, target) for x, d in zip(vals[1:], dims[1:], strict=True)]
    if not scalar:
        which = materialize(which, which_dim, axis_size, target)
    elif which_dim is not None and rank:
        shape = get_aval(cases[0]).shape
        which = lax.broadcast_in_dim(which, shape=shape, broadcast_dimensions=(target,))
    return lax.select_n(which, *cases), target


def _select_n_lower(ctx: LoweringContext, which: Any, *cases: HloValue) -> HloValue:
    if which.aval.dtype.kind == "b":
        return ctx.select(which, cases[1], cases[0]) if len(cases) == 2 else cases[0]

    def between(first: int, cases: Any) -> Value:
        """Write a binary search for the case; the first of `cases` has index `first`."""
        if len(cases) == 1:
            return cases[0]
        middle = len(cases) // 2
        bound = ctx.constant(first + middle, which.aval)
        left = ctx.compare("LT", which, bound)
        return ctx.select(
            left, between(first, cases[:middle]), between(first + middle, cases[middle:])
        )

    return between(0, cases)


def _select_n_determined(in_avals: Any, params: Any) -> bool:
    """The determined rule: False for an integer selector, which may be out of range."""
    del params
    return in_avals[0].dtype.kind == "b"


def _chosen_by_bools(which: Aval, *cases: Aval) -> Value:
    """The earlier rule: choices between two by booleans."""
    if which.dtype.kind == "b" and len(cases) == 2:
        return None

    def f(which: Value, *cases: Value) -> Value:
        out = cases[-1]
        for i in reversed(range(len(cases) - 1)):
            out = lax.select_n(lax.le(which, full_like(which, i)), out, cases[i])
        return out

    return f


define(
    lax.select_n,
    abstract_eval=_select_n_type,
    impl=_select_n_impl,
    jvp=_select_n_jvp,
    transpose=_select_n_transpose,
    batch=_select_n_batch,
    lower=_select_n_lower,
    cost=AS_LOWERED,
    keys=MOVES_KEYS,
    masks="both",
    steers="operand 0",
    determined=_select_n_determined,
    elements="placed",
    sums="kept",
    earlier=_chosen_by_bools,
)


# -- clamp ---------------------------------------------------------------------------------------


def _clamp_type(min: Any, x: Aval, max: Any) -> Aval:
    check_kind("clamp", x, "biufc")
    if min.dtype is not x.dtype or max.dtype is not x.dtype:
        check_same_dtype("clamp", (min, x, max))
    for name, bound in (("min", min), ("max", max)):
        if bound.shape and bound.shape != x.shape:
            ill_typed(
                f"clamp: {name} {bound} has neither rank 0 nor the shape of x {x}", "operand-shapes"
            )
    return x


def _clamp_impl(xp: Namespace, low: Value, x: Value, high: Value) -> Value:
    return xp.minimum(xp.maximum(x, low), high)


def _where(pred: Value, t: Value, out: Value) -> Value:
    """Return t where pred is True, elsewhere 0, with the shape of out.

    A scalar t is multiplied by the mask, which is cheaper than to broadcast and select.
    """
    if get_aval(t).shape != get_aval(out).shape:
        return lax.mul(t, lax.convert_element_type(pred, new_dtype=get_aval(t).dtype))
    return lax.select_n(pred, full_like(out, 0.0), t)


def _clamp_batch(axis_size: int, vals: Sequence[Value], dims: Sequence[int | None]) -> OutAndDim:
    """The batch rule, as for select_n; scalar bounds are only broadcast if they are batched."""
    ranks = [get_aval(v).ndim - (d is not None) for v, d in zip(vals, dims, strict=True)]
    target = next(
        (d for d, r in zip(dims, ranks, strict=True) if d is not None and r == ranks[1]), 0
    )
    x = materialize(vals[1], dims[1], axis_size, target)
    shape = get_aval(x).shape

    def bound(i: int) -> Value:
        v, d = vals[i], dims[i]
        if ranks[i] == 0 and d is None:
            return v
        if ranks[i] == 0 and ranks[1]:
            return lax.broadcast_in_dim(v, shape=shape, broadcast_dimensions=(target,))
        return materialize(v, d, axis_size, target)

    return lax.clamp(bound(0), x, bound(2)), target


define(
    lax.clamp,
    abstract_eval=_clamp_type,
    impl=in_bytes(_clamp_impl),
    jvp=jvp_terms(
        lambda t, out, low, x, high: _where(lax.and_(lax.gt(low, x), lax.lt(low, high)), t, out),
        lambda t, out, low, x, high: _where(lax.and_(lax.gt(x, low), lax.lt(x, high)), t, out),
        lambda t, out, low, x, high: _where(lax.lt(high, x), t, out),
    ),
    transpose=NONLINEAR,
    batch=_clamp_batch,
    lower=hlo("clamp"),
    cost=AS_LOWERED,
    masks="inf",
)

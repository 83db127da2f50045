"""Rows of the collectives and casts of unreduced and reduced values.

A value is unreduced over a mesh axis if it is the sum of the parts that the members hold; it is
reduced if the members hold equal values that were summed. Each primitive here is evaluated and
lowered like one for varying values; only its types differ. Transposition exchanges unreduced and
reduced, as in JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import NamedAxis, current_axes
from jaxprtool.core.rule_table import unsupported
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.interpreters.cost import FREE, PER_OUTPUT
from jaxprtool.interpreters.jvp import linear
from jaxprtool.interpreters.transpose import NONLINEAR, transpose_unary
from jaxprtool.ir.avals import AxisGroups
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import lowest
from jaxprtool.ops.parallel import names_of
from jaxprtool.rules.define import define
from jaxprtool.rules.parallel.exchange import (
    gather_batch,
    gather_lower,
    scatter_batch,
    scatter_lower,
)
from jaxprtool.rules.parallel.reductions import (
    MOVES,
    reduction_batch,
    reduction_lower,
    unbound_impl,
)
from jaxprtool.rules.parallel.traffic import sent_parts, sent_twice, sent_whole
from jaxprtool.rules.parallel.types import all_gather_type, check_bound, reduce_scatter_type

__all__: list[str] = []

Groups = dict[str, tuple[str, ...]]


# -- types -------------------------------------------------------------------------------------


def _regrouped(x: Aval, names: Sequence[str], source: str, target: str) -> Aval:
    """Return the type of x with `names` moved from one group of axes to another.

    The groups are "varying", "unreduced" and "reduced"; "" stands for no group.
    """
    found = {g: getattr(x.vary, g) for g in ("varying", "unreduced", "reduced")}
    if source:
        found[source] = tuple(n for n in found[source] if n not in names)
    if target:
        found[target] = _in_order((*found[target], *names))
    return x.update(weak_type=x.weak_type, vary=AxisGroups(**found))


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return names in the order of the scope."""
    wanted = set(names)
    return tuple(n for n in current_axes().sizes if n in wanted)


def _check_groups(name: str, x: Aval, names: Sequence[str], source: str, target: str) -> None:
    """Raise a type error if the axes of a primitive are not in the group `source` of the operand's
    type, or are in the group `target` already.

    Whether an axis is unreduced or reduced is not checked for `source`, since not every rule tracks
    it.
    """
    tracked = [n for n in names if n in current_axes().varying]
    varies = source == "varying"
    wrong = [n for n in tracked if varies != (n in x.vary.varying)]
    if wrong:
        does = "does not vary" if varies else "varies"
        ill_typed(f"{name} along {', '.join(wrong)} of {x}, which {does} along it", "varying")
    again = [n for n in tracked if target and n in getattr(x.vary, target)]
    if again:
        ill_typed(
            f"{name} along {', '.join(again)} of {x}, whose type says that already", "varying"
        )


def _cast_type(op: Any, source: str, target: str) -> Callable[..., Aval]:
    """Return the type rule of a cast, which moves names from one group of the type to another."""
    name = op.primitive.name

    def rule(x: Aval, *, axes: Sequence[Value]) -> Aval:
        if any(isinstance(a, int) for a in axes):
            ill_typed(f"{name} is for named axes only: axes={axes}", "param-value")
        names = names_of(axes)
        check_bound(name, names)
        _check_groups(name, x, names, source, target)
        return _regrouped(x, [n for n in names if n in current_axes().varying], source, target)

    return rule


def _exchange_type(op: Any, plain: Any, source: str, target: str) -> Callable[..., Aval]:
    """Return the type rule of a collective that moves values, given that for varying values,
    `plain`.
    """
    name = op.primitive.name

    def rule(x: Aval, *, axis_name: ParamValue, **params: Any) -> Aval:
        names = names_of(axis_name)
        check_bound(name, names)
        _check_groups(name, x, names, source, target)
        tracked = [n for n in names if n in current_axes().varying]
        there = _regrouped(x, tracked, source, "varying")
        out = plain(there, axis_name=axis_name, axis_index_groups=None, **params)
        return _regrouped(out, tracked, "varying", target)

    return rule


# -- evaluation --------------------------------------------------------------------------------


def _cast_batch(op: Any) -> Callable[..., OutAndDim]:
    def rule(
        axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], *, axes: Sequence[Value]
    ) -> OutAndDim:
        sizes = axis_size.axes if type(axis_size) is NamedAxis else {}
        rest = tuple(n for n in names_of(axes) if n not in sizes)
        return (op(vals[0], axes=rest) if rest else vals[0]), dims[0]

    return rule


def _cast_impl(op: Any) -> Callable[..., Value]:
    def rule(xp: Namespace, x: Value, *, axes: Sequence[Value]) -> Value:
        return unbound_impl(op)(xp, x, axes=axes) if axes else x

    return rule


# -- rows --------------------------------------------------------------------------------------

for _op, _back, _source, _target in (
    (lax.vary_unreduced_cast_p, lax.reduced_vary_cast_p, "varying", "unreduced"),
    (lax.reduced_vary_cast_p, lax.vary_unreduced_cast_p, "reduced", "varying"),
    (lax.preduced, lax.unreduced_psum, "", "reduced"),
):
    define(
        _op,
        abstract_eval=_cast_type(_op, _source, _target),
        impl=_cast_impl(_op),
        jvp=linear,
        transpose=transpose_unary(lambda ct, aval, *, axes, back=_back: back(ct, axes=axes)),
        batch=_cast_batch(_op),
        lower=lambda ctx, x, **_: x,
        cost=FREE,
        varying="rule",
        elements="kept",
    )

_NO_DERIVATIVE = unsupported("JAX has no derivative of it")

for _op, _reduce, _name, _unit, _linear in (
    (lax.unreduced_psum, lax.reduce_sum, "add", lambda dtype: 0, True),
    (lax.unreduced_pmax, lax.reduce_max, "maximum", functools.partial(lowest, sign=-1), False),
    (lax.unreduced_pmin, lax.reduce_min, "minimum", functools.partial(lowest, sign=1), False),
):
    _preduced = transpose_unary(lambda ct, aval, *, axes: lax.preduced(ct, axes=axes))
    define(
        _op,
        abstract_eval=_cast_type(_op, "unreduced", ""),
        impl=unbound_impl,
        jvp=linear if _linear else _NO_DERIVATIVE,
        transpose=_preduced if _linear else NONLINEAR,
        batch=reduction_batch(_reduce, _linear),
        lower=reduction_lower(_name, _unit),
        cost=PER_OUTPUT,
        varying="rule",
        sends=sent_twice,
    )


def _gather_transpose(ct: Value, aval: Aval, **params: Any) -> Value:
    d = params.pop("all_gather_dimension")
    return lax.unreduced_reduce_scatter(ct, scatter_dimension=d, **params)


def _scatter_transpose(ct: Value, aval: Aval, **params: Any) -> Value:
    d = params.pop("scatter_dimension")
    return lax.all_gather_reduced(ct, all_gather_dimension=d, **params)


define(
    lax.all_gather_reduced,
    **MOVES,
    abstract_eval=_exchange_type(
        lax.all_gather_reduced, all_gather_type(lax.all_gather), "varying", "reduced"
    ),
    transpose=transpose_unary(_gather_transpose),
    batch=gather_batch,
    lower=gather_lower,
    varying="rule",
    sends=sent_whole,
)

define(
    lax.unreduced_reduce_scatter,
    abstract_eval=_exchange_type(
        lax.unreduced_reduce_scatter, reduce_scatter_type, "unreduced", "varying"
    ),
    impl=unbound_impl,
    jvp=linear,
    transpose=transpose_unary(_scatter_transpose),
    batch=scatter_batch,
    lower=scatter_lower,
    cost=PER_OUTPUT,
    varying="rule",
    sends=sent_parts,
)

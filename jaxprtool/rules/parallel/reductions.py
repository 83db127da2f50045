"""Rows of the collectives that reduce, of `pvary`, and of `reshard`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.axes import NamedAxis, current_axes
from jaxprtool.core.rule_table import Maker, unsupported
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.jvp import linear
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.transpose import NONLINEAR, transpose_unary
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.placement import placed, placement_of, read_placement
from jaxprtool.ir.sharding import find_mesh, mentioned, shard_shape
from jaxprtool.makers.axes import lexicographic, lowest, varied
from jaxprtool.ops.parallel import names_of
from jaxprtool.rules.define import define
from jaxprtool.rules.parallel.groups import Grouped, refuse
from jaxprtool.rules.parallel.lowering import all_reduce
from jaxprtool.rules.parallel.traffic import sent_twice
from jaxprtool.rules.parallel.types import positions_of, pvary_type, reduction_type

__all__ = ["MOVES", "reduction_batch", "reduction_lower", "sum_along", "unbound_impl"]


def sum_along(x: Value, names: Sequence[str]) -> Value:
    """Sum over named axes: by psum_invariant if the types say which of them a value varies along,
    otherwise by psum.
    """
    tracked = current_axes().varying
    if not all(n in tracked for n in names):
        return lax.psum(x, axes=tuple(names)) if names else x
    return lax.psum_invariant(varied(x, names), axes=tuple(names)) if names else x


@Maker
def unbound_impl(op: Any) -> Value:
    """Return the impl rule of a primitive along named axes, which always raises a type error.

    A value is only evaluated directly where no named axis is in scope.
    """

    def rule(xp: Namespace, *values: Value, **params: ParamValue) -> Value:
        names = names_of(params.get("axes", params.get("axis_name", ())))
        ill_typed(f"{op.primitive}: no axis is called {', '.join(names)} here", "unbound-axis")

    return rule


# Columns of a collective that moves values between members and computes nothing.
MOVES = {"impl": unbound_impl, "jvp": linear, "cost": FREE}


def _reduction_impl(op: Any, reduce: Any) -> Value:
    """Return the impl rule, which reduces over positional axes; named axes raise a type error."""

    def rule(xp: Namespace, x: Value, *, axes: Sequence[int], **_: ParamValue) -> Value:
        if names_of(axes):
            unbound_impl(op)(xp, x, axes=axes)
        return impl_rules[reduce.primitive](xp, x, axes=positions_of(axes))

    return rule


def reduction_batch(reduce: Any, repeat: bool) -> Maker:
    """Return the batch rule of a reduction.

    Names that are axes of the batch become positional axes, reduced by `reduce`. A value that is
    not batched is the same for all members: it is its own maximum, and its sum is a multiple of it
    (`repeat`).
    """

    @Maker
    def maker(op: Any) -> Value:
        def rule(
            axis_size: int,
            vals: Sequence[Value],
            dims: Sequence[int | None],
            *,
            axes: Sequence[int],
            **params: ParamValue,
        ) -> OutAndDim:
            (x,), (dim,) = vals, dims
            names, positions = names_of(axes), positions_of(axes)
            sizes = axis_size.axes if type(axis_size) is NamedAxis else {}
            mine = [n for n in names if n in sizes]
            if not mine:
                return _along_others(op, x, dim, axes, params)
            rest = tuple(n for n in names if n not in mine)
            groups = params.get("axis_index_groups")
            if groups is not None and rest:
                refuse(op.primitive.name, "the groups are of several axes together")
            members = Grouped(sizes, mine, groups)
            if dim is None:
                y = _remaining(op, reduce, x, (*rest, *positions))
                return (_times(members.size, y) if repeat else y), None
            members.load(x, dim)
            values = members.value_axes()
            local = tuple(sorted([members.at, *[values[p] for p in positions]]))
            if members.whole:
                return _remaining(op, reduce, members.x, (*rest, *local)), None
            y, out = members.shared(reduce(members.x, axes=local))
            return _remaining(op, reduce, y, rest), out

        return rule

    return maker


def _along_others(
    op: Any, x: Value, dim: Any, axes: Sequence[int], params: dict[str, ParamValue]
) -> Value:
    """Reduce along axes that are not axes of the batch."""
    if dim is None:
        return op(x, axes=axes, **params), None
    moved = tuple([a + (a >= dim) if isinstance(a, int) else a for a in axes])
    return op(x, axes=moved, **params), dim - sum(p < dim for p in positions_of(moved))


def _remaining(op: Any, reduce: Any, x: Value, axes: tuple[Value, ...]) -> Value:
    """Reduce along the remaining axes: names that the batch does not have, and positions."""
    if not axes:
        return x
    if not names_of(axes):
        return reduce(x, axes=axes)
    if positions_of(axes) and op is lax.psum_invariant:
        return op(reduce(x, axes=positions_of(axes)), axes=names_of(axes))
    return op(x, axes=axes)


def _times(n: int, x: Value) -> Value:
    return lax.mul(x, scalar_lit(n, get_aval(x).dtype))


def reduction_lower(name: str, unit: Value) -> Value:
    """Return the lower rule of a reduction: an all_reduce, after the reduction over positional axes
    if there are any.
    """

    def lower(
        ctx: LoweringContext,
        x: HloValue,
        *,
        axes: Sequence[int],
        axis_index_groups: ParamValue = None,
    ) -> HloValue:
        body = lexicographic(ctx, name) if x.aval.dtype.kind == "c" else name
        positions, names = positions_of(axes), names_of(axes)
        if positions:
            x = ctx.reduce(body, x, unit(x.aval.dtype), positions)
        return all_reduce(ctx, x, names, body, axis_index_groups) if names else x

    return lower


def _psum_transpose(
    ct: Value, aval: Aval, *, axes: Sequence[int], axis_index_groups: ParamValue
) -> Value:
    """The transpose rule: every member's cotangent goes to every member, so a sum is its own
    transpose.
    """
    names, positions = names_of(axes), positions_of(axes)
    if positions:
        kept = tuple(i for i in range(aval.ndim) if i not in positions)
        ct = lax.broadcast_in_dim(ct, shape=aval.shape, broadcast_dimensions=kept)
    return lax.psum(ct, axes=names, axis_index_groups=axis_index_groups) if names else ct


def _psum_invariant_transpose(ct: Value, aval: Aval, *, axes: Sequence[int]) -> Value:
    return varied(ct, names_of(axes))


def _cost(
    ins: Sequence[Value], outs: Sequence[Value], *, axes: Sequence[int], **_: ParamValue
) -> int:
    """The cost rule.

    An element that is combined along positional axes counts 1; along mesh axes, each element of the
    result counts 1.
    """
    within = sum(x.size - out.size for x, out in zip(ins, outs, strict=True))
    return max(within, 0) + (sum(out.size for out in outs) if names_of(axes) else 0)


for _op, _transpose in (
    (lax.psum, _psum_transpose),
    (lax.psum_invariant, _psum_invariant_transpose),
):
    define(
        _op,
        abstract_eval=reduction_type,
        impl=_reduction_impl(_op, lax.reduce_sum),
        jvp=linear,
        transpose=transpose_unary(_transpose),
        batch=reduction_batch(lax.reduce_sum, True),
        lower=reduction_lower("add", lambda dtype: 0),
        cost=_cost,
        sends=sent_twice,
        varying="rule",
    )

for _op, _whole, _name, _sign in (
    (lax.pmax, lax.reduce_max, "maximum", -1),
    (lax.pmin, lax.reduce_min, "minimum", 1),
):
    define(
        _op,
        abstract_eval=reduction_type,
        impl=_reduction_impl(_op, _whole),
        jvp=unsupported("JAX has no derivative of it; vmap with axis_name has one"),
        transpose=NONLINEAR,
        batch=reduction_batch(_whole, False),
        lower=reduction_lower(_name, functools.partial(lowest, sign=_sign)),
        cost=_cost,
        sends=sent_twice,
        varying="rule",
    )


def _pvary_batch(
    axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], *, axes: Sequence[int]
) -> OutAndDim:
    sizes = axis_size.axes if type(axis_size) is NamedAxis else {}
    rest = tuple(n for n in names_of(axes) if n not in sizes)
    return (lax.pvary(vals[0], axes=rest) if rest else vals[0]), dims[0]


def _pvary_impl(xp: Namespace, x: Value, *, axes: Sequence[int]) -> Value:
    return unbound_impl(lax.pvary)(xp, x, axes=axes) if axes else x


define(
    lax.pvary,
    abstract_eval=pvary_type,
    impl=_pvary_impl,
    jvp=linear,
    transpose=transpose_unary(lambda ct, aval, *, axes: sum_along(ct, names_of(axes))),
    batch=_pvary_batch,
    lower=lambda ctx, x, **_: x,
    cost=FREE,
    varying="rule",
    elements="kept",
)


def _reshard_type(x: Aval, *, dst_sharding: ParamValue, **_: ParamValue) -> Aval:
    target = None if dst_sharding is None else read_placement(dst_sharding, x.ndim)
    if target is None or len(target.spec) not in (0, x.ndim):
        return x
    mesh = find_mesh(dst_sharding)
    if mesh is not None and mentioned(target.spec) <= mesh.sizes.keys():
        try:
            shard_shape(x.shape, target.spec, mesh)
        except ValueError as e:
            ill_typed(f"reshard of {x} to {dst_sharding}: {e}", "spec")
    return placed(x, target)


def _reshard_transpose(ct: Value, aval: Aval, **_: ParamValue) -> Value:
    here = placement_of(aval.cotangent())
    return ct if placement_of(get_aval(ct)) == here else lax.reshard(ct, dst_sharding=here)


def _reshard_batch(
    axis_size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    *,
    dst_sharding: ParamValue,
    **_: ParamValue,
) -> OutAndDim:
    (x,), (dim,) = vals, dims
    ndim = get_aval(x).ndim - (dim is not None)
    target = None if dst_sharding is None else read_placement(dst_sharding, ndim)
    return (x if target is None else lax.reshard(x, dst_sharding=target.batched(dim))), dim


define(
    lax.reshard,
    abstract_eval=_reshard_type,
    impl=lambda xp, x, **_: x,
    jvp=linear,
    transpose=transpose_unary(_reshard_transpose),
    batch=_reshard_batch,
    lower=lambda ctx, x, **_: x,
    cost=FREE,
    varying="rule",
    elements="kept",
)

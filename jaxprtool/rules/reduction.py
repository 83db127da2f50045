"""Rows of reductions over axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize_all, vmap
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.layouts import reduced_layout
from jaxprtool.interpreters.columns.monoids import monoid_of
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.interpreters.evaluate import jaxpr_as_fun
from jaxprtool.interpreters.jvp import Zero, fill_zeros, jvp_jaxpr, linear
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.reuse.sharing import apply_jaxpr
from jaxprtool.interpreters.stage import stage
from jaxprtool.interpreters.transpose import NONLINEAR, transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.jaxpr import Aval, ClosedJaxpr, Value
from jaxprtool.ir.memo import MemoTable
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import (
    broadcasted,
    bumped,
    check_axes,
    full,
    lexicographic,
    lowest,
    removed,
    reshaped,
    static_impl,
    with_dtype,
    with_shape,
)
from jaxprtool.makers.elementwise import byte_type
from jaxprtool.makers.extrema import ufunc_of
from jaxprtool.makers.reducers import check_initials, check_reducer, no_initial_tangents, vectorized
from jaxprtool.rules.define import LOCALLY_CONSTANT, define

NUMBER, ANY, LOGICAL = "iufc", "biufc", "biu"


def _reducer_type(name: str, kinds: str) -> Callable[..., Aval]:
    def rule(x: Aval, *, axes: Sequence[int], **_: ParamValue) -> Aval:
        if x.dtype.kind not in kinds or (kinds is LOGICAL and x.dtype.bits < 8):
            accepted = "booleans and integers of 8 bits and more" if kinds is LOGICAL else "numbers"
            ill_typed(f"{name} is for {accepted}, and its operand is {x}", "operand-types")
        check_axes(name, "axes: axis", axes, x.ndim, x)
        return with_shape(x, removed(x.shape, axes))

    return rule


def _reducer_batch(op: Any) -> Callable[..., Any]:
    def rule(size: int, vals: Value, dims: Any, *, axes: Any, **params: Any) -> OutAndDim:
        axes, dim = bumped(axes, dims[0]), dims[0]
        return op(vals[0], axes=axes, **params), dim - sum(a < dim for a in axes)

    return rule


def _sum_like(ufunc: str) -> Callable[..., Value]:
    """Return the impl rule of a sum or product.

    Floats of 16 bits or fewer are accumulated in f32 and rounded once.
    """

    def make(xp: Namespace, x: Value, *, axes: Sequence[int], **_: ParamValue) -> Value:
        reduce, dtype = getattr(xp, ufunc).reduce, xp.dtype_of_aval(x.dtype)
        if not axes:
            return lambda v: v
        if ufunc == "add" and all(x.shape[a] == 1 for a in axes):  # -0 stays, as in XLA
            shape = removed(x.shape, axes)
            return lambda v: v.reshape(shape)
        if x.dtype.kind == "f" and x.dtype.bits < 32:
            return lambda v: reduce(v.astype(xp.float32), axis=axes).astype(dtype)
        return functools.partial(reduce, axis=axes, dtype=dtype)

    return static_impl(make)


def _reducer_lower(name: str, unit: Callable[[Value], Value]) -> Callable[..., Value]:
    def lower(
        ctx: LoweringContext, x: HloValue, *, axes: Sequence[int], **_: ParamValue
    ) -> HloValue:
        body = lexicographic(ctx, name) if x.aval.dtype.kind == "c" else name
        return ctx.reduce(body, x, unit(x.aval.dtype), tuple(axes))

    return lower


# -- sums and products -----------------------------------------------------------------------------

define(
    lax.reduce_sum,
    abstract_eval=_reducer_type("reduce_sum", NUMBER),
    impl=_sum_like("add"),
    jvp=linear,
    transpose=transpose_unary(
        lambda ct, x, *, axes, **_: broadcasted(ct, x.shape, removed(range(x.ndim), axes))
    ),
    batch=_reducer_batch(lax.reduce_sum),
    lower=_reducer_lower("add", lambda _: 0),
    cost=AS_LOWERED,
    layout=reduced_layout,
    sums="kept",
)


def _prod_jvp(
    primals: Sequence[Value],
    tangents: Sequence[Value],
    *,
    axes: Sequence[int],
    **params: ParamValue,
) -> PrimalAndTangent:
    """The jvp rule: sum over i of t[i] * prod(x[:i]) * prod(x[i+1:]), which is right if x has
    zeros.
    """
    (x,), (t,) = primals, tangents
    aval, kept = get_aval(x), removed(range(get_aval(x).ndim), axes)
    n = math.prod(aval.shape[a] for a in axes)
    if n == 1:
        shape = removed(aval.shape, axes)
        return reshaped(x, shape), reshaped(t, shape)
    out = lax.reduce_prod(x, axes=axes, **params)
    if n == 0:
        return out, Zero(get_aval(out))
    axis = axes[0]
    if len(axes) > 1:  # merge them into one axis, the first
        shape, order = (n, *get_aval(out).shape), (*axes, *kept)
        dimensions = None if order == tuple(range(aval.ndim)) else order
        x, t = (lax.reshape(v, new_sizes=shape, dimensions=dimensions) for v in (x, t))
        axis = 0
    one = full(ShapedArray((), aval.dtype), 1)

    def products(low: int, high: int, reverse: bool) -> Value:
        config = [(0, 0, 0)] * get_aval(x).ndim
        config[axis] = (low, high, 0)
        shifted = lax.pad(x, one, padding_config=tuple(config))
        return lax.cumprod(shifted, axis=axis, reverse=reverse)

    others = lax.mul(products(1, -1, False), products(-1, 1, True))
    return out, lax.reduce_sum(lax.mul(t, others), axes=(axis,))


define(
    lax.reduce_prod,
    abstract_eval=_reducer_type("reduce_prod", NUMBER),
    impl=_sum_like("multiply"),
    jvp=_prod_jvp,
    transpose=NONLINEAR,
    batch=_reducer_batch(lax.reduce_prod),
    lower=_reducer_lower("multiply", lambda _: 1),
    cost=AS_LOWERED,
    layout=reduced_layout,
)

# -- largest and smallest --------------------------------------------------------------------------


def _chooser_impl(ufunc: str, sign: int) -> Callable[..., Value]:
    def make(xp: Namespace, x: Value, *, axes: Sequence[int], **_: ParamValue) -> Value:
        reduce, dtype = ufunc_of(xp, ufunc, x.dtype).reduce, xp.dtype_of_aval(x.dtype)
        wide = byte_type(xp, x.dtype)
        options = {}
        if not x.size:
            options["initial"] = xp.asarray(lowest(x.dtype, sign), wide or dtype)[()]
        if wide is None:
            return functools.partial(reduce, axis=axes, **options)
        return lambda v: reduce(v.astype(wide), axis=axes, **options).astype(dtype)

    return static_impl(make)


def _chooser_jvp(op: Any) -> Callable[..., Value]:
    """Return the jvp rule of reduce_max or reduce_min: equal extreme elements have equal
    derivatives, whose sum is 1.
    """

    def rule(
        primals: Sequence[Value],
        tangents: Sequence[Value],
        *,
        axes: Sequence[int],
        **params: ParamValue,
    ) -> PrimalAndTangent:
        (x,), (t,) = primals, tangents
        out = op(x, axes=axes, **params)
        aval = get_aval(x)
        best = out
        if get_aval(out).shape:
            best = reshaped(out, tuple(1 if i in axes else n for i, n in enumerate(aval.shape)))
        where = lax.convert_element_type(lax.eq(x, best), new_dtype=aval.dtype)
        count = lax.reduce_sum(where, axes=axes)
        return out, lax.div(lax.reduce_sum(lax.mul(t, where), axes=axes), count)

    return rule


for _op, _ufunc, _hlo, _sign in (
    (lax.reduce_max, "maximum", "maximum", -1),
    (lax.reduce_min, "minimum", "minimum", 1),
):
    define(
        _op,
        abstract_eval=_reducer_type(_op.primitive.name, ANY),
        impl=_chooser_impl(_ufunc, _sign),
        jvp=_chooser_jvp(_op),
        transpose=NONLINEAR,
        batch=_reducer_batch(_op),
        lower=_reducer_lower(_hlo, functools.partial(lowest, sign=_sign)),
        cost=AS_LOWERED,
        layout=reduced_layout,
        masks="inf",
        sums="max" if _sign < 0 else "min",
    )

# -- logical ---------------------------------------------------------------------------------------

for _op, _name, _unit in (
    (
        lax.reduce_and,
        "and",
        lambda d: True if d.kind == "b" else (1 << d.bits) - 1 if d.kind == "u" else -1,
    ),
    (lax.reduce_or, "or", lambda d: False if d.kind == "b" else 0),
    (lax.reduce_xor, "xor", lambda d: False if d.kind == "b" else 0),
):
    define(
        _op,
        abstract_eval=_reducer_type(_op.primitive.name, LOGICAL),
        impl=_sum_like(f"bitwise_{_name}"),
        **LOCALLY_CONSTANT,
        batch=_reducer_batch(_op),
        lower=_reducer_lower(_name, _unit),
        cost=AS_LOWERED,
        layout=reduced_layout,
    )

# -- by a jaxpr ------------------------------------------------------------------------------------

# Up to this many elements are folded one after the other; of more, neighbours are first combined in
# pairs.
_FOLD = 256


def _reduce_type(
    *avals: Aval, computation: ParamValue, dimensions: Sequence[int], jaxpr: ClosedJaxpr
) -> list[Aval]:
    operands, initials = check_initials("reduce", avals)
    check_reducer("reduce", "jaxpr", jaxpr, [*initials, *initials], initials)
    check_axes("reduce", "dimensions: axis", dimensions, operands[0].ndim, operands[0])
    return [with_shape(x, removed(x.shape, dimensions)) for x in operands]


def _reduce_impl(
    xp: Namespace, *avals: Aval, dimensions: Sequence[int], jaxpr: ClosedJaxpr, **_: ParamValue
) -> Value:
    xs, monoid = avals[: len(avals) // 2], monoid_of(jaxpr)
    axes, n = tuple(dimensions), len(xs)
    if all(
        xs[0].shape[a] == 1 for a in axes
    ):  # XLA removes such a reduction, and does not combine with the initial values
        shape = removed(xs[0].shape, axes)
        return lambda *values: [v.reshape(shape) for v in values[:n]]
    if monoid is not None:
        dtype = xp.dtype_of_aval(xs[0].dtype)
        narrow = xs[0].dtype.kind == "f" and xs[0].dtype.bits < 32
        inner = xp.float32 if narrow else dtype
        ufunc, unit = ufunc_of(xp, monoid.ufunc, xs[0].dtype), xp.asarray(monoid.unit, inner)[()]

        def run(x: Value, init: Value) -> list[Value]:
            total = ufunc.reduce(x.astype(inner, copy=False), axis=axes, initial=unit, dtype=inner)
            return [xp.asarray(ufunc(init.astype(inner), total)).astype(dtype)]

        return run
    return _reduce_fold(xp, xs, axes, jaxpr)


def _reduce_fold(
    xp: Namespace, xs: Sequence[Value], axes: tuple[int, ...], jaxpr: ClosedJaxpr
) -> Callable[..., list[Value]]:
    """Return a function that folds the elements in their order; the jaxpr need not be
    commutative.
    """
    n, shape = len(xs), removed(xs[0].shape, axes)
    count = math.prod(xs[0].shape[a] for a in axes)
    order = (*axes, *removed(range(xs[0].ndim), axes))

    def run(*values: Value) -> list[Value]:
        rows = [v.transpose(order).reshape(count, *shape) for v in values[:n]]
        acc = [xp.full(shape, i, r.dtype) for i, r in zip(values[n:], rows, strict=True)]
        while len(rows[0]) > _FOLD:
            half = len(rows[0]) // 2
            pairs = vectorized(xp, jaxpr, (half, *shape))
            left = pairs(*[r[0 : 2 * half : 2] for r in rows], *[r[1 : 2 * half : 2] for r in rows])
            rows = [xp.concatenate([x, r[2 * half :]]) for x, r in zip(left, rows, strict=True)]
        step = vectorized(xp, jaxpr, shape)
        for row in zip(*rows, strict=True):
            acc = step(*acc, *map(xp.asarray, row))
        return acc

    return run


_TREE_JVP = MemoTable[tuple[ClosedJaxpr, list[bool]]]("jvp of a reduction as a tree")


def _reduce_jvp(
    primals: Sequence[Value],
    tangents: Sequence[Value],
    *,
    computation: ParamValue,
    dimensions: Sequence[int],
    jaxpr: ClosedJaxpr,
) -> PrimalAndTangent:
    """The jvp rule: differentiate the reduction as a tree (`_reduce_tree`).

    Initial values are assumed to be neutral elements.
    """
    n = len(primals) // 2
    no_initial_tangents("reduce", tangents[n:])
    outs = lax.reduce(*primals, computation=computation, dimensions=dimensions, jaxpr=jaxpr)
    avals = [get_aval(x) for x in primals]
    nonzeros = [type(t) is not Zero for t in tangents]

    def make() -> tuple[ClosedJaxpr, list[bool]]:
        tree = stage(lambda *xs: _reduce_tree(xs[:n], xs[n:], tuple(dimensions), jaxpr), avals)
        derivative, flags = jvp_jaxpr(tree, nonzeros, instantiate_outs=False)
        used = [False] * n + [True] * sum(flags)
        small, _ = dce_jaxpr(derivative.jaxpr, used, keep_inputs=True)
        return ClosedJaxpr(small, derivative.consts), flags

    derivative, flags = _TREE_JVP.of(jaxpr, (*avals, *dimensions, *nonzeros), make)
    live = [t for t in tangents if type(t) is not Zero]
    out_tangents = apply_jaxpr(derivative, [*primals, *live])
    return outs, fill_zeros(flags, out_tangents, map(get_aval, outs))


def _reduce_tree(
    xs: Sequence[Value], inits: Value, axes: tuple[int, ...], jaxpr: ClosedJaxpr
) -> list[Value]:
    """Reduce all elements by combining the first half with the second half, until one is left."""
    aval = get_aval(xs[0])
    kept = removed(range(aval.ndim), axes)
    shape, n = removed(aval.shape, axes), math.prod(aval.shape[a] for a in axes)
    if n == 0:
        return [broadcasted(i, shape) for i in inits]
    order = (*axes, *kept)
    dimensions = None if order == tuple(range(aval.ndim)) else order
    if len(axes) != 1 or dimensions is not None:
        xs = [lax.reshape(x, new_sizes=(n, *shape), dimensions=dimensions) for x in xs]
    combine = jaxpr_as_fun(jaxpr)
    for _ in range(len(shape) + 1):
        combine = vmap(combine)
    while n > 1:
        half = (n + 1) // 2
        pieces = [
            lax.slice(x, start_indices=(start, *[0] * len(shape)), limit_indices=(stop, *shape))
            for start, stop in ((0, half), (half, n))
            for x in xs
        ]
        first, second = pieces[: len(xs)], pieces[len(xs) :]
        if n % 2:
            config = ((0, 1, 0), *[(0, 0, 0)] * len(shape))
            second = [
                lax.pad(x, i, padding_config=config) for x, i in zip(second, inits, strict=True)
            ]
        xs, n = combine(*first, *second), half
    return [lax.squeeze(x, dimensions=(0,)) for x in xs]


def _reduce_batch(
    size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    *,
    dimensions: Sequence[int],
    **params: ParamValue,
) -> OutAndDim:
    n = len(vals) // 2
    if any(d is not None for d in dims[n:]):
        fail(
            UnsupportedError,
            "reduce has no batch rule for initial values that are batched",
            "no-batch-rule",
        )
    xs, target = materialize_all(vals[:n], dims[:n], size)
    axes = bumped(dimensions, target)
    outs = lax.reduce(*xs, *vals[n:], dimensions=axes, **params)
    return outs, [target - sum(a < target for a in axes)] * n


def _reduce_lower(
    ctx: LoweringContext,
    *operands: HloValue,
    dimensions: Sequence[int],
    jaxpr: ClosedJaxpr,
    **_: ParamValue,
) -> list[HloValue]:
    n = len(operands) // 2
    return ctx.reduce(
        lambda *scalars: ctx.inline(jaxpr, scalars),
        list(operands[:n]),
        list(operands[n:]),
        tuple(dimensions),
    )


define(
    lax.reduce,
    abstract_eval=_reduce_type,
    impl=static_impl(_reduce_impl),
    jvp=_reduce_jvp,
    transpose=NONLINEAR,
    batch=_reduce_batch,
    lower=_reduce_lower,
    cost=AS_LOWERED,
    masks="inf",
)

# -- places ----------------------------------------------------------------------------------------


def _arg_type(name: str) -> Callable[..., Any]:
    def rule(x: Aval, *, axes: Any, index_dtype: Any) -> Aval:
        if len(axes) != 1:
            ill_typed(f"{name} axes {tuple(axes)} must name one axis", "dimension-count")
        check_axes(name, "axes: axis", axes, x.ndim, x)
        if x.dtype.kind not in "biuf":
            ill_typed(f"{name} is for types with an order, and its operand is {x}", "operand-types")
        if not index_dtype.is_integer:
            ill_typed(f"{name} index_dtype {index_dtype} is not an integer type", "operand-types")
        if x.shape[axes[0]] == 0:
            ill_typed(f"{name} axis {axes[0]} of {x} has no elements", "empty-axis")
        return with_dtype(with_shape(x, removed(x.shape, axes)), index_dtype)

    return rule


def _arg_impl(function: str) -> Callable[..., Value]:
    def make(xp: Namespace, x: Value, *, axes: Sequence[int], index_dtype: ParamValue) -> Value:
        find, dtype = getattr(xp, function), xp.dtype_of_aval(index_dtype)
        wide = x.dtype.kind == "f" and x.dtype.bits < 16  # types that NumPy cannot search
        return lambda v: find(v.astype(xp.float32) if wide else v, axis=axes[0]).astype(dtype)

    return static_impl(make)


def _arg_lower(direction: str, sign: int) -> Callable[..., Value]:
    def lower(
        ctx: LoweringContext, x: HloValue, *, axes: Sequence[int], index_dtype: ParamValue
    ) -> HloValue:
        def better(value: Value, index: Value, new: Value, new_index: Value) -> list[Value]:
            def both(op: str, a: Value, b: Value) -> Value:
                return ctx.op(op, a, b, out=a.aval)

            # keep the accumulated value if it is better, or NaN; of equal values keep the first
            stays = ctx.compare(direction, value, new)
            if x.aval.dtype.kind == "f":
                stays = both("or", stays, ctx.compare("NE", value, value))
            earlier = both(
                "and", ctx.compare("EQ", value, new), ctx.compare("LT", index, new_index)
            )
            first = both("or", stays, earlier)
            return [ctx.select(stays, value, new), ctx.select(first, index, new_index)]

        places = ctx.iota(ShapedArray(x.aval.shape, index_dtype), axes[0])
        return ctx.reduce(better, [x, places], [lowest(x.aval.dtype, sign), 0], tuple(axes))[1]

    return lower


for _op, _direction, _sign in ((lax.argmax, "GT", -1), (lax.argmin, "LT", 1)):
    define(
        _op,
        abstract_eval=_arg_type(_op.primitive.name),
        impl=_arg_impl(_op.primitive.name),
        **LOCALLY_CONSTANT,
        batch=_reducer_batch(_op),
        lower=_arg_lower(_direction, _sign),
        cost=AS_LOWERED,
        layout=reduced_layout,
        masks="both",
        steers="all",
    )

"""The row of `ragged_dot_general`: contractions in which an axis is divided into groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize
from jaxprtool.interpreters.check import abstract_eval, ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.interpreters.evaluate import impl_rules
from jaxprtool.interpreters.jvp import jvp_terms
from jaxprtool.interpreters.lower import LoweringContext
from jaxprtool.interpreters.stage import stage
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprTypeError, UnsupportedError, fail
from jaxprtool.ir.dtypes import dtype_of
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue, Record
from jaxprtool.makers.axes import (
    broadcasted,
    bumped,
    check_axes,
    full,
    inverse_permutation,
    removed,
    transposed,
    with_shape,
)
from jaxprtool.rules.define import define

Axes = tuple[int, ...]
NAME = "ragged_dot_general"


class _Numbers(NamedTuple):
    """The param `ragged_dot_dimension_numbers` as tuples.

    Attributes:
      lhs_contract, rhs_contract: the contracted axes.
      lhs_batch, rhs_batch: the batch axes.
      ragged: the ragged axis of lhs.
      groups: the axes of rhs whose index is the number of the group.
    """

    lhs_contract: Axes
    rhs_contract: Axes
    lhs_batch: Axes
    rhs_batch: Axes
    ragged: int
    groups: Axes

    @property
    def mode(self) -> str:
        """The role of the ragged axis: `contract`, `batch` or `free`."""
        if self.ragged in self.lhs_contract:
            return "contract"
        return "batch" if self.ragged in self.lhs_batch else "free"

    @property
    def dot(self) -> tuple[Value, Value]:
        """The dimension_numbers of a `dot_general` over the same axes."""
        return (self.lhs_contract, self.rhs_contract), (self.lhs_batch, self.rhs_batch)

    @property
    def record(self) -> Record:
        """The record that the param `ragged_dot_dimension_numbers` holds."""
        return Record(
            "RaggedDotDimensionNumbers",
            dot_dimension_numbers=self.dot,
            lhs_ragged_dimensions=(self.ragged,),
            rhs_group_dimensions=self.groups,
        )

    def prefix(self, ndim: int) -> Axes:
        """Return the axes of lhs that group_sizes may have before its axis of groups."""
        if self.mode == "batch":
            return self.lhs_batch[: self.lhs_batch.index(self.ragged)]
        inner = self.lhs_contract
        if self.mode == "free":
            inner = removed(range(ndim), self.lhs_contract + self.lhs_batch)
        return self.lhs_batch + inner[: inner.index(self.ragged)]

    def without_groups(self) -> tuple[Value, Value]:
        """Return the dimension_numbers of a dot_general whose rhs has no axis of groups."""
        down = [
            tuple(a - sum(g < a for g in self.groups) for a in axes)
            for axes in (self.rhs_contract, self.rhs_batch)
        ]
        return (self.lhs_contract, down[0]), (self.lhs_batch, down[1])


def _numbers(record: Any) -> _Numbers:
    try:
        (lc, rc), (lb, rb) = record.dot_dimension_numbers
        ragged, groups = tuple(record.lhs_ragged_dimensions), tuple(record.rhs_group_dimensions)
    except (AttributeError, TypeError, ValueError):
        ill_typed(
            f"{NAME} ragged_dot_dimension_numbers {record} are no RaggedDotDimensionNumbers",
            "dimension-numbers",
        )
    if len(ragged) != 1:
        ill_typed(f"{NAME} lhs_ragged_dimensions {ragged} must name one axis", "dimension-count")
    return _Numbers(tuple(lc), tuple(rc), tuple(lb), tuple(rb), ragged[0], groups)


# -- types -----------------------------------------------------------------------------------------


def _ragged_type(
    x: Aval,
    y: Aval,
    sizes: Any,
    *,
    ragged_dot_dimension_numbers: Any,
    group_offset: Any,
    **params: Any,
) -> Aval:
    numbers = _numbers(ragged_dot_dimension_numbers)
    check_axes(NAME, "lhs_ragged_dimensions: axis", (numbers.ragged,), x.ndim, x)
    if group_offset is not None:
        ill_typed(f"{NAME} group_offset {group_offset} must be None", "bad-param")
    if not sizes.dtype.is_integer or not sizes.ndim:
        ill_typed(
            f"{NAME} group_sizes must be integers [..., groups], got {sizes}", "operand-types"
        )
    _check_group_axis(y, sizes, numbers)
    if sizes.ndim > 1:
        wanted = (*[x.shape[a] for a in numbers.prefix(x.ndim)], sizes.shape[-1])
        if sizes.shape != wanted:
            ill_typed(
                f"{NAME} group_sizes {sizes} must have shape {list(wanted)}", "operand-shapes"
            )
    inner = with_shape(y, removed(y.shape, numbers.groups))
    params = {**params, **_dot_params(params), "dimension_numbers": numbers.without_groups()}
    try:
        (out,) = abstract_eval(lax.dot_general.primitive, [x, inner], params)
    except JaxprTypeError as e:
        ill_typed(f"{NAME}: {e.diagnostics[0].message}", e.diagnostics[0].code)
    if numbers.mode == "contract":
        out = with_shape(out, (sizes.shape[-1], *out.shape))
    return out


def _check_group_axis(y: Value, sizes: Any, numbers: _Numbers) -> None:
    groups, count = numbers.groups, int(numbers.mode == "free")
    if len(groups) != count:
        ill_typed(
            f"{NAME} rhs_group_dimensions {groups} must name {count} axes where the ragged axis of lhs is "
            f"a {numbers.mode} one",
            "dimension-count",
        )
    taken = numbers.rhs_contract + numbers.rhs_batch + groups
    check_axes(NAME, "axis of rhs", taken, y.ndim, y)
    if groups and y.shape[groups[0]] != sizes.shape[-1]:
        ill_typed(
            f"{NAME}: axis {groups[0]} of {y} must be as long as the last of {sizes}", "dot-sizes"
        )


# -- as other operations ---------------------------------------------------------------------------


def _expanded(x: Value, sizes: Sequence[int], axis: int, prefix: Axes) -> Value:
    """Return a copy of x for each group along a new first axis, with zeros outside of the group's
    range along `axis`.
    """
    aval, dtype = get_aval(x), get_aval(sizes).dtype
    last = get_aval(sizes).ndim - 1
    shape = (get_aval(sizes).shape[-1], *aval.shape)
    ends = lax.cumsum(sizes, axis=last)
    starts = lax.sub(ends, sizes)
    # the axes of sizes in the order of the axes of x, after the axis of groups
    places = prefix if last else ()
    order = sorted(range(last), key=lambda i: places[i])
    dims = (0, *sorted(p + 1 for p in places))
    starts, ends = (
        lax.broadcast_in_dim(transposed(v, (last, *order)), shape=shape, broadcast_dimensions=dims)
        for v in (starts, ends)
    )
    index = lax.iota(dtype=dtype, shape=shape, dimension=axis + 1)
    inside = lax.and_(lax.le(starts, index), lax.lt(index, ends))
    copies = broadcasted(x, shape, tuple(range(1, len(shape))))
    return lax.select_n(inside, full(ShapedArray(shape, aval.dtype), 0), copies)


def _as_dot(
    x: Value, y: Value, sizes: Sequence[int], numbers: _Numbers, params: dict[str, ParamValue]
) -> Value:
    """Express the operation as a dot_general of lhs, expanded to one masked copy for each group.

    If the ragged axis is contracted, rhs is expanded, too.
    """
    up = lambda axes: tuple(a + 1 for a in axes)  # noqa: E731
    lc, rc, lb, rb, ragged, groups = numbers
    prefix = numbers.prefix(get_aval(x).ndim)
    if numbers.mode == "batch":
        return lax.dot_general(x, y, dimension_numbers=numbers.dot, **params)
    left = _expanded(x, sizes, ragged, prefix)
    if numbers.mode == "free":
        dims = ((0, *up(lc)), (*groups, *rc)), (up(lb), rb)
        return lax.dot_general(left, y, dimension_numbers=dims, **params)
    place = dict(zip((*lb, *lc), (*rb, *rc), strict=True))
    right = _expanded(y, sizes, place[ragged], tuple(place[a] for a in prefix))
    dims = (up(lc), up(rc)), ((0, *up(lb)), (0, *up(rb)))
    return lax.dot_general(left, right, dimension_numbers=dims, **params)


def _dot_params(params: dict[str, ParamValue]) -> dict[str, Any]:
    """Return the params of a `dot_general` with the same result.

    JAX keeps an element type here as it is given, even as a class.
    """
    wanted = params["preferred_element_type"]
    return {"precision": params["precision"], "preferred_element_type": dtype_of(wanted)}


def _ragged_lower(ctx: LoweringContext, x: Value, y: Value, sizes: Any, **params: Any) -> Value:
    numbers = _numbers(params["ragged_dot_dimension_numbers"])
    dot = _dot_params(params)
    closed = stage(lambda x, y, sizes: [_as_dot(x, y, sizes, numbers, dot)], ctx.in_avals)
    return ctx.inline(closed, [x, y, sizes])[0]


# -- evaluation ------------------------------------------------------------------------------------


class _RaggedImpl:
    """Evaluates one product for each group; by a masked `dot_general` if there are batches of group
    sizes.
    """

    def __call__(self, xp: Namespace, *values: Value, **params: ParamValue) -> Value:
        avals = [get_aval(v) for v in values]
        out = _ragged_type(*avals, **params)
        return self.prepare(xp, avals, [out], params)(*values)

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], params: Any
    ) -> Callable[..., Value]:
        numbers, dot = _numbers(params["ragged_dot_dimension_numbers"]), _dot_params(params)
        (out,), (x, _, sizes) = out_avals, in_avals
        if numbers.mode == "batch" or sizes.ndim > 1:
            closed = stage(lambda x, y, sizes: [_as_dot(x, y, sizes, numbers, dot)], in_avals)
            return lambda *values: xp.run(closed, values)[0]
        product = impl_rules[lax.dot_general.primitive]
        defaults = lax.dot_general.primitive.defaults
        fields = {**defaults, **dot, "dimension_numbers": numbers.without_groups()}
        dtype, n = xp.dtype_of_aval(out.dtype), x.shape[numbers.ragged]

        def run(lhs: Value, rhs: Value, group_sizes: Any) -> Value:
            result = xp.zeros(out.shape, dtype)
            ends = [min(max(int(e), 0), n) for e in xp.cumsum(group_sizes)]
            for g, (start, stop) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
                if start < stop:
                    part, other, place = _group(numbers, g, slice(start, stop), x.ndim)
                    result[place] = product(xp, lhs[part], rhs[other], **fields)
            return result

        return run


def _group(numbers: _Numbers, g: int, run: slice, ndim: int) -> tuple[Value, Value, Value]:
    """Return the indices that select group g of lhs, of rhs and of the result on NumPy."""
    every = slice(None)
    part = (*[every] * numbers.ragged, run)
    if numbers.mode == "contract":
        axis = numbers.rhs_contract[numbers.lhs_contract.index(numbers.ragged)]
        return part, (*[every] * axis, run), g
    free = removed(range(ndim), numbers.lhs_contract + numbers.lhs_batch)
    place = (*[every] * (len(numbers.lhs_batch) + free.index(numbers.ragged)), run)
    return part, (*[every] * numbers.groups[0], g), place


# -- differentiation -------------------------------------------------------------------------------


def _ragged_transpose(
    ct: Value, x: Value, y: Value, sizes: Sequence[int], **params: ParamValue
) -> list[Value]:
    if is_linear(x) and is_linear(y):
        not_linear(NAME, "both operands depend on them")
    numbers = _numbers(params.pop("ragged_dot_dimension_numbers"))
    if numbers.mode != "free":
        fail(
            UnsupportedError,
            f"{NAME} has a transpose rule only where the ragged axis of lhs is a free one",
            "no-transpose-rule",
        )
    lc, rc, lb, rb, ragged, groups = numbers
    x_free = removed(range(_aval(x).ndim), lc + lb)
    y_free = removed(range(_aval(y).ndim), rc + rb + groups)
    n_batch = len(lb)
    ct_batch = tuple(range(n_batch))
    ct_x = tuple(range(n_batch, n_batch + len(x_free)))
    ct_y = tuple(range(n_batch + len(x_free), n_batch + len(x_free) + len(y_free)))
    if is_linear(x):
        place = n_batch + x_free.index(ragged)
        new = _Numbers(ct_y, y_free, ct_batch, rb, place, groups)
        order = [*lb, *x_free, *_sorted_by(lc, rc)]
        return [_cotangent(ct, y, sizes, new, order, x.aval, params), None, None]
    new = _Numbers(x_free, ct_x, lb, ct_batch, ragged, ())
    order = [*groups, *rb, *_sorted_by(rc, lc), *y_free]
    return [None, _cotangent(x, ct, sizes, new, order, y.aval, params), None]


def _aval(x: Aval) -> Aval:
    """Return the type of an operand, whether it is linear or not."""
    return x.aval if is_linear(x) else get_aval(x)


def _sorted_by(axes: Sequence[int], keys: Sequence[int]) -> list[int]:
    return [a for _, a in sorted(zip(keys, axes, strict=True))]


def _cotangent(
    left: Value,
    right: Value,
    sizes: Sequence[int],
    numbers: _Numbers,
    order: list[int],
    aval: Aval,
    params: Any,
) -> Value:
    """Return the cotangent of an operand: a product of left and right, with its axes permuted.

    Axis i of the product is axis order[i] of the operand.
    """
    out = lax.ragged_dot_general(
        left, right, sizes, ragged_dot_dimension_numbers=numbers.record, **params
    )
    out = transposed(out, inverse_permutation(order))
    if get_aval(out).dtype is not aval.dtype:
        out = lax.convert_element_type(out, new_dtype=aval.dtype)
    return out


# -- vectorisation ---------------------------------------------------------------------------------


def _ragged_batch(
    size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    *,
    ragged_dot_dimension_numbers: ParamValue,
    **params: ParamValue,
) -> OutAndDim:
    """The batch rule: the batch axis becomes the first batch axis of all operands."""
    numbers = _numbers(ragged_dot_dimension_numbers)
    x, y, sizes = (materialize(v, d, size) for v, d in zip(vals, dims, strict=True))
    lc, rc, lb, rb, ragged, groups = numbers
    prefix = numbers.prefix(get_aval(x).ndim - 1)
    if get_aval(sizes).ndim == 2 and prefix:  # it has all outer axes, or none
        shape = (size, *[get_aval(x).shape[a + 1] for a in prefix], get_aval(sizes).shape[-1])
        sizes = broadcasted(sizes, shape, (0, len(shape) - 1))
    wider = _Numbers(
        bumped(lc, 0),
        bumped(rc, 0),
        (0, *bumped(lb, 0)),
        (0, *bumped(rb, 0)),
        ragged + 1,
        bumped(groups, 0),
    )
    out = lax.ragged_dot_general(x, y, sizes, ragged_dot_dimension_numbers=wider.record, **params)
    return out, int(numbers.mode == "contract")


def _ragged_cost(
    in_avals: Sequence[Aval],
    out_avals: Sequence[Aval],
    *,
    ragged_dot_dimension_numbers: ParamValue,
    **_: ParamValue,
) -> int:
    """The cost rule: a multiplication and an addition for each element of lhs and each free index
    of rhs, since an element is in one group only.
    """
    x, y, _ = in_avals
    numbers = _numbers(ragged_dot_dimension_numbers)
    free = removed(y.shape, numbers.rhs_contract + numbers.rhs_batch + numbers.groups)
    return 2 * max(x.size, 0) * math.prod(free)


def _ragged_determined(in_avals: Any, params: Any) -> bool:
    """The determined rule: False, since the result is unspecified if group sizes are negative or
    their sum is too large.
    """
    del in_avals, params
    return False


define(
    lax.ragged_dot_general,
    abstract_eval=_ragged_type,
    impl=_RaggedImpl(),
    jvp=jvp_terms(
        lambda t, _, x, y, sizes, **params: lax.ragged_dot_general(t, y, sizes, **params),
        lambda t, _, x, y, sizes, **params: lax.ragged_dot_general(x, t, sizes, **params),
        None,
    ),
    transpose=_ragged_transpose,
    batch=_ragged_batch,
    lower=_ragged_lower,
    cost=_ragged_cost,
    masks="both",
    determined=_ragged_determined,
)

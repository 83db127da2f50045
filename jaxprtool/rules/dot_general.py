"""The row of `dot_general`, the general contraction of two arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import DOT_ALGORITHM, PRECISION_LEVEL, precision_level
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.layouts import spec_of
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.interpreters.cost import Cost
from jaxprtool.interpreters.jvp import bilinear
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import lowered_cost
from jaxprtool.interpreters.transpose import is_linear, not_linear
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UnsupportedError, fail
from jaxprtool.ir.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT8, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import (
    bumped,
    check_axes,
    inverse_permutation,
    removed,
    static_impl,
    transposed,
)
from jaxprtool.makers.elementwise import as_dtype, check_kind
from jaxprtool.rules.define import define
from jaxprtool.stablehlo.text import mlir_type

Axes = tuple[int, ...]


class _Numbers(NamedTuple):
    """The axes of dimension_numbers, as tuples."""

    lhs_contract: Axes
    rhs_contract: Axes
    lhs_batch: Axes
    rhs_batch: Axes


def _numbers(dimension_numbers: Any) -> _Numbers:
    (lc, rc), (lb, rb) = dimension_numbers
    return _Numbers(tuple(lc), tuple(rc), tuple(lb), tuple(rb))


# -- types -----------------------------------------------------------------------------------------

# (largest exponent, bits of the mantissa) of float types; XLA orders the operands' types by them
_PRECISION = {
    "f4_e2m1fn": (3, 1),
    "f6_e2m3fn": (3, 3),
    "f6_e3m2fn": (5, 2),
    "f8_e3m4": (4, 4),
    "f8_e4m3b11fnuz": (5, 3),
    "f8_e4m3": (8, 3),
    "f8_e4m3fnuz": (8, 3),
    "f8_e4m3fn": (9, 3),
    "f8_e5m2": (16, 2),
    "f8_e5m2fnuz": (16, 2),
    "f16": (16, 10),
    "f8_e8m0fnu": (128, 0),
    "bf16": (128, 7),
    "f32": (128, 23),
    "f64": (1024, 52),
}


def _rank(dtype: DType) -> tuple[Value, ...]:
    real = dtype.real
    bits = 1 if dtype.kind == "b" else real.bits
    return (dtype.kind == "c", *_PRECISION.get(real.short, (-1, -1)), bits, real.kind != "u")


def _result_dtype(x: Value, y: Value, preferred: DType | None, precision: Any) -> DType:
    check_kind("dot_general", x, "biufc")
    check_kind("dot_general", y, "biufc")
    if preferred is not None and preferred.kind not in "biufc":
        ill_typed(
            f"dot_general preferred_element_type {preferred} is no type of numbers", "param-value"
        )
    out = x.dtype
    if x.dtype is not y.dtype:
        left, right = _rank(x.dtype), _rank(y.dtype)
        if left == right:
            ill_typed(f"dot_general cannot multiply elements of {x} and {y}", "operand-types")
        out = x.dtype if left > right else y.dtype
    if preferred is None or preferred is out:
        return out
    if out.kind != "f" and _rank(preferred)[3] < _rank(out)[3] and _algorithm(precision) is None:
        ill_typed(
            f"dot_general preferred_element_type {preferred} is narrower than the type {out} of "
            "the product",
            "operand-types",
        )
    return preferred


@functools.lru_cache(maxsize=4096)
def _dot_shape(x: Value, y: Value, numbers: _Numbers) -> tuple[int, ...]:
    for side, aval, contract, batch in (
        ("lhs", x, numbers.lhs_contract, numbers.lhs_batch),
        ("rhs", y, numbers.rhs_contract, numbers.rhs_batch),
    ):
        what = f"dimension_numbers of {side}: axis"
        check_axes("dot_general", what, (*contract, *batch), aval.ndim, aval)
    for kind, left, right in (
        ("contracting", numbers.lhs_contract, numbers.rhs_contract),
        ("batch", numbers.lhs_batch, numbers.rhs_batch),
    ):
        sizes = [[aval.shape[a] for a in axes] for aval, axes in ((x, left), (y, right))]
        if sizes[0] != sizes[1]:
            ill_typed(
                f"dot_general {kind} axes {left} of {x} and {right} of {y} differ in size",
                "dot-sizes",
            )
    return (
        *[x.shape[a] for a in numbers.lhs_batch],
        *removed(x.shape, numbers.lhs_contract + numbers.lhs_batch),
        *removed(y.shape, numbers.rhs_contract + numbers.rhs_batch),
    )


def _dot_type(
    x: Aval,
    y: Aval,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Aval:
    shape = _dot_shape(x.strong, y.strong, _numbers(dimension_numbers))
    return ShapedArray(shape, _result_dtype(x, y, preferred_element_type, precision))


# -- evaluation ------------------------------------------------------------------------------------


def _compute_dtype(x: DType, y: DType, out: DType) -> DType:
    """Return the type to multiply and add in: the wider of the operands' and the result's type, f32
    at least for floats.

    Operands of different types are converted to the type of the result, as XLA requires on a CPU.
    """
    widest = max((x, out), key=_rank) if x is y and out.kind in "fc" else out
    if widest.is_integer and widest.bits < 8:
        return INT8
    return FLOAT32 if widest.kind == "f" and widest.bits < 32 else widest


def _arranged(order: Axes, shape: tuple[int, ...]) -> Value:
    """Return a function that permutes the axes of a NumPy array, then reshapes it."""
    identity = order == tuple(range(len(order)))
    if identity:
        return lambda v: v.reshape(shape)
    return lambda v: v.transpose(order).reshape(shape)


def _dot_impl(
    xp: Namespace, x: Value, y: Value, *, dimension_numbers: ParamValue, **params: ParamValue
) -> Value:
    """Return the function that evaluates it: a matmul of (batch, rows, k) and (batch, k, columns),
    or of matrices if there are no batch axes.
    """
    numbers = _numbers(dimension_numbers)
    out = _dot_type(x, y, dimension_numbers=dimension_numbers, **params)
    wide = xp.dtype_of_aval(_compute_dtype(x.dtype, y.dtype, out.dtype))
    dtype = xp.dtype_of_aval(out.dtype)
    lc, rc, lb, rb = numbers
    x_free, y_free = removed(range(x.ndim), lc + lb), removed(range(y.ndim), rc + rb)
    size = lambda aval, axes: math.prod(aval.shape[a] for a in axes)  # noqa: E731
    batch = (size(x, lb),) if lb else ()
    left = _arranged(lb + x_free + lc, (*batch, size(x, x_free), size(x, lc)))
    right = _arranged(rb + rc + y_free, (*batch, size(y, rc), size(y, y_free)))
    same = x.dtype is y.dtype is out.dtype and wide == dtype
    if same and x.ndim == y.ndim == 2 and not lb and len(lc) == 1:
        return _matrix_product(xp, lc[0], rc[0])

    def run(a: Value, b: Value) -> Value:
        if not same:
            a, b = a.astype(wide), b.astype(wide)
        product = xp.matmul(left(a), right(b)).reshape(out.shape)
        return product if same else product.astype(dtype)

    return run


def _matrix_product(xp: Namespace, left: int, right: int) -> Value:
    """Return the function of two matrices that multiplies them, summed over one axis of each."""
    matmul = xp.matmul
    if (left, right) == (1, 0):
        return matmul
    if (left, right) == (1, 1):
        return lambda a, b: matmul(a, b.T)
    if (left, right) == (0, 0):
        return lambda a, b: matmul(a.T, b)
    return lambda a, b: matmul(a.T, b.T)


# -- differentiation -------------------------------------------------------------------------------


def _cotangent(
    ct: Value,
    x: Value,
    y: Value,
    contract: tuple[Axes, Axes],
    batch: tuple[Axes, Axes],
    ct_y: int,
    **params: ParamValue,
) -> Value:
    """Return the cotangent of operand x: ct times y, summed over the axes that only y and ct have.

    The operands of the product come in the order that needs no transposition of the result, if
    there is one.

    Args:
      ct: the cotangent of the result.
      x: the linear operand.
      y: the other operand.
      contract: the contracted axes of x and of y.
      batch: the batch axes of x and of y.
      ct_y: the position among ct's free axes of the first one that belongs to y.
    """
    y_ndim = get_aval(y).ndim
    y_free = removed(range(y_ndim), contract[1] + batch[1])
    x_free = removed(range(x.ndim), contract[0] + batch[0])
    n_batch = len(batch[0])
    pairs = sorted(zip(batch[0], batch[1], range(n_batch), strict=True))  # by place in x
    x_batch, y_batch, ct_batch = ([p[i] for p in pairs] for i in range(3))
    ct_axes = tuple(range(n_batch + ct_y, n_batch + ct_y + len(y_free)))
    x_contract = [x for _, x in sorted(zip(contract[1], contract[0], strict=True))]
    after_ct = [*x_batch, *x_free, *x_contract]
    after_y = [*x_batch, *x_contract, *x_free]
    if after_y == sorted(after_y) and after_ct != sorted(after_ct):
        numbers, order = ((y_free, ct_axes), (tuple(y_batch), tuple(ct_batch))), after_y
        out = lax.dot_general(y, ct, dimension_numbers=numbers, **params)
    else:
        numbers, order = ((ct_axes, y_free), (tuple(ct_batch), tuple(y_batch))), after_ct
        out = lax.dot_general(ct, y, dimension_numbers=numbers, **params)
    out = transposed(out, inverse_permutation(order))
    if get_aval(out).dtype is not x.dtype:
        out = lax.convert_element_type(out, new_dtype=x.dtype)
    return out


def _dot_transpose(
    ct: Value, x: Value, y: Value, *, dimension_numbers: ParamValue, **params: ParamValue
) -> list[Value]:
    if is_linear(x) and is_linear(y):
        not_linear("dot_general", "both operands depend on them")
    lc, rc, lb, rb = _numbers(dimension_numbers)
    if is_linear(x):
        x_free = x.aval.ndim - len(lc) - len(lb)
        return [_cotangent(ct, x.aval, y, (lc, rc), (lb, rb), x_free, **params), None]
    return [None, _cotangent(ct, y.aval, x, (rc, lc), (rb, lb), 0, **params)]


# -- vectorisation ---------------------------------------------------------------------------------


def _dot_batch(
    size: int,
    vals: Sequence[Value],
    dims: Sequence[int | None],
    *,
    dimension_numbers: ParamValue,
    **params: ParamValue,
) -> OutAndDim:
    """The batch rule: the batch axis becomes a batch axis of the product if both operands have it,
    and a free axis if one has it.
    """
    (x, y), (x_dim, y_dim) = vals, dims
    lc, rc, lb, rb = _numbers(dimension_numbers)
    if x_dim is not None:
        lc, lb = bumped(lc, x_dim), bumped(lb, x_dim)
    if y_dim is not None:
        rc, rb = bumped(rc, y_dim), bumped(rb, y_dim)
    if x_dim is not None and y_dim is not None:
        lb, rb, at = (x_dim, *lb), (y_dim, *rb), 0
    elif x_dim is not None:
        at = len(lb) + _place(x_dim, get_aval(x).ndim, lc + lb)
    else:
        at = get_aval(x).ndim - len(lc) + _place(y_dim, get_aval(y).ndim, rc + rb)
    out = lax.dot_general(x, y, dimension_numbers=((lc, rc), (lb, rb)), **params)
    return out, at


def _place(axis: int | None, ndim: int, taken: Sequence[int]) -> int:
    return removed(tuple(range(ndim)), taken).index(axis)


# -- lowering --------------------------------------------------------------------------------------

# Algorithms that XLA has on CPUs -> the types to which they convert operands, and of their sums.
_ALGORITHMS = {
    "F16_F16_F16": (FLOAT16, FLOAT16),
    "F32_F32_F32": (FLOAT32, FLOAT32),
    "F64_F64_F64": (FLOAT64, FLOAT64),
    "BF16_BF16_F32": (BFLOAT16, FLOAT32),
    "BF16_BF16_F32_X3": (FLOAT32, FLOAT32),
    "BF16_BF16_F32_X6": (FLOAT32, FLOAT32),
}


def _algorithm(precision: Any) -> str | None:
    """Return the name of the algorithm that a precision names; None for the ordinary precisions."""
    if precision is None or isinstance(precision, tuple | list):
        return None
    if PRECISION_LEVEL.fits(precision):
        return None
    return DOT_ALGORITHM.member(precision) or str(precision)


def _dot_lower(
    ctx: LoweringContext,
    x: HloValue,
    y: HloValue,
    *,
    dimension_numbers: ParamValue,
    precision: ParamValue,
    **_: ParamValue,
) -> HloValue:
    out = ctx.out_aval
    algorithm, dtype = _algorithm(precision), out.dtype
    if algorithm is not None:
        if algorithm not in _ALGORITHMS:
            fail(
                UnsupportedError,
                f"dot_general precision {precision} does not exist on a CPU",
                "dot-algorithm",
            )
        operand_dtype, dtype = _ALGORITHMS[algorithm]
        x, y = ctx.convert(x, operand_dtype), ctx.convert(y, operand_dtype)
    elif x.aval.dtype is not y.aval.dtype:
        x, y = ctx.convert(x, dtype), ctx.convert(y, dtype)
    lc, rc, lb, rb = (list(axes) for axes in _numbers(dimension_numbers))
    given = precision if isinstance(precision, tuple | list) else (precision, precision)
    names = ["DEFAULT" if algorithm else precision_level(p) for p in given]
    batching = f"batching_dims = {lb} x {rb}, " if lb else ""
    result = ShapedArray(out.shape, dtype)
    types = f"({mlir_type(x.aval)}, {mlir_type(y.aval)}) -> {mlir_type(result)}"
    text = (
        f"stablehlo.dot_general {x.name}, {y.name}, {batching}contracting_dims = {lc} x {rc}, "
        f"precision = [{', '.join(names)}] : {types}"
    )
    return ctx.convert(ctx.write(text, result), out.dtype)


def _dot_cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval], **params: ParamValue) -> Cost:
    """The cost rule: two operations for each product of elements, and conversions of element
    types.
    """
    shape = in_avals[0].shape
    depth = math.prod(shape[a] for a in _numbers(params["dimension_numbers"]).lhs_contract)
    products = Cost(2 * max(out_avals[0].size, 0) * depth)
    return products + lowered_cost(lax.dot_general.primitive, in_avals, out_avals, params)


def _dot_layout(
    ins: Value, out: Value, *, dimension_numbers: Any, **_: Any
) -> list[tuple[str, ...]]:
    """Return the layout of the result: of the batch axes, the free axes of lhs, and those of
    rhs.
    """
    (left, right), (left_batch, right_batch) = dimension_numbers
    x, y = map(spec_of, ins[:2])
    batch = [x[i] or y[j] for i, j in zip(left_batch, right_batch, strict=True)]
    free = [s for i, s in enumerate(x) if i not in (*left, *left_batch)]
    return [*batch, *free, *[s for i, s in enumerate(y) if i not in (*right, *right_batch)]]


def _dot_determined(in_avals: Any, params: Any) -> bool:
    """The determined rule: False with an algorithm, since platforms implement algorithms
    differently.
    """
    del in_avals
    return _algorithm(params["precision"]) is None


def _dot_of_preferred(
    x: Aval, y: Aval, *, preferred_element_type: DType | None, **params: ParamValue
) -> Value:
    """The earlier rule: the type of the result is that of the operands."""
    dtype = preferred_element_type
    if dtype is None:
        return None
    return lambda x, y: lax.dot_general(
        as_dtype(x, dtype), as_dtype(y, dtype), preferred_element_type=None, **params
    )


define(
    lax.dot_general,
    abstract_eval=_dot_type,
    impl=static_impl(_dot_impl),
    jvp=bilinear,
    transpose=_dot_transpose,
    batch=_dot_batch,
    lower=_dot_lower,
    cost=_dot_cost,
    layout=_dot_layout,
    determined=_dot_determined,
    earlier=_dot_of_preferred,
)

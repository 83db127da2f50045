"""NumPy's reductions and cumulative functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool.ir.diagnostics import UsageError, fail
from jaxprtool.ir.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, DType, find_dtype
from jaxprtool.ops import binary, cumulative, reduction, unary
from jaxprtool.ops.arrays.elementwise import UFUNCS, where
from jaxprtool.ops.arrays.promotion import (
    as_dtype,
    as_integer,
    broadcast_to,
    dtype_named,
    dtype_of_value,
    shape_of,
)
from jaxprtool.ops.shape import reshape

__all__ = ["REDUCTIONS", "normalize_axes", "normalize_axis"]

Axis = int | Sequence[int] | None


def normalize_axis(axis: Any, ndim: int) -> int:
    """A position of an axis counted from the front."""
    position = as_integer(axis, "the axis")
    if not -ndim <= position < ndim:
        fail(UsageError, f"the axis {position} is out of range for {ndim} dimensions", "axis")
    return position % ndim


def normalize_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Positions of axes counted from the front, increasing; None is all of them."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = tuple(sorted(normalize_axis(a, ndim) for a in axes))
    if len(set(found)) < len(found):
        fail(UsageError, f"an axis occurs twice in {tuple(axes)}", "axis")
    return found


def keep_dims(x: Any, shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> Any:
    """The result of reducing `axes` of an array of `shape`, where `keepdims` keeps those axes with size 1."""
    if not keepdims:
        return x
    return reshape(x, new_sizes=tuple(1 if i in axes else d for i, d in enumerate(shape)))


def _accumulator(dtype: DType) -> DType:
    """The type that NumPy sums a type in: at least 64 bits for integers."""
    if dtype is BOOL:
        return INT64
    if dtype.is_integer and dtype.bits < 64:
        return find_dtype(dtype.kind + "64") or INT64
    return dtype


def _chosen(a: Any, condition: Any, otherwise: Any) -> Any:
    """a where a condition holds, for the option `where=`, and what changes nothing elsewhere."""
    if condition is True:
        return a
    if dtype_of_value(condition) is not BOOL:
        fail(
            UsageError,
            f"where= is of {dtype_of_value(condition)}, and has to be of booleans",
            "operand-types",
        )
    return where(broadcast_to(condition, shape_of(a)), a, as_dtype(otherwise, dtype_of_value(a)))


def _reduction(
    op: Callable[..., Any], accumulate: Callable[[DType], DType], combine: str, neutral: int
) -> Callable[..., Any]:
    def reduce(
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        _refuse(out=out)
        target = accumulate(dtype_of_value(a)) if dtype is None else dtype_named(dtype)
        axes = normalize_axes(axis, len(shape_of(a)))
        reduced = op(_chosen(as_dtype(a, target), where, neutral), axes=axes)
        if initial is not None:
            reduced = UFUNCS[combine](reduced, as_dtype(initial, target))
        return keep_dims(reduced, shape_of(a), axes, keepdims)

    return reduce


def _extremum(op: Callable[..., Any], combine: str) -> Callable[..., Any]:
    def reduce(
        a: Any,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        _refuse(out=out)
        axes = normalize_axes(axis, len(shape_of(a)))
        if initial is None and (where is not True or not _count(a, axes)):
            what = "no element" if where is True else "elements that where= chooses"
            fail(UsageError, f"the {combine} of {what} needs initial=", "empty-reduction")
        if initial is not None:
            initial = as_dtype(initial, dtype_of_value(a))
            a = _chosen(a, where, initial)
        reduced = op(a, axes=axes)
        if initial is not None:
            reduced = UFUNCS[combine](reduced, initial)
        return keep_dims(reduced, shape_of(a), axes, keepdims)

    return reduce


def _truth(op: Callable[..., Any], neutral: bool) -> Callable[..., Any]:
    def of_truth(
        a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, where: Any = True
    ) -> Any:
        _refuse(out=out)
        a = a if dtype_of_value(a) is BOOL else UFUNCS["not_equal"](a, 0)
        axes = normalize_axes(axis, len(shape_of(a)))
        reduced = op(_chosen(a, where, neutral), axes=axes)
        return keep_dims(reduced, shape_of(a), axes, keepdims)

    return of_truth


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            fail(UsageError, f"the option {name}= is not possible while tracing", "option")


def _position(op: Callable[..., Any]) -> Callable[..., Any]:
    def find(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
        _refuse(out=out)
        shape = shape_of(a)
        if axis is None:
            a, axes = _flat(a), tuple(range(len(shape)))
            found = op(a, axes=(0,), index_dtype=INT64)
        else:
            axes = (normalize_axis(axis, len(shape)),)
            found = op(a, axes=axes, index_dtype=INT64)
        return keep_dims(found, shape, axes, keepdims)

    return find


def _flat(a: Any) -> Any:
    return a if len(shape_of(a)) == 1 else reshape(a, new_sizes=(_size(a),))


def _size(a: Any) -> int:
    size = 1
    for d in shape_of(a):
        size *= d
    return size


def _cumulative(op: Callable[..., Any]) -> Callable[..., Any]:
    def accumulate(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        _refuse(out=out)
        target = _accumulator(dtype_of_value(a)) if dtype is None else dtype_named(dtype)
        a = as_dtype(_flat(a) if axis is None else a, target)
        return op(a, axis=normalize_axis(0 if axis is None else axis, len(shape_of(a))))

    return accumulate


def _mean_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_inexact else FLOAT64


def mean(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False
) -> Any:
    """The arithmetic mean; of integers in f64, of f16 by way of f32."""
    _refuse(out=out)
    target = _mean_dtype(dtype_of_value(a)) if dtype is None else dtype_named(dtype)
    inner = FLOAT32 if target is FLOAT16 else target
    axes = normalize_axes(axis, len(shape_of(a)))
    total = reduction.reduce_sum(as_dtype(a, inner), axes=axes)
    result = binary.div(total, as_dtype(_count(a, axes), inner))
    return keep_dims(as_dtype(result, target), shape_of(a), axes, keepdims)


def _count(a: Any, axes: Sequence[int]) -> int:
    count = 1
    for i in axes:
        count *= shape_of(a)[i]
    return count


def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
) -> Any:
    """The mean of the squared distances to the mean, over n - ddof."""
    _refuse(out=out)
    target = _mean_dtype(dtype_of_value(a)) if dtype is None else dtype_named(dtype)
    a = as_dtype(a, FLOAT32 if target is FLOAT16 else target)
    axes = normalize_axes(axis, len(shape_of(a)))
    center = broadcast_to(mean(a, axes, keepdims=True), shape_of(a))
    gap = binary.sub(a, center)
    if dtype_of_value(a).kind == "c":
        gap = unary.abs(gap)
    total = reduction.reduce_sum(unary.square(gap), axes=axes)
    freedom = max(_count(a, axes) - ddof, 0)
    result = binary.div(total, as_dtype(freedom, dtype_of_value(total)))
    return keep_dims(as_dtype(result, target.real), shape_of(a), axes, keepdims)


def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
) -> Any:
    """The square root of `var`."""
    return unary.sqrt(var(a, axis, dtype, out, ddof, keepdims))


def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """`numpy.linalg.norm`: the 2-norm (Frobenius for matrices), or for vectors ord 1, 2 or inf."""
    x = as_dtype(x, _mean_dtype(dtype_of_value(x)))
    axes = normalize_axes(axis, len(shape_of(x)))
    size = unary.abs(x)
    sum_, max_ = REDUCTIONS["sum"], REDUCTIONS["max"]
    if ord is None or (ord == 2 and len(axes) == 1) or ord == "fro":
        return unary.sqrt(sum_(unary.square(size), axes, keepdims=keepdims))
    if len(axes) == 1 and ord == 1:
        return sum_(size, axes, keepdims=keepdims)
    if len(axes) == 1 and ord == float("inf"):
        return max_(size, axes, keepdims=keepdims)
    return fail(UsageError, f"no norm of ord={ord!r} over {len(axes)} axes", "norm")


def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    """The distance from the smallest element to the largest."""
    ends = [REDUCTIONS[name](a, axis, out, keepdims) for name in ("max", "min")]
    return binary.sub(*ends)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": _reduction(reduction.reduce_sum, _accumulator, "add", 0),
    "prod": _reduction(reduction.reduce_prod, _accumulator, "multiply", 1),
    "max": _extremum(reduction.reduce_max, "maximum"),
    "amax": _extremum(reduction.reduce_max, "maximum"),
    "min": _extremum(reduction.reduce_min, "minimum"),
    "amin": _extremum(reduction.reduce_min, "minimum"),
    "all": _truth(reduction.reduce_and, True),
    "any": _truth(reduction.reduce_or, False),
    "argmax": _position(reduction.argmax),
    "argmin": _position(reduction.argmin),
    "cumsum": _cumulative(cumulative.cumsum),
    "cumprod": _cumulative(cumulative.cumprod),
    "mean": mean,
    "var": var,
    "std": std,
    "norm": norm,
    "ptp": ptp,
}

"""NumPy's elementwise functions, by the names of its ufuncs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, fail
from jaxprtool.ir.dtypes import BOOL, FLOAT64, DType
from jaxprtool.ops import binary, bitwise, comparison, exponential, select, trigonometric, unary
from jaxprtool.ops.arrays.promotion import (
    as_dtype,
    as_integer,
    broadcast_shapes,
    broadcast_to,
    dtype_of_value,
    float_dtype,
    promote,
    promote_dtypes,
    result_dtype,
    shape_of,
)

__all__ = ["UFUNCS", "clip", "divmod_", "power", "round_", "where"]

Function = Callable[..., Any]


def _in_floats(op: Function, **params: Any) -> Function:
    def apply(x: Any) -> Any:
        return op(as_dtype(x, float_dtype(dtype_of_value(x))), **params)

    return apply


def _rounding(op: Function) -> Function:
    """Integers are integral already."""

    def apply(x: Any) -> Any:
        return op(x) if dtype_of_value(x).is_inexact else x

    return apply


def _arithmetic(op: Function, on_bool: Function | None, name: str) -> Function:
    def apply(x: Any, y: Any) -> Any:
        x, y = promote(x, y)
        if x.dtype is not BOOL and dtype_of_value(x) is not BOOL:
            return op(x, y)
        if on_bool is None:
            fail(UsageError, f"{name} of two booleans is not defined", "operand-types")
        return on_bool(x, y)

    return apply


def _plain(op: Function) -> Function:
    return lambda x, y: op(*promote(x, y))


def _ordered(op: Function) -> Function:
    """A comparison of order: of complex numbers by their real parts, and where these are equal by the imaginary ones."""

    def apply(x: Any, y: Any) -> Any:
        x, y = promote(x, y)
        if dtype_of_value(x).kind != "c":
            return op(x, y)
        (a, b), (c, d) = ([unary.real(v), unary.imag(v)] for v in (x, y))
        return where(comparison.eq(a, c), op(b, d), op(a, c))

    return apply


def _as_bool(x: Any) -> Any:
    dtype = dtype_of_value(x)
    return x if dtype is BOOL else comparison.ne(x, as_dtype(0, dtype))


def _logical(op: Function) -> Function:
    return lambda x, y: op(*promote(_as_bool(x), _as_bool(y), dtype=BOOL))


def _pair_dtype(x: Any, y: Any) -> DType:
    """The float type of a function like atan2: that of two floats that hold the operands."""
    if type(x) in (bool, int, float) or type(y) in (bool, int, float):
        return float_dtype(result_dtype(x, y))
    return promote_dtypes(float_dtype(dtype_of_value(x)), float_dtype(dtype_of_value(y)))


def _float_pair(op: Function) -> Function:
    return lambda x, y: op(*promote(x, y, dtype=_pair_dtype(x, y)))


def true_divide(x: Any, y: Any) -> Any:
    """x / y; of integers in f64."""
    dtype = result_dtype(x, y)
    return binary.div(*promote(x, y, dtype=dtype if dtype.is_inexact else FLOAT64))


def divmod_(x: Any, y: Any) -> tuple[Any, Any]:
    """floor(x / y), and the remainder, which has the sign of y."""
    x, y = promote(x, y)
    dtype = dtype_of_value(x)
    zero, one = as_dtype(0, dtype), as_dtype(1, dtype)
    remainder = binary.rem(x, y)
    if dtype.kind == "u":
        return binary.div(x, y), remainder
    wrong = bitwise.and_(
        comparison.ne(remainder, zero),
        comparison.ne(comparison.lt(remainder, zero), _lt_zero(y, zero, shape_of(remainder))),
    )
    quotient = binary.div(binary.sub(x, remainder), y)
    if dtype.is_inexact:
        quotient = unary.round(quotient, rounding_method=1)  # the difference is a multiple of y
    shape = shape_of(remainder)
    lower = broadcast_to(binary.sub(quotient, one), shape)
    shifted = broadcast_to(binary.add(remainder, y), shape)
    return select.select_n(wrong, quotient, lower), select.select_n(wrong, remainder, shifted)


def _lt_zero(y: Any, zero: Any, shape: tuple[int, ...]) -> Any:
    return broadcast_to(comparison.lt(y, zero), shape)


def power(x: Any, y: Any) -> Any:
    """x^y; a Python integer as the exponent is exact, and the only one that integers take."""
    if isinstance(y, (int, float)) and type(y) is not bool and float(y).is_integer():
        dtype = result_dtype(x, y)
        base = as_dtype(x, dtype)
        if dtype.is_inexact or y >= 0:
            return unary.square(base) if y == 2 else unary.integer_pow(base, y=int(y))
        fail(UsageError, "integers to negative integer powers are not allowed", "power")
    if isinstance(y, float) and y == 0.5 and dtype_of_value(x).is_inexact:
        return unary.sqrt(x)
    x, y = promote(x, y)
    if not dtype_of_value(x).is_inexact:
        fail(
            UnsupportedError,
            f"a power of {dtype_of_value(x)} with an exponent that is not a Python integer",
            "power",
            help="convert one of them to a float",
        )
    return binary.pow(x, y)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere."""
    dtype = result_dtype(x, y)
    shape = broadcast_shapes(*map(shape_of, (condition, x, y)))
    condition = _as_bool(condition)
    if shape_of(condition):
        condition = broadcast_to(condition, shape)
    cases = [broadcast_to(as_dtype(v, dtype), shape) for v in (y, x)]
    return select.select_n(condition, *cases)


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """The nearest to x in [min, max]; either may be None."""
    if min is not None:
        x = UFUNCS["maximum"](x, min)
    return x if max is None else UFUNCS["minimum"](x, max)


def round_(x: Any, decimals: int = 0) -> Any:
    """x to a number of decimals, halves to even."""
    decimals = as_integer(decimals, "the number of decimals")
    if not dtype_of_value(x).is_inexact:
        if decimals < 0 and dtype_of_value(x) is not BOOL:
            fail(UnsupportedError, f"round of integers to {decimals} decimals", "round")
        return x
    if dtype_of_value(x).kind == "c":
        return _by_parts(lambda part: round_(part, decimals), x)
    if not decimals:
        return unary.round(x, rounding_method=1)
    scale = as_dtype(10.0**decimals, dtype_of_value(x))
    return binary.div(unary.round(binary.mul(x, scale), rounding_method=1), scale)


def _by_parts(op: Function, x: Any) -> Any:
    """A function of real numbers, of the real and of the imaginary part."""
    return binary.complex(op(unary.real(x)), op(unary.imag(x)))


def _trunc(x: Any) -> Any:
    zero = as_dtype(0, dtype_of_value(x))
    return select.select_n(comparison.lt(x, zero), unary.floor(x), unary.ceil(x))


def _logaddexp(x: Any, y: Any) -> Any:
    x, y = promote(x, y, dtype=_pair_dtype(x, y))
    top, gap = binary.max(x, y), binary.sub(x, y)
    sum_ = binary.add(top, exponential.log1p(exponential.exp(unary.neg(unary.abs(gap)))))
    shape = shape_of(sum_)
    equal_infinities = comparison.ne(gap, gap)
    return select.select_n(equal_infinities, sum_, broadcast_to(binary.add(x, y), shape))


def _hypot(x: Any, y: Any) -> Any:
    """sqrt(x² + y²) scaled by the larger, so that it does not overflow."""
    x, y = promote(x, y, dtype=_pair_dtype(x, y))
    x, y = unary.abs(x), unary.abs(y)
    large, small = binary.max(x, y), binary.min(x, y)
    one, zero = as_dtype(1, dtype_of_value(large)), as_dtype(0, dtype_of_value(large))
    safe = where(comparison.eq(large, zero), one, large)
    root = unary.sqrt(binary.add(one, unary.square(binary.div(small, safe))))
    return binary.mul(large, root)


def _ignoring_nan(op: Function) -> Function:
    def apply(x: Any, y: Any) -> Any:
        x, y = promote(x, y)
        best = where(comparison.ne(y, y), x, op(x, y))
        return where(comparison.ne(x, x), y, best)

    return apply


def _scaled(op: Function, factor: float) -> Function:
    def apply(x: Any) -> Any:
        y = op(x)

        def times(part: Any) -> Any:
            return binary.mul(part, as_dtype(factor, dtype_of_value(part)))

        return _by_parts(times, y) if dtype_of_value(y).kind == "c" else times(y)

    return apply


def _absolute(x: Any) -> Any:
    return x if dtype_of_value(x).kind in "bu" else unary.abs(x)


def _conjugate(x: Any) -> Any:
    dtype = dtype_of_value(x)
    return unary.conj(x, input_dtype=dtype) if dtype.kind == "c" else x


def _shift_dtype(x: Any, y: Any) -> DType:
    return (
        promote_dtypes(dtype_of_value(x), dtype_of_value(y))
        if type(y) is not int
        else dtype_of_value(x)
    )


def _right_shift(x: Any, y: Any) -> Any:
    x, y = promote(x, y, dtype=_shift_dtype(x, y))
    unsigned = dtype_of_value(x).kind == "u"
    return (bitwise.shift_right_logical if unsigned else bitwise.shift_right_arithmetic)(x, y)


def _isinf(x: Any) -> Any:
    dtype = dtype_of_value(x)
    x = x if dtype.is_inexact else as_dtype(x, FLOAT64)
    if dtype.kind == "c":
        return bitwise.or_(_isinf(unary.real(x)), _isinf(unary.imag(x)))
    return comparison.eq(unary.abs(x), as_dtype(math.inf, dtype_of_value(x)))


def _isfinite(x: Any) -> Any:
    if dtype_of_value(x).kind == "c":
        return bitwise.and_(unary.is_finite(unary.real(x)), unary.is_finite(unary.imag(x)))
    return unary.is_finite(x if dtype_of_value(x).is_inexact else as_dtype(x, FLOAT64))


_float = _in_floats
_log = _float(exponential.log)

_INVERSES = ["asin", "acos", "atan", "asinh", "acosh", "atanh"]

UFUNCS: dict[str, Function] = {
    **{n: _float(getattr(unary, n)) for n in ["sqrt", "cbrt"]},
    **{n: _float(getattr(exponential, n)) for n in ["exp", "exp2", "expm1", "log", "log1p"]},
    **{n: _float(getattr(trigonometric, n)) for n in ["sin", "cos", "tan", "sinh", "cosh", "tanh"]},
    **{"arc" + n[1:]: _float(getattr(trigonometric, n)) for n in _INVERSES},
    **{n: _float(getattr(trigonometric, n)) for n in _INVERSES},
    "log2": _scaled(_log, 1 / math.log(2)),
    "log10": _scaled(_log, 1 / math.log(10)),
    "deg2rad": _scaled(_float(lambda x: x), math.pi / 180),
    "radians": _scaled(_float(lambda x: x), math.pi / 180),
    "rad2deg": _scaled(_float(lambda x: x), 180 / math.pi),
    "degrees": _scaled(_float(lambda x: x), 180 / math.pi),
    "erf": _float(exponential.erf),
    "erfc": _float(exponential.erfc),
    "erfinv": _float(exponential.erf_inv),
    "expit": _float(exponential.logistic),
    "negative": unary.neg,
    "positive": lambda x: x,
    "absolute": _absolute,
    "abs": _absolute,
    "fabs": _float(unary.abs),
    "sign": unary.sign,
    "square": unary.square,
    "reciprocal": lambda x: binary.div(as_dtype(1, dtype_of_value(x)), x),
    "conjugate": _conjugate,
    "conj": _conjugate,
    "floor": _rounding(unary.floor),
    "ceil": _rounding(unary.ceil),
    "trunc": _rounding(_trunc),
    "rint": lambda x: round_(as_dtype(x, float_dtype(dtype_of_value(x)))),
    "isfinite": _isfinite,
    "isnan": lambda x: comparison.ne(x, x),
    "isinf": _isinf,
    "logical_not": lambda x: bitwise.not_(_as_bool(x)),
    "invert": bitwise.not_,
    "bitwise_invert": bitwise.not_,
    "bitwise_not": bitwise.not_,
    "add": _arithmetic(binary.add, bitwise.or_, "add"),
    "subtract": _arithmetic(binary.sub, None, "subtract"),
    "multiply": _arithmetic(binary.mul, bitwise.and_, "multiply"),
    "divide": true_divide,
    "true_divide": true_divide,
    "floor_divide": lambda x, y: divmod_(x, y)[0],
    "remainder": lambda x, y: divmod_(x, y)[1],
    "mod": lambda x, y: divmod_(x, y)[1],
    "divmod": divmod_,
    "fmod": _plain(binary.rem),
    "power": power,
    "pow": power,
    "float_power": lambda x, y: binary.pow(
        *promote(x, y, dtype=promote_dtypes(result_dtype(x, y), FLOAT64))
    ),
    "arctan2": _float_pair(binary.atan2),
    "atan2": _float_pair(binary.atan2),
    "hypot": _hypot,
    "logaddexp": _logaddexp,
    "maximum": _plain(binary.max),
    "minimum": _plain(binary.min),
    "fmax": _ignoring_nan(binary.max),
    "fmin": _ignoring_nan(binary.min),
    "equal": _plain(comparison.eq),
    "not_equal": _plain(comparison.ne),
    "less": _ordered(comparison.lt),
    "less_equal": _ordered(comparison.le),
    "greater": _ordered(comparison.gt),
    "greater_equal": _ordered(comparison.ge),
    "bitwise_and": _plain(bitwise.and_),
    "bitwise_or": _plain(bitwise.or_),
    "bitwise_xor": _plain(bitwise.xor),
    "left_shift": lambda x, y: bitwise.shift_left(*promote(x, y, dtype=_shift_dtype(x, y))),
    "bitwise_left_shift": lambda x, y: bitwise.shift_left(*promote(x, y, dtype=_shift_dtype(x, y))),
    "right_shift": _right_shift,
    "bitwise_right_shift": _right_shift,
    "logical_and": _logical(bitwise.and_),
    "logical_or": _logical(bitwise.or_),
    "logical_xor": _logical(bitwise.xor),
}

"""Elementwise functions of complex numbers on NumPy, by formulas in real arithmetic.

At special values (zeros of either sign, infinities, NaN) NumPy follows annex G of C99. XLA computes each function by a
formula in real arithmetic, and its results at special values are those of the formula. The formulas here have the same
results at special values as XLA's, and are at least as accurate elsewhere. Two conventions of XLA recur:

- The imaginary part of a result is +0 where that of the operand is a zero of either sign (`exp`, `tanh`).
- A zero imaginary part is above the branch cut, whatever its sign (`sqrt`, `asin`).

Every function takes the namespace and complex arrays of any shape, and gives arrays of the same element type;
`absolute` gives real ones.
"""

from __future__ import annotations

import math
from typing import Any

from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.ir.jaxpr import Value

__all__ = [
    "absolute",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "logistic",
    "power",
    "quotient",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
]

_LOG_2 = math.log(2.0)


# -- parts ---------------------------------------------------------------------------------------


def _pair(xp: Namespace, real: Value, imag: Value) -> Value:
    """The complex numbers with these parts, which `real + 1j * imag` is not where a part is a zero or no number."""
    out = xp.empty(real.shape, f"c{2 * real.dtype.itemsize}")
    out.real, out.imag = real, imag
    return out[()]


def _turned(function: Any) -> Value:
    """z -> -i * function(i * z), which makes the function of an angle of a hyperbolic one, or the other way round."""

    def turned(xp: Namespace, z: Value) -> Value:
        out = function(xp, _pair(xp, -z.imag, z.real))
        return _pair(xp, out.imag, -out.real)

    return turned


def _any_nan(xp: Namespace, z: Value) -> Value:
    return xp.isnan(z.real) | xp.isnan(z.imag)


def _above(xp: Namespace, z: Value) -> Value:
    """z, with +0 for an imaginary part of -0."""
    return _pair(xp, z.real, z.imag + 0.0)


def _side(xp: Namespace, v: Value) -> Value:
    """1 for v >= 0, zeros of either sign included, and -1 for the rest."""
    return xp.where(v >= 0, v.dtype.type(1), v.dtype.type(-1))


def _distance(xp: Namespace, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2), and NaN where x or y is."""
    nan = xp.isnan(x) | xp.isnan(y)
    return xp.where(nan, x.dtype.type(xp.nan), xp.hypot(x, y))


# -- exponentials ----------------------------------------------------------------------------------


def _grown(xp: Namespace, growth: Any, x: Value, factor: Value, share: float = 1.0) -> Value:
    """growth(x) * factor for a function that grows as share * exp(|x|), also where only the product is finite."""
    size = growth(x)
    out = size * factor
    over = xp.isinf(size)
    if not over.any():
        return out
    root = xp.exp(xp.abs(x) / 2)
    return xp.where(over, xp.copysign(root, size) * factor * root * share, out)


def exp(xp: Namespace, z: Value) -> Value:
    """e^z."""
    x, y = z.real, z.imag
    imag = xp.where(y == 0, x.dtype.type(0), _grown(xp, xp.exp, x, xp.sin(y)))
    return _pair(xp, _grown(xp, xp.exp, x, xp.cos(y)), imag)


def exp2(xp: Namespace, z: Value) -> Value:
    """2^z, as e^(z log 2)."""
    return exp(xp, z * xp.asarray(_LOG_2, z.dtype))


def expm1(xp: Namespace, z: Value) -> Value:
    """e^z - 1, accurate near 0."""
    x, y = z.real, z.imag
    growth = xp.expm1(x)
    dip = 0 - 2 * xp.square(xp.sin(y / 2))  # cos(y) - 1
    imag = xp.where(y == 0, x.dtype.type(0), (growth + 1) * xp.sin(y))
    return _pair(xp, growth * (dip + 1) + dip, imag)


def logistic(xp: Namespace, z: Value) -> Value:
    """1 / (1 + e^-z)."""
    one = z.dtype.type(1)
    return quotient(xp, one, one + exp(xp, -z))


# -- functions of angles, and hyperbolic ones --------------------------------------------------------


def sin(xp: Namespace, z: Value) -> Value:
    """The sine; its imaginary part is cos x sinh y."""
    x, y = z.real, z.imag
    real = xp.where(x == 0, x.dtype.type(0), xp.sin(x) * xp.cosh(y))
    return _pair(xp, real, xp.cos(x) * xp.sinh(y))


def cos(xp: Namespace, z: Value) -> Value:
    """The cosine; its imaginary part is -sin x sinh y."""
    x, y = z.real, z.imag
    imag = xp.where(x == 0, x.dtype.type(0), -xp.sin(x) * xp.sinh(y))
    return _pair(xp, xp.cos(x) * xp.cosh(y), imag)


def sinh(xp: Namespace, z: Value) -> Value:
    """The hyperbolic sine: a sum of exponentials in XLA, whose zeros are positive."""
    x, y = z.real, z.imag
    real = _grown(xp, xp.sinh, x, xp.cos(y), 0.5) + 0.0
    imag = _grown(xp, xp.cosh, x, xp.sin(y), 0.5)
    return _pair(xp, real, xp.where(y == 0, x.dtype.type(0), imag))


def cosh(xp: Namespace, z: Value) -> Value:
    """The hyperbolic cosine: a sum of exponentials in XLA, whose zeros are positive."""
    x, y = z.real, z.imag
    imag = _grown(xp, xp.sinh, x, xp.sin(y), 0.5) + 0.0
    real = _grown(xp, xp.cosh, x, xp.cos(y), 0.5)
    return _pair(xp, real, xp.where(y == 0, x.dtype.type(0), imag))


def tanh(xp: Namespace, z: Value) -> Value:
    """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y)."""
    x, y = z.real, z.imag
    s, c = xp.sinh(x), xp.cos(y)
    turn = xp.sin(y) * c
    wide = s * s
    size, ends = wide + c * c, xp.isinf(x)
    real = xp.where(xp.isinf(wide), xp.copysign(x.dtype.type(1), x), s * xp.cosh(x) / size)
    lost = xp.isnan(turn)
    real = xp.where(lost & ~ends, x.dtype.type(xp.nan), real)
    return _pair(xp, real, xp.where((y == 0) | (lost & ends), x.dtype.type(0), turn / size))


tan = _turned(tanh)


# -- their inverses ----------------------------------------------------------------------------------


def _arc(xp: Namespace, z: Value) -> tuple[Value, Value]:
    """(p, q) with p and q not negative, where acos z = atan2(p, x) - i * q for z = x + i * y in the upper half plane.

    The algorithm of Hull, Fairgrieve and Tang, "Implementing the complex arcsine and arccosine functions using
    exception handling", 1997, with XLA's bounds between its cases.
    """
    info = xp.finfo(z.real.dtype)
    least, most = 4 * math.sqrt(float(info.tiny)), math.sqrt(float(info.max)) / 8
    x, y = xp.abs(z.real), xp.abs(z.imag)
    right, left = x + 1, x - 1
    r, s = _distance(xp, right, y), _distance(xp, left, y)
    a = (r + s) / 2
    half = (a + x) / 2
    inner = xp.sqrt(half * (y * y / (r + right) + (s - left)))
    outer = y * xp.sqrt(half / (r + right) + half / (s + left))
    p = xp.where(xp.maximum(x, y) >= most, y, xp.where(x <= 1, inner, outer))

    flat = (y < least) & (x < 1)  # near the cut
    share = y * y / 2 / (r + right)
    beyond = share + (s + left) / 2
    within = xp.where(a <= 1.5, share + y * y / 2 / (s - left), a - 1)
    excess = xp.where(flat, -(right * left) / (a + 1), xp.where(x >= 1, beyond, within))
    root = xp.sqrt(excess * (a + 1))
    near = xp.where(flat, y / root, xp.log1p(excess + root))

    bound = xp.where(x < most * 1e12, x.dtype.type(most * 1e-6), x.dtype.type(most * 1e2))
    high = y >= bound
    large, limit = xp.where(high, y, x), xp.where(high, bound, x.dtype.type(most))
    ratio = xp.where(high & ~xp.isinf(y), x / y, x.dtype.type(0))
    far = xp.log(large) + x.dtype.type(_LOG_2) + xp.log1p(ratio * ratio) / 2
    return p, xp.where(large >= limit, far, near)


def asin(xp: Namespace, z: Value) -> Value:
    """The arc sine."""
    p, q = _arc(xp, z)
    return _pair(xp, xp.arctan2(z.real, p), xp.where(z.imag < 0, -q, q))


def acos(xp: Namespace, z: Value) -> Value:
    """The arc cosine."""
    p, q = _arc(xp, z)
    return _pair(xp, xp.arctan2(p, z.real), xp.where(z.imag < 0, q, -q))


def acosh(xp: Namespace, z: Value) -> Value:
    """The inverse of the hyperbolic cosine."""
    p, q = _arc(xp, z)
    angle = xp.arctan2(p, z.real)
    return _pair(xp, q, xp.where(z.imag < 0, -angle, angle))


asinh = _turned(asin)


def atanh(xp: Namespace, z: Value) -> Value:
    """log1p(4 |x| / ((1 - |x|)^2 + y^2)) / 4, and half of the angle of (1 - x^2 - y^2, 2 y)."""
    x, y = xp.abs(z.real), z.imag
    one, big = x.dtype.type(1), 2 / float(xp.finfo(x.dtype).eps)
    ordinary = (x < big * big) & (xp.abs(y) < big * big)
    near = 1 - x
    ends = xp.isinf(x) | xp.isinf(y)
    tilted = xp.where(ends, one * 0, one / ((x / y + y / x) * y))
    large = xp.where(xp.abs(y) * (big + 2) < x, one / x, tilted)
    share = xp.where(ordinary, x / (near * near + y * y), large)
    angle = xp.arctan2(y + y, near * (1 + x) - y * y)
    angle = xp.where(ordinary, angle, _side(xp, y) * x.dtype.type(math.pi))
    return _pair(xp, _side(xp, z.real) * xp.log1p(4 * share) / 4, angle / 2)


atan = _turned(atanh)


# -- absolute value, powers and roots ----------------------------------------------------------------


def absolute(xp: Namespace, z: Value) -> Value:
    """|z|, in real numbers."""
    out = xp.abs(z)
    ends = xp.isinf(out)
    return (
        xp.where(ends & _any_nan(xp, z), out.dtype.type(math.nan), out)[()] if ends.any() else out
    )


def square(xp: Namespace, z: Value) -> Value:
    """z z, whose real part is (x - y)(x + y) and 0 on the diagonals."""
    x, y = z.real, z.imag
    diagonal = xp.isfinite(x) & (xp.abs(x) == xp.abs(y))
    return _pair(xp, xp.where(diagonal, x.dtype.type(0), (x - y) * (x + y)), 2 * (x * y))


def sqrt(xp: Namespace, z: Value) -> Value:
    """The square root in the right half plane; NaN in both parts where either is."""
    root = xp.sqrt(_above(xp, z))
    return xp.where(_any_nan(xp, z), z.dtype.type(complex(math.nan, math.nan)), root)[()]


def rsqrt(xp: Namespace, z: Value) -> Value:
    """In polar form: |z|^(-1/2) at minus half of the angle."""
    x, y = z.real, z.imag
    size, angle = 1 / _root_distance(xp, x, y), xp.arctan2(y, x) / -2
    none = x.dtype.type(0)
    ends = xp.isinf(x) | (xp.isinf(y) & xp.isnan(x))
    real = xp.where(ends, xp.copysign(none, x), size * xp.cos(angle))
    imag = xp.where(ends, -xp.copysign(none, y), size * xp.sin(angle))
    pole = (x == 0) & (y == 0)
    nan, inf = x.dtype.type(math.nan), x.dtype.type(math.inf)
    return _pair(xp, xp.where(pole, inf, real), xp.where(pole, nan, imag))


def _root_distance(xp: Namespace, x: Value, y: Value) -> Value:
    """(x^2 + y^2)^(1/4), without overflow in intermediate results."""
    most = xp.maximum(xp.abs(x), xp.abs(y))
    root = xp.sqrt(most) * xp.sqrt(_distance(xp, x / most, y / most))
    return xp.where((most == 0) | xp.isinf(most), most, root)


def power(xp: Namespace, z: Value, w: Value) -> Value:
    """In polar form: |z|^w.real * exp(-w.imag * angle) at the angle w.real * angle + w.imag * log |z|.

    w may be integers.
    """
    z, w = xp.broadcast_arrays(z, w.astype(z.dtype))
    x, y, c, d = z.real, z.imag, w.real, w.imag
    size, angle = _distance(xp, x, y), xp.arctan2(y, x)
    grown = xp.power(size, c) * xp.exp(-d * angle)
    turn = c * angle + d * xp.log(size)
    out = _pair(xp, grown * xp.cos(turn), grown * xp.sin(turn))
    real_power, real_base = d == 0, y == 0
    one, ray = z.dtype.type(1), real_base & (x == xp.inf) & real_power
    out = xp.where((size == 0) & real_power & (c >= 0), xp.where(c == 0, one, one * 0), out)
    out = xp.where((real_power & (c == 0)) | (real_base & (x == 1)), one, out)
    out = xp.where(ray & (c > 0), z.dtype.type(xp.inf), out)
    return xp.where(ray & (c < 0), one * 0, out)[()]


def quotient(xp: Namespace, x: Value, y: Value) -> Value:
    """x / y, also where the quotient is infinite or zero and NumPy returns NaN.

    The rules are those of C (ISO C99, annex G.5.1), as in XLA.
    """
    out = xp.asarray(xp.divide(x, y))
    odd = xp.isnan(out.real) | xp.isnan(out.imag) | (y == 0)
    if not odd.any():
        return out[()]
    x, y = (v[odd] for v in xp.broadcast_arrays(x, y))
    a, b, c, d = x.real, x.imag, y.real, y.imag
    found = out[odd]

    def put(where: Any, real: Value, imag: Value) -> None:
        found.real[where], found.imag[where] = real[where], imag[where]

    def unit(v: Value) -> Value:
        """1 for infinities and 0 for other numbers, with their signs."""
        return xp.copysign(xp.isinf(v).astype(v.dtype), v)

    inf = xp.copysign(a.dtype.type(xp.inf), c)
    pole = (c == 0) & (d == 0) & ~(xp.isnan(a) & xp.isnan(b))
    put(pole, inf * a, inf * b)
    lost = xp.isnan(found.real) & xp.isnan(found.imag) & ~pole
    finite, bounded = xp.isfinite(c) & xp.isfinite(d), xp.isfinite(a) & xp.isfinite(b)
    p, q, big = unit(a), unit(b), a.dtype.type(xp.inf)
    large = lost & (xp.isinf(a) | xp.isinf(b)) & finite
    put(large, big * (p * c + q * d), big * (q * c - p * d))
    r, s, none = unit(c), unit(d), a.dtype.type(0)
    put(
        lost & bounded & (xp.isinf(c) | xp.isinf(d)), none * (a * r + b * s), none * (b * r - a * s)
    )
    out[odd] = found
    return out[()]


# -- logarithms --------------------------------------------------------------------------------------


def log(xp: Namespace, z: Value) -> Value:
    """The logarithm; its real part is NaN where either part of z is."""
    out = xp.log(z)
    return _pair(xp, xp.where(_any_nan(xp, z), out.real.dtype.type(math.nan), out.real), out.imag)


def log2(xp: Namespace, z: Value) -> Value:
    """The logarithm, both of whose parts are divided by log 2."""
    out = log(xp, z)
    scale = out.real.dtype.type(1 / _LOG_2)
    return _pair(xp, out.real * scale, out.imag * scale)


def log1p(xp: Namespace, z: Value) -> Value:
    """Half of log1p(2 x + x^2 + y^2), whose terms are summed with their rounding errors, since they may cancel."""
    x, y = z.real, z.imag
    near = _log1p_size(xp, x, y)
    # Where 1 + z is small, its own logarithm is better; where squares are large, 1 does not count.
    most = 0.01 * math.sqrt(float(xp.finfo(x.dtype).max))
    far = xp.maximum(xp.abs(x), xp.abs(y)) > most
    small = xp.abs(x + 1) + xp.abs(y) < 0.2
    size = log(xp, _pair(xp, xp.where(far, x, x + 1), y)).real
    return _pair(xp, xp.where(far | small, size, near), xp.arctan2(y, x + 1))


def _log1p_size(xp: Namespace, x: Value, y: Value) -> Value:
    total, rest = x + x, x * 0
    (xx, x_rest), (yy, y_rest) = _exact_square(xp, x), _exact_square(xp, y)
    for term in (yy, xx, y_rest, x_rest):
        total, error = _exact_sum(total, term)
        rest = rest + error
    return xp.log1p(total + rest) / 2


def _exact_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """The rounded sum and its rounding error (Knuth's TwoSum)."""
    out = a + b
    part = out - a
    return out, (a - (out - part)) + (b - part)


def _exact_square(xp: Namespace, x: Value) -> tuple[Value, Value]:
    """The rounded square and its rounding error (Dekker's product of Veltkamp's halves)."""
    scaled = x * float((1 << (xp.finfo(x.dtype).nmant + 2) // 2) + 1)
    high = scaled - (scaled - x)
    low = x - high
    out = x * x
    return out, ((high * high - out) + 2 * high * low) + low * low


# -- angles ------------------------------------------------------------------------------------------


def atan2(xp: Namespace, y: Value, x: Value) -> Value:
    """-i log((x + i y) / sqrt(x^2 + y^2)), the root in polar form."""
    i = xp.asarray(1j, x.dtype)
    unit = quotient(xp, x + i * y, _polar_sqrt(xp, square(xp, x) + square(xp, y)))
    size = xp.log(_distance(xp, unit.real, unit.imag))
    minus_i = xp.asarray(complex(0, -1), x.dtype)
    return minus_i * _pair(xp, size, xp.arctan2(unit.imag, unit.real))


def _polar_sqrt(xp: Namespace, z: Value) -> Value:
    x, y = z.real, z.imag
    size, angle = _root_distance(xp, x, y), xp.arctan2(y, x) / 2
    none, inf, nan = (x.dtype.type(v) for v in (0, math.inf, math.nan))
    sine, wide = xp.sin(angle), xp.isinf(y)
    real = xp.where((x == -xp.inf) & ~wide & ~xp.isnan(y), none, size * xp.cos(angle))
    imag = xp.where(xp.isnan(size), nan, xp.where(sine == 0, none, size * sine))
    real = xp.where(wide | (x == xp.inf), inf, real)
    imag = xp.where(wide | (x == -xp.inf), xp.copysign(inf, y), imag)
    empty = size == 0
    return _pair(xp, xp.where(empty, none, real), xp.where(empty, none, imag))

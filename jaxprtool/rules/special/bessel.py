"""Rows of the exponentially scaled modified Bessel functions."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.jvp import derivative
from jaxprtool.interpreters.lower import hlo
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.dtypes import FLOAT32
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.decomposed import lowered_as
from jaxprtool.makers.elementwise import elementwise, full_like, in_float32
from jaxprtool.rules.define import define

# Coefficients of Chebyshev expansions (Cephes, Moshier), the highest order first: of exp(-x) I_0(x)
# in
# x/2 - 2 on [0, 8], and of sqrt(x) exp(-x) I_0(x) in 32/x - 2 on [8, inf). For f32 the last 18 and
# the last 7 are enough.
_NEAR = """
    -4.41534164647933937950E-18 3.33079451882223809783E-17 -2.43127984654795469359E-16 1.71539128555513303061E-15
    -1.16853328779934516808E-14 7.67618549860493561688E-14 -4.85644678311192946090E-13 2.95505266312963983461E-12
    -1.72682629144155570723E-11 9.67580903537323691224E-11 -5.18979560163526290666E-10 2.65982372468238665035E-9
    -1.30002500998624804212E-8 6.04699502254191894932E-8 -2.67079385394061173391E-7 1.11738753912010371815E-6
    -4.41673835845875056359E-6 1.64484480707288970893E-5 -5.75419501008210370398E-5 1.88502885095841655729E-4
    -5.76375574538582365885E-4 1.63947561694133579842E-3 -4.32430999505057594430E-3 1.05464603945949983183E-2
    -2.37374148058994688156E-2 4.93052842396707084878E-2 -9.49010970480476444210E-2 1.71620901522208775349E-1
    -3.04682672343198398683E-1 6.76795274409476084995E-1
"""
_FAR = """
    -7.23318048787475395456E-18 -4.83050448594418207126E-18 4.46562142029675999901E-17 3.46122286769746109310E-17
    -2.82762398051658348494E-16 -3.42548561967721913462E-16 1.77256013305652638360E-15 3.81168066935262242075E-15
    -9.55484669882830764870E-15 -4.15056934728722208663E-14 1.54008621752140982691E-14 3.85277838274214270114E-13
    7.18012445138366623367E-13 -1.79417853150680611778E-12 -1.32158118404477131188E-11 -3.14991652796324136454E-11
    1.18891471078464383424E-11 4.94060238822496958910E-10 3.39623202570838634515E-9 2.26666899049817806459E-8
    2.04891858946906374183E-7 2.89137052083475648297E-6 6.88975834691682398426E-5 3.36911647825569408990E-3
    8.04490411014108831608E-1
"""
_NEAR_TERMS = [float(c) for c in _NEAR.split()]
_FAR_TERMS = [float(c) for c in _FAR.split()]


def _chebyshev(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the value of a Chebyshev expansion for argument x in [-2, 2], by Clenshaw's
    recurrence.
    """
    now = before = older = full_like(x, 0.0)
    for c in coefficients:
        older, before = before, now
        now = x * before - older + c
    return 0.5 * (now - older)


def _scaled_i0(x: Value) -> Value:
    narrow = get_aval(x).dtype.bits < 64
    x = lax.abs(x)
    near = _chebyshev(0.5 * x - 2.0, _NEAR_TERMS[-18 if narrow else 0 :])
    far = _chebyshev(32.0 / x - 2.0, _FAR_TERMS[-7 if narrow else 0 :]) / lax.sqrt(x)
    return lax.select_n(x <= 8.0, far, near)


def _bessel_i0e(_avals: Sequence[Aval], x: Value) -> Value:
    dtype = get_aval(x).dtype
    if dtype.bits >= 32:
        return _scaled_i0(x)
    wide = lax.convert_element_type(x, new_dtype=FLOAT32)
    return lax.convert_element_type(_scaled_i0(wide), new_dtype=dtype)


# Float type -> the number of bits of its mantissa.
_DIGITS = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7, "f8_e3m4": 4, "f8_e5m2": 2, "f8_e5m2fnuz": 2}
_DIGITS |= {"f8_e4m3": 3, "f8_e4m3fn": 3, "f8_e4m3fnuz": 3, "f8_e4m3b11fnuz": 3}
_DIGITS |= {"f8_e8m0fnu": 0, "f6_e2m3fn": 3, "f6_e3m2fn": 2, "f4_e2m1fn": 1}


def _i1e_slope(x: Value, y: Value) -> Value:
    """Return the derivative of y = bessel_i1e(x): i0e(x) - y (sign(x) + 1/x), and 1/2 around
    zero.
    """
    eps = 2.0 ** -_DIGITS[get_aval(x).dtype.short]
    away = lax.gt(lax.abs(x), eps)
    safe = lax.select_n(away, full_like(x, eps), x)
    inner = lax.mul(y, lax.add(lax.sign(safe), lax.div(1.0, safe)))
    return lax.select_n(away, full_like(x, 0.5), lax.sub(lax.bessel_i0e(safe), inner))


define(
    lax.bessel_i0e,
    **elementwise("f"),
    impl=in_float32(lambda xp, x: xp.special.i0e(x)),
    jvp=derivative(lambda x, y: lax.sub(lax.bessel_i1e(x), lax.mul(lax.sign(x), y))),
    transpose=NONLINEAR,
    lower=lowered_as(_bessel_i0e),
    masks="inf",
)

define(
    lax.bessel_i1e,
    **elementwise("f"),
    impl=in_float32(lambda xp, x: xp.copysign(xp.special.i1e(x), x)),
    jvp=derivative(_i1e_slope),
    transpose=NONLINEAR,
    lower=hlo("chlo.bessel_i1e"),
    masks="inf",
)

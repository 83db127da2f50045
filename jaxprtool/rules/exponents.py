"""Rows of `Ldexp` and `Frexp`, computed from the bits of numbers: sign, exponent and mantissa."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import materialize
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR, is_linear, not_linear
from jaxprtool.ir.dtypes import INT32, DType, find_dtype
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.sharding import varying_axes, with_varying
from jaxprtool.makers.axes import varied
from jaxprtool.makers.decomposed import decomposed
from jaxprtool.makers.elementwise import full_like
from jaxprtool.rules.define import define

__all__: list[str] = []

_MANTISSA = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}


def _checked(name: str, x: Aval) -> Aval:
    if x.dtype.name not in _MANTISSA:
        ill_typed(f"{name} is for {', '.join(_MANTISSA)}, and its operand is {x}", "operand-types")
    return x


class _Parts(NamedTuple):
    """The parts of floating-point numbers, as unsigned words.

    Attributes:
      bits: all bits.
      sign, mantissa: the word with the other parts cleared.
      exponent: the biased exponent as i32, shifted down; 0 for zeros and subnormal numbers, `top`
        for infinities and NaN.
      top: the largest biased exponent, (1 << n) - 1 for n bits of exponent.
      shift: the number of bits of the mantissa.
    """

    bits: Value
    sign: Value
    mantissa: Value
    exponent: Value
    top: int
    shift: int


def _word(dtype: DType) -> DType:
    found = find_dtype(f"uint{dtype.bits}")
    assert found is not None
    return found


def _taken_apart(x: Value) -> _Parts:
    dtype = get_aval(x).dtype
    word, shift = _word(dtype), _MANTISSA[dtype.name]
    top = (1 << (dtype.bits - 1 - shift)) - 1
    u = lax.bitcast_convert_type(x, new_dtype=word)
    exponent = lax.and_(lax.shift_right_logical(u, full_like(u, shift)), full_like(u, top))
    return _Parts(
        bits=u,
        sign=lax.and_(u, full_like(u, 1 << (dtype.bits - 1))),
        mantissa=lax.and_(u, full_like(u, (1 << shift) - 1)),
        exponent=lax.convert_element_type(exponent, new_dtype=INT32),
        top=top,
        shift=shift,
    )


def _put_together(parts: _Parts, exponent: Value, dtype: DType) -> Value:
    """Return the number with another biased exponent, an i32: zero where that is too small,
    infinite where it is too large.

    Zeros, infinities and NaN stay as they are. Subnormal numbers count as zeros.
    """
    word = _word(dtype)
    moved = lax.shift_left(
        lax.convert_element_type(exponent, new_dtype=word), full_like(parts.bits, parts.shift)
    )
    infinite = lax.or_(parts.sign, full_like(parts.bits, parts.top << parts.shift))
    out = lax.or_(parts.sign, lax.or_(moved, parts.mantissa))
    out = lax.select_n(lax.ge(exponent, full_like(exponent, parts.top)), out, infinite)
    out = lax.select_n(lax.le(exponent, full_like(exponent, 0)), out, parts.sign)
    out = lax.select_n(_is(parts, 0), out, parts.sign)
    out = lax.select_n(_is(parts, parts.top), out, parts.bits)
    return lax.bitcast_convert_type(out, new_dtype=dtype)


def _is(parts: _Parts, exponent: int) -> Value:
    return lax.eq(parts.exponent, full_like(parts.exponent, exponent))


# -- Ldexp -------------------------------------------------------------------------------------


def _ldexp_type(x1: Aval, x2: Aval, **_: Any) -> Aval:
    _checked("Ldexp", x1)
    if not x2.dtype.is_integer or x1.shape != x2.shape:
        ill_typed(f"Ldexp of {x1} takes integers of its shape, and not {x2}", "operand-types")
    return x1


def _ldexp(in_avals: Sequence[Aval], x: Value, n: Value, **_: Any) -> Value:
    parts, dtype = _taken_apart(x), get_aval(n).dtype
    if dtype.bits < INT32.bits:
        n = lax.convert_element_type(n, new_dtype=INT32)
    most = 2 * (parts.top + 1)  # this exponent takes every number out of range
    n = lax.min(n, full_like(n, most))
    if dtype.kind == "i":
        n = lax.max(n, full_like(n, -most))
    exponent = lax.add(parts.exponent, lax.convert_element_type(n, new_dtype=INT32))
    return _put_together(parts, exponent, in_avals[0].dtype)


def _times(x: Value, n: Value) -> Value:
    """Bind `Ldexp`. n is cast to vary along the mesh axes that x varies along, since the type of
    `Frexp`'s exponent does not say so.
    """
    n = varied(n, varying_axes(get_aval(x)))
    return lax.ldexp(x, n, x1_aval=get_aval(x).strong, x2_aval=get_aval(n).strong)


def _ldexp_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> PrimalAndTangent:
    (x, n), t = primals, tangents[0]
    return lax.ldexp(x, n, **params), t if type(t) is Zero else _times(t, n)


def _ldexp_transpose(ct: Value, x: Value, n: Value, **_: Any) -> list[Value | None]:
    if is_linear(n):
        not_linear("Ldexp", "its second operand is among them")
    return [_times(ct, n), None]


def _ldexp_batch(axis_size: int, vals: Any, dims: Any, **_: Any) -> OutAndDim:
    target = next(d for d in dims if d is not None)
    x, n = [materialize(x, d, axis_size, target) for x, d in zip(vals, dims, strict=True)]
    return _times(x, n), target


define(
    lax.ldexp,
    abstract_eval=_ldexp_type,
    jvp=_ldexp_jvp,
    transpose=_ldexp_transpose,
    batch=_ldexp_batch,
    **decomposed(_ldexp),
    cost=AS_LOWERED,
    varying="rule",
)


# -- Frexp -------------------------------------------------------------------------------------


def _frexp_types(x: Aval, **_: Any) -> list[Aval]:
    _checked("Frexp", x)
    return [x, with_varying(x.update(dtype=INT32), ())]  # as in JAX


def _frexp(in_avals: Sequence[Aval], x: Value, **_: Any) -> list[Value]:
    parts = _taken_apart(x)
    half = parts.top // 2 - 1  # the exponent of a half
    mantissa = _put_together(parts, full_like(parts.exponent, half), in_avals[0].dtype)
    special = lax.or_(_is(parts, 0), _is(parts, parts.top))
    exponent = lax.sub(parts.exponent, full_like(parts.exponent, half))
    return [mantissa, lax.select_n(special, exponent, full_like(exponent, 0))]


def _frexp_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> PrimalAndTangent:
    (x,), (t,) = primals, tangents
    m, e = lax.frexp(x, **params)
    still = Zero(get_aval(e).tangent())
    return [m, e], [t if type(t) is Zero else _times(t, lax.neg(e)), still]


def _frexp_batch(axis_size: int, vals: Any, dims: Any, **_: Any) -> OutAndDim:
    return lax.frexp(*vals, x_aval=get_aval(vals[0]).strong), [dims[0], dims[0]]


define(
    lax.frexp,
    abstract_eval=_frexp_types,
    jvp=_frexp_jvp,
    transpose=NONLINEAR,
    batch=_frexp_batch,
    **decomposed(_frexp),
    cost=AS_LOWERED,
    varying="rule",
)

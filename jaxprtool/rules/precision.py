"""The row of `reduce_precision`, which rounds to fewer bits."""

from __future__ import annotations

from jaxprtool import ops as lax
from jaxprtool.interpreters.batch import elementwise_batch
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace
from jaxprtool.interpreters.jvp import linear
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import transpose_unary
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import static_impl
from jaxprtool.rules.define import define

# (bits of exponent, bits of mantissa) of types that are rounded by their own bits; others go
# through f32.
_FORMATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


def _precision_type(x: Aval, *, exponent_bits: int, mantissa_bits: int) -> Aval:
    if x.dtype.kind != "f":
        ill_typed(f"reduce_precision is for floats, and its operand is {x}", "operand-types")
    if exponent_bits < 1:
        ill_typed(f"reduce_precision exponent_bits {exponent_bits} must be positive", "param-value")
    if mantissa_bits < 0:
        ill_typed(f"reduce_precision mantissa_bits {mantissa_bits} is negative", "param-value")
    if max(exponent_bits, mantissa_bits) >= 1 << 31:
        ill_typed(
            f"reduce_precision exponent_bits {exponent_bits} and mantissa_bits {mantissa_bits} have to "
            "fit in 32 bits",
            "param-value",
        )
    return x


def _precision_impl(xp: Namespace, x: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    dtype = xp.dtype_of_aval(x.dtype)
    inner = dtype if x.dtype.name in _FORMATS else xp.dtype(xp.float32)
    exponent, mantissa = _FORMATS.get(x.dtype.name, _FORMATS["float32"])
    word = xp.dtype(f"u{inner.itemsize}")
    shift = max(mantissa - mantissa_bits, 0)
    fewer = exponent_bits < exponent
    exponent_bits = min(exponent_bits, exponent)
    sign = 1 << (exponent + mantissa)
    infinity = ((1 << exponent) - 1) << mantissa
    bias, reduced = (1 << (exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
    highest, lowest = (bias + reduced) << mantissa, (bias - reduced) << mantissa

    def rounded(bits: Value) -> Value:
        """Round ties to even; a carry out of the mantissa increments the exponent, which is
        right.
        """
        odd = (bits >> word.type(shift)) & word.type(1)
        bits = bits + odd + word.type((1 << (shift - 1)) - 1)
        return bits & word.type(~((1 << shift) - 1) & ((1 << (8 * word.itemsize)) - 1))

    def clipped(bits: Value) -> Value:
        size, zero = bits & word.type(infinity), bits & word.type(sign)
        bits = xp.where(size > word.type(highest), zero | word.type(infinity), bits)
        return xp.where(size <= word.type(lowest), zero, bits)

    def run(v: Value) -> Value:
        wide = xp.asarray(v, inner)
        bits = wide.view(word)
        if shift:
            bits = rounded(bits)
        if fewer:
            bits = clipped(bits)
        out = xp.where(xp.isnan(wide), wide, bits.view(inner))
        return out.astype(dtype, copy=False)

    return run


def _precision_lower(
    ctx: LoweringContext, x: HloValue, *, exponent_bits: int, mantissa_bits: int
) -> HloValue:
    return ctx.op(
        "reduce_precision",
        x,
        exponent_bits=f"{exponent_bits} : i32",
        mantissa_bits=f"{mantissa_bits} : i32",
    )


define(
    lax.reduce_precision,
    abstract_eval=_precision_type,
    impl=static_impl(_precision_impl),
    jvp=linear,
    transpose=transpose_unary(lambda ct, _, **params: lax.reduce_precision(ct, **params)),
    batch=elementwise_batch,
    lower=_precision_lower,
    cost=AS_LOWERED,
    elements="converted",
    sums="kept",
)

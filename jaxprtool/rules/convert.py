"""Conversion between element types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim, PrimalAndTangent
from jaxprtool.interpreters.jvp import Zero
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import not_linear, transpose_unary
from jaxprtool.ir.avals import OpaqueType, ShapedArray
from jaxprtool.ir.dtypes import FLOAT32, DType, dtype_of
from jaxprtool.ir.jaxpr import Aval, Lit, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.outside import out_of_reach
from jaxprtool.rules.define import define

_NUMERIC = "biufc"


def _convert_type(
    operand: Aval, *, new_dtype: DType, weak_type: bool = False, sharding: ParamValue = None
) -> Aval:
    dtype = dtype_of(new_dtype)
    if dtype is not None and dtype is operand.dtype and dtype.kind == "k":
        return (
            operand.strong
        )  # keys converted to their own type, as JAX up to 0.4.30 did to concatenate them
    if dtype is None or dtype.kind not in _NUMERIC:
        ill_typed(f"convert_element_type to {new_dtype}: not a numeric element type", "param-value")
    if operand.dtype.kind not in _NUMERIC:
        ill_typed(f"convert_element_type does not take {operand}", "operand-dtype")
    return operand.update(dtype=dtype, weak_type=False)


def convert(x: Value, dtype: Any) -> Value:
    """Return x in another element type, without an equation if x has the type or is a float
    literal.
    """
    old = get_aval(x).dtype
    if old is dtype:
        return x
    if type(x) is Lit and type(x.val) is float and dtype.kind == "f":
        return scalar_lit(x.val, dtype)
    return lax.convert_element_type(x, new_dtype=dtype)


def _convert_jvp(
    primals: Value, tangents: Value, *, new_dtype: Any, **_params: Any
) -> PrimalAndTangent:
    dtype = dtype_of(new_dtype)
    out = convert(primals[0], dtype)
    inexact = dtype is not None and dtype.is_inexact
    return out, convert(tangents[0], dtype) if inexact else Zero(get_aval(out))


def _convert_batch(
    _size: int, vals: Value, dims: Any, *, new_dtype: Any, **_params: Any
) -> OutAndDim:
    return convert(vals[0], dtype_of(new_dtype)), dims[0]


# -- NumPy ---------------------------------------------------------------------------------------


def _converter(xp: Namespace, old: Value, new: Value) -> Value:
    """Return the function of one array that converts from one element type to another."""
    if new.kind == "k":
        return lambda x: x
    dtype = xp.dtype_of_aval(new)
    if old.kind == "c" and new.kind != "c":
        inner = _converter(xp, old.real, new)
        return lambda x: inner(xp.real(x))
    if new.kind == "b":
        if old.kind == "f" and _is_narrow(old):  # f8_e8m0fnu has no zero
            return lambda x: xp.not_equal(x.astype(xp.float32), 0)
        return lambda x: xp.not_equal(x, xp.zeros((), x.dtype))
    if old.kind == "f" and new.is_integer:
        return functools.partial(_saturate, xp, new.kind, new.bits, dtype)
    if _is_narrow(old) and _is_narrow(new):  # some types of ml_dtypes have no casts to one another
        middle = xp.float32 if "f" in (old.kind, new.kind) else xp.int8
        return lambda x: x.astype(middle).astype(dtype)
    return lambda x: x.astype(dtype)


def _is_narrow(dtype: DType) -> bool:
    """Whether an element type is one of at most 8 bits that the package ml_dtypes declares."""
    return dtype.bits < 8 or (dtype.kind == "f" and dtype.bits == 8)


def _saturate(xp: Namespace, kind: str, bits: int, dtype: DType, x: Value) -> Value:
    """Convert floats to integers: round towards zero, clamp to the range of the integers, NaN to
    0.
    """
    low, high = (0, 2**bits) if kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    wide = x if x.dtype.itemsize > 4 else x.astype(xp.float32)
    inside = (wide > low - 1) & (wide < high) if bits < 32 else (wide >= low) & (wide < high)
    whole = xp.where(inside, wide, xp.zeros((), wide.dtype)).astype(dtype)
    limits = xp.asarray([low, high - 1], xp.uint64 if kind == "u" else xp.int64).astype(dtype)
    out = xp.where(wide >= high, limits[1], xp.where(wide < low, limits[0], whole))
    return out.astype(dtype)


class _ConvertImpl:
    def __call__(
        self,
        xp: Namespace,
        x: Value,
        *,
        new_dtype: DType,
        weak_type: bool = False,
        sharding: ParamValue = None,
    ) -> Value:
        return _converter(xp, dtype_of(x.dtype), dtype_of(new_dtype))(x)

    def prepare(
        self, xp: Namespace, in_avals: Sequence[Aval], out_avals: Sequence[Aval], _params: Any
    ) -> Callable[..., Value]:
        return _converter(xp, in_avals[0].dtype, out_avals[0].dtype)


# -- StableHLO -----------------------------------------------------------------------------------


def _convert_lower(ctx: LoweringContext, x: HloValue, **_params: ParamValue) -> HloValue:
    """Write a conversion; to boolean it is `x != 0`; of a complex number, the real part is
    converted.
    """
    old, new = x.aval.dtype, ctx.out_aval.dtype
    if new.kind == "k":
        return x
    if old.kind == "c" and new.kind != "c":
        x = ctx.op("real", x, out=x.aval.update(dtype=old.real))
    if new.kind == "b" and old.kind != "b":
        return ctx.compare("NE", x, ctx.constant(0, x.aval))
    return ctx.convert(x, new)


def _convert_transpose(ct: Value, aval: Aval, *, new_dtype: DType, **_: ParamValue) -> Value:
    if get_aval(ct).dtype.kind == "0":
        not_linear("convert_element_type", f"it makes {new_dtype} of {aval.dtype}")
    return convert(ct, aval.dtype)


def _strongly(x: Aval, *, weak_type: bool, **params: ParamValue) -> Value:
    """The earlier rule: the types of conversions were not weak."""
    if not weak_type:
        return None
    return lambda v: lax.convert_element_type(v, weak_type=False, **params)


define(
    lax.convert_element_type,
    abstract_eval=_convert_type,
    impl=_ConvertImpl(),
    jvp=_convert_jvp,
    transpose=transpose_unary(_convert_transpose),
    batch=_convert_batch,
    lower=_convert_lower,
    cost=AS_LOWERED,
    identity=lambda params: True,
    masks="both",
    elements="converted",
    sums="kept",
    earlier=_strongly,
)


# -- elements of a library's own type ------------------------------------------------------------

_OWN = "the elements are of a type that a library declares, and no text says what they hold"


def _edtype_type(name: str, makes_own: bool) -> Callable[..., Aval]:
    """Return the type rule of `to_edtype` (makes_own) or `from_edtype`.

    Of an array with elements of a type that a library declares, a program read from a text knows
    only how the type is printed.
    """

    def rule(x: Aval, *, out_avals: Any, **_: ParamValue) -> Aval:
        if not isinstance(out_avals, (tuple, list)) or len(out_avals) != 1:
            ill_typed(f"{name}: out_avals={out_avals} is no type of one array", "param-value")
        (result,) = out_avals
        own, held = (result, x) if makes_own else (x, result)
        if not isinstance(held, ShapedArray) or held.dtype.kind == "?" or not _is_own(own):
            ill_typed(f"{name} makes {result} of {x}", "operand-types")
        if isinstance(own, ShapedArray) and held.shape[: own.ndim] != own.shape:
            ill_typed(f"{name}: {held} is no array of elements of {own}", "operand-shapes")
        return result

    return rule


def _is_own(aval: Aval) -> bool:
    return isinstance(aval, OpaqueType) or getattr(aval, "dtype", FLOAT32).kind == "?"


for _op, _makes_own in ((lax.to_edtype, True), (lax.from_edtype, False)):
    _name = _op.primitive.name
    define(_op, abstract_eval=_edtype_type(_name, _makes_own), **out_of_reach(_name, _OWN))

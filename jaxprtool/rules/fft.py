"""The row of `fft`, the discrete Fourier transform."""

from __future__ import annotations

import math
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import FFT_TYPE
from jaxprtool.core.trace import get_aval
from jaxprtool.interpreters.batch import moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.interpreters.jvp import linear
from jaxprtool.interpreters.lower import LoweringContext
from jaxprtool.interpreters.transpose import transpose_unary
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import COMPLEX64, COMPLEX128, FLOAT64, DType
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.axes import full, static_impl
from jaxprtool.rules.define import define
from jaxprtool.stablehlo.text import mlir_type

__all__: list[str] = []

_NAMES = FFT_TYPE.members
_FFT, _IFFT, _RFFT, _IRFFT = range(4)
_FUNCTIONS = ("fftn", "ifftn", "rfftn", "irfftn")


def _kind(fft_type: Any) -> int:
    """Return the number of a kind of transform."""
    return _NAMES.index(FFT_TYPE.required("fft", "fft_type", fft_type))


def _types(x: Aval, *, fft_type: Any, fft_lengths: Any) -> Aval:
    kind, lengths = _kind(fft_type), tuple(fft_lengths)
    n = len(lengths)
    if n > x.ndim or any(k < 0 for k in lengths):
        ill_typed(f"fft fft_lengths={lengths} do not fit {x}", "param-value")
    wanted = "fc"[kind != _RFFT]
    if x.dtype.kind != wanted or x.dtype.bits < 32:
        needs = "complex" if kind != _RFFT else "f32 or f64"
        ill_typed(
            f"fft fft_type={_NAMES[kind]} does not take {x}: it needs {needs}", "operand-dtype"
        )
    if not n:
        return x
    given, batch = x.shape[x.ndim - n :], x.shape[: x.ndim - n]
    if kind == _IRFFT:
        half = lengths[-1] // 2 + 1
        is_empty = 0 in x.shape or 0 in lengths  # of which JAX makes zeros
        given, lengths_in = given[:-1] if is_empty else given, (*lengths[:-1], half)
        lengths_in = lengths_in[: len(given)]
    else:
        lengths_in = lengths
    if given != lengths_in:
        ill_typed(
            f"fft fft_lengths={lengths} differ from the last sizes of {x} "
            f"(fft_type={_NAMES[kind]})",
            "fft-lengths",
        )
    if kind == _RFFT:
        dtype = COMPLEX128 if x.dtype is FLOAT64 else COMPLEX64
        return ShapedArray((*batch, *lengths[:-1], lengths[-1] // 2 + 1), dtype)
    return ShapedArray((*batch, *lengths), x.dtype.real) if kind == _IRFFT else x


def _impl(xp: Namespace, x: Value, *, fft_type: Any, fft_lengths: Any) -> Value:
    kind, lengths = _kind(fft_type), tuple(fft_lengths)
    out = _types(x, fft_type=fft_type, fft_lengths=fft_lengths)
    dtype = xp.dtype_of_aval(out.dtype)
    if not lengths:
        return lambda v: v
    if not x.size or not out.size:
        return lambda v: xp.zeros(out.shape, dtype)
    f, axes = getattr(xp.fft, _FUNCTIONS[kind]), tuple(range(-len(lengths), 0))
    return lambda v: f(v, lengths, axes).astype(dtype, copy=False)


def _weights(n: int, dtype: DType, ends: float, inner: float) -> Value:
    """Return one of two numbers for each element of the RFFT of n elements.

    Elements 0 and, for even n, n / 2 are their own mirror images and get `ends`. The others stand
    for two elements of the whole transform and get `inner`.
    """
    last = int(n % 2 == 0 and n > 0)
    middle = full(ShapedArray((n // 2 - last,), dtype), inner)
    return lax.pad(middle, full(ShapedArray((), dtype), ends), padding_config=((1, last, 0),))


def _along_last(v: Value, shape: tuple[int, ...]) -> Value:
    return lax.broadcast_in_dim(v, shape=shape, broadcast_dimensions=(len(shape) - 1,))


def _transpose(ct: Value, x: Value, *, fft_type: Any, fft_lengths: Any) -> Value:
    """The transpose rule.

    The matrix of FFT and IFFT is symmetric, so each is its own transpose. RFFT leaves out the
    elements of the transform that are conjugates of others: its transpose is IRFFT after weighting
    each element by how often it occurs in the whole transform, and that of IRFFT is RFFT before
    such a weighting.
    """
    kind, lengths = _kind(fft_type), tuple(fft_lengths)
    if kind in (_FFT, _IFFT) or not lengths:
        return lax.fft(ct, fft_type=fft_type, fft_lengths=fft_lengths)
    n, total = lengths[-1], math.prod(lengths)
    if kind == _RFFT:
        aval = get_aval(ct)
        weights = _along_last(_weights(n, aval.dtype, total, total / 2), aval.shape)
        spread = lax.mul(lax.conj(ct, input_dtype=aval.dtype), weights)
        return lax.fft(spread, fft_type=_IRFFT, fft_lengths=lengths)
    out = lax.fft(ct, fft_type=_RFFT, fft_lengths=lengths)
    aval = get_aval(out)
    each = 1 / max(total, 1)  # of no elements, the cotangent is zero
    weights = _along_last(_weights(n, aval.dtype, each, 2 * each), aval.shape)
    return lax.conj(lax.mul(out, weights), input_dtype=aval.dtype)


def _batch(size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
    return lax.fft(moveaxis(vals[0], dims[0], 0), **params), 0


def _lower(ctx: LoweringContext, x: Value, *, fft_type: Any, fft_lengths: Any) -> Value:
    kind, lengths, out = _kind(fft_type), list(fft_lengths), ctx.out_aval
    if not lengths:
        return x
    types = f"({mlir_type(x.aval)}) -> {mlir_type(out)}"
    text = f"stablehlo.fft {x.name}, type = {_NAMES[kind]}, length = {lengths} : {types}"
    return ctx.write(text, out)


def _cost(ins: Value, outs: Value, *, fft_type: Any, fft_lengths: Any) -> int:
    """The cost rule: eight operations for each element, times the product of floor(log2 n) of the
    axes.
    """
    halvings = math.prod([max(n, 1).bit_length() - 1 for n in fft_lengths])
    return 2 * 4 * max(ins[0].size, 0) * halvings


define(
    lax.fft,
    abstract_eval=_types,
    impl=static_impl(_impl),
    jvp=linear,
    transpose=transpose_unary(_transpose),
    batch=_batch,
    lower=_lower,
    cost=_cost,
)

"""The row of `random_gamma`: samples of the gamma distribution.

Marsaglia and Tsang: A simple method for generating gamma variables (2000). The random numbers are
drawn in the same order as in JAX, so that the samples agree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import materialize, vmap
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.jvp import jvp_terms
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.stage import stage
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.dtypes import DType, find_dtype
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.decomposed import decomposed
from jaxprtool.makers.elementwise import check_kind, full_like
from jaxprtool.makers.loops import while_loop
from jaxprtool.makers.mapped_calls import alone_on_devices
from jaxprtool.rules.define import define
from jaxprtool.rules.random.prng import bits_words, by_hashes_of, check_keys, split_words

# For each float type: the number of bits of the mantissa, the bits of 1.0, the largest number below
# 1, the smallest normal number.
_FORMATS = {
    "float64": (52, 0x3FF0000000000000, 1 - 2.0**-53, 2.0**-1022),
    "float32": (23, 0x3F800000, 1 - 2.0**-24, 2.0**-126),
    "float16": (10, 0x3C00, 1 - 2.0**-11, 2.0**-14),
    "bfloat16": (7, 0x3F80, 1 - 2.0**-8, 2.0**-126),
}


class _Kind(NamedTuple):
    """The kind of a key, which determines how it is split and how bits are drawn.

    Attributes:
      name: the kind of keys.
      partitionable: whether Threefry hashes the index of each element
        (`jax_threefry_partitionable`).
    """

    name: str
    partitionable: bool


def _split(kind: _Kind, key: Value, n: int = 2) -> list[Value]:
    rows = split_words(kind.name, key, (n,), kind.partitionable)
    words = get_aval(rows).shape[1]
    parts = [
        lax.slice(rows, start_indices=(i, 0), limit_indices=(i + 1, words), strides=None)
        for i in range(n)
    ]
    return [lax.squeeze(p, dimensions=(0,)) for p in parts]


def _uniform(kind: _Kind, key: Value, dtype: DType, low: float = 0.0) -> Value:
    """Return a random number in [low, 1), made of random bits as the mantissa of a number in [1,
    2).
    """
    mantissa, one, _, _ = _FORMATS[dtype.name]
    drawn = 8 if mantissa < 8 else dtype.bits  # bf16 needs only 7 bits
    unsigned = find_dtype(f"u{dtype.bits}")
    assert unsigned is not None
    bits = bits_words(kind.name, key, drawn, (), kind.partitionable)
    if drawn != dtype.bits:
        bits = lax.convert_element_type(bits, new_dtype=unsigned)
    bits = lax.shift_right_logical(bits, scalar_lit(drawn - mantissa, unsigned))
    number = lax.bitcast_convert_type(lax.or_(bits, scalar_lit(one, unsigned)), new_dtype=dtype)
    unit = number - 1.0
    return lax.max(unit, 0.0) if low == 0.0 else lax.max(unit * (1.0 - low) + low, low)


def _normal(kind: _Kind, key: Value, dtype: DType) -> Value:
    return lax.erf_inv(_uniform(kind, key, dtype, -_FORMATS[dtype.name][2])) * math.sqrt(2.0)


def _proposal(kind: _Kind, dtype: DType, key: Value, scale: Value) -> tuple[Value, Value]:
    """Return a normally distributed x with v = 1 + scale * x > 0, and v."""

    def again(key: Value, _x: Value, _v: Value, scale: Value) -> list[Value]:
        key, subkey = _split(kind, key)
        x = _normal(kind, subkey, dtype)
        return [key, x, 1.0 + x * scale, scale]

    start = [full_like(scale, 0.0), full_like(scale, -1.0)]
    _, x, v, _ = while_loop(lambda key, x, v, scale: v <= 0.0, again, key, *start, scale)
    return x, v


def _rejected(_key: Value, x: Value, v: Value, u: Value, d: Any, _scale: Value) -> Value:
    """Whether a proposal is rejected, so that another one is drawn.

    x is the square of the normally distributed number, v is (1 + scale * number)^3.
    """
    likely = u >= 1.0 - (x * x) * 0.0331
    return likely & (lax.log(u) >= x * 0.5 + d * ((1.0 - v) + lax.log(v)))


def _sample(kind: _Kind, log_space: bool, complement: bool, key: Value, alpha: Value) -> Value:
    """Return one sample for one key; for alpha < 1 a sample for alpha + 1, times a power of a
    uniform number.
    """
    dtype = get_aval(alpha).dtype
    large = alpha >= 1.0
    d = lax.select_n(large, alpha + 1.0, alpha) - 1.0 / 3.0
    scale = lax.div(1.0 / 3.0, lax.sqrt(d))

    def step(key: Value, _x: Value, _v: Value, _u: Value, d: Any, scale: Value) -> list[Value]:
        key, x_key, u_key = _split(kind, key, 3)
        x, v = _proposal(kind, dtype, x_key, scale)
        return [key, x * x, v * v * v, _uniform(kind, u_key, dtype), d, scale]

    key, subkey = _split(kind, key)
    start = [full_like(d, value) for value in (0.0, 1.0, 2.0)]
    v = while_loop(_rejected, step, key, *start, d, scale)[2]
    u = _uniform(kind, subkey, dtype)
    if not complement:
        return _scaled(log_space, u, d, v, large, alpha)
    if log_space:
        logs = lax.log1p(-u)
        boost = lax.select_n(large | (logs == 0.0), logs * (1.0 / alpha), full_like(d, 0.0))
        return lax.log(d) + lax.log(v) + boost
    power = lax.pow(1.0 - u, 1.0 / alpha)
    return d * v * lax.select_n(large, power, full_like(d, 1.0))


def _scaled(log_space: bool, u: Value, d: Any, v: Value, large: Value, alpha: Value) -> Value:
    """Return a sample as JAX before 0.4.14: with a power of u instead of 1 - u, and with the
    smallest normal number instead of 0.
    """
    if log_space:
        boost = lax.select_n(large, lax.log(u) * (1.0 / alpha), full_like(d, 0.0))
        return lax.log(d) + lax.log(v) + boost
    power = lax.pow(u, 1.0 / alpha)
    sample = d * v * lax.select_n(large, power, full_like(d, 1.0))
    tiny = full_like(sample, _FORMATS[get_aval(alpha).dtype.name][3])
    return lax.select_n(lax.eq(sample, 0.0), sample, tiny)


def _random_gamma(
    in_avals: Sequence[Aval],
    keys: Any,
    a: Value,
    *,
    log_space: bool,
    partitionable: bool,
    complement: bool,
) -> Value:
    """Return the samples, each from its own key: for `fry` keys by vmap, for others by a loop, as
    in JAX.
    """
    kind, shape = _Kind(in_avals[0].dtype.name[4:-1], partitionable), in_avals[1].shape
    n, words = in_avals[0].size, in_avals[0].physical.shape[-1]
    count = in_avals[1].size // n if n else 0
    flat = lax.reshape(keys, new_sizes=(n, words))
    new = vmap(lambda k: split_words(kind.name, k, (count,), partitionable))(flat) if n else flat
    new = lax.reshape(new, new_sizes=(n * count, words))
    alphas = lax.reshape(a, new_sizes=(n * count,))
    sample = functools.partial(_sample, kind, bool(log_space), bool(complement))
    if kind.name == "fry":
        out = vmap(sample)(new, alphas)
    else:
        row = get_aval(new).update(shape=(words,))
        body = stage(lambda k, x: [sample(k, x)], [row, get_aval(alphas).update(shape=())])
        sizes = {"length": n * count, "num_carry": 0, "num_consts": 0}
        (out,) = lax.scan_call(new, alphas, jaxpr=body, **sizes)
    return lax.reshape(out, new_sizes=shape)


def _type(keys: Any, a: Aval, **_params: bool) -> Aval:
    check_keys("random_gamma", keys)
    check_kind("random_gamma", a, "f")
    if a.dtype.name not in _FORMATS:
        ill_typed(f"random_gamma does not take {a}: its element type has to be of 16 bits or more")
    if a.shape[: keys.ndim] != keys.shape:
        ill_typed(
            f"random_gamma: the shape of {keys} is no prefix of that of {a}", "operand-shapes"
        )
    return a


def _term(t: Value, out: Value, _keys: Any, a: Value, *, log_space: bool, **_params: bool) -> Value:
    """Return the tangent of a sample, by implicit differentiation: P(a, sample) does not depend on
    a.
    """
    if not log_space:
        return lax.mul(t, lax.random_gamma_grad(a, out))
    sample = lax.exp(out)
    tiny = full_like(sample, _FORMATS[get_aval(a).dtype.name][3])
    sample = lax.select_n(lax.eq(sample, 0.0), sample, tiny)
    return lax.mul(t, lax.div(lax.random_gamma_grad(a, sample), sample))


def _batch(
    axis_size: int, vals: Sequence[Value], dims: Sequence[int | None], **params: Any
) -> OutAndDim:
    keys, a = (materialize(x, d, axis_size) for x, d in zip(vals, dims, strict=True))
    return lax.random_gamma(keys, a, **params), 0


define(
    lax.random_gamma,
    abstract_eval=_type,
    **decomposed(_random_gamma),
    jvp=jvp_terms(None, _term),
    derivative="quantile",
    transpose=NONLINEAR,
    batch=alone_on_devices(_batch, by_hashes_of),
    cost=AS_LOWERED,
    on_keys="uses",
)

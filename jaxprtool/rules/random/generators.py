"""The generators of bits: the hash Threefry-2x32, and XLA's RngBitGenerator, by Threefry or
Philox-4x32.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011). Counters are
assigned to the elements of a result as in XLA's expansion of RngBitGenerator, so that compiled
programs draw the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.kinds.enums import RANDOM_ALGORITHM
from jaxprtool.core.rule_table import unsupported
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import broadcast_batch, moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.columns.determined import undetermined
from jaxprtool.interpreters.contracts import Namespace, OutAndDim
from jaxprtool.interpreters.lower import HloValue, LoweringContext
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.interpreters.transpose import NONLINEAR
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import FLOAT32, INT32, UINT32, UINT64, DType, dtype_of
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.sharding import varying_axes, with_varying
from jaxprtool.makers.elementwise import broadcast_avals
from jaxprtool.makers.mapped_calls import alone_on_devices
from jaxprtool.rules.define import LOCALLY_CONSTANT, define

__all__ = ["PHILOX_FACTORS", "PHILOX_STEPS", "THREEFRY_PARITY"]

# -- Threefry ------------------------------------------------------------------------------------

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
THREEFRY_PARITY = 0x1BD11BDA

# The number of elements that are hashed at a time; they fit into a processor's cache.
_BLOCK = 1 << 15


def _threefry_type(key0: Aval, key1: Aval, count0: Aval, count1: Aval) -> Aval:
    avals = (key0, key1, count0, count1)
    if any(a.dtype is not UINT32 for a in avals):
        ill_typed(f"threefry2x32 takes u32 operands, not {', '.join(map(str, avals))}")
    return [broadcast_avals("threefry2x32", avals)] * 2


def _threefry_impl(xp: Namespace, *operands: Value) -> Value:
    """Return the two words of the hash, computed block by block; the operands broadcast."""
    shape = xp.broadcast_shapes(*[x.shape for x in operands])
    size = math.prod(shape)
    if size <= _BLOCK:
        return [xp.broadcast_to(x, shape) for x in _threefry(xp, *operands)]
    flat = [x if x.ndim == 0 else xp.broadcast_to(x, shape).reshape(-1) for x in operands]
    out = [xp.empty(size, xp.uint32) for _ in range(2)]
    for start in range(0, size, _BLOCK):
        block = slice(start, start + _BLOCK)
        parts = _threefry(xp, *[x if x.ndim == 0 else x[block] for x in flat])
        for whole, part in zip(out, parts, strict=True):
            whole[block] = part
    return [x.reshape(shape) for x in out]


def _threefry(
    xp: Namespace, key0: Value, key1: Value, count0: Value, count1: Value
) -> tuple[Value, Value]:
    """Return the hash, by 20 rounds, with words of the key added every four rounds."""
    keys = (key0, key1, key0 ^ key1 ^ xp.uint32(THREEFRY_PARITY))
    x, y = count0 + key0, count1 + key1
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x = x + y
            y = ((y << xp.uint32(r)) | (y >> xp.uint32(32 - r))) ^ x
        x = x + keys[(i + 1) % 3]
        y = y + keys[(i + 2) % 3] + xp.uint32(i + 1)
    return x, y


def _threefry_lower(ctx: LoweringContext, *operands: HloValue) -> HloValue:
    """Write a loop of five steps of four rounds; if unrolled, XLA on CPUs computes rounds
    repeatedly.
    """
    out = ctx.out_avals[0]
    key0, key1, count0, count1 = [ctx.fill(x, out.shape) for x in operands]
    parity = ctx.constant(THREEFRY_PARITY, out)
    key2 = ctx.op("xor", ctx.op("xor", key0, key1, out=out), parity, out=out)
    x, y = ctx.op("add", count0, key0, out=out), ctx.op("add", count1, key1, out=out)
    counter, four = ShapedArray((), INT32), ShapedArray((4,), UINT32)
    tables = [ctx.array(list(r), four) for r in _ROTATIONS]
    state = [ctx.constant(0, counter), x, y, key1, key2, key0, *tables]
    avals = [v.aval for v in state]

    def holds(i: Value, *_: Value) -> list[Value]:
        return [ctx.compare("LT", i, ctx.constant(5, counter))]

    def step(
        i: Value, x: Value, y: Value, k0: Value, k1: Value, k2: Value, now: Value, other: Value
    ) -> list[Value]:
        for j in range(4):
            x, y = _lower_round(ctx, x, y, ctx.slice(now, [j], [j + 1]))
        after = ctx.op("add", i, ctx.constant(1, counter), out=counter)
        injected = ctx.fill(ctx.convert(after, UINT32), out.shape)
        x = ctx.op("add", x, k0, out=out)
        y = ctx.op("add", ctx.op("add", y, k1, out=out), injected, out=out)
        return [after, x, y, k1, k2, k0, other, now]

    regions = [ctx.region(avals, holds), ctx.region(avals, step)]
    return ctx.op("while", *state, out=avals, regions=regions)[1:3]


def _lower_round(
    ctx: LoweringContext, x: HloValue, y: HloValue, rotation: HloValue
) -> tuple[HloValue, HloValue]:
    out = x.aval
    left = ctx.fill(ctx.reshape(rotation, ()), out.shape)
    right = ctx.op("subtract", ctx.constant(32, out), left, out=out)
    x = ctx.op("add", x, y, out=out)
    high = ctx.op("shift_left", y, left, out=out)
    low = ctx.op("shift_right_logical", y, right, out=out)
    return x, ctx.op("xor", ctx.op("or", high, low, out=out), x, out=out)


def _threefry_cost(in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> int:
    """The cost rule: 4 operations, then five steps of four rounds of 6 operations, and 3 more."""
    return (4 + 5 * (4 * 6 + 3)) * max(out_avals[0].size, 0)


def _threefry_batch(axis_size: int, vals: Sequence[Value], dims: Sequence[int | None]) -> OutAndDim:
    """The batch rule; if ranks or batch axes differ, the batch axes of the operands are moved to
    the front.
    """
    ranks = {get_aval(x).ndim for x in vals}
    if len(ranks) == 1 and all(d == dims[0] for d in dims):
        return list(lax.threefry2x32(*vals)), [dims[0]] * 2
    vals = [x if d is None else moveaxis(x, d, 0) for x, d in zip(vals, dims, strict=True)]
    fronts = [None if d is None else 0 for d in dims]
    out, dim = _threefry_one_batch(axis_size, vals, fronts)
    return out, [dim, dim]


_threefry_one_batch = broadcast_batch(lax.threefry2x32)

define(
    lax.threefry2x32,
    abstract_eval=_threefry_type,
    impl=_threefry_impl,
    **LOCALLY_CONSTANT,
    batch=_threefry_batch,
    lower=_threefry_lower,
    cost=_threefry_cost,
    varying="untracked",
)

# -- counters ------------------------------------------------------------------------------------


def _counters_type(*, shape: Sequence[int]) -> Aval:
    if any(n < 0 for n in shape):
        ill_typed(f"iota_2x32_shape shape {tuple(shape)} has a negative size", "negative-size")
    return [ShapedArray(tuple(shape), UINT32)] * 2


def _counters_impl(xp: Namespace, *, shape: Sequence[int]) -> Value:
    count = xp.arange(math.prod(shape), dtype=xp.uint64).reshape(shape)
    return [_high(xp, count), count.astype(xp.uint32)]


def _counters_lower(ctx: Value, *, shape: Any) -> Value:
    wide = ShapedArray(tuple(shape), UINT64)
    count = None
    for d in range(len(shape)):
        stride = math.prod(shape[d + 1 :])
        part = ctx.iota(wide, d)
        if stride != 1:
            part = ctx.op("multiply", ctx.constant(stride, wide), part, out=wide)
        count = part if count is None else ctx.op("add", count, part, out=wide)
    if count is None:
        return [ctx.constant(0, a) for a in ctx.out_avals]
    high = ctx.op("shift_right_logical", count, ctx.constant(32, wide), out=wide)
    return [ctx.convert(high, UINT32), ctx.convert(count, UINT32)]


define(
    lax.iota_2x32_shape,
    abstract_eval=_counters_type,
    impl=_counters_impl,
    **LOCALLY_CONSTANT,
    batch=unsupported("it has no operands"),
    lower=_counters_lower,
    cost=AS_LOWERED,
)

# -- XLA's RngBitGenerator -----------------------------------------------------------------------

# The factors of Philox-4x32, and what is added to its key each round.
PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)


def _generator_type(
    key: Aval,
    *,
    shape: Sequence[int],
    dtype: DType,
    algorithm: ParamValue = 0,
    out_sharding: ParamValue = None,
) -> Aval:
    found = dtype_of(dtype)
    if (key.shape, key.dtype.name) not in (((4,), "uint32"), ((2,), "uint64")):
        ill_typed(f"rng_bit_generator takes a state u32[4] or u64[2], not {key}")
    if found is None or found.kind != "u" or found.bits < 8:
        ill_typed(f"rng_bit_generator dtype {dtype} is none of u8, u16, u32 and u64", "param-value")
    RANDOM_ALGORITHM.required("rng_bit_generator", "algorithm", algorithm)
    if any(n < 0 for n in shape):
        ill_typed(f"rng_bit_generator shape {tuple(shape)} has a negative size", "negative-size")
    return [key, ShapedArray(tuple(shape), found)]


def _generator_impl(
    xp: Namespace,
    key: Value,
    *,
    shape: Sequence[int],
    dtype: DType,
    algorithm: ParamValue,
    out_sharding: ParamValue,
) -> Value:
    state = key if key.dtype == xp.uint64 else xp.ascontiguousarray(key).view(xp.uint64)
    found = dtype_of(dtype)
    assert found is not None
    is_threefry = RANDOM_ALGORITHM.member(algorithm) == "RNG_THREE_FRY"
    draw = _threefry_bits if is_threefry else _philox_bits
    used, bits = draw(xp, state, tuple(shape), found.bits)
    new = xp.stack([state[0], state[1] + xp.uint64(used)])
    return [new.view(key.dtype), bits.astype(xp.dtype_of_aval(found))]


def _high(xp: Namespace, x: Value) -> Value:
    return (x >> xp.uint64(32)).astype(xp.uint32)


def _join(xp: Namespace, low: Value, high: Value) -> Value:
    """Return u64 integers, given their low and high words."""
    return low.astype(xp.uint64) | (high.astype(xp.uint64) << xp.uint64(32))


def _threefry_bits(xp: Namespace, state: Value, shape: tuple[int, ...], width: int) -> Value:
    """Return the number of counters used, and bits: Threefry of one counter for each pair of words.

    The two words of a pair are neighbours along one axis: the first one of even size, otherwise the
    largest one.
    """
    half, axis = shape, 0
    if width < 64:
        half = shape or (1,)
        even = [d for d, n in enumerate(half) if n % 2 == 0]
        axis = even[0] if even else max(range(len(half)), key=half.__getitem__)
        half = (*half[:axis], -(-half[axis] // 2), *half[axis + 1 :])
    size = math.prod(half)
    counter = (state[1] + xp.arange(size, dtype=xp.uint64)).reshape(half)
    key0, key1 = state[:1].astype(xp.uint32)[0], _high(xp, state[:1])[0]
    parts = _threefry_impl(xp, key0, key1, counter.astype(xp.uint32), _high(xp, counter))
    if width == 64:
        return size, _join(xp, *parts)
    pairs = xp.stack(parts, axis + 1)
    pairs = pairs.reshape((*half[:axis], 2 * half[axis], *half[axis + 1 :]))
    wanted = [slice(None)] * len(half)
    wanted[axis] = slice(0, (shape or (1,))[axis])
    return size, pairs[tuple(wanted)].reshape(shape)


def _philox_bits(xp: Namespace, state: Value, shape: tuple[int, ...], width: int) -> Value:
    """Return the number of counters used, and bits: Philox of one 128-bit counter for every four
    words.

    The words are in row-major order; the upper half of the first counter is the key.
    """
    size = math.prod(shape)
    per_block = 2 if width == 64 else 4
    blocks = -(-size // per_block)
    low = state[1] + xp.arange(blocks, dtype=xp.uint64)
    high = xp.where(low < state[1], state[0] + xp.uint64(1), state[0])
    x = [low & xp.uint64(0xFFFFFFFF), low >> xp.uint64(32)]
    x += [high & xp.uint64(0xFFFFFFFF), high >> xp.uint64(32)]
    words = xp.stack(_philox(xp, x, int(state[0]) & 0xFFFFFFFF, int(state[0]) >> 32), 1)
    if width == 64:
        words = words[:, 0::2] | (words[:, 1::2] << xp.uint64(32))
    return blocks, words.reshape(-1)[:size].reshape(shape)


def _philox(xp: Namespace, x: list[Value], key0: int, key1: int) -> list[Value]:
    """Return the Philox-4x32 hash of four words, which are in arrays of u64."""
    mask = xp.uint64(0xFFFFFFFF)
    for _ in range(10):
        left = x[0] * xp.uint64(PHILOX_FACTORS[0])
        right = x[2] * xp.uint64(PHILOX_FACTORS[1])
        x = [
            (right >> xp.uint64(32)) ^ x[1] ^ xp.uint64(key0),
            right & mask,
            (left >> xp.uint64(32)) ^ x[3] ^ xp.uint64(key1),
            left & mask,
        ]
        key0 = (key0 + PHILOX_STEPS[0]) & 0xFFFFFFFF
        key1 = (key1 + PHILOX_STEPS[1]) & 0xFFFFFFFF
    return x


_ALGORITHMS = {  # as StableHLO names them
    "RNG_DEFAULT": "DEFAULT",
    "RNG_THREE_FRY": "THREE_FRY",
    "RNG_PHILOX": "PHILOX",
}


def _generator_lower(ctx: LoweringContext, key: Value, *, algorithm: Any, **_: Any) -> Value:
    state = ShapedArray((2,), UINT64)
    pairs = ShapedArray((2, 2), UINT32)
    narrow = key.aval.dtype is UINT32
    if narrow:
        key = ctx.op("bitcast_convert", ctx.reshape(key, (2, 2)), out=state)
    name = _ALGORITHMS[RANDOM_ALGORITHM.required("rng_bit_generator", "algorithm", algorithm)]
    attribute = f"#stablehlo<rng_algorithm {name}>"
    outs = [state, ctx.out_avals[1]]
    new, bits = ctx.op("rng_bit_generator", key, out=outs, rng_algorithm=attribute)
    if narrow:
        new = ctx.reshape(ctx.op("bitcast_convert", new, out=pairs), (4,))
    return [new, bits]


def _generator_batch(
    axis_size: int, vals: Value, dims: Any, *, shape: Any, **params: Any
) -> OutAndDim:
    """The batch rule: as in JAX, all examples are drawn at once, from the state of the first
    one.
    """
    states = moveaxis(vals[0], dims[0], 0)
    n = get_aval(states).shape[1]
    if axis_size == 0:  # there is no first state, and nothing to draw
        zero = scalar_lit(0, params["dtype"])
        return [states, lax.broadcast_in_dim(zero, shape=(0, *shape))], [0, 0]
    row = lax.slice(states, start_indices=(0, 0), limit_indices=(1, n), strides=None)
    first = lax.reshape(row, new_sizes=(n,), dimensions=None)
    new, bits = lax.rng_bit_generator(first, shape=(axis_size, *shape), **params)
    new = lax.reshape(new, new_sizes=(1, n), dimensions=None)
    if axis_size == 1:
        return [new, bits], [0, 0]
    rest = lax.slice(states, start_indices=(1, 0), limit_indices=(axis_size, n), strides=None)
    return [lax.concatenate(new, rest, dimension=0), bits], [0, 0]


define(
    lax.rng_bit_generator,
    abstract_eval=_generator_type,
    impl=_generator_impl,
    **LOCALLY_CONSTANT,
    batch=alone_on_devices(_generator_batch),
    lower=_generator_lower,
    cost=AS_LOWERED,
    varying="rule",
    determined=undetermined,
)


def _uniform_type(a: Aval, b: Aval, *, shape: Sequence[int]) -> Aval:
    if a.shape or b.shape or a.dtype is not b.dtype:
        ill_typed(f"rng_uniform takes two scalars of one type, not {a} and {b}")
    if a.dtype.kind not in "iuf":
        ill_typed(f"rng_uniform does not take {a}: it has to be an integer or floating")
    if any(n < 0 for n in shape):
        ill_typed(f"rng_uniform shape {tuple(shape)} has a negative size", "negative-size")
    return with_varying(ShapedArray(tuple(shape), a.dtype), varying_axes(a))  # as in JAX, not b's


def _uniform_impl(xp: Namespace, a: Value, b: Value, *, shape: Sequence[int]) -> Value:
    """Draw uniform numbers; floats are computed in f64 and rounded once.

    If no integer is between the bounds, all integers of the type are drawn from.
    """
    rng, dtype = xp.random.default_rng(), dtype_of(a.dtype)
    if dtype is not None and dtype.is_integer:  # None for a long double, which has no element type
        last = (int(b) - int(a) - 1) % 2**64
        drawn = xp.asarray(rng.integers(0, last, tuple(shape), dtype=xp.uint64, endpoint=True))
        return (drawn + xp.uint64(int(a) % 2**64)).astype(xp.int64).astype(a.dtype)
    low, high = a.astype(xp.float64), b.astype(xp.float64)
    return xp.asarray(low + (high - low) * rng.random(tuple(shape))).astype(a.dtype)


def _uniform_lower(ctx: LoweringContext, a: Value, b: Value, *, shape: Any) -> Value:
    """Write the draw; in a wider type for integers below 32 bits and floats below 16, for which XLA
    aborts the process.
    """
    dtype = a.aval.dtype
    if dtype.bits < (16 if dtype.kind == "f" else 32):
        wide = {"f": FLOAT32, "i": INT32, "u": UINT32}[dtype.kind]
        out = ShapedArray(tuple(shape), wide)
        drawn = _uniform_draw(ctx, ctx.convert(a, wide), ctx.convert(b, wide), out)
        return ctx.convert(drawn, dtype)
    return _uniform_draw(ctx, a, b, ctx.out_aval)


def _uniform_draw(ctx: LoweringContext, a: Value, b: Value, out: Value) -> Value:
    shape = out.shape
    sizes = ctx.array(list(shape), ShapedArray((len(shape),), "i64"))
    kind = "#stablehlo<rng_distribution UNIFORM>"
    return ctx.op("rng", a, b, sizes, out=out, rng_distribution=kind)


define(
    lax.rng_uniform,
    effects="state",
    abstract_eval=_uniform_type,
    impl=_uniform_impl,
    jvp=unsupported("JAX has none either: the generator keeps a state of its own"),
    transpose=NONLINEAR,
    batch=unsupported("JAX has none either: the generator keeps a state of its own"),
    lower=_uniform_lower,
    cost=AS_LOWERED,
    varying="rule",
    determined=undetermined,
)

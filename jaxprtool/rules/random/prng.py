"""Rows of the primitives of typed PRNG keys, in terms of the generators of bits.

A key is an array of words: two for `fry`; four for `rbg` and `urbg`, the words of two `fry` keys.
The other kinds are in `counters`. Functions are written for one key and vmapped over arrays of
keys, so that arrays of `rbg` keys draw the same bits as in JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxprtool import ops as lax
from jaxprtool.core.rule_table import Maker
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import broadcast_batch, elementwise_batch, moveaxis, vmap
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.cost import FREE
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import KEYS, UINT32, UINT64, DType, find_dtype
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.ir.params import ParamValue
from jaxprtool.makers.axes import full
from jaxprtool.makers.decomposed import decomposed
from jaxprtool.makers.elementwise import broadcast_avals, full_like
from jaxprtool.makers.mapped_calls import alone_on_devices
from jaxprtool.rules.define import LOCALLY_CONSTANT, define
from jaxprtool.rules.random.counters import HASHES, Hash, bits_of, folded, seeded, split

_UINTS = {width: find_dtype(f"u{width}") for width in (8, 16, 32, 64)}

# JAX's name of an implementation of keys -> its short name.
_IMPLS = {name: tag for tag, (name, _) in KEYS.items()}


def key_dtype(primitive: str, impl: Any) -> DType:
    """Return the element type of keys of a kind; raises JaxprTypeError for an unknown kind."""
    name = _IMPLS.get(str(impl), str(impl))
    found = find_dtype(f"key<{name}>")
    if found is None or found.kind != "k":
        ill_typed(f"{primitive} impl {impl} is none of {', '.join(KEYS)}", "param-value")
    return found


def _kind(dtype: DType) -> str:
    return _IMPLS.get(dtype.name[4:-1], dtype.name[4:-1])


# -- one key -------------------------------------------------------------------------------------


def _concat(*parts: Value) -> Value:
    """Concatenate scalars and arrays of rank 1."""
    rows = [x if get_aval(x).ndim else lax.reshape(x, new_sizes=(1,)) for x in parts]
    return lax.concatenate(*rows, dimension=0)


def _word(key: Value, i: int) -> Value:
    row = lax.slice(key, start_indices=(i,), limit_indices=(i + 1,), strides=None)
    return lax.squeeze(row, dimensions=(0,))


def _halves(key: Value) -> list[Value]:
    return [
        lax.slice(key, start_indices=(i,), limit_indices=(i + 2,), strides=None) for i in (0, 2)
    ]


def _as_u32(x: Value) -> Value:
    if get_aval(x).dtype is UINT32:
        return x
    return lax.convert_element_type(x, new_dtype=UINT32)


def _seed_fry(seed: Value) -> Value:
    """Return the seed's 64 bits, the high half first.

    A shorter seed is sign-extended to 32 bits, with a high half of zero.
    """
    dtype = get_aval(seed).dtype
    high: Any = scalar_lit(0, UINT32)
    if dtype.bits == 64:
        high = _as_u32(lax.shift_right_logical(seed, scalar_lit(32, dtype)))
    return _concat(high, _as_u32(seed))


def _seed_rbg(seed: Value) -> Value:
    half = _seed_fry(seed)
    return _concat(half, half)


def _hash(key: Value, shape: tuple[int, ...]) -> list[Value]:
    """Return the hashes of the counters of a shape, as pairs of words."""
    if shape:
        counts = lax.iota_2x32_shape(shape=shape)
    else:
        counts = [scalar_lit(0, UINT32)] * 2
    return lax.threefry2x32(_word(key, 0), _word(key, 1), *counts)


def _hash_words(key: Value, count: int) -> Value:
    """Return one word of hash for each number below `count`.

    The first half of the numbers is paired with the second half.

    This is how Threefry counts where `jax_threefry_partitionable` is false.
    """
    if not count:
        return full(ShapedArray((0,), UINT32), 0)
    half = -(-count // 2)
    counts = lax.iota(dtype=UINT32, shape=(2 * half,), dimension=0)
    if count % 2:  # there is one number more than needed; JAX replaces it by 0
        last = lax.eq(counts, scalar_lit(count, UINT32))
        counts = lax.select_n(last, counts, full_like(counts, 0))
    parts = [
        lax.slice(counts, start_indices=(i,), limit_indices=(i + half,), strides=None)
        for i in (0, half)
    ]
    words = _concat(*lax.threefry2x32(_word(key, 0), _word(key, 1), *parts))
    return lax.slice(words, start_indices=(0,), limit_indices=(count,), strides=None)


def _split_fry(key: Value, shape: tuple[int, ...], partitionable: bool) -> Value:
    if not partitionable:
        return lax.reshape(_hash_words(key, 2 * math.prod(shape)), new_sizes=(*shape, 2))
    new = (*shape, 1)
    pair = [lax.reshape(x, new_sizes=new) for x in _hash(key, shape)]
    return lax.concatenate(*pair, dimension=len(shape))


def _split_rbg(key: Value, shape: tuple[int, ...], partitionable: bool) -> Value:
    halves = [_split_fry(h, shape, partitionable) for h in _halves(key)]
    return lax.concatenate(*halves, dimension=len(shape))


def _draw(key: Value, shape: tuple[int, ...], width: int) -> Value:
    return lax.rng_bit_generator(key, shape=shape, dtype=_UINTS[width])[1]


def _split_urbg(key: Value, shape: tuple[int, ...], _partitionable: bool) -> Value:
    """Return every tenth block of four words that the key draws."""
    n = math.prod(shape)
    rows = _draw(key, (10 * n, 4), 32)
    rows = lax.slice(rows, start_indices=(0, 0), limit_indices=(10 * n, 4), strides=(10, 1))
    return lax.reshape(rows, new_sizes=(*shape, 4))


def _fold_fry(key: Value, data: Value) -> Value:
    zero = scalar_lit(0, UINT32)
    return _concat(*lax.threefry2x32(_word(key, 0), _word(key, 1), zero, _as_u32(data)))


def _fold_rbg(key: Value, data: Value) -> Value:
    return _concat(*[_fold_fry(h, data) for h in _halves(key)])


def _fold_urbg(key: Value, data: Value) -> Value:
    rows = _draw(_seed_rbg(_as_u32(data)), (10, 4), 32)
    last = lax.slice(rows, start_indices=(9, 0), limit_indices=(10, 4), strides=None)
    return lax.xor(key, lax.squeeze(last, dimensions=(0,)))


def _bits_of_words(key: Value, width: int, shape: tuple[int, ...]) -> Value:
    """Return random bits of a `fry` key that is not partitionable (`_hash_words`).

    Narrow integers are the halves or quarters of the words, the lowest first.

    For 64 bits, the first half of all words are the high words.
    """
    size = math.prod(shape)
    words = _hash_words(key, -(-width * size // 32))
    if width == 64:
        high, low = [
            lax.convert_element_type(
                lax.slice(words, start_indices=(i,), limit_indices=(i + size,), strides=None),
                new_dtype=UINT64,
            )
            for i in (0, size)
        ]
        bits = lax.or_(lax.shift_left(high, scalar_lit(32, UINT64)), low)
    elif width == 32:
        bits = words
    else:
        count, parts = get_aval(words).shape[0], 32 // width
        rows = lax.broadcast_in_dim(words, shape=(count, parts), broadcast_dimensions=(0,))
        place = lax.iota(dtype=UINT32, shape=(count, parts), dimension=1)
        rows = lax.shift_right_logical(rows, lax.mul(place, scalar_lit(width, UINT32)))
        flat = lax.reshape(rows, new_sizes=(count * parts,))
        bits = lax.convert_element_type(flat, new_dtype=_UINTS[width])
        bits = lax.slice(bits, start_indices=(0,), limit_indices=(size,), strides=None)
    return lax.reshape(bits, new_sizes=shape)


def _bits_fry(key: Value, width: int, shape: tuple[int, ...], partitionable: bool) -> Value:
    if not partitionable:
        return _bits_of_words(key, width, shape)
    high, low = _hash(key, shape)
    if width == 64:
        wide = [lax.convert_element_type(x, new_dtype=_UINTS[64]) for x in (high, low)]
        return lax.or_(lax.shift_left(wide[0], scalar_lit(32, UINT64)), wide[1])
    bits = lax.xor(high, low)
    return bits if width == 32 else lax.convert_element_type(bits, new_dtype=_UINTS[width])


def _bits_rbg(key: Value, width: int, shape: tuple[int, ...], _partitionable: bool) -> Value:
    return _draw(key, shape, width)


def _words(kind: Hash, key: Value) -> list[Value]:
    return [_word(key, i) for i in range(kind.words)]


def _seed_hash(kind: Hash) -> Callable[..., Value]:
    def seed_words(seed: Value) -> Value:
        words = _seed_fry(seed)
        return seeded(kind, _word(words, 0), _word(words, 1))

    return seed_words


_SEED = {"fry": _seed_fry, "rbg": _seed_rbg, "urbg": _seed_rbg}
_SPLIT = {"fry": _split_fry, "rbg": _split_rbg, "urbg": _split_urbg}
_FOLD = {"fry": _fold_fry, "rbg": _fold_rbg, "urbg": _fold_urbg}
_BITS = {"fry": _bits_fry, "rbg": _bits_rbg, "urbg": _bits_rbg}
for _name, _hashed in HASHES.items():
    _SEED[_name] = _seed_hash(_hashed)
    _SPLIT[_name] = lambda key, shape, _, k=_hashed: split(k, _words(k, key), shape)
    _FOLD[_name] = lambda key, data, k=_hashed: folded(k, _words(k, key), _as_u32(data))
    _BITS[_name] = lambda key, width, shape, _, k=_hashed: bits_of(k, _words(k, key), width, shape)


def split_words(kind: str, key: Value, shape: tuple[int, ...], partitionable: bool) -> Value:
    """Return the words of the keys into which a key is split; `kind` and `key` are its kind and
    words.
    """
    return _SPLIT[kind](key, shape, partitionable)


def bits_words(
    kind: str, key: Value, width: int, shape: tuple[int, ...], partitionable: bool
) -> Value:
    """Return the bits drawn from a key; `kind` and `key` are its kind and words."""
    return _BITS[kind](key, width, shape, partitionable)


# -- arrays of keys ------------------------------------------------------------------------------


def _mapped(f: Callable[..., Value], rank: int) -> Callable[..., Value]:
    for _ in range(rank):
        f = vmap(f)
    return f


def _random_seed(in_avals: Sequence[Aval], seeds: Value, *, impl: ParamValue) -> Value:
    return _mapped(_SEED[_kind(key_dtype("random_seed", impl))], in_avals[0].ndim)(seeds)


def _random_split(
    in_avals: Sequence[Aval], keys: Any, *, shape: Sequence[int], partitionable: bool
) -> Value:
    (aval,) = in_avals
    kind, new = _kind(aval.dtype), tuple(shape)
    return _mapped(lambda k: split_words(kind, k, new, partitionable), aval.ndim)(keys)


def _random_bits(
    in_avals: Sequence[Aval],
    keys: Any,
    *,
    bit_width: int,
    shape: Sequence[int],
    partitionable: bool,
) -> Value:
    (aval,) = in_avals
    kind, new = _kind(aval.dtype), tuple(shape)
    return _mapped(lambda k: bits_words(kind, k, bit_width, new, partitionable), aval.ndim)(keys)


def _random_fold_in(in_avals: Sequence[Aval], keys: Any, data: Value) -> Value:
    """Map fold_in over keys and data, which broadcast."""
    key, number = in_avals
    f: Callable[..., Any] = _FOLD[_kind(key.dtype)]
    if not key.ndim or not number.ndim:
        for _ in range(max(key.ndim, number.ndim)):
            f = vmap(f, in_axes=(0, None) if key.ndim else (None, 0))
        return f(keys, data)
    for n, m in reversed(list(zip(key.shape, number.shape, strict=True))):
        f = vmap(f) if n == m else _along_one(f, n == 1)
    return f(keys, data)


def _along_one(f: Callable[..., Value], first_is_one: bool) -> Callable[..., Value]:
    """Map f over the leading axis of one operand; that of the other one has size 1."""

    def mapped(key: Value, data: Value) -> Value:
        if first_is_one:
            return vmap(f, in_axes=(None, 0))(lax.squeeze(key, dimensions=(0,)), data)
        return vmap(f, in_axes=(0, None))(key, lax.squeeze(data, dimensions=(0,)))

    return mapped


# -- types ---------------------------------------------------------------------------------------


def check_keys(primitive: str, aval: Aval) -> None:
    """Raise a type error for an operand that is no array of keys."""
    if getattr(aval, "dtype", UINT32).kind != "k":
        kinds = f"the kinds of keys are {', '.join(KEYS)}; random_wrap makes keys of their words"
        message = f"{primitive} does not take {aval}: it has to be an array of PRNG keys"
        ill_typed(message, "operand-dtype", help=kinds)


def _shape(primitive: str, shape: Sequence[int]) -> tuple[int, ...]:
    if any(n < 0 for n in shape):
        ill_typed(f"{primitive} shape {tuple(shape)} has a negative size", "negative-size")
    return tuple(shape)


def _seed_type(seeds: Aval, *, impl: ParamValue) -> Aval:
    if not seeds.dtype.is_integer:
        ill_typed(f"random_seed takes integers, not {seeds}", "operand-dtype")
    return ShapedArray(seeds.shape, key_dtype("random_seed", impl))


def _wrap_type(data: Aval, *, impl: ParamValue) -> Aval:
    dtype = key_dtype("random_wrap", impl)
    words = dtype.bits // 32
    if data.dtype is not UINT32 or data.shape[-1:] != (words,):
        ill_typed(f"random_wrap takes the words of {impl} keys, u32[..., {words}], not {data}")
    return ShapedArray(data.shape[:-1], dtype)


def _unwrap_type(keys: Any) -> Aval:
    check_keys("random_unwrap", keys)
    return keys.physical


def _split_type(keys: Any, *, shape: Sequence[int], partitionable: bool) -> Aval:
    check_keys("random_split", keys)
    return ShapedArray((*keys.shape, *_shape("random_split", shape)), keys.dtype)


def _fold_type(keys: Any, data: Aval) -> Aval:
    check_keys("random_fold_in", keys)
    if not data.dtype.is_integer:
        ill_typed(f"random_fold_in takes integers to fold in, not {data}", "operand-dtype")
    return broadcast_avals("random_fold_in", (keys, data))


def _bits_type(keys: Any, *, bit_width: int, shape: Sequence[int], partitionable: bool) -> Aval:
    check_keys("random_bits", keys)
    if bit_width not in _UINTS:
        ill_typed(f"random_bits bit_width {bit_width} is none of 8, 16, 32 and 64", "param-value")
    return ShapedArray((*keys.shape, *_shape("random_bits", shape)), _UINTS[bit_width])


def _clone_type(keys: Any) -> Aval:
    if getattr(keys, "dtype", None) != UINT32:  # in JAX it also takes the words of untyped keys
        check_keys("random_clone", keys)
    return keys


# -- rows ----------------------------------------------------------------------------------------


@Maker
def _leading_batch(op: Any) -> Value:
    """Return a batch rule that moves the batch axis to the front, before the axes of the keys."""

    def rule(axis_size: int, vals: Value, dims: Any, **params: Any) -> OutAndDim:
        return op(moveaxis(vals[0], dims[0], 0), **params), 0

    return rule


def _by_hashes(in_avals: Any, params: Any) -> bool:
    """Whether no key is of the kinds `rbg` or `urbg`.

    Their generator draws for a whole batch at once, and its bits depend on the platform.
    """
    keys = [a.dtype.name for a in in_avals if a.dtype.kind == "k"]
    return not any(
        "rbg" in name for name in (*keys, *([params["impl"]] if "impl" in params else []))
    )


def by_hashes_of(vals: Sequence[Value], params: dict[str, ParamValue]) -> bool:
    """Whether each key draws by itself, rather than by a generator that draws for a whole batch at
    once.
    """
    return _by_hashes([*map(get_aval, vals)], params)


define(
    lax.random_seed,
    abstract_eval=_seed_type,
    **decomposed(_random_seed),
    **LOCALLY_CONSTANT,
    batch=elementwise_batch,
    cost=AS_LOWERED,
    determined=_by_hashes,
    on_keys="derives",
)

define(
    lax.random_wrap,
    abstract_eval=_wrap_type,
    impl=lambda xp, data, *, impl: xp.keys(data, key_dtype("random_wrap", impl)),
    **LOCALLY_CONSTANT,
    batch=_leading_batch,
    lower=lambda ctx, data, *, impl: data,
    cost=FREE,
    elements="kept",
)

define(
    lax.random_unwrap,
    abstract_eval=_unwrap_type,
    impl=lambda xp, keys: xp.words(keys),
    **LOCALLY_CONSTANT,
    batch=elementwise_batch,
    lower=lambda ctx, keys: keys,
    cost=FREE,
    elements="kept",
)


def _split_in_a_row(key: Aval, *, shape: Sequence[int], **params: ParamValue) -> Value:
    """The earlier rule: as many keys in a row, in the shape."""
    if key.shape or len(shape) == 1:
        return None
    count = (math.prod(shape),)
    return lambda k: lax.reshape(lax.random_split(k, shape=count, **params), new_sizes=tuple(shape))


define(
    lax.random_split,
    abstract_eval=_split_type,
    **decomposed(_random_split),
    **LOCALLY_CONSTANT,
    batch=alone_on_devices(elementwise_batch, by_hashes_of),
    cost=AS_LOWERED,
    determined=_by_hashes,
    on_keys="uses",
    earlier=_split_in_a_row,
)

define(
    lax.random_fold_in,
    abstract_eval=_fold_type,
    **decomposed(_random_fold_in),
    **LOCALLY_CONSTANT,
    batch=alone_on_devices(broadcast_batch, by_hashes_of),
    cost=AS_LOWERED,
    determined=_by_hashes,
    on_keys="derives",
)

define(
    lax.random_bits,
    abstract_eval=_bits_type,
    **decomposed(_random_bits),
    **LOCALLY_CONSTANT,
    batch=alone_on_devices(elementwise_batch, by_hashes_of),
    cost=AS_LOWERED,
    determined=_by_hashes,
    on_keys="uses",
)

define(
    lax.random_clone,
    abstract_eval=_clone_type,
    impl=lambda xp, keys: keys,
    **LOCALLY_CONSTANT,
    batch=elementwise_batch,
    lower=lambda ctx, keys: keys,
    cost=FREE,
    elements="kept",
)

# Primitives that only JAX's checker of key reuse reads: nothing happens when the program runs.
for _op, _effects in ((lax.consume, False), (lax.assert_consumed_value, True)):
    define(
        _op,
        abstract_eval=lambda keys, **_: keys,
        impl=lambda xp, keys, **_: keys,
        **LOCALLY_CONSTANT,
        batch=elementwise_batch,
        lower=lambda ctx, keys, **_: keys,
        cost=FREE,
        elements="kept",
        effects=_effects,
    )

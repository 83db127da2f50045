"""The hashes Philox-2x32, Philox-4x32 and Threefry-4x32, and the kinds of keys that use them.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011). They are expressed
by other primitives. Operands are arrays of u32 words whose shapes broadcast together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

from jaxprtool import ops as lax
from jaxprtool.core.trace import get_aval, scalar_lit
from jaxprtool.interpreters.batch import broadcast_batch, moveaxis
from jaxprtool.interpreters.check import ill_typed
from jaxprtool.interpreters.contracts import OutAndDim
from jaxprtool.interpreters.lowered_cost import AS_LOWERED
from jaxprtool.ir.dtypes import UINT32, UINT64, find_dtype
from jaxprtool.ir.jaxpr import Aval, Value
from jaxprtool.makers.decomposed import decomposed
from jaxprtool.makers.elementwise import broadcast_avals
from jaxprtool.rules.define import LOCALLY_CONSTANT, define
from jaxprtool.rules.random.generators import PHILOX_FACTORS, PHILOX_STEPS, THREEFRY_PARITY

__all__ = ["HASHES", "Hash", "bits_of", "folded", "seeded", "split"]

# -- the hashes ----------------------------------------------------------------------------------

_FACTOR, _STEP = 0xD256D193, PHILOX_STEPS[0]  # of Philox-2x32
_PHILOX_ROUNDS = 10

# The distances of the two rotations of Threefry-4x32 in each of eight rounds.
_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_THREEFRY_ROUNDS = 20


def _u32(value: int) -> Value:
    return scalar_lit(value & 0xFFFFFFFF, UINT32)


def _xor(*words: Value) -> Value:
    return reduce(lax.xor, words)


def _product(factor: int, x: Value) -> tuple[Value, Value]:
    """Return the high and the low word of the 64-bit product of a factor and x."""
    wide = _u32(factor)
    return lax.mulhi(wide, x), lax.mul(wide, x)


def _philox2x32(_avals: Sequence[Aval], key: Value, x: Value, y: Value) -> list[Value]:
    """Return the hash of two words. A round maps (x, y) to (high(f x) ^ y ^ key, low(f x))."""
    for i in range(_PHILOX_ROUNDS):
        now = lax.add(key, _u32(_STEP * i)) if i else key
        high, low = _product(_FACTOR, x)
        x, y = _xor(high, y, now), low
    return [x, y]


def _philox4x32(_avals: Sequence[Aval], key0: Value, key1: Value, *words: Value) -> list[Value]:
    """Return the hash of four words. A round maps (x0, x1, x2, x3) to (high(g x2) ^ x1 ^ key0,
    low(g x2), high(f x0) ^ x3 ^ key1, low(f x0)).
    """
    x = list(words)
    for i in range(_PHILOX_ROUNDS):
        now0 = lax.add(key0, _u32(PHILOX_STEPS[0] * i)) if i else key0
        now1 = lax.add(key1, _u32(PHILOX_STEPS[1] * i)) if i else key1
        (high0, low0), (high1, low1) = (
            _product(PHILOX_FACTORS[0], x[0]),
            _product(PHILOX_FACTORS[1], x[2]),
        )
        x = [_xor(high1, x[1], now0), low1, _xor(high0, x[3], now1), low0]
    return x


def _mixed(x: Value, y: Value, distance: int) -> tuple[Value, Value]:
    """Mix two words: return their sum, and the xor of the sum and the second word rotated to the left."""
    total = lax.add(x, y)
    left = lax.shift_left(y, _u32(distance))
    right = lax.shift_right_logical(y, _u32(32 - distance))
    return total, lax.xor(lax.or_(left, right), total)


def _threefry4x32(_avals: Sequence[Aval], *words: Value) -> list[Value]:
    """Return the hash of four words, by 20 rounds of two mixes each.

    The second and fourth word are exchanged after each round; words of the key are added every four
    rounds.
    """
    keys = [*words[:4], _xor(*words[:4], _u32(THREEFRY_PARITY))]
    x = [lax.add(a, k) for a, k in zip(words[4:], words[:4], strict=True)]
    for i in range(_THREEFRY_ROUNDS):
        first, second = _ROTATIONS[i % 8]
        a, b = (1, 3) if i % 2 == 0 else (3, 1)
        x[0], x[a] = _mixed(x[0], x[a], first)
        x[2], x[b] = _mixed(x[2], x[b], second)
        if i % 4 == 3:
            n = i // 4 + 1
            x = [lax.add(w, keys[(n + j) % 5]) for j, w in enumerate(x)]
            x[3] = lax.add(x[3], _u32(n))
    return x


# -- rows ----------------------------------------------------------------------------------------


def _define(op: Any, f: Any, count: int) -> None:
    """Define the row of a hash with `count` results."""
    name = op.primitive.name

    def types(*avals: Aval) -> list[Aval]:
        if any(a.dtype is not UINT32 for a in avals):
            ill_typed(f"{name} takes u32 operands, not {', '.join(map(str, avals))}")
        return [broadcast_avals(name, avals)] * count

    one_batch = broadcast_batch(lambda *xs: op(*xs))

    def batch(axis_size: int, vals: Sequence[Value], dims: Sequence[int | None]) -> OutAndDim:
        """Move the batch axis of the operands to the front if their ranks or batch axes differ."""
        ranks = {get_aval(x).ndim for x in vals}
        if len(ranks) == 1 and all(d == dims[0] for d in dims):
            return list(op(*vals)), [dims[0]] * count
        moved = [x if d is None else moveaxis(x, d, 0) for x, d in zip(vals, dims, strict=True)]
        out, dim = one_batch(axis_size, moved, [None if d is None else 0 for d in dims])
        return out, [dim] * count

    define(
        op,
        abstract_eval=types,
        **decomposed(f),
        **LOCALLY_CONSTANT,
        batch=batch,
        cost=AS_LOWERED,
        varying="untracked",
    )


_define(lax.philox2x32, _philox2x32, 2)
_define(lax.philox4x32, _philox4x32, 4)
_define(lax.threefry4x32, _threefry4x32, 4)

# -- keys ----------------------------------------------------------------------------------------


class Hash(NamedTuple):
    """A kind of keys from which bits are drawn as hashes of counters.

    Attributes:
      op: the hash: (the words of the key, the words of the counter) -> as many words as the counter
        has.
      words: the number of words of a key.
      counters: the number of words of a counter.
      seeds_key: True: a seed is hashed as the first words of the key, with a zero counter; False:
        as the first words of the counter, with a zero key.
      halves: which results of the hash are combined to the high word of 64 bits, and which to the
        low.
    """

    op: Any
    words: int
    counters: int
    seeds_key: bool
    halves: tuple[tuple[int, ...], tuple[int, ...]]


HASHES = {
    "phx2": Hash(lax.philox2x32, 1, 2, False, ((0,), (1,))),
    "phx4": Hash(lax.philox4x32, 2, 4, False, ((0,), (1,))),
    "fry4": Hash(lax.threefry4x32, 4, 4, True, ((0, 2), (1, 3))),
}


def _counters(shape: tuple[int, ...]) -> list[Value]:
    """Return the flat index of each element, as two words."""
    return list(lax.iota_2x32_shape(shape=shape)) if shape else [_u32(0), _u32(0)]


def _key(kind: Hash, outs: Sequence[Value], shape: tuple[int, ...]) -> Value:
    """Return an array of keys of a shape, from the first results of a hash."""
    parts = [lax.reshape(x, new_sizes=(*shape, 1)) for x in outs[: kind.words]]
    return lax.concatenate(*parts, dimension=len(shape))


def seeded(kind: Hash, high: Value, low: Value) -> Value:
    """Return the words of the key for a seed of 64 bits, given as its high and low half."""
    zeros = [_u32(0)] * (kind.words + kind.counters)
    place = 0 if kind.seeds_key else kind.words
    zeros[place : place + 2] = high, low
    return _key(kind, kind.op(*zeros), ())


def split(kind: Hash, key: Sequence[Value], shape: tuple[int, ...]) -> Value:
    """Return the words of new keys, one for each element of the shape."""
    zeros = [_u32(0)] * (kind.counters - 2)
    return _key(kind, kind.op(*key, *zeros, *_counters(shape)), shape)


def folded(kind: Hash, key: Sequence[Value], data: Value) -> Value:
    """Return the words of a new key from a key and a word of data."""
    return _key(kind, kind.op(*key, *[_u32(0)] * (kind.counters - 1), data), ())


def bits_of(kind: Hash, key: Sequence[Value], width: int, shape: tuple[int, ...]) -> Value:
    """Return random unsigned integers of a width.

    They are all words of a hash combined by xor; for 64 bits, the words of each half are combined.
    """
    outs = kind.op(*key, *_counters(shape), *[_u32(0)] * (kind.counters - 2))
    if width != 64:
        bits = _xor(*outs)
        wanted = find_dtype(f"u{width}")
        return bits if width == 32 else lax.convert_element_type(bits, new_dtype=wanted)
    high, low = [
        lax.convert_element_type(_xor(*[outs[i] for i in half]), new_dtype=UINT64)
        for half in kind.halves
    ]
    return lax.or_(lax.shift_left(high, scalar_lit(32, UINT64)), low)

"""Random numbers: typed keys, and the generators of random bits that they select.

The element type of keys names the generator for splitting keys and the one for drawing bits.
`key<fry>` uses the hash Threefry-2x32 for both; `key<rbg>` splits with Threefry and draws with
XLA's bit generator; `key<urbg>` uses the bit generator for both. `key<fry4>`, `key<phx2>` and
`key<phx4>` use one other hash for both: Threefry-4x32, Philox-2x32, Philox-4x32.

Threefry hashes counters, which JAX computes in one of two ways. If `jax_threefry_partitionable` is
true (the default since JAX 0.5.0), the counter of an element is its position in the result;
otherwise (the default before) the words of the whole result are counted. The param `partitionable`
holds the setting with which a program was traced.
"""

from jaxprtool.core.kinds.enums import RandomAlgorithm
from jaxprtool.core.kinds.numbers import Shape
from jaxprtool.core.kinds.objects import Bookkeeping
from jaxprtool.core.kinds.placement import Sharding
from jaxprtool.core.primitive import param, primitive, shown
from jaxprtool.ir.dtypes import DType

__all__ = [
    "assert_consumed_value",
    "consume",
    "iota_2x32_shape",
    "philox2x32",
    "philox4x32",
    "random_bits",
    "random_clone",
    "random_fold_in",
    "random_gamma",
    "random_seed",
    "random_split",
    "random_unwrap",
    "random_wrap",
    "rng_bit_generator",
    "rng_uniform",
    "threefry2x32",
    "threefry4x32",
]


@primitive
def random_seed(seeds, *, impl: str):
    """One key for each integer of seeds.

    impl: the generator of the keys: `fry`, `rbg`, `urbg`, `fry4`, `phx2` or `phx4`.
    """


@primitive
def random_wrap(data, *, impl: str):
    """The keys that data, u32[..., n], represents, n words for each key: the inverse of
    `random_unwrap`.

    impl: the generator: n = 1 for `phx2`, 2 for `fry` and `phx4`, 4 for `rbg`, `urbg` and `fry4`.
    """


@primitive
def random_unwrap(keys):
    """The words that represent the keys, u32[..., n]: n = 1 for `phx2`, 2 for `fry` and `phx4`,
    else 4.
    """


@primitive
def random_split(keys, *, shape: Shape, partitionable: bool = param(True, hidden="always")):
    """An array of new keys for each key; the shape of the result is keys.shape + shape.

    shape: the shape of the array for each key.
    partitionable: whether Threefry's counters are positions of elements (see this module).
    """


@primitive
def random_fold_in(keys, data):
    """A new key from each key and 32-bit integer of data; the shapes are equal, or one is
    scalar.
    """


@primitive
def random_bits(
    keys,
    *,
    bit_width: int,
    shape: Shape,
    partitionable: bool = param(True, hidden="always"),
):
    """An array of random unsigned integers for each key; the shape of the result is keys.shape +
    shape.

    bit_width: the number of bits of the integers: 8, 16, 32 or 64.
    shape: the shape of the array for each key.
    partitionable: whether Threefry's counters are positions of elements (see this module).
    """


@primitive
def random_clone(keys):
    """keys; JAX's checker of key reuse lets the result be used although keys were used."""


@primitive
def consume(keys):
    """keys; JAX's checker of key reuse regards the result as used."""


@primitive
def assert_consumed_value(keys, *, value: Bookkeeping):
    """keys; JAX's checker of key reuse fails unless it finds that they were used, or that they were
    not.

    value: whether they must have been used, such as `HashableArray(True)`.
    """


@primitive
def random_gamma(
    keys,
    a,
    *,
    log_space: bool,
    partitionable: bool = param(True, hidden="always"),
    complement: bool = param(True, hidden="always"),
):
    """One sample of the gamma distribution Gamma(a, 1) for each a; keys.shape is a prefix of
    a.shape.

    log_space: whether the results are the logarithms of the samples.
    partitionable: whether Threefry's counters are positions of elements (see this module).
    complement: whether samples for a < 1 use 1 - u in place of u (JAX before 0.4.14).
      Such a sample is one for a + 1, times (1 - u)^(1/a) or u^(1/a), for a uniform random number u.
    """


@primitive(multiple_results=True)
def threefry2x32(key0, key1, count0, count1):
    """The Threefry-2x32 hash with 20 rounds of two u32 counter words, under two u32 key words."""


@primitive(multiple_results=True)
def threefry4x32(key0, key1, key2, key3, count0, count1, count2, count3):
    """The Threefry-4x32 hash with 20 rounds of four u32 counter words, under four u32 key words."""


@primitive(multiple_results=True)
def philox2x32(key, count0, count1):
    """The Philox-2x32 hash with 10 rounds of two u32 counter words, under one u32 key word."""


@primitive(multiple_results=True)
def philox4x32(key0, key1, count0, count1, count2, count3):
    """The Philox-4x32 hash with 10 rounds of four u32 counter words, under two u32 key words."""


@primitive(multiple_results=True)
def rng_bit_generator(
    key,
    *,
    shape: Shape,
    dtype: DType,
    algorithm: RandomAlgorithm = shown(0),
    out_sharding: Sharding | None = shown(None),
):
    """(new state, random unsigned integers) by XLA's bit generator; key is the state, u32[4] or
    u64[2].

    shape: the shape of the integers.
    dtype: their element type, an unsigned one.
    algorithm: RNG_DEFAULT (on CPUs Philox), RNG_THREE_FRY or RNG_PHILOX.
    out_sharding: the sharding of the integers, or None.
    """


@primitive
def rng_uniform(a, b, *, shape: Shape):
    """Uniform random numbers in [a, b), from a generator whose state is not a value of the program.

    shape: the shape of the result.
    """


@primitive(multiple_results=True)
def iota_2x32_shape(*, shape: Shape):
    """(n >> 32, n mod 2^32) as u32 arrays, where n is the position of each element in row-major
    order.

    shape: the shape of both results.
    """

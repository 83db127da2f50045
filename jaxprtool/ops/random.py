"""Random numbers: typed keys, and the generators of bits under them.

Types `key<fry>`, `key<rbg>` and `key<urbg>` name how keys are split and how bits are drawn: with Threefry alone;
split with Threefry, drawn with the bit generator; and both with the bit generator. Those of `key<fry4>`, `key<phx2>` and
`key<phx4>` do both with another hash of counters: Threefry of four words, Philox of two and of four.

Threefry has two ways to count, of which JAX's setting `jax_threefry_partitionable` chooses one: by the place of each element
(true where nobody sets it since 0.5.0), or by words of the whole result (false, as before). A program keeps which one it had.
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
    """A key for each integer.

    impl: the kind of keys: `fry`, `rbg`, `urbg`, `fry4`, `phx2` or `phx4`.
    """


@primitive
def random_wrap(data, *, impl: str):
    """The keys whose words are u32[..., n].

    impl: the kind of keys: `phx2` has n = 1 word, `fry` and `phx4` 2, `rbg`, `urbg` and `fry4` 4.
    """


@primitive
def random_unwrap(keys):
    """The words of the keys, u32[..., n]."""


@primitive
def random_split(keys, *, shape: Shape, partitionable: bool = param(True, hidden="always")):
    """For each key an array of new ones.

    shape: its shape, which follows that of the keys.
    partitionable: whether Threefry counts by the places of elements.
    """


@primitive
def random_fold_in(keys, data):
    """A new key from each key and a 32-bit number; shapes are equal, or one of rank 0."""


@primitive
def random_bits(
    keys,
    *,
    bit_width: int,
    shape: Shape,
    partitionable: bool = param(True, hidden="always"),
):
    """Random bits for each key, as unsigned integers.

    bit_width: their width: 8, 16, 32 or 64.
    shape: the shape of what each key gives, which follows that of the keys.
    partitionable: whether Threefry counts by the places of elements.
    """


@primitive
def random_clone(keys):
    """The same keys, to be used again."""


@primitive
def consume(keys):
    """The same keys, which JAX's checker of reused keys takes for used."""


@primitive
def assert_consumed_value(keys, *, value: Bookkeeping):
    """The same keys, of which JAX's checker of reused keys has to find that they are used, or that they are not.

    value: whether they are, `HashableArray(True)`.
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
    """Samples of Gamma(a, 1); the shape of the keys is a prefix of that of a.

    log_space: whether the logarithms of the samples are wanted.
    partitionable: whether Threefry counts by the places of elements.
    complement: whether a sample for a < 1 is one for a + 1 times a power of 1 - u, and not of u (JAX before 0.4.14), of a
      uniform number u.
    """


@primitive(multiple_results=True)
def threefry2x32(key0, key1, count0, count1):
    """The Threefry-2x32 hash, with 20 rounds, of pairs of u32 counters under pairs of u32 words of keys."""


@primitive(multiple_results=True)
def threefry4x32(key0, key1, key2, key3, count0, count1, count2, count3):
    """The Threefry-4x32 hash, with 20 rounds, of four u32 words of counters under four of keys."""


@primitive(multiple_results=True)
def philox2x32(key, count0, count1):
    """The Philox-2x32 hash, with 10 rounds, of pairs of u32 counters under a u32 key."""


@primitive(multiple_results=True)
def philox4x32(key0, key1, count0, count1, count2, count3):
    """The Philox-4x32 hash, with 10 rounds, of four u32 words of counters under pairs of u32 words of keys."""


@primitive(multiple_results=True)
def rng_bit_generator(
    key,
    *,
    shape: Shape,
    dtype: DType,
    algorithm: RandomAlgorithm = shown(0),
    out_sharding: Sharding | None = shown(None),
):
    """XLA's generator: its next state, and random bits.

    key: the state, u32[4] or u64[2].

    shape: the shape of the bits.
    dtype: their element type, unsigned.
    algorithm: RNG_DEFAULT (on a CPU Philox), RNG_THREE_FRY or RNG_PHILOX.
    out_sharding: the sharding of the bits, or None.
    """


@primitive
def rng_uniform(a, b, *, shape: Shape):
    """Uniform random numbers in [a, b) from a generator with a state of its own.

    shape: the shape of the result.
    """


@primitive(multiple_results=True)
def iota_2x32_shape(*, shape: Shape):
    """The positions of elements in row-major order, 64 bits wide: their high and their low halves, u32.

    shape: the shape of both.
    """

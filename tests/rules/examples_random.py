"""Sample operands of the generators of random bits, and of the operations on typed keys.

Keys are made of their words inside of an example, and read as words, so that operands and results are plain arrays.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from jaxprtool import ops as lax
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.params import Word
from tests.rules.example import Example, arg

IN_JAX = {"fry": "threefry2x32", "rbg": "rbg", "urbg": "unsafe_rbg"}
WORDS = {"fry": 2, "rbg": 4, "urbg": 4}
_HASHED = {"fry4": ("threefry4x32", 4), "phx2": ("philox2x32", 1), "phx4": ("philox4x32", 2)}


def is_known(name: str) -> bool:
    """Whether the installed JAX has a generator."""
    import jax

    try:
        jax.random.key(0, impl=name)
    except ValueError:
        return False
    return True


for _kind, (_name, _words) in _HASHED.items():
    if is_known(_name):
        IN_JAX[_kind], WORDS[_kind] = _name, _words


def _hash(op: Any, *types: str) -> Example:
    """Where an operation's own bits are compared, a function of them that JAX has too."""
    return Example(op, tuple(arg(t) for t in types), smooth=False, jax=_hash_of(op))


def _hash_of(op: Any) -> Any:
    if op is lax.threefry2x32:
        return None

    def in_jax(*words: Any) -> Any:
        from jax._src import random

        name = op.primitive.name
        return getattr(getattr(random, name), f"{name}_p").bind(*words)

    return in_jax


def _positions(*, shape: tuple[int, ...]) -> list[Any]:
    """For fewer than 2^32 elements."""
    low = np.arange(math.prod(shape), dtype=np.uint32).reshape(shape)
    return [np.zeros_like(low), low]


def _with_keys(op: Any, impl: str, words: Any, *rest: Any, **params: Any) -> Any:
    """An operation of keys, as a function of their words."""
    out = op(lax.random_wrap(words, impl=impl), *rest, **params)
    return lax.random_unwrap(out) if out.dtype.kind == "k" else out


def _with_keys_in_jax(name: str, impl: str, words: Any, *rest: Any, **params: Any) -> Any:
    import jax
    from jax.extend.core import primitives

    if not params.pop("partitionable", True):
        with jax.threefry_partitionable(False):
            return _with_keys_in_jax(name, impl, words, *rest, **params)
    keys = jax.random.wrap_key_data(words, impl=IN_JAX[impl])
    if name == "random_clone":
        out = jax.random.clone(keys)
    else:
        out = getattr(primitives, f"{name}_p").bind(keys, *rest, **params)
    is_key = jax.numpy.issubdtype(out.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(out) if is_key else out


def _keyed(op: Any, batch: str, *types: str, impl: str = "fry", **params: Any) -> Example:
    """batch: the shape of the array of keys, as `2,3,`."""
    operands = (arg(f"u32[{batch}{WORDS[impl]}]"), *[arg(t, "positive") for t in types])
    name = op.primitive.name
    return Example(
        functools.partial(_with_keys, op, impl),
        operands,
        params,
        smooth=False,
        label=f"{name}-{impl}-{batch}-{types}-{params}".replace(" ", ""),
        jax=functools.partial(_with_keys_in_jax, name, impl),
        mapped="rbg" not in impl or name == "random_clone",
        of=op,
    )


def _clone_in_jax(words: Any) -> Any:
    import jax

    return jax.random.clone(words)


def _seed(seeds: Any, *, impl: str) -> Any:
    return lax.random_unwrap(lax.random_seed(seeds, impl=impl))


def _seed_in_jax(seeds: Any, *, impl: str) -> Any:
    import jax

    def words(seed: Any) -> Any:
        return jax.random.key_data(jax.random.key(seed, impl=IN_JAX[impl]))

    return jax.vmap(words)(seeds) if seeds.ndim else words(seeds)


def _seeded(types: str, impl: str) -> Example:
    return Example(_seed, (arg(types),), {"impl": impl}, jax=_seed_in_jax, of=lax.random_seed)


def _wrapped(op: Any, t: str, impl: str) -> Example:
    def again(words: Any, *, impl: str) -> Any:
        return lax.random_unwrap(lax.random_wrap(words, impl=impl))

    def in_jax(words: Any, *, impl: str) -> Any:
        import jax

        return jax.random.key_data(jax.random.wrap_key_data(words, impl=IN_JAX[impl]))

    return Example(again, (arg(t),), {"impl": impl}, jax=in_jax, of=op)


def _generator(state: str, dtype: str, algorithm: Any, *shape: int) -> Example:
    def in_jax(state: Any, *, algorithm: Any, **params: Any) -> Any:
        import jax

        found = jax.lax.RandomAlgorithm[Word(algorithm).member] if algorithm else 0
        return jax.lax.rng_bit_generator_p.bind(state, algorithm=found, out_sharding=None, **params)

    params = {"shape": shape, "dtype": find_dtype(dtype), "algorithm": algorithm}
    return Example(lax.rng_bit_generator, (arg(state),), params, jax=in_jax, mapped=False)


def _uniform(t: str, low: Any, high: Any, *shape: int) -> Example:
    """Between bounds that leave one value, since the state of the generator is not known."""
    operands = (arg(t, values=low), arg(t, values=high))
    return Example(lax.rng_uniform, operands, {"shape": shape}, mapped=False)


EXAMPLES = [
    _hash(lax.threefry2x32, "u32[]", "u32[]", "u32[5]", "u32[5]"),
    _hash(lax.threefry2x32, "u32[3]", "u32[3]", "u32[3]", "u32[3]"),
    _hash(lax.threefry2x32, "u32[]", "u32[]", "u32[0]", "u32[0]"),
    *[
        example
        for op, n in ((lax.philox2x32, 3), (lax.philox4x32, 6), (lax.threefry4x32, 8))
        if is_known(op.primitive.name)
        for example in (
            _hash(op, *["u32[]"] * (n // 3), *["u32[5]"] * (n - n // 3)),
            _hash(op, *["u32[3]"] * n),
            _hash(op, *["u32[2,1]"] * (n // 2), *["u32[1,3]"] * (n - n // 2)),
            _hash(op, *["u32[]"] * n),
        )
    ],
    Example(lax.iota_2x32_shape, (), {"shape": (2, 3)}, jax=_positions),
    Example(lax.iota_2x32_shape, (), {"shape": (0, 3)}, jax=_positions),
    *[_seeded(t, impl) for impl in WORDS for t in ("i32[]", "i64[]", "u8[2]")],
    *[
        _wrapped(op, f"u32[{shape}{n}]", impl)
        for op in (lax.random_wrap, lax.random_unwrap)
        for impl, n in WORDS.items()
        for shape in ("", "2,", "0,")
    ],
    *[_keyed(lax.random_clone, shape, impl=impl) for impl in WORDS for shape in ("", "2,3,")],
    Example(lax.random_clone, (arg("u32[2]"),), smooth=False, jax=_clone_in_jax),
    *[
        _keyed(lax.random_split, shape, impl=impl, shape=new)
        for impl in WORDS
        for shape, new in (("", (2, 3)), ("2,", (2,)), ("", ()), ("0,", (2,)))
        if (impl, shape) != ("urbg", "0,")  # where JAX fails
    ],
    *[_keyed(lax.random_fold_in, s, t, impl=i) for i in WORDS for s, t in (("", "u32[]"),)],
    _keyed(lax.random_fold_in, "3,", "u32[3]"),
    *[
        _keyed(lax.random_bits, "", impl=impl, bit_width=width, shape=(2, 3))
        for impl in WORDS
        for width in (8, 16, 32, 64)
    ],
    *[
        _keyed(lax.random_split, s, impl=i, shape=new, partitionable=False)
        for i, s, new in (("fry", "", (3,)), ("fry", "2,", (2, 2)), ("rbg", "", (3,)))
    ],
    *[
        _keyed(lax.random_bits, "", bit_width=width, shape=shape, partitionable=False)
        for width in (8, 16, 32, 64)
        for shape in ((), (7,), (2, 3))
    ],
    _keyed(lax.random_bits, "2,", bit_width=32, shape=(0, 3), partitionable=False),
    _keyed(lax.random_gamma, "", "f32[3]", log_space=False, partitionable=False),
    _keyed(lax.random_bits, "2,", bit_width=32, shape=(3,)),
    _keyed(lax.random_bits, "", bit_width=32, shape=(0, 3)),
    _keyed(lax.random_gamma, "", "f32[3]", log_space=True),
    _keyed(lax.random_gamma, "2,", "f64[2,2]", log_space=False),
    *[
        _generator("u32[4]", d, a, 2, 3)
        for d in ("u8", "u16", "u32", "u64")
        for a in (0, Word("RandomAlgorithm.RNG_THREE_FRY"), Word("RandomAlgorithm.RNG_PHILOX"))
    ],
    _generator("u64[2]", "u32", Word("RandomAlgorithm.RNG_THREE_FRY"), 3),
    _generator("u64[2]", "u32", 0),
    _uniform("i32[]", 3, 4, 2, 3),
    _uniform("f32[]", 1.5, 1.5, 2),
    _uniform("f64[]", -2.0, -2.0),
]

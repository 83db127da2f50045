"""PRNG keys from seeds and from words, as spelled in files and on the command line."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxprtool import ops as lax
from jaxprtool.backends.numpy_eval import KeyArray
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import UINT32
from jaxprtool.ir.jaxpr import Var

__all__ = ["is_key", "key_of_words", "keys_of_seeds", "of_words"]


def is_key(aval: Any) -> bool:
    """Whether values of this type are keys."""
    return aval.dtype.kind == "k"


def of_words(v: Var) -> Var:
    """Return a binder of keys as one of their words: `key<fry>[3]` is held as `u32[3,2]`."""
    aval = v.aval
    return Var(ShapedArray((*aval.shape, aval.dtype.bits // 32), UINT32), v.name, v.place)


def key_of_words(words: Any, aval: Any) -> KeyArray:
    """Keys of type `aval` from words u32[..., n]."""
    return KeyArray(aval.dtype.name[4:-1], words)


def keys_of_seeds(seeds: Any, aval: Any) -> KeyArray:
    """Return the key of each seed, as `jax.random.key` makes it; seeds are integers of the shape of `aval`.

    Seeds of 32 bits are taken as i32, as in JAX without 64-bit types; this matters for negative
    ones.
    """
    wide = np.asarray(seeds, np.int64)
    narrow = wide.astype(np.int32)
    impl = aval.dtype.name[4:-1]
    made = lax.random_seed(narrow if (narrow == wide).all() else wide, impl=impl)
    return key_of_words(made.data, aval)

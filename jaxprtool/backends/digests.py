"""Digests that stand for a value in a record: its hash, norm and range."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np

from jaxprtool.backends.arrays import spelt, type_name
from jaxprtool.backends.numpy_eval import KeyArray, float0
from jaxprtool.interpreters.evaluation.state_values import Cell, Token
from jaxprtool.ir.dtypes import dtype_of

__all__ = ["Hashes", "digest", "hash_of"]

_SMALL, _MANY = (
    1024,
    4096,
)  # bytes of a value whose hash is remembered, and how many of these there are at most


class Hashes:
    """Computes hashes of values; those of small values are cached, since most operands are results
    that were hashed before.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}

    def of(self, x: Any) -> str:
        """The hash of a value (`hash_of`)."""
        found = self._known.get(id(x))
        if found is not None and found[0] is x:
            return found[1]
        return self.keep(x, hash_of(x))

    def keep(self, x: Any, text: str) -> str:
        """Cache the hash of a value; return it."""
        if isinstance(x, (np.ndarray, np.generic)) and x.nbytes <= _SMALL and x.base is None:
            if len(self._known) >= _MANY:
                self._known.clear()
            self._known[id(x)] = x, text
        return text


def _held(x: Any) -> Any:
    """Return the array of a value: the words of keys, the contents of a cell."""
    if isinstance(x, KeyArray):
        return x.data
    return _held(x.value) if isinstance(x, Cell) else np.asarray(x)


def hash_of(x: Any) -> str:
    """Return a hash of the type and the bits of a value: 16 hexadecimal digits.

    All NaNs count as the same.
    """
    if isinstance(x, Token):
        return "token"
    array = _held(x)
    found = _begun(array.dtype, array.shape).copy()
    if array.dtype != float0:
        if array.dtype.kind not in "biu":
            with np.errstate(all="ignore"):
                nan = array != array
                if nan.any():
                    array = np.where(nan, np.array(np.nan, array.dtype), array)
        found.update(array.tobytes())
    return found.hexdigest()


@functools.lru_cache(4096)
def _begun(dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    """Return the hash state after the type."""
    return hashlib.blake2b(spelt(dtype, shape).encode(), digest_size=8)


def digest(x: Any) -> dict[str, Any]:
    """Return type, hash, norm (root of the sum of squares), min, max, nans and infs.

    Norm, min and max are those of the elements that are neither NaN nor infinite.
    """
    if isinstance(x, Token):
        return {"type": "Tok", "hash": "token"}
    array = _held(x)
    found: dict[str, Any] = {"type": type_name(x if isinstance(x, KeyArray) else array)}
    found["hash"] = hash_of(x)
    dtype = dtype_of(array.dtype)
    if isinstance(x, KeyArray) or dtype is None or dtype.kind not in "biufc":
        return found
    with np.errstate(all="ignore"):
        wide = array.astype(np.complex128 if dtype.kind == "c" else np.float64)
        nans = infs = 0
        plain = usual = np.abs(wide) if dtype.kind == "c" else wide
        if not np.isfinite(usual).all():
            nan, inf = np.isnan(wide), np.isinf(wide)
            nans, infs = int(nan.sum()), int(inf.sum())
            plain, usual = usual[~(nan | inf) if dtype.kind == "c" else ~nan], usual[~(nan | inf)]
        scale = float(np.abs(usual).max(initial=0.0))
        norm = scale * float(np.sqrt(np.sum((usual / scale) ** 2))) if scale else 0.0
    found["norm"] = norm
    found["min"], found["max"] = (
        (float(plain.min()), float(plain.max())) if plain.size else (None, None)
    )
    return {**found, "nans": nans, "infs": infs}

"""What is written about a value in the place of the value: its hash, norm and range."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from jaxprtool.backends.arrays import type_name
from jaxprtool.backends.numpy_eval import KeyArray, float0
from jaxprtool.interpreters.state_values import Cell, Token
from jaxprtool.ir.dtypes import dtype_of

__all__ = ["digest", "hash_of"]


def _held(x: Any) -> Any:
    """The array of a value: keys as their words, what is in a cell."""
    if isinstance(x, KeyArray):
        return x.data
    return _held(x.value) if isinstance(x, Cell) else np.asarray(x)


def hash_of(x: Any) -> str:
    """A hash of the type and the bits of a value: 16 hexadecimal digits. Every NaN counts as the same."""
    if isinstance(x, Token):
        return "token"
    array = _held(x)
    found = hashlib.blake2b(type_name(array).encode(), digest_size=8)
    if array.dtype != float0:
        with np.errstate(all="ignore"):
            nan = array != array
            if array.dtype.kind not in "biu" and nan.any():
                array = np.where(nan, np.array(np.nan, array.dtype), array)
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def digest(x: Any) -> dict[str, Any]:
    """The keys type, hash, norm (root of the sum of squares), min, max, nans and infs; of numbers that are neither."""
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
        nans, infs = np.isnan(wide), np.isinf(wide)
        usual = np.abs(wide[~(nans | infs)])
        scale = float(usual.max(initial=0.0))
        norm = scale * float(np.sqrt(np.sum((usual / scale) ** 2))) if scale else 0.0
        plain = usual if dtype.kind == "c" else wide[~nans]
    found["norm"] = norm
    found["min"], found["max"] = (
        (float(plain.min()), float(plain.max())) if plain.size else (None, None)
    )
    return {**found, "nans": int(nans.sum()), "infs": int(infs.sum())}

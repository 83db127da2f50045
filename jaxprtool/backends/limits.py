"""The limits of element types, of NumPy's own and of those of ml_dtypes.

Importing ml_dtypes takes up to a second (0.7.0), and most programs have no type of it. So it is
imported where a type is met that NumPy lacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["finfo", "iinfo", "is_of_numpy", "type_named"]


def is_of_numpy(dtype: np.dtype) -> bool:
    """Whether a dtype is one of NumPy's own."""
    return dtype.isbuiltin != 2


def finfo(dtype: Any) -> Any:
    """Return the limits of a type of floats or complex numbers, as `numpy.finfo` does.

    Raises ValueError for other types.
    """
    found = np.dtype(dtype)
    return np.finfo(found) if is_of_numpy(found) else _ml_dtypes().finfo(found)


def iinfo(dtype: Any) -> Any:
    """Return the limits of a type of integers, as `numpy.iinfo` does.

    Raises ValueError for other types.
    """
    found = np.dtype(dtype)
    return np.iinfo(found) if is_of_numpy(found) else _ml_dtypes().iinfo(found)


def type_named(name: str) -> Any:
    """Return the scalar type of NumPy's or of ml_dtypes that has a name; None where none has it."""
    if name == "bool":
        return np.bool_
    return getattr(np, name, None) or getattr(_ml_dtypes(), name, None)


def _ml_dtypes() -> Any:
    import ml_dtypes  # noqa: PLC0415 (see the module)

    return ml_dtypes

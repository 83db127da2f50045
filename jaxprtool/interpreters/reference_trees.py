"""Indices of operations on references that are held in a tree structure, as JAX prints those without a notation."""

from __future__ import annotations

import functools

from jaxprtool.ir.params import ParamValue
from jaxprtool.ir.references import RefIndex
from jaxprtool.syntax.releases.ref_trees import index_and_mask

__all__ = ["index_in"]


def index_in(tree: ParamValue) -> tuple[RefIndex, bool] | None:
    """Return the index in a tree of (reference, index, value, mask), and whether there is a mask;
    None for another tree.
    """
    return _index_in(str(tree))


@functools.lru_cache(1024)
def _index_in(text: str) -> tuple[RefIndex, bool] | None:
    try:
        return index_and_mask(text)
    except (ValueError, TypeError, AttributeError):
        return None

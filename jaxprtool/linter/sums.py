"""Sums in types of few digits."""

from __future__ import annotations

import math
from typing import Any

from jaxprtool.ir.avals import ShapedArray
from jaxprtool.linter.frames import At
from jaxprtool.linter.registry import lint_rule

__all__ = ["low_precision_sum"]

# From so many terms on a sum of equal numbers stops growing: 2 to the bits of the significand, with the hidden one.
_ENOUGH = {"bf16": 256, "f16": 2048}


@lint_rule(
    "low-precision-sum",
    *("reduce_sum", "reduce_prod", "cumsum", "cumprod", "cumlogsumexp", "reduce_window_sum"),
    family="sums",
    mend="sum in f32: jnp.sum(x, dtype=jnp.float32), or x.astype(jnp.float32) before it",
)
def low_precision_sum(at: At) -> str | None:
    """A sum of many terms is accumulated in bf16 or f16.

    bf16 has 8 bits of significand, f16 has 11: a sum of so many equal terms (256, or 2048) is as large as the spacing of its numbers
    allows, and what is added from there on is lost; f16 also overflows at 65504. Where terms are fewer, nothing is told. The compiler
    may accumulate in f32 of its own accord, and need not.
    """
    aval = at.operand(0).aval
    if not isinstance(aval, ShapedArray) or aval.dtype.short not in _ENOUGH:
        return None
    terms = _terms(at.params, aval)
    if terms < _ENOUGH[aval.dtype.short]:
        return None
    return f"{at.name} accumulates {terms:,} terms in {aval.dtype.short}"


def _terms(params: Any, aval: ShapedArray) -> int:
    """How many elements make one of the result."""
    window = params.get("window_dimensions")
    axes = params.get("axes", (params.get("axis", 0),))
    sizes = window if window is not None else [aval.shape[i] for i in axes]
    return math.prod([n for n in sizes if isinstance(n, int)])

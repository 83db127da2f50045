"""Sums in types of few digits."""

from __future__ import annotations

import math
from typing import Any

from jaxprtool.interpreters.monoids import algebra_of
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import Jaxpr
from jaxprtool.linter.frames import At
from jaxprtool.linter.registry import lint_rule

__all__ = ["low_precision_sum"]

# From so many terms on a sum of equal numbers stops growing: 2 to the bits of the significand, with the hidden one.
_ENOUGH = {"bf16": 256, "f16": 2048}


@lint_rule(
    "low-precision-sum",
    *("reduce_sum", "reduce_prod", "cumsum", "cumprod", "cumlogsumexp", "reduce_window_sum"),
    *("reduce", "reduce_window"),
    family="sums",
    mend="sum in f32: jnp.sum(x, dtype=jnp.float32), or x.astype(jnp.float32) before it",
)
def low_precision_sum(at: At) -> str | None:
    """A sum of many terms is accumulated in bf16 or f16.

    bf16 has 8 bits of significand, f16 has 11: a sum of so many equal terms (256, or 2048) is as large as the spacing of its numbers
    allows, and what is added from there on is lost; f16 also overflows at 65504. Where terms are fewer, nothing is told. The compiler
    may accumulate in f32 of its own accord, and need not.
    """
    for result in range(len(at.eqn.out_binders)):  # a general reduction has one of each array
        aval = at.operand(result).aval
        if not isinstance(aval, ShapedArray) or aval.dtype.short not in _ENOUGH:
            continue
        terms = _terms(at.params, aval)
        if terms >= _ENOUGH[aval.dtype.short] and _is_rounded(at, result):
            return f"{at.name} accumulates {terms:,} terms in {aval.dtype.short}"
    return None


def _is_rounded(at: At, result: int) -> bool:
    """Whether each term is added or multiplied, and not chosen as that of a maximum is."""
    reducer = at.params.get("jaxpr")
    return reducer is None or _adds(reducer.jaxpr, result)


def _adds(reducer: Jaxpr, result: int) -> bool:
    """Whether a result of a reducer comes from a sum or a product, which commutes and, where it rounds, does not associate."""
    out = reducer.outs[result]
    makers = [eqn for eqn in reducer.eqns if out in eqn.out_binders]
    laws = [algebra_of(eqn) for eqn in makers if eqn.inputs]
    return any(found.commutative and not found.associative for found in laws)


def _terms(params: Any, aval: ShapedArray) -> int:
    """How many elements make one of the result."""
    window = params.get("window_dimensions")
    axes = params.get("axes", params.get("dimensions", (params.get("axis", 0),)))
    sizes = window if window is not None else [aval.shape[i] for i in axes]
    return math.prod([n for n in sizes if isinstance(n, int)])

"""Lint rule of sums that are accumulated in 16-bit floats."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxprtool.interpreters.columns.monoids import algebra_of
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn
from jaxprtool.linter.frames import At
from jaxprtool.linter.registry import lint_rule

__all__ = ["low_precision_sum"]

# Type -> the number of equal terms from which on a sum stops growing: 2 to the bits of the
# significand, including the implicit one.
_ENOUGH = {"bf16": 256, "f16": 2048}


@lint_rule(
    "low-precision-sum",
    *("reduce_sum", "reduce_prod", "cumsum", "cumprod", "cumlogsumexp", "reduce_window_sum"),
    *("reduce", "reduce_window", "scatter-add", "scan"),
    family="sums",
    mend="sum in f32: jnp.sum(x, dtype=jnp.float32), or x.astype(jnp.float32) before it",
)
def low_precision_sum(at: At) -> str | None:
    """A sum of many terms is accumulated in bf16 or f16.

    bf16 has 8 bits of significand, f16 has 11: from 256 or 2048 equal terms on, a term is smaller
    than the spacing of numbers near the sum, and is lost; f16 also overflows at 65504. Sums with
    fewer terms are not reported. The compiler may accumulate in f32, but need not. A scan that adds
    to its carry adds one term in each iteration; for a scatter, the average number of updates of an
    element counts.
    """
    for found in _SUMS.get(at.name, _of_reduction)(at):
        enough = _ENOUGH.get(found.dtype)
        if enough is not None and found.terms >= enough:
            return f"{at.name} accumulates {found.terms:,} terms in {found.dtype}"
    return None


class _Sum(NamedTuple):
    """A sum: the short name of the type in which it is accumulated, and the number of terms."""

    dtype: str
    terms: int


def _of_reduction(at: At) -> Iterator[_Sum]:
    """Yield the sums of a reduction; one by a jaxpr may have one for each array."""
    for result in range(len(at.eqn.out_binders)):
        aval = at.operand(result).aval
        if isinstance(aval, ShapedArray) and _is_rounded(at, result):
            yield _Sum(aval.dtype.short, _terms(at.params, aval))


def _of_scatter(at: At) -> Iterator[_Sum]:
    """Yield the sum of updates of an element of a scatter, unless its indices are unique."""
    into, updates = at.operand(0).aval, at.operand(2).aval
    sizes = (into.size, updates.size)
    if not at.params["unique_indices"] and all(isinstance(n, int) and n > 0 for n in sizes):
        yield _Sum(into.dtype.short, updates.size // into.size)


def _of_scan(at: At) -> Iterator[_Sum]:
    """Yield the elements of a scan's carry to which each iteration adds, or which it multiplies."""
    length, body = at.params["length"], at.params["jaxpr"].jaxpr
    first, carried = at.params["num_consts"], at.params["num_carry"]
    makers = {v: eqn for eqn in body.eqns for v in eqn.out_binders}
    for binder, out in zip(body.in_binders[first : first + carried], body.outs, strict=False):
        made = makers.get(_unconverted(out, makers))
        if made is None or not isinstance(out.aval, ShapedArray) or not isinstance(length, int):
            continue
        goes_on = any(_unconverted(x, makers) is binder for x in made.inputs)
        if goes_on and _is_rounding(made):
            yield _Sum(out.aval.dtype.short, length)


def _unconverted(x: Any, makers: dict[Any, JaxprEqn]) -> Any:
    """Return the value from which another one comes by conversions."""
    while (made := makers.get(x)) is not None and made.primitive.name == "convert_element_type":
        x = made.inputs[0]
    return x


_SUMS = {"scatter-add": _of_scatter, "scan": _of_scan}


def _is_rounded(at: At, result: int) -> bool:
    """Whether a reduction adds or multiplies elements, rather than selecting one as a maximum
    does.
    """
    reducer = at.params.get("jaxpr")
    return reducer is None or _adds(reducer.jaxpr, result)


def _adds(reducer: Jaxpr, result: int) -> bool:
    """Whether a result of a reducer's jaxpr is a rounded sum or product."""
    out = reducer.outs[result]
    return any(_is_rounding(eqn) for eqn in reducer.eqns if out in eqn.out_binders)


def _is_rounding(eqn: JaxprEqn) -> bool:
    """Whether an equation computes a sum or product that is rounded."""
    return bool(eqn.inputs) and algebra_of(eqn).rounded


def _terms(params: Any, aval: ShapedArray) -> int:
    """Return how many elements are combined to one element of the result."""
    window = params.get("window_dimensions")
    axes = params.get("axes", params.get("dimensions", (params.get("axis", 0),)))
    sizes = window if window is not None else [aval.shape[i] for i in axes]
    return math.prod([n for n in sizes if isinstance(n, int)])

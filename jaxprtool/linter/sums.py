"""Sums in types of few digits."""

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

# From so many terms on a sum of equal numbers stops growing: 2 to the bits of the significand, with the hidden one.
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

    bf16 has 8 bits of significand, f16 has 11: a sum of so many equal terms (256, or 2048) is as large as the spacing of its numbers
    allows, and what is added from there on is lost; f16 also overflows at 65504. Where terms are fewer, nothing is told. The compiler
    may accumulate in f32 of its own accord, and need not. A scan that adds to what it carries does so in each turn; for a scatter
    the terms of an element are those on the average.
    """
    for found in _SUMS.get(at.name, _of_reduction)(at):
        enough = _ENOUGH.get(found.dtype)
        if enough is not None and found.terms >= enough:
            return f"{at.name} accumulates {found.terms:,} terms in {found.dtype}"
    return None


class _Sum(NamedTuple):
    """The short name of the type that something is summed up in, and how many terms there are."""

    dtype: str
    terms: int


def _of_reduction(at: At) -> Iterator[_Sum]:
    """The sums of a reduction; a general one has one of each array."""
    for result in range(len(at.eqn.out_binders)):
        aval = at.operand(result).aval
        if isinstance(aval, ShapedArray) and _is_rounded(at, result):
            yield _Sum(aval.dtype.short, _terms(at.params, aval))


def _of_scatter(at: At) -> Iterator[_Sum]:
    """What a scatter adds to an element, where several updates may be for one."""
    into, updates = at.operand(0).aval, at.operand(2).aval
    sizes = (into.size, updates.size)
    if not at.params["unique_indices"] and all(isinstance(n, int) and n > 0 for n in sizes):
        yield _Sum(into.dtype.short, updates.size // into.size)


def _of_scan(at: At) -> Iterator[_Sum]:
    """What a scan carries and adds to, or multiplies, in each turn."""
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
    """A value before its conversions."""
    while (made := makers.get(x)) is not None and made.primitive.name == "convert_element_type":
        x = made.inputs[0]
    return x


_SUMS = {"scatter-add": _of_scatter, "scan": _of_scan}


def _is_rounded(at: At, result: int) -> bool:
    """Whether each term is added or multiplied, and not chosen as that of a maximum is."""
    reducer = at.params.get("jaxpr")
    return reducer is None or _adds(reducer.jaxpr, result)


def _adds(reducer: Jaxpr, result: int) -> bool:
    """Whether a result of a reducer comes from a sum or a product."""
    out = reducer.outs[result]
    return any(_is_rounding(eqn) for eqn in reducer.eqns if out in eqn.out_binders)


def _is_rounding(eqn: JaxprEqn) -> bool:
    """Whether an equation is a sum or a product that is rounded."""
    return bool(eqn.inputs) and algebra_of(eqn).rounded


def _terms(params: Any, aval: ShapedArray) -> int:
    """How many elements make one of the result."""
    window = params.get("window_dimensions")
    axes = params.get("axes", params.get("dimensions", (params.get("axis", 0),)))
    sizes = window if window is not None else [aval.shape[i] for i in axes]
    return math.prod([n for n in sizes if isinstance(n, int)])

"""Promises that equations make on their indices: whether values keep them, and which arguments of a program can break them.

Where a promise is broken, the result of the equation is undefined, and its derivative does not fit
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.levels import all_levels, walk_before
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.evaluation.observe import observed_by
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.makers.indexing import (
    CLIP_MODE,
    DROP_MODE,
    IN_BOUNDS,
    mode_of,
    scatter_added,
    window_sizes,
    windows_of,
)

__all__ = ["breaks_promise", "bounds_of"]


def breaks_promise(eqn: JaxprEqn, ins: Sequence[Any]) -> bool:
    """Whether an equation promises that its indices are within bounds, or that none occurs twice, and that is not so.

    Args:
      eqn: the equation.
      ins: the values of its operands.
    """
    if not _promises(eqn):
        return False
    try:
        with observed_by(None):
            return _leaves_bounds(eqn, ins) or _meets_twice(eqn, ins)
    except JaxprToolError:
        return False


def bounds_of(program: ClosedJaxpr) -> dict[Var, int]:
    """Return the integer arguments from which indices of windows are computed, with the bound below which they have to be.

    The computation may be like that for Python's negative indices, which count from the end.
    """
    found: dict[Var, int] = {}
    arguments = {v for v in program.jaxpr.all_binders if v.aval.dtype.kind in "iu"}
    for eqn, level in all_levels(program) if arguments else ():
        if not _promises(eqn):
            continue
        most = _most(eqn)
        for at, v, _ in walk_before([(level, eqn.inputs[1])], through=True):
            if at.above is None and v in arguments:
                found[v] = min(most, found.get(v, most))
    return found


def _promises(eqn: JaxprEqn) -> bool:
    """Whether an equation has indices of windows, and makes promises on them."""
    return "dimension_numbers" in eqn.params and "unique_indices" in eqn.params


def _most(eqn: JaxprEqn) -> int:
    """Return how many positions a window has along the axis where it has fewest."""
    numbers, operand = eqn.params["dimension_numbers"], eqn.inputs[0].aval
    if "slice_sizes" in eqn.params:
        w, sizes = windows_of("gather", numbers), eqn.params["slice_sizes"]
    else:
        w = windows_of("scatter", numbers)
        sizes = window_sizes(w, operand.ndim, eqn.inputs[2].aval.shape)
    places = [operand.shape[axis] - sizes[axis] + 1 for axis in w.start_map]
    return max(min(places, default=1), 1)


def _leaves_bounds(eqn: JaxprEqn, ins: Sequence[Any]) -> bool:
    """Whether the promise that indices are within bounds is broken: the result depends on what is done with other indices."""
    if mode_of(eqn.primitive.name, eqn.params["mode"]) != IN_BOUNDS:
        return False
    rng = numpy_namespace().random.default_rng(0)
    values = [
        rng.standard_normal(x.shape).astype(x.dtype) if x.dtype.kind in "fcV" else x for x in ins
    ]
    found = [_run(eqn, {"mode": mode}, values) for mode in (CLIP_MODE, DROP_MODE)]
    return not bool((found[0] == found[1]).all())  # elements out of bounds are NaN with DROP_MODE


def _meets_twice(eqn: JaxprEqn, ins: Sequence[Any]) -> bool:
    """Whether a scatter that promises otherwise writes to one element twice."""
    if "update_jaxpr" not in eqn.params or not eqn.params["unique_indices"]:
        return False
    xp = numpy_namespace()
    windows = windows_of("scatter", eqn.params["dimension_numbers"])
    zeros, ones = (xp.full(ins[k].shape, k // 2, xp.float32) for k in (0, 2))
    return bool((scatter_added(zeros, ins[1], ones, windows, mode=DROP_MODE) > 1).any())


def _run(eqn: JaxprEqn, params: dict[str, Any], values: Sequence[Any]) -> Any:
    """Run an equation with other params and other values."""
    binders = [Var(x.aval) for x in eqn.inputs]
    outs = [Var(v.aval) for v in eqn.out_binders]
    made = eqn.replace(inputs=binders, out_binders=outs, params={**eqn.params, **params})
    return eval_jaxpr(ClosedJaxpr(Jaxpr(binders, [made], outs, []), []), values)[0]

"""Statistics, cost and residuals of programs as Python functions: each takes a program, or a JAX
function with its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.counting.cost_answer import CostReport
from jaxprtool.analyses.counting.stats_answer import Growth, Stats
from jaxprtool.analyses.memory.kept_answer import Residuals
from jaxprtool.driver import cost as costing
from jaxprtool.driver import residuals as keeping
from jaxprtool.driver import stats as counting
from jaxprtool.driver.api.keywords import for_the_function
from jaxprtool.driver.api.programs import as_program, is_function
from jaxprtool.driver.places import with_places
from jaxprtool.ir.jaxpr import ClosedJaxpr

__all__ = ["cost", "growth", "residuals", "stats"]


@for_the_function(counting.stats)
def stats(program: Any, *args: Any, vs: Any = None, **how: Any) -> Stats:
    """What a program, or a function on arguments, consists of.

    Args:
      program, args: see `jaxprtool.trace`.
      vs: a program, or a function of the same arguments, that it is compared with.
      how: keywords of `driver.stats`: `by`, `top`, `trips`.

    Returns:
      An object with `figures` (counts, groups, the largest values, dead equations, effects); `str` of it is what
      `jaxprtool stats` prints, `json()` the document.

    Raises:
      JaxprTypeError, UsageError: as `driver.stats`.
    """
    other = None if vs is None else _placed(vs, args if is_function(vs) else ())
    return counting.stats(_placed(program, args), vs=other, **how)


def growth(programs: Sequence[Any], **how: Any) -> Growth:
    """Return how the scopes of a program grow, given the program in several sizes.

    Args:
      programs: two programs or more.
      how: keywords of `driver.growth`: `sizes`, `by`, `top`, `trips`.

    Returns:
      An object with `trends`, and those that are `steep`: faster than linear.

    Raises:
      UsageError: as `driver.growth`.
    """
    found = [_placed(p, ()) for p in programs]
    return counting.growth(found, [f"<program {i}>" for i in range(len(found))], **how)


@for_the_function(costing.cost)
def cost(program: Any, *args: Any, **how: Any) -> CostReport:
    """What a program, or a function on arguments, costs.

    Args:
      program, args: see `jaxprtool.trace`.
      how: keywords of `driver.cost`: `by`, `sort`, `top`, `trips`, `device`, `peak_flops`, `bandwidth`, `budget`, `chart`,
        `reorder`.

    Returns:
      An object with `total` (flops, transcendentals, bytes, peak_bytes, equations; None for what is not known), `estimate`
      (rows, groups, communication, memory), `live` and `over`; `str` of it is what `jaxprtool cost` prints, `json()`
      the document.

    Raises:
      JaxprTypeError, MissingRuleError, UsageError: as `driver.cost`.
    """
    return costing.cost(_placed(program, args), **how)


@for_the_function(keeping.residuals)
def residuals(
    program: Any, *args: Any, best: int | None = None, **how: Any
) -> Residuals | tuple[Residuals, ClosedJaxpr]:
    """Return what a reverse pass of a program, or of a function on arguments, saves.

    Args:
      program, args: see `jaxprtool.trace`.
      best: a number of bytes: find the program that recomputes least and saves no more, besides
        arguments and constants.
      how: keywords of `driver.residuals`: `wrt`, `policy`, `vs`, `top`.

    Returns:
      An object with `kept` (values, their bytes and places), `recomputed`, `scopes` and, with `vs`,
        `more` and `less`; `str` of it is what `jaxprtool residuals` prints. With `best` a pair of
        it and the program that was found.

    Raises:
      JaxprTypeError, MissingRuleError, UnsupportedError, UsageError: as `driver.residuals`.
    """
    found = _placed(program, args)
    if best is None:
        return keeping.residuals(found, **how)
    return keeping.best(found, best, **how)


def _placed(program: Any, args: Sequence[Any]) -> ClosedJaxpr:
    name = getattr(program, "__name__", "<program>")
    return with_places(as_program(program, *args), name)

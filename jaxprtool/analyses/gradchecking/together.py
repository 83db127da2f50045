"""Run a program at many points together, vectorised, where that is faster than one point after the other.

Finite differences evaluate a program at some twenty points for each direction. Where its arrays are small, an
evaluation takes the time of NumPy's calls, whose number is the same for one point and for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.columns.runs import runs_of
from jaxprtool.interpreters.dce import jaxpr_has_effects
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.inside import any_equation
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn

__all__ = ["Together"]

_ALONE = 48  # evaluations before the program is vectorised, which takes the time of about twenty
_LARGEST = 4096  # elements of an array; the arithmetic on a larger one takes longer than the call
_NEAR = 1e-9  # relative difference of results at the same point, in double precision


class Together:
    """Evaluates a program in double precision at several points at a time.

    Attributes:
      batched: which arguments differ between the points.
      left: how many evaluations are left before the program is vectorised.
      vectorised: the vectorised programs by the number of points; None where the program can only
        be evaluated at one point after the other.
      compared: whether results of a vectorised program were compared with those of the program.
    """

    def __init__(self, batched: Sequence[bool]):
        self.batched, self.left, self.compared = batched, _ALONE, False
        self.vectorised: dict[int, ClosedJaxpr] | None = {}

    def forget(self) -> None:
        """Free the memory of the vectorised programs."""
        if self.vectorised:
            self.vectorised.clear()

    def run(self, program: ClosedJaxpr, points: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the results of the program at each point.

        Args:
          program: the program, the same in all calls.
          points: for each point the arguments; those that are not `batched` are the same at all.
        """
        self.left -= len(points)
        if self.left >= 0 or len(points) < 2 or self.vectorised is None:
            return [eval_jaxpr(program, point) for point in points]
        try:
            outs = self._all(program, points)
        except JaxprToolError:  # an operation has no rule, or takes no batch
            outs = []
        if outs and not self.compared:
            # the rule of a program's own `custom_vmap` may compute something else
            self.compared = all(map(_near, eval_jaxpr(program, points[0]), outs[0]))
        if self.compared and outs:
            return outs
        self.vectorised = None
        return [eval_jaxpr(program, point) for point in points]

    def _all(self, program: ClosedJaxpr, points: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the results at each point, of one evaluation; nothing where that is not faster, or may not end."""
        n = len(points)
        assert self.vectorised is not None
        if n not in self.vectorised:
            jaxpr = program.jaxpr
            if jaxpr_has_effects(jaxpr) or _is_large(jaxpr) or _chooses_loops(jaxpr):
                return []
            axes = [0 if b else None for b in self.batched]
            self.vectorised[n] = vmap_jaxpr(program, n, axes)[0]
        xp = numpy_namespace()
        columns = zip(*points, strict=True)
        args = [
            xp.stack(column) if b else column[0]
            for b, column in zip(self.batched, columns, strict=True)
        ]
        found = eval_jaxpr(self.vectorised[n], args)
        return [[x[k] for x in found] for k in range(n)]


def _near(one: Any, other: Any) -> bool:
    """Whether results at the same point are equal but for the order of additions."""
    xp = numpy_namespace()
    one, other = xp.words(one), xp.words(other)
    if one.dtype.names is not None or one.dtype.kind not in "fc":
        return bool((one == other).all())
    size = abs(one[abs(one) < xp.inf]).max(initial=0.0)
    same = (one == other) | ((one != one) & (other != other))
    return bool((same | (abs(one - other) <= _NEAR * size)).all())


def _has_large(eqn: JaxprEqn) -> bool:
    avals = [v.aval for v in eqn.out_binders]
    if any(isinstance(a, ShapedArray) and a.size > _LARGEST for a in avals):
        return True
    return any(_is_large(run.jaxpr.jaxpr) for run in runs_of(eqn))


_is_large = any_equation("computes a large array", _has_large)


def _may_not_end(eqn: JaxprEqn) -> bool:
    return any(run.turns or _loops(run.jaxpr.jaxpr) for run in runs_of(eqn))


_loops = any_equation("has a loop of unknown length", _may_not_end)


def _chooses(eqn: JaxprEqn) -> bool:
    """Whether an equation runs one of several jaxprs with a loop in it that may not end where another would run:
    vectorised, it runs all.
    """
    runs = runs_of(eqn)
    if any(run.branch is not None and _loops(run.jaxpr.jaxpr) for run in runs):
        return True
    return any(_chooses_loops(run.jaxpr.jaxpr) for run in runs)


_chooses_loops = any_equation("chooses between loops", _chooses)

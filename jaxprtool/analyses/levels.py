"""The jaxprs of a program at their places in it, and the way back from a value to what it is computed from, across them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.identity.products import is_mixing
from jaxprtool.analyses.places import Step
from jaxprtool.interpreters.columns.flow import steering_facts
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import jaxprs_in

__all__ = [
    "MOST",
    "Level",
    "all_levels",
    "definitions",
    "is_choice",
    "level_of",
    "resolved",
    "resolved_at",
    "walk_before",
]

MOST = 20_000  # equations or values that a search visits, at most


class Level(NamedTuple):
    """A jaxpr at its place in a program.

    Attributes:
      jaxpr: the jaxpr.
      step: the equation that holds it, with the param and the position there; None for the program.
      above: the level of that equation; None for the program.
    """

    jaxpr: Jaxpr
    step: Step | None = None
    above: Level | None = None

    def path(self) -> tuple[Step, ...]:
        """Return the steps from the program to it."""
        if self.above is None or self.step is None:
            return ()
        return (*self.above.path(), self.step)

    def key(self) -> tuple[Any, ...]:
        """Return what identifies its place: the equations and params on the way to it."""
        return tuple([(id(step.eqn), step.param, step.branch) for step in self.path()])

    def inside(self, eqn: JaxprEqn) -> Iterator[Level]:
        """Yield the levels of the jaxprs that one of its equations holds."""
        for key, value in eqn.params.items() if eqn.primitive.holds_jaxprs else ():
            inner = [*jaxprs_in(value)]
            for i, closed in enumerate(inner):
                step = Step(eqn, key, i if len(inner) > 1 else None)
                yield Level(closed.jaxpr, step, self)

    def outside(self, v: Var) -> tuple[Level, Any] | None:
        """Return the operand of the enclosing equation that an argument is, with its level; None where it is not known.

        Operands and arguments have the same order, counted from the end.
        """
        if self.above is None or self.step is None:
            return None
        binders, inputs = [*self.jaxpr.all_binders], self.step.eqn.inputs
        if v not in binders:
            return None
        from_end = len(binders) - binders.index(v)
        return (self.above, inputs[-from_end]) if from_end <= len(inputs) else None


def all_levels(program: ClosedJaxpr) -> Iterator[tuple[JaxprEqn, Level]]:
    """Yield the equations of a program in order, each jaxpr as often as it is used, up to a limit."""
    top = Level(program.jaxpr)
    stack = [(iter(program.jaxpr.eqns), top)]
    looked_at = 0
    while stack and looked_at < MOST:
        eqns, level = stack[-1]
        eqn = next(eqns, None)
        if eqn is None:
            stack.pop()
            continue
        looked_at += 1
        yield eqn, level
        stack += [(iter(inner.jaxpr.eqns), inner) for inner in reversed([*level.inside(eqn)])]


def level_of(program: ClosedJaxpr, path: Sequence[Step]) -> Level:
    """Return the level at the end of a path."""
    level = Level(program.jaxpr)
    for step in path:
        if step.device:
            continue  # a step for a device has no jaxpr of its own in the text
        inner = [*level.inside(step.eqn)]
        level = next(
            x
            for x in inner
            if x.step and (x.step.param, x.step.branch) == (step.param, step.branch)
        )
    return level


def resolved(level: Level, x: Any) -> Any:
    """Return the variable that first has a value: an argument is the operand outside, a result of a call or a loop the result inside.

    What a loop stacks up, as a condition that its derivative reads, is resolved to its value in
    each iteration.
    """
    return resolved_at(level, x)[1]


def resolved_at(level: Level, x: Any) -> tuple[Level, Any]:
    """As `resolved`, with the level that the variable is in."""
    for _ in range(MOST):
        if not isinstance(x, Var):
            return level, x
        if x in level.jaxpr.all_binders:
            outside = level.outside(x)
            if outside is None:
                return level, x
            level, x = outside
            continue
        eqn, k = definitions(level.jaxpr).get(x, (None, 0))
        inner = [] if eqn is None else [i for i in level.inside(eqn) if k < len(i.jaxpr.outs)]
        if len(inner) != 1:
            return level, x
        level, x = inner[0], inner[0].jaxpr.outs[k]
    return level, x


def definitions(jaxpr: Jaxpr) -> dict[Var, tuple[JaxprEqn, int]]:
    """Return for each variable that an equation binds the equation, and the position of the result."""
    return _DEFINITIONS.of(
        jaxpr, lambda: {v: (e, k) for e in jaxpr.eqns for k, v in enumerate(e.out_binders)}
    )


_DEFINITIONS = Memo[dict[Var, tuple[JaxprEqn, int]]]("which equation makes each variable")


def walk_before(
    values: Sequence[tuple[Level, Any]],
    *,
    mixed: Container[Any] | None = None,
    passed: Container[Any] = (),
    through: bool = False,
    until: Callable[[Level, Any], bool] = lambda level, x: False,
    seen: set[Any] | None = None,
) -> Iterator[tuple[Level, Any, JaxprEqn | None]]:
    """Yield the variables that values are computed from, the nearest ones first, each with its level and the equation that binds it.

    A loop's argument is resolved to its initial value: earlier iterations are not followed.

    Args:
      values: the values.
      mixed: before products of matrices and the like, whose elements are not those of the operands,
        go on with these operands only.
      passed: go on before choices whose result is one of these.
      through: go on before all choices.
      until: do not go on before variables of which this is true.
      seen: the variables that were visited already; more are added.
    """
    queue = [*values]
    seen = set() if seen is None else seen
    for level, x in queue:
        key = level.key(), x
        if isinstance(x, Lit) or key in seen or len(queue) > MOST:
            continue
        seen.add(key)
        eqn, k = definitions(level.jaxpr).get(x, (None, 0))
        yield level, x, eqn
        if until(level, x):
            continue
        if eqn is None:
            outside = level.outside(x)
            queue += [outside] if outside is not None else []
            continue
        inner = [i for i in level.inside(eqn) if k < len(i.jaxpr.outs)]
        if inner:
            queue += [(i, i.jaxpr.outs[k]) for i in inner]
        elif through or not is_choice(eqn) or x in passed:
            parts = mixed is not None and is_mixing(eqn, level.jaxpr)
            queue += [(level, v) for v in eqn.inputs if not parts or v in (mixed or ())]


def is_choice(eqn: JaxprEqn) -> bool:
    """Whether an equation chooses between the values of other operands by its first one."""
    return steering_facts[eqn.primitive] == "operand 0" and not eqn.primitive.holds_jaxprs

"""Levels: the jaxprs of a program as they stand in it, and the way back from a value to what it is computed from, across them."""

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

MOST = 20_000  # equations that are looked at


class Level(NamedTuple):
    """A jaxpr as it stands in a program: the equation that holds it, the param, the position in that, and the jaxpr around."""

    jaxpr: Jaxpr
    step: Step | None = None
    above: Level | None = None

    def path(self) -> tuple[Step, ...]:
        """The way to it."""
        if self.above is None or self.step is None:
            return ()
        return (*self.above.path(), self.step)

    def key(self) -> tuple[Any, ...]:
        """What says where it is: the equations and params on the way to it."""
        return tuple([(id(step.eqn), step.param, step.branch) for step in self.path()])

    def inside(self, eqn: JaxprEqn) -> Iterator[Level]:
        """The jaxprs that an equation of it holds."""
        for key, value in eqn.params.items() if eqn.primitive.holds_jaxprs else ():
            inner = [*jaxprs_in(value)]
            for i, closed in enumerate(inner):
                step = Step(eqn, key, i if len(inner) > 1 else None)
                yield Level(closed.jaxpr, step, self)

    def outside(self, v: Var) -> tuple[Level, Any] | None:
        """The operand of the enclosing equation that an argument is, and the level of that; None where nobody knows.

        Operands and arguments have the same order at the end.
        """
        if self.above is None or self.step is None:
            return None
        binders, inputs = [*self.jaxpr.all_binders], self.step.eqn.inputs
        if v not in binders:
            return None
        from_end = len(binders) - binders.index(v)
        return (self.above, inputs[-from_end]) if from_end <= len(inputs) else None


def all_levels(program: ClosedJaxpr) -> Iterator[tuple[JaxprEqn, Level]]:
    """The equations of a program in order, each jaxpr as often as it is used, up to a limit."""
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
    """The level at the end of a way."""
    level = Level(program.jaxpr)
    for step in path:
        if step.device:
            continue  # the devices take turns in what is written once
        inner = [*level.inside(step.eqn)]
        level = next(
            x
            for x in inner
            if x.step and (x.step.param, x.step.branch) == (step.param, step.branch)
        )
    return level


def resolved(level: Level, x: Any) -> Any:
    """What defines a variable: an argument is what is passed, and a result of a call or a loop what the jaxpr in it gives.

    What a loop stacks up for another, a condition that its derivative reads, stands for what it has in each step.
    """
    return resolved_at(level, x)[1]


def resolved_at(level: Level, x: Any) -> tuple[Level, Any]:
    """The same, with the jaxpr that it is a variable of."""
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
    """The equation that each variable of a jaxpr is a result of, and which."""
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
    """The variables that values are computed from, the nearest ones first, each with its level and the equation that makes it.

    A variable of a loop is what it begins with: what earlier steps do is not gone into.

    Args:
      values: the values.
      mixed: before products of matrices and the like, whose elements are not those of the operands, go on with these operands only.
      passed: of choices, go on before those that give one of these.
      through: go on before choices.
      until: do not go on before variables of which this is true.
      seen: the variables that have been gone through; more are added.
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
    """Whether an equation chooses between values of other operands by its first one."""
    return steering_facts[eqn.primitive] == "operand 0" and not eqn.primitive.holds_jaxprs

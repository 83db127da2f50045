"""Derivatives: the equation from which a faulty one was derived, and the `where` whose untaken side makes a NaN.

The derivative of `where(x > 0, log(x), 0)` is `where(x > 0, t, 0) / x`: at 0 it is 0 / 0, although the `where` does not take
that side. Its input needs a guard of its own: `where(x > 0, log(where(x > 0, x, 1)), 0)`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxprtool.analyses.places import Place, Step
from jaxprtool.analyses.products import is_linear_in, is_mixing
from jaxprtool.analyses.zeros import Zero, Zeros
from jaxprtool.core.primitive import Primitive
from jaxprtool.interpreters.flow import steering_facts
from jaxprtool.interpreters.jvp import jvp_jaxpr
from jaxprtool.ir.diagnostics import JaxprToolError, place_of
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.memo import Memo
from jaxprtool.ir.walk import jaxprs_in

__all__ = ["Unguarded", "is_named", "original_of", "unguarded_of", "unguarded_on_way"]

_MOST = 20_000  # equations that are looked at


@dataclass
class Unguarded:
    """A choice between two values in a program whose derivative makes a bad value on the side that is not taken.

    Attributes:
      place: the choice; where the program does not hold it any more, its transpose, which has the same line of Python.
      kept: whether the program holds it.
      certain: whether the names of the equations say that the program is a derivative; a text may have left them out.
    """

    place: Place
    kept: bool
    certain: bool = True

    def lines(self) -> list[str]:
        """What to do, for people."""
        what = "of" if self.kept else "of the choice whose transpose is"
        at = self.place.located()
        eqns = [self.place.eqn, *(step.eqn for step in reversed(self.place.path))]
        source = next(filter(None, map(place_of, eqns)), at)
        if_so = "" if self.certain else "if the program is a derivative, "
        return [
            f"  {if_so}the side that is not taken makes it, {what} {at}: {self.place}",
            f"  the `where` at {source} needs its input guarded as well: where(c, f(where(c, x, 1)), y)",
        ]

    def json(self) -> dict[str, Any]:
        """The place of the choice, and whether it is certain."""
        return {**self.place.json(), "certain": self.certain}


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
        for key, value in eqn.params.items():
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


def original_of(place: Place, program: ClosedJaxpr) -> Place | None:
    """The equation of the original from which an equation of a derivative was made: one of the same place in Python.

    Of one that was not transposed it is the first whose derivative has an operation of this kind: in `sin(x) / x`, `sin` and
    `div` have the same place, and the `div` is no derivative of the `sin`.

    Where no place in Python is known it is one of whose derivative the equation is a part, on the same values.

    None where the equation belongs to no derivative, or is the original's itself. Where no names say whether it belongs to one
    (`is_named`), it may, if it is a part of a derivative that no cotangent goes into.
    """
    eqn = place.eqn
    frame = None if eqn.origin is None else eqn.origin.frame
    named = is_named(place)
    if named and not _is_derived(eqn, place.path):
        return None
    if frame is None:
        return _original_on_same_values(place, program, certain=named)
    transposed = _is_transposed(eqn)
    for found, level in _all(program):
        if found.origin is not None and found.origin.frame == frame and not _is_transposed(found):
            if found is eqn:
                return None
            if transposed or eqn.primitive in _in_derivative(found):
                return Place(found, level.path())
    return None


def is_named(place: Place) -> bool:
    """Whether an equation, or one around it, has a line of Python or names, which say whether it belongs to a derivative."""
    return any(e.origin is not None for e in (place.eqn, *(step.eqn for step in place.path)))


def _original_on_same_values(place: Place, program: ClosedJaxpr, *, certain: bool) -> Place | None:
    """The last equation before one of whose derivative that is a part, with the operands and results that it has there.

    Unless it is certain that it is a part of one, all of its operands are literals, or operands or results of the original.
    """
    level, last = _level_of(program, place.path), None
    operands = [x if isinstance(x, Lit) else _resolved(level, x) for x in place.eqn.inputs]
    values = {x for x in operands if isinstance(x, Var)}
    for found, where in _all(program):
        if found is place.eqn:
            return last
        if found.primitive.holds_jaxprs or _is_transposed(found, where):
            continue
        its_own = [x for x in (*found.inputs, *found.out_binders) if isinstance(x, Var)]
        if not any(_resolved(where, x) in values for x in its_own):  # most are not, at once
            continue
        parts, known = _derivative(found)
        known |= _made_alike(parts, known, operands, level)
        sure = [
            e for e in parts if certain or all(isinstance(x, Lit) or x in known for x in e.inputs)
        ]
        if any(_is_same(e, known, place.eqn, operands, where) for e in sure):
            last = Place(found, where.path())
    return last


def _made_alike(
    parts: Sequence[JaxprEqn], known: dict[Var, Any], operands: Sequence[Any], level: Level
) -> dict[Var, Any]:
    """The results of parts of a derivative that are operands of an equation: the exponent of `pow(x, y - 1)`."""
    made = _definitions(level.jaxpr)
    makers = [(y, made[y][0]) for y in operands if isinstance(y, Var) and y in made]
    found: dict[Var, Any] = {}
    for y, maker in makers:
        its_own = [_resolved(level, x) for x in maker.inputs]
        for part in parts:
            is_sure = all(isinstance(x, Lit) or x in known for x in part.inputs)
            if (
                is_sure
                and len(part.out_binders) == 1
                and _is_same(part, known, maker, its_own, level)
            ):
                found[part.out_binders[0]] = y
    return found


def _is_same(
    part: JaxprEqn, known: dict[Var, Any], eqn: JaxprEqn, operands: Sequence[Any], level: Level
) -> bool:
    """Whether a part of a derivative is an equation, whose operands are resolved; `known` has what its variables are at a level."""
    if part.primitive is not eqn.primitive or len(part.inputs) != len(operands):
        return False
    on_same = 0
    for x, y in zip(part.inputs, operands, strict=True):
        if isinstance(x, Lit) or isinstance(y, Lit):
            if not (isinstance(x, Lit) and isinstance(y, Lit) and x.val == y.val):
                return False
        elif x in known:
            if _resolved(level, known[x]) is not y:
                return False
            on_same += 1
    return on_same > 0 or not any(isinstance(x, Var) for x in part.inputs)


def _derivative(eqn: JaxprEqn) -> tuple[Sequence[JaxprEqn], dict[Var, Any]]:
    """The equations of the derivative of an equation besides its own, and which of their variables are its operands and results.

    No equations where it has no derivative.
    """
    operands = [x for x in dict.fromkeys(eqn.inputs) if isinstance(x, Var)]
    outs = [Var(v.aval) for v in eqn.out_binders]
    alone = Jaxpr(operands, [eqn.replace(out_binders=outs)], outs, [])
    try:
        made = jvp_jaxpr(ClosedJaxpr(alone, []))[0]
    except JaxprToolError:
        return (), {}
    known: dict[Var, Any] = dict(
        zip(made.jaxpr.in_binders, operands, strict=False)  # the tangents follow
    )
    own = next((i for i, e in enumerate(made.eqns) if e.primitive is eqn.primitive), None)
    if own is not None:
        results = made.eqns[own].out_binders
        if len(results) == len(eqn.out_binders):  # that of a call or a loop gives tangents as well
            known.update(zip(results, eqn.out_binders, strict=True))
    return [e for i, e in enumerate(made.eqns) if i != own], known


def _in_derivative(eqn: JaxprEqn) -> set[Primitive]:
    """The primitives of the derivative of an equation, besides its own; no primitives where it has none."""
    return {e.primitive for e in _derivative(eqn)[0]}


def unguarded_of(place: Place, zeros: Zeros, program: ClosedJaxpr) -> Unguarded | None:
    """The choice whose untaken side makes a NaN in a derivative; None where that is not how it came about.

    The cotangent, an operand that the operation is linear in, is 0 at the offending index. From there it is looked for the choice
    backwards: its transpose has put the 0 there. The choice itself goes by the same condition, and one of its cases is computed
    from what the other operands are computed from, which is what needs the guard. A mask that comes before them is no such
    choice.

    Args:
      place: where the NaN begins, or a product in which it meets a 0.
      zeros: the operands that are 0 there.
      program: the program.
    """
    level, maybe = _level_of(program, place.path), None
    for zero in zeros:
        i = zero.operand
        if not is_linear_in(place.eqn, i):
            continue
        others = [(level, y) for k, y in enumerate(place.eqn.inputs) if k != i]
        factors = _Ancestors(others)
        for found, where in _choices_before(level, place.eqn.inputs[i], zero=zero):
            if factors.holds(found, where):
                continue  # it comes before the operation, and its zeros are data
            condition = _resolved(where, found.inputs[0])
            for other, at in _all(program):
                if other is found:
                    break  # the transpose comes after the choice
                if not _is_choice(other) or _is_transposed(other, at):
                    continue
                if _resolved(at, other.inputs[0]) != condition or isinstance(condition, Lit):
                    continue
                if not factors.holds(other, at) and _takes(other, at, others):
                    return Unguarded(Place(other, at.path()), kept=True)
            if _is_transposed(found, where):
                return Unguarded(Place(found, where.path()), kept=False)
            if maybe is not None or not zero.alone or _has_names(found):
                continue
            if _has_constant_case(found, where):
                maybe = Unguarded(Place(found, where.path()), kept=False, certain=False)
    return maybe


def unguarded_on_way(
    chain: Sequence[Place], masks: Sequence[Place], program: ClosedJaxpr
) -> Unguarded | None:
    """The choice that drops a bad value which the derivative of what made it takes up again; None where there is none.

    The untaken side is computed, sqrt(x) for a negative x say, and the choice drops it. Its derivative is computed with it, NaN too,
    and is multiplied by a cotangent that the transpose of the same choice has made 0: 0 times NaN is NaN. What the transpose itself
    hands on is on the side that is taken.

    Args:
      chain: the equations from where the value begins to a result that it reaches.
      masks: the equations that drop it elsewhere.
      program: the program.
    """
    dropping: dict[Any, Place] = {}
    for place in masks:
        if _is_choice(place.eqn):
            level = _level_of(program, place.path)
            condition = _resolved(level, place.eqn.inputs[0])
            if not _is_transposed(place.eqn, level) and not isinstance(condition, Lit):
                dropping.setdefault(condition, place)
    seen = set[Any]()  # what comes before one place is not looked at again before a later one
    handing_on = {place.eqn for place in chain}
    for place in chain[1:] if dropping else ():
        level = _level_of(program, place.path)
        for x in place.eqn.inputs:
            for found, where in _choices_before(level, x, seen=seen):
                mask = dropping.get(_resolved(where, found.inputs[0]))
                if found in handing_on:
                    continue
                if mask is not None and _is_before(mask.eqn, found, program):
                    certain = _is_derived(place.eqn, place.path)
                    return Unguarded(mask, kept=True, certain=certain)
    return None


def _is_before(eqn: JaxprEqn, other: JaxprEqn, program: ClosedJaxpr) -> bool:
    """Whether one equation comes before another, as the choice comes before its transpose."""
    first = next((e for e, _ in _all(program) if e is eqn or e is other), None)
    return first is eqn and eqn is not other


def _is_choice(eqn: JaxprEqn) -> bool:
    """Whether an equation chooses between values of other operands by its first one."""
    return steering_facts[eqn.primitive] == "operand 0" and not eqn.primitive.holds_jaxprs


def _names(eqn: JaxprEqn) -> Sequence[str]:
    return () if eqn.origin is None else eqn.origin.names or ()


def _is_transposed(eqn: JaxprEqn, level: Level | None = None) -> bool:
    """Whether the names of an equation, or of those that hold it, say that it was made by transposing."""
    eqns = [eqn] if level is None else [eqn, *(step.eqn for step in level.path())]
    return any("transpose(" in name for e in eqns for name in _names(e))


def _has_names(eqn: JaxprEqn) -> bool:
    return eqn.origin is not None and eqn.origin.names is not None


def _has_constant_case(choice: JaxprEqn, level: Level) -> bool:
    """Whether one of the values of a choice is the same in every run, as the zero of its transpose is."""
    made = {v: e for e in level.jaxpr.eqns for v in e.out_binders}
    return any(
        isinstance(x, Lit) or (x in made and all(isinstance(y, Lit) for y in made[x].inputs))
        for x in choice.inputs[1:]
    )


def _is_derived(eqn: JaxprEqn, path: Sequence[Step]) -> bool:
    names = [n for e in (*(step.eqn for step in path), eqn) for n in _names(e)]
    return any("transpose(" in name or "jvp(" in name for name in names)


def _all(program: ClosedJaxpr) -> Iterator[tuple[JaxprEqn, Level]]:
    """The equations of a program in order, each jaxpr as often as it is used, up to a limit."""
    top = Level(program.jaxpr)
    stack = [(iter(program.jaxpr.eqns), top)]
    looked_at = 0
    while stack and looked_at < _MOST:
        eqns, level = stack[-1]
        eqn = next(eqns, None)
        if eqn is None:
            stack.pop()
            continue
        looked_at += 1
        yield eqn, level
        stack += [(iter(inner.jaxpr.eqns), inner) for inner in reversed([*level.inside(eqn)])]


def _level_of(program: ClosedJaxpr, path: Sequence[Step]) -> Level:
    """The level at the end of a way."""
    level = Level(program.jaxpr)
    for step in path:
        inner = [*level.inside(step.eqn)]
        level = next(
            x
            for x in inner
            if x.step and (x.step.param, x.step.branch) == (step.param, step.branch)
        )
    return level


def _resolved(level: Level, x: Any) -> Any:
    """What defines a variable: an argument is what is passed, and a result of a call or a loop what the jaxpr in it gives.

    What a loop stacks up for another, a condition that its derivative reads, stands for what it has in each step.
    """
    for _ in range(_MOST):
        if not isinstance(x, Var):
            return x
        if x in level.jaxpr.all_binders:
            outside = level.outside(x)
            if outside is None:
                return x
            level, x = outside
            continue
        eqn, k = _definitions(level.jaxpr).get(x, (None, 0))
        inner = [] if eqn is None else [i for i in level.inside(eqn) if k < len(i.jaxpr.outs)]
        if len(inner) != 1:
            return x
        level, x = inner[0], inner[0].jaxpr.outs[k]
    return x


def _definitions(jaxpr: Jaxpr) -> dict[Var, tuple[JaxprEqn, int]]:
    """The equation that each variable of a jaxpr is a result of, and which."""
    return _DEFINITIONS.of(
        jaxpr, lambda: {v: (e, k) for e in jaxpr.eqns for k, v in enumerate(e.out_binders)}
    )


_DEFINITIONS = Memo[dict[Var, tuple[JaxprEqn, int]]]("which equation makes each variable")


class _Ancestors:
    """What values are computed from: variables and choices, each where it stands."""

    def __init__(self, values: Sequence[tuple[Level, Any]]):
        self._variables: set[Any] = set()
        self._choices: set[Any] = set()
        for level, x, eqn in _walk(values, through=True):
            self._variables.add((level.key(), x))
            if eqn is not None and _is_choice(eqn):
                self._choices.add((level.key(), eqn))

    def holds(self, choice: JaxprEqn, level: Level) -> bool:
        """Whether a choice is among them."""
        return (level.key(), choice) in self._choices

    def has(self, level: Level, x: Any) -> bool:
        """Whether a variable is among them."""
        return (level.key(), x) in self._variables


def _takes(choice: JaxprEqn, level: Level, values: Sequence[tuple[Level, Any]]) -> bool:
    """Whether cases of a choice are computed from what values are computed from: from all of it but literals and constants."""
    cases = _Ancestors([(level, x) for x in choice.inputs[1:]])
    some = False
    for at, x, eqn in _walk(values, through=True, until=cases.has):
        inside = cases.has(at, x)
        some = some or inside
        if not inside and eqn is None and x in at.jaxpr.in_binders and at.above is None:
            return False
    return some


def _choices_before(
    level: Level, x: Any, *, zero: Zero | None = None, seen: set[Any] | None = None
) -> Iterator[tuple[JaxprEqn, Level]]:
    """The choices from which a value is computed, the nearest ones first; `seen`: see `_walk`.

    zero: of a value that is 0, what is known of where the 0 has come from; others are not gone into.
    """
    nonzero = () if zero is None else zero.nonzero

    def until(level: Level, v: Any) -> bool:
        return v in nonzero

    mixed = None if zero is None else zero.mixed
    for at, v, eqn in _walk([(level, x)], mixed=mixed, seen=seen, until=until):
        if eqn is not None and _is_choice(eqn) and v not in nonzero:
            yield eqn, at


def _walk(
    values: Sequence[tuple[Level, Any]],
    *,
    mixed: Container[Any] | None = None,
    through: bool = False,
    until: Callable[[Level, Any], bool] = lambda level, x: False,
    seen: set[Any] | None = None,
) -> Iterator[tuple[Level, Any, JaxprEqn | None]]:
    """The variables that values are computed from, the nearest ones first, each with its level and the equation that makes it.

    A variable of a loop is what it begins with: what earlier steps do is not gone into.

    Args:
      values: the values.
      mixed: before products of matrices and the like, whose elements are not those of the operands, go on with these operands only.
      through: go on before choices.
      until: do not go on before variables of which this is true.
      seen: the variables that have been gone through; more are added.
    """
    queue = [*values]
    seen = set() if seen is None else seen
    for level, x in queue:
        key = level.key(), x
        if isinstance(x, Lit) or key in seen or len(queue) > _MOST:
            continue
        seen.add(key)
        eqn, k = _definitions(level.jaxpr).get(x, (None, 0))
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
        elif through or not _is_choice(eqn):
            parts = mixed is not None and is_mixing(eqn, level.jaxpr)
            queue += [(level, v) for v in eqn.inputs if not parts or v in (mixed or ())]

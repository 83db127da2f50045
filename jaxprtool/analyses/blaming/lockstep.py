"""Propagate origins of elements through many logs of one kind at once, equation by equation.

Iterations of a loop run the same equations, and what an equation does with the origin sets of
elements is the same operation in each of them. `Lockstep` does it once for all logs, on arrays with
a leading axis for the logs (`columns`); `operations` computes single equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.blaming.bad_values import any_in_rows, counts
from jaxprtool.analyses.blaming.columns import Column, Steps
from jaxprtool.analyses.blaming.operations import Operand, Operation
from jaxprtool.analyses.blaming.plans import Plan, is_float, plans_of
from jaxprtool.analyses.blaming.separation import calls_python, is_pure
from jaxprtool.interpreters.columns.flow import steering_facts
from jaxprtool.interpreters.evaluate import numpy_namespace

__all__ = ["Lockstep"]


class Lockstep(Steps):
    """Propagates origins through logs of one kind."""

    # -- equations -----------------------------------------------------------------------------

    def follow(self, column: Column) -> None:
        """Propagate origins through the equations of a jaxpr whose arguments have numbers."""
        for i, plan in enumerate(plans_of(column.logs[0].jaxpr, self.sought).eqns):
            inside = column.inside.get(i)
            if inside is not None:
                self._follow_call(column, plan, inside)
            elif plan.floats:
                self._follow_equation(column, plan)

    def _follow_equation(self, column: Column, plan: Plan) -> None:
        xp = numpy_namespace()
        outs = [plan.eqn.out_binders[k] for k in plan.floats]
        codes = [column.look(v, self.sought) for v in outs]
        if all(c is None for c in codes):
            for _ in outs:
                self.nothing()
            return
        bad = {k: None if c is None else c > 0 for k, c in zip(plan.floats, codes, strict=True)}
        made = None if column.context is None else column.context.made.get(plan.eqn)
        origin = 0 if made is None or made.origin is None else self._number(made.origin.bit)
        if made is None:
            self._do_not_know(bad)
        elif not self.guess:
            self.worst.append((made, _worst(self.n, codes)))
        given = self._operands(column, plan)
        if not given:
            for k, v in zip(plan.floats, outs, strict=True):
                self._begins_all(column, v, bad[k], origin)
            return
        if not is_pure(plan) or calls_python(plan.eqn):  # must not be run again for each set
            self._do_not_know(bad)
            for v, c in zip(outs, codes, strict=True):
                if c is not None:
                    self.note(column, v, xp.zeros(c.shape, xp.int32))
            return
        if plan.elementwise and len(given) == 1 and self._hands_on(column, plan, given, codes[0]):
            return
        found = Operation(self, column, plan, given, bad, origin)
        numbers, how, begins = found.numbers()
        if not origin:
            self.unknown |= begins
        for k, v in zip(plan.floats, outs, strict=True):
            if bad[k] is None:
                self.nothing()
            else:
                self.note(column, v, numbers[k].astype(xp.int32, copy=False), how)

    def _hands_on(self, column: Column, plan: Plan, given: dict[int, Operand], codes: Any) -> bool:
        """Whether an elementwise equation has one bad operand, and is bad where that is: it hands the numbers on.

        Notes the result's numbers if so. Where numbers are only guessed, equal shapes suffice.
        """
        (x,), v = given.values(), plan.eqn.out_binders[0]
        if self.guess and x.codes.shape == codes.shape:
            self.note(column, v, x.numbers)
            return True
        if x.codes.shape != codes.shape or not (x.codes == codes).all():
            return False
        column.unions[v] = x.whole, x.several
        self.note(column, v, x.numbers, (x.whole > 0) * (6 - 4 * x.several))
        return True

    def _do_not_know(self, bad: dict[int, Any]) -> None:
        """Mark the logs in which one of these results is bad as unknown."""
        self.unknown |= self.any_of([b for b in bad.values() if b is not None])

    def _begins_all(self, column: Column, v: Any, bad: Any, origin: int) -> None:
        """Note that all bad elements of a result begin at its equation."""
        if bad is None:
            self.nothing()
            return
        if not origin:
            self.unknown |= self.any_of([bad])
        self.note(column, v, numpy_namespace().multiply(bad, origin, dtype="int32"), 1)

    def _operands(self, column: Column, plan: Plan) -> dict[int, Operand]:
        """Return the bad operands of an equation, literals among them, by position."""
        found: dict[int, Operand] = {}
        for i, x in zip(plan.positions, plan.operands, strict=True):
            numbers = column.numbers.get(x)
            if numbers is not None:
                if x not in column.unions and not self.guess:
                    column.unions[x] = self.unions(numbers)
                found[i] = Operand(column.codes[x], numbers, *column.unions.get(x, (None, None)))
        for i in plan.literals:
            lit = plan.eqn.inputs[i]
            made = None if column.context is None else column.context.made.get(lit)
            if made is None or column.look(lit, self.sought) is None:
                self.unknown[:] = True
                continue
            codes, number = column.codes[lit], self._number(made.origins)
            numbers = numpy_namespace().multiply(codes > 0, number, dtype="int32")
            found[i] = Operand(codes, numbers, *self.unions(numbers))
        return found

    # -- calls ---------------------------------------------------------------------------------

    def _follow_call(self, column: Column, plan: Plan, inside: Sequence[Column]) -> None:
        """Propagate origins through the jaxprs inside an equation, and note the numbers of its results."""
        last: Column | None = None
        stacked: dict[int, Any] = {}
        for inner in inside:
            inner.forget()
            self._enter(column, plan, last, inner)
            self.follow(inner)
            if steering_facts[plan.eqn.primitive] != inner.logs[0].param:
                last = inner
                self._stack(plan, inner, stacked)
        for k in plan.floats:
            v, x = plan.eqn.out_binders[k], None
            if last is not None and k < len(last.logs[0].jaxpr.outs):
                x = last.logs[0].jaxpr.outs[k]
            if last is not None and x is not None and column.is_same(v, [(last, x)]):
                codes, numbers = column.codes[v], last.numbers.get(x)
            else:
                codes, numbers = column.look(v, self.sought), stacked.get(k)
                if numbers is not None:
                    numbers = column.pack(numbers, v.aval.shape)
            if codes is None:
                continue
            if numbers is None:
                self.unknown |= self.any_of([codes > 0])
                numbers = numpy_namespace().zeros(codes.shape, "int32")
            column.numbers[v] = self._of_bad(codes, numbers)

    def _of_bad(self, codes: Any, numbers: Any) -> Any:
        """Return numbers with 0 for good elements; unchanged where they are guessed, as other logs may be bad there."""
        return numbers if self.guess else numpy_namespace().where(codes > 0, numbers, 0)

    def _enter(self, column: Column, plan: Plan, last: Column | None, inner: Column) -> None:
        """Note the numbers of the arguments of a jaxpr inside an equation.

        last: the column of the jaxpr that ran before it and gave its carry; None for the first.
        """
        for v in inner.logs[0].jaxpr.all_binders:
            if not is_float(v.aval):
                continue
            others = [(column, x) for x in plan.eqn.inputs]
            if last is not None:
                others += [(last, x) for x in last.logs[0].jaxpr.outs]
            same = inner.is_same(v, others)
            codes = inner.codes[v] if same else inner.look(v, self.sought)
            if codes is None:
                self.nothing()
                continue
            numbers = (
                same[0].numbers.get(same[1]) if same else self._of_part(column, plan, inner, v)
            )
            if numbers is None:
                self.unknown |= self.any_of([codes > 0])
                numbers = numpy_namespace().zeros(codes.shape, "int32")
            self.note(inner, v, self._of_bad(codes, numbers))

    def _of_part(self, column: Column, plan: Plan, inner: Column, v: Any) -> Any:
        """Return the numbers of an argument that is an iteration's slice of an operand; None where it is none."""
        binders, step = inner.logs[0].jaxpr.all_binders, inner.logs[0].number
        inputs = plan.eqn.inputs
        x = inputs[-min(len(binders) - binders.index(v), len(inputs))]
        whole = column.numbers.get(x)
        if whole is None or step is None or x.aval.shape[1:] != v.aval.shape:
            return None
        if any(log.number != step for log in inner.logs):
            return None
        return column.pack(column.spread(whole, x.aval.shape)[:, step], v.aval.shape)

    def _stack(self, plan: Plan, inner: Column, stacked: dict[int, Any]) -> None:
        """Put the numbers of one iteration's results where the loop stacks them up.

        stacked: the numbers of each stacked result, by position: [n, *shape]; new ones are added.
        """
        xp, step = numpy_namespace(), inner.logs[0].number
        if step is None or any([log.number != step for log in inner.logs]):  # noqa: C419
            return
        for k, x in enumerate(inner.logs[0].jaxpr.outs):
            numbers = inner.numbers.get(x)
            shape = plan.eqn.out_binders[k].aval.shape if k in plan.floats else ()
            if numbers is not None and len(shape) == len(x.aval.shape) + 1:
                if k not in stacked:
                    stacked[k] = xp.zeros((self.n, *shape), xp.int32)
                stacked[k][:, step] = inner.spread(numbers, x.aval.shape)


def _worst(n: int, codes: Sequence[Any]) -> Any:
    """Return for each log the state (`Sought.state`) of the worst of an equation's results."""
    xp = numpy_namespace()
    worst = xp.zeros(n, xp.int64)
    for c in codes:
        if c is not None:
            flat = c.reshape(n, -1)
            found, nan = counts(flat), flat == 3
            all_nan = xp.count_nonzero(nan) == found.sum()
            some = found > 0 if all_nan else any_in_rows(nan)
            worst = xp.maximum(worst, 2 * found + some)
    return worst

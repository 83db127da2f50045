"""The origins of the elements of what many jaxprs of one kind hold, all of them at once.

Steps of a loop run the same equations, and what an equation does with the sets of origins of elements is the same operation in each of
them: here it runs once, on the numbers of all steps together (`Column`). An operation on many steps is its batch rule's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.blaming.origin_sets import OriginSets
from jaxprtool.analyses.blaming.plans import Plan, is_float, plans_of
from jaxprtool.analyses.blaming.provenance import Context, Made
from jaxprtool.analyses.blaming.separation import MOST_SETS, drops_any, is_pure
from jaxprtool.analyses.logs import Log
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.flow import elements_facts, steering_facts
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit, Var
from jaxprtool.ir.memo import MemoTable

__all__ = ["Column", "Lockstep"]

_BATCHED = MemoTable[Any]("equations of many steps")


class Column:
    """Logs of one kind, and what is known of each variable in all of them.

    Attributes:
      logs: the logs; context: where their jaxpr stands in the program.
      codes: of each variable that is bad in some of them what is bad (`Sought.codes`), a row for each log.
      numbers: the numbers of the sets of origins of its elements; unions: of all its elements in each log, and where these have
        several.
      inside: the columns of the jaxprs inside an equation, by its position.
    """

    def __init__(self, logs: Sequence[Log], context: Context | None):
        self.logs, self.context = logs, context
        self.codes: dict[Any, Any] = {}
        self.numbers: dict[Any, Any] = {}
        self.unions: dict[Any, tuple[Any, Any]] = {}
        self._stacks: dict[Any, Any] = {}
        self.inside: dict[int, list[Column]] = {}
        for k, (i, _) in enumerate(logs[0].inside):
            inner = zip(*[log.inside[k][1] for log in logs], strict=True)
            self.inside[i] = [Column(x, _inner(context, x[0])) for x in inner]

    def forget(self) -> None:
        """Let go of numbers: they are those of another guess."""
        self.numbers.clear()
        self.unions.clear()

    def values(self, x: Any) -> list[Any]:
        """The value of an atom in each log."""
        if type(x) is Lit:
            return [numpy_namespace().value(x)] * len(self.logs)
        layout = self.logs[0].layout
        made = layout.made.get(x)
        if made is None:
            at = layout.args[x]
            return [log.args[at] for log in self.logs]
        i, k = made
        if layout.jaxpr.eqns[i].primitive.multiple_results:
            return [log.results[i][k] for log in self.logs]
        return [log.results[i] for log in self.logs]

    def stack(self, x: Any) -> tuple[Any, bool]:
        """The values of an atom, stacked up; or the one value that it has in all logs, and False."""
        found = self._stacks.get(x)
        if found is None:
            values = self.values(x)
            if values[0] is values[-1] and all([v is values[0] for v in values]):  # noqa: C419
                found = values[0], False
            else:
                found = _stacked(values), True
            self._stacks[x] = found
        return found

    def look(self, x: Any, sought: Sought) -> Any:
        """What is bad in a variable, a row for each log; None where nothing is."""
        xp, n = numpy_namespace(), len(self.logs)
        if x in self.codes:
            return self.codes[x]
        whole, each = self.stack(x)
        shape = xp.shape(whole)
        codes = sought.codes(xp.asarray(whole).reshape(-1))
        if codes is not None:
            codes = codes.reshape(shape)
            codes = codes if each else xp.broadcast_to(codes, (n, *shape))
        self.codes[x] = codes
        return codes


class _Operand(NamedTuple):
    """A bad operand of an equation in each log.

    Attributes:
      codes: what is bad in it; numbers: the numbers of the sets of origins of its elements.
      whole: the number of their union; several: where there are several. Both None where they are only guessed.
    """

    codes: Any
    numbers: Any
    whole: Any
    several: Any


class Lockstep:
    """What is known of many logs of one kind.

    Attributes:
      n: how many.
      unknown: in which of them something is not known, or new.
      facts: what is so in each of them, but for values: of each floating variable the number of the set of the origins of its
        elements, and how it has come to be.
      worst: of what has made bad values, the state of the worst result in each of them.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        sought: Sought,
        sets: OriginSets,
        number: Callable[[int], int],
        *,
        guess: bool,
    ):
        """Nothing is known.

        Args:
          logs: the logs.
          sought: what a bad value is.
          sets: the sets of origins of which there are numbers.
          number: the number of the set of some origins, as bits.
          guess: whether numbers are only guessed, where it takes long to know them, and facts are not wanted.
        """
        self.n, self.sought, self.sets, self._number = len(logs), sought, sets, number
        self.guess, self.all_drop = guess, drops_any(sought)
        self.unknown = numpy_namespace().zeros(self.n, bool)
        self.facts: list[Any] = []
        self.worst: list[tuple[Made, Any]] = []

    # -- what is told of a variable ------------------------------------------------------------

    def note(self, column: Column, v: Any, numbers: Any, how: Any = 0) -> None:
        """Say what the numbers of a variable are; `how`: up to four facts, as the bits of a number for each log."""
        column.numbers[v] = numbers
        if self.guess:
            return
        whole, several = column.unions.get(v) or self.unions(numbers)
        column.unions[v] = whole, several
        self.facts.append(whole.astype(numpy_namespace().int64) * 32 + several * 16 + how)

    def nothing(self) -> None:
        """A variable is good in all logs."""
        if not self.guess:
            self.facts.append(numpy_namespace().zeros(self.n, numpy_namespace().int64))

    def unions(self, numbers: Any) -> tuple[Any, Any]:
        """The number of the union of the sets of each row, and in which rows there are several."""
        xp = numpy_namespace()
        flat = numbers.reshape(self.n, -1)
        if not flat.shape[1]:
            return xp.zeros(self.n, xp.int32), xp.zeros(self.n, bool)
        most = flat.max(axis=1)
        several = ((flat != most[:, None]) & (flat != 0)).any(axis=1)
        if several.any():
            most = most.copy()
            most[several] = self.sets.row_unions(flat[several])
        return most, several

    def full(self, where: Any, numbers: Any) -> Any:
        """The number of each log where a boolean array is true, else 0."""
        return numpy_namespace().where(where, _rows(numbers, where), 0)

    # -- equations -----------------------------------------------------------------------------

    def follow(self, column: Column) -> None:
        """Follow the equations of a jaxpr whose arguments are known."""
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
        anywhere = self.any_of([b for b in bad.values() if b is not None])
        made = None if column.context is None else column.context.made.get(plan.eqn)
        origin = 0 if made is None or made.origin is None else self._number(made.origin.bit)
        if made is None:
            self.unknown |= anywhere
        elif not self.guess:
            self.worst.append((made, _worst(self.n, codes)))
        given = self._operands(column, plan)
        if not given:
            for k, v in zip(plan.floats, outs, strict=True):
                self._begins_all(column, v, bad[k], origin, anywhere)
            return
        if not is_pure(plan) and not self.guess:
            self.unknown |= anywhere
        if plan.elementwise and len(given) == 1 and self._hands_on(column, plan, given, codes[0]):
            return
        found = _Operation(self, column, plan, given, bad, origin)
        numbers, how, begins = found.numbers()
        if not origin:
            self.unknown |= begins
        for k, v in zip(plan.floats, outs, strict=True):
            if bad[k] is None:
                self.nothing()
            else:
                self.note(column, v, numbers[k].astype(xp.int32, copy=False), how)

    def _hands_on(self, column: Column, plan: Plan, given: dict[int, _Operand], codes: Any) -> bool:
        """Whether an elementwise operation has the bad elements of its only bad operand, and of no other origins."""
        (x,), v = given.values(), plan.eqn.out_binders[0]
        if self.guess and x.codes.shape == codes.shape:
            self.note(column, v, x.numbers)
            return True
        if x.codes.shape != codes.shape or not (x.codes == codes).all():
            return False
        if self.guess:
            return False
        column.unions[v] = x.whole, x.several
        self.note(column, v, x.numbers, (x.whole > 0) * (6 - 4 * x.several))
        return True

    def _begins_all(self, column: Column, v: Any, bad: Any, origin: int, anywhere: Any) -> None:
        """All bad elements of a result begin at its equation."""
        if bad is None:
            self.nothing()
            return
        if not origin:
            self.unknown |= anywhere
        self.note(column, v, numpy_namespace().multiply(bad, origin, dtype="int32"), 1)

    def _operands(self, column: Column, plan: Plan) -> dict[int, _Operand]:
        """The bad operands of an equation, by their positions."""
        found: dict[int, _Operand] = {}
        for i, x in zip(plan.positions, plan.operands, strict=True):
            numbers = column.numbers.get(x)
            if numbers is not None:
                if x not in column.unions and not self.guess:
                    column.unions[x] = self.unions(numbers)
                found[i] = _Operand(column.codes[x], numbers, *column.unions.get(x, (None, None)))
        for i in plan.literals:
            lit = plan.eqn.inputs[i]
            made = None if column.context is None else column.context.made.get(lit)
            if made is None or column.look(lit, self.sought) is None:
                self.unknown[:] = True
                continue
            codes, number = column.codes[lit], self._number(made.origins)
            numbers = numpy_namespace().multiply(codes > 0, number, dtype="int32")
            found[i] = _Operand(codes, numbers, *self.unions(numbers))
        return found

    def any_of(self, arrays: Sequence[Any]) -> Any:
        """In which logs some element of one of some boolean arrays is true."""
        found = numpy_namespace().zeros(self.n, bool)
        for x in arrays:
            found |= x.reshape(self.n, -1).any(axis=1)
        return found

    # -- calls ---------------------------------------------------------------------------------

    def _follow_call(self, column: Column, plan: Plan, inside: Sequence[Column]) -> None:
        """Follow the jaxprs inside an equation, and say what its results are."""
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
            v = plan.eqn.out_binders[k]
            codes = column.look(v, self.sought)
            if codes is None:
                continue
            numbers = self._of_result(column, v, k, last, stacked)
            if numbers is None:
                self.unknown |= self.any_of([codes > 0])
                numbers = numpy_namespace().zeros(codes.shape, "int32")
            column.numbers[v] = self._of_bad(codes, numbers)

    def _of_bad(self, codes: Any, numbers: Any) -> Any:
        """Numbers where elements are bad; all of them where they are guessed, for others may be bad in other logs."""
        return numbers if self.guess else numpy_namespace().where(codes > 0, numbers, 0)

    def _enter(self, column: Column, plan: Plan, last: Column | None, inner: Column) -> None:
        """Say what the arguments of jaxprs inside an equation are."""
        for v in inner.logs[0].jaxpr.all_binders:
            if not is_float(v.aval):
                continue
            codes = inner.look(v, self.sought)
            if codes is None:
                self.nothing()
                continue
            numbers = self._of_argument(column, plan, last, inner, v)
            if numbers is None:
                self.unknown |= self.any_of([codes > 0])
                numbers = numpy_namespace().zeros(codes.shape, "int32")
            self.note(inner, v, self._of_bad(codes, numbers))

    def _of_argument(
        self, column: Column, plan: Plan, last: Column | None, inner: Column, v: Any
    ) -> Any:
        values, inputs = inner.values(v), plan.eqn.inputs
        for x in inputs:
            if x in column.numbers and _same(values, column.values(x)):
                return column.numbers[x]
        for x in last.logs[0].jaxpr.outs if last is not None else ():
            if last is not None and x in last.numbers and _same(values, last.values(x)):
                return last.numbers[x]
        binders, step = inner.logs[0].jaxpr.all_binders, inner.logs[0].number
        x = inputs[-min(len(binders) - binders.index(v), len(inputs))]
        whole = column.numbers.get(x)
        if whole is None or step is None or whole.shape[2:] != inner.codes[v].shape[1:]:
            return None
        return whole[:, step] if all(log.number == step for log in inner.logs) else None

    def _stack(self, plan: Plan, inner: Column, stacked: dict[int, Any]) -> None:
        """Say what one step of loops stacks up."""
        xp, step = numpy_namespace(), inner.logs[0].number
        if step is None or any([log.number != step for log in inner.logs]):  # noqa: C419
            return
        for k, x in enumerate(inner.logs[0].jaxpr.outs):
            numbers = inner.numbers.get(x)
            shape = plan.eqn.out_binders[k].aval.shape if k in plan.floats else ()
            if numbers is not None and len(shape) == numbers.ndim:
                if k not in stacked:
                    stacked[k] = xp.zeros((self.n, *shape), xp.int32)
                stacked[k][:, step] = numbers

    def _of_result(self, column: Column, v: Any, k: int, last: Column | None, stacked: Any) -> Any:
        outs = () if last is None else last.logs[0].jaxpr.outs
        if last is not None and k < len(outs):
            x = outs[k]
            if x in last.numbers and _same(column.values(v), last.values(x)):
                return last.numbers[x]
        return stacked.get(k)


class _Operation:
    """An equation of many steps of which operands are bad.

    Attributes:
      given: these, by position.
      bad: of each floating result where it is bad; None where it is nowhere.
      origin: the number of its own origin; 0 where it has none so far.
    """

    def __init__(
        self,
        steps: Lockstep,
        column: Column,
        plan: Plan,
        given: dict[int, _Operand],
        bad: dict[int, Any],
        origin: int,
    ):
        self.steps, self.column, self.plan = steps, column, plan
        self.given, self.bad, self.origin = given, bad, origin
        self.n = steps.n

    def numbers(self) -> tuple[dict[int, Any], Any, Any]:
        """The numbers of each bad result, how they have come to be in each log, and where some of its elements begin."""
        xp, of = numpy_namespace(), {i: x.numbers for i, x in self.given.items()}
        bad = {k: b for k, b in self.bad.items() if b is not None}
        one, alike = self._alike()
        given = one > 0
        own, fresh, passes = self._fresh(bad)
        elements = elements_facts[self.plan.eqn.primitive]
        fills = elements == "chosen" and bool(self.plan.steering)
        plain = alike & ~fresh & (not fills)
        made = dict.fromkeys(bad, 0)
        if not (plain | ~given).all():
            made = self._made(of, bad, elements, alike)
        found: dict[int, Any] = {}
        left = xp.zeros(self.n, bool)
        for k, b in bad.items():
            numbers = xp.broadcast_to(made[k], b.shape)
            if not self.steps.guess:
                numbers = xp.where(b, numbers, 0)
            if plain.any():
                numbers = xp.where(_rows(plain, b), self.steps.full(b, one), numbers)
            begins = b & (numbers == 0)
            if own is not None:
                begins = xp.where(_rows(fresh, b), own, begins)
                alone = _rows(fresh & ~passes, b)
                numbers = xp.where(alone, 0, numbers)
                begins = xp.where(alone, b, begins)
            if begins.any():
                left |= self.steps.any_of([begins])
                begins = xp.multiply(begins, self.origin, dtype=xp.int32)
                numbers = self.steps.sets.union(numbers, begins)
            found[k] = numbers
        self.steps.unknown |= fresh & ~passes & ~alike
        how = left + 2 * given + 4 * (alike & given) + 8 * fresh
        return found, how, left

    def _alike(self) -> tuple[Any, Any]:
        """The largest number among the operands in each log, and whether it is the only one.

        Where numbers are guessed it is none of interest.
        """
        xp, operands = numpy_namespace(), [*self.given.values()]
        if self.steps.guess:
            return xp.ones(self.n, xp.int32), xp.zeros(self.n, bool)
        most = operands[0].whole
        for x in operands[1:]:
            most = xp.maximum(most, x.whole)
        alike = xp.ones(self.n, bool)
        for x in operands:
            alike &= ~x.several & ((x.whole == 0) | (x.whole == most))
        return most, alike

    def _fresh(self, bad: dict[int, Any]) -> tuple[Any, Any, Any]:
        """Which elements of an elementwise operation begin, in which logs some do, and where it hands others on."""
        xp = numpy_namespace()
        none = xp.zeros(self.n, bool)
        if not self.plan.elementwise:
            return None, none, none
        ((k, b),) = bad.items()
        codes = own = self.column.codes[self.plan.eqn.out_binders[k]]
        parts = [_rows(c, b) for c, *_ in self.given.values()]
        for part in parts:
            own = own & ~part
        fresh = self.steps.any_of([own > 0])
        if not fresh.any():
            return None, none, none
        return own > 0, fresh, self.steps.any_of([(codes & part) > 0 for part in parts])

    def _made(self, of: dict[int, Any], bad: Any, elements: str, alike: Any) -> Any:
        """The numbers that come from the operands."""
        try:
            if elements != "computed":
                return self._moved(of, elements)
            if self.plan.elementwise:
                return self._of_each_operand(of, bad)
            if self.steps.guess:
                union = self._union_of_all(of)
                return {k: _rows(union, b) for k, b in bad.items()}
            return self._of_each_set(of, bad, alike)
        except JaxprToolError:  # there is no batch rule
            self.steps.unknown |= ~alike
            return dict.fromkeys(bad, 0)

    def _moved(self, of: dict[int, Any], elements: str) -> dict[int, Any]:
        eqn, xp, sets = self.plan.eqn, numpy_namespace(), self.steps.sets
        if elements == "converted":
            return dict.fromkeys(self.bad, of[0])
        floats = [i for i, x in enumerate(eqn.inputs) if is_float(x.aval)]
        zeros = {i: xp.zeros(eqn.inputs[i].aval.shape, xp.int32) for i in floats}
        numbers = {i: (of[i], True) if i in of else (zeros[i], False) for i in floats}
        made = _run(self.column, eqn, self.n, numbers, ordered=elements == "ordered")
        return {k: sets.in_table(made[k]) for k in self.plan.floats}

    def _of_each_operand(self, of: dict[int, Any], bad: dict[int, Any]) -> dict[int, Any]:
        xp, union = numpy_namespace(), self.steps.sets.union
        if len(of) == 1 or not self._drops():
            return dict.fromkeys(bad, self._together(of, bad))
        made: dict[int, Any] = dict.fromkeys(bad, 0)
        for i, numbers in of.items():
            alone = self._bad_with({j: x == 0 for j, x in of.items() if j != i})
            for k, b in bad.items():
                made[k] = union(made[k], xp.where(alone[k], _rows(numbers, b), 0))
        for k, b in bad.items():
            left = b & (made[k] == 0)
            if left.any():
                made[k] = xp.where(left, self._together(of, bad), made[k])
        return made

    def _together(self, of: dict[int, Any], bad: dict[int, Any]) -> Any:
        (b,) = bad.values()
        whole, *more = [_rows(x, b) for x in of.values()]
        for numbers in more:
            whole = self.steps.sets.union(whole, numbers)
        return whole

    def _union_of_all(self, of: dict[int, Any]) -> Any:
        """The number of the union of all sets of the operands in each log, as a row for each."""
        xp = numpy_namespace()
        flat = xp.concatenate([x.reshape(self.n, -1) for x in of.values()], axis=1)
        return self.steps.unions(flat)[0]

    def _of_each_set(self, of: dict[int, Any], bad: dict[int, Any], alike: Any) -> dict[int, Any]:
        xp, sets = numpy_namespace(), self.steps.sets
        if not self._drops() and all(b.size == self.n for b in bad.values()):
            union = self._union_of_all(of)  # each bad element goes into the only one
            return {k: _rows(union, b) for k, b in bad.items()}
        among = {n for numbers in of.values() for n in sets.among(numbers)}
        if len(among) > MOST_SETS:
            self.steps.unknown |= ~alike
            return dict.fromkeys(bad, 0)
        made: dict[int, Any] = {k: xp.zeros(b.shape, xp.int32) for k, b in bad.items()}
        for n in among:
            alone = self._bad_with({i: (x == 0) | (x == n) for i, x in of.items()})
            here = self.steps.any_of([x == n for x in of.values()])
            for k, b in bad.items():
                where = alone[k] & _rows(here, b)
                made[k] = sets.union(made[k], xp.multiply(where, n, dtype=xp.int32))
        union = self._union_of_all(of)
        return {k: xp.where(x == 0, _rows(union, x), x) for k, x in made.items()}

    def _drops(self) -> bool:
        return self.steps.all_drop or self.plan.drops

    def _bad_with(self, kept: dict[int, Any]) -> dict[int, Any]:
        """Which elements of the results are bad where only some elements of operands are kept, and 1 is in the place of the others."""
        xp, given = numpy_namespace(), dict[int, Any]()
        for i, where in kept.items():
            values, each = self.column.stack(self.plan.eqn.inputs[i])
            if not each:
                values = xp.broadcast_to(values, (self.n, *xp.shape(values)))
            given[i] = xp.where(where, values, values.dtype.type(1)), True
        made = _run(self.column, self.plan.eqn, self.n, given)
        return {k: self.steps.sought.where(made[k]) for k, b in self.bad.items() if b is not None}


def _run(
    column: Column, eqn: JaxprEqn, n: int, given: dict[int, Any], *, ordered: bool = False
) -> list[Any]:
    """The results of an equation in many logs, with other operands in the place of some.

    given: these, and whether there is one for each log. ordered: whether they are ordered with the operands, instead.
    """
    xp = numpy_namespace()
    ins = [column.stack(x) for x in eqn.inputs]
    if ordered:
        ins += given.values()
    else:
        ins = [given.get(i, x) for i, x in enumerate(ins)]
    size = 1 << max(n - 1, 1).bit_length()
    types = tuple([(x.dtype.name if i in given else "") for i, (x, _) in enumerate(ins)])
    key = size, types, tuple([each for _, each in ins]), ordered
    batched = _BATCHED.of(
        column.logs[0].jaxpr, (eqn, *key), lambda: _batched(eqn, size, ins, given, ordered)
    )
    args = [_padded(x, size) if each else x for x, each in ins]
    with xp.errstate(all="ignore"):
        outs = [xp.asarray(x)[:n] for x in eval_jaxpr(batched, args)]
    if ordered:
        k, floats = len(eqn.inputs), [*given]
        return [outs[k + floats.index(i)] if i in given else outs[i] for i in range(k)]
    return outs


def _batched(eqn: JaxprEqn, size: int, ins: Sequence[Any], given: Any, ordered: bool) -> Any:
    """An equation on a batch; operands that are numbers of sets are of i32."""
    kinds = [x.aval for x in eqn.inputs]
    outs = [v.aval for v in eqn.out_binders]
    numbers = any(x.dtype == INT32.name for x, _ in given.values())
    if ordered:
        kinds += [kinds[i].update(dtype=INT32) for i in given]
        outs += [outs[i].update(dtype=INT32) for i in given]
    elif numbers:
        kinds = [a.update(dtype=INT32) if i in given else a for i, a in enumerate(kinds)]
        outs = [a.update(dtype=INT32) if is_float(a) else a for a in outs]
    binders, results = [Var(a) for a in kinds], [Var(a) for a in outs]
    inner = eqn.replace(inputs=tuple(binders), out_binders=tuple(results))
    jaxpr = Jaxpr(binders, [inner], results)
    return vmap_jaxpr(jaxpr, size, [0 if each else None for _, each in ins])[0]


def _stacked(values: Sequence[Any]) -> Any:
    """Values of one type as one array."""
    xp, shape = numpy_namespace(), numpy_namespace().shape(values[0])
    if not shape:
        return xp.array(values)
    return xp.concatenate(values).reshape(len(values), *shape)


def _padded(x: Any, size: int) -> Any:
    xp = numpy_namespace()
    if len(x) == size:
        return x
    return xp.concatenate([x, xp.broadcast_to(x[-1:], (size - len(x), *x.shape[1:]))])


def _rows(x: Any, like: Any) -> Any:
    """An array with a row for each log, whose elements stretch to those of another one."""
    if x.ndim == like.ndim:
        return x
    return x.reshape(len(x), *[1] * (like.ndim - x.ndim), *x.shape[1:])


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all([x is y for x, y in zip(a, b, strict=True)])  # noqa: C419 (quicker)


def _worst(n: int, codes: Sequence[Any]) -> Any:
    """The state of the worst of some results in each log."""
    xp = numpy_namespace()
    worst = xp.zeros(n, xp.int64)
    for c in codes:
        if c is not None:
            flat = c.reshape(n, -1)
            worst = xp.maximum(worst, 2 * (flat > 0).sum(axis=1) + (flat == 3).any(axis=1))
    return worst


def _inner(context: Context | None, log: Log) -> Context | None:
    if context is None or log.eqn is None:
        return None
    return context.inner.get((log.eqn, log.param, log.branch))

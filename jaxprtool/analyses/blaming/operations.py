"""Propagate origins of elements through one equation in many logs at once.

It does what `analyses.blaming.separation` does in one log, with the equation's batch rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.columns import Column, Steps, rows
from jaxprtool.analyses.blaming.plans import Plan, is_float
from jaxprtool.analyses.blaming.separation import MOST_SETS
from jaxprtool.interpreters.batch import vmap_jaxpr
from jaxprtool.interpreters.columns.flow import elements_facts, steering_facts
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace, prepare_impl
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import INT32
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Var
from jaxprtool.ir.memo import MemoTable

__all__ = ["Operand", "Operation"]

_SOURCES = MemoTable[list[Any]]("where elements of results come from")
_BATCHED = MemoTable[Any]("equations of many steps")


class Operand(NamedTuple):
    """A bad operand of an equation, in each log.

    Attributes:
      codes: what is bad in it (`Sought.codes`), a row for each log.
      numbers: the origin-set numbers of its elements, a row for each log.
      whole: the number of the union of its elements' sets in each log; None where numbers are only
        guessed.
      several: in which logs its elements have different sets; None where numbers are only guessed.
    """

    codes: Any
    numbers: Any
    whole: Any
    several: Any


class Operation:
    """An equation with bad operands, in many logs of one kind.

    Attributes:
      steps, column: what is known of the logs.
      plan: the plan of the equation.
      given: the bad operands, by position.
      bad: for each floating result, by position, which elements are bad; None where all logs are
        good.
      origin: the number of the set of the origin that the equation itself is; 0 where it is none so
        far.
      n: how many logs there are.
    """

    def __init__(
        self,
        steps: Steps,
        column: Column,
        plan: Plan,
        given: dict[int, Operand],
        bad: dict[int, Any],
        origin: int,
    ):
        self.steps, self.column, self.plan = steps, column, plan
        self.given, self.bad, self.origin = given, bad, origin
        self.n = steps.n

    def numbers(self) -> tuple[dict[int, Any], Any, Any]:
        """Compute the numbers of the bad results.

        Returns:
          The numbers of each bad result, by position; for each log how they came about, as flags
          (see `Steps.note`); and for each log whether an element begins at the equation.
        """
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
                numbers = xp.where(rows(plain, b), self.steps.full(b, one), numbers)
            begins = b & (numbers == 0)
            if own is not None:
                begins = xp.where(rows(fresh, b), own, begins)
                alone = rows(fresh & ~passes, b)
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
        """Return for each log the largest set number among the operands, and whether it is the only one.

        Where numbers are guessed, it is 1 and False throughout.
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
        """Return which elements of an elementwise equation begin at it, although an operand is bad.

        Returns:
          The elements, or None for none; for each log whether there are any; and for each log
          whether bad elements of operands are handed on as well.
        """
        xp = numpy_namespace()
        none = xp.zeros(self.n, bool)
        if not self.plan.elementwise:
            return None, none, none
        ((k, b),) = bad.items()
        codes = own = self.column.codes[self.plan.eqn.out_binders[k]]
        parts = [rows(c, b) for c, *_ in self.given.values()]
        for part in parts:
            own = own & ~part
        fresh = self.steps.any_of([own > 0])
        if not fresh.any():
            return None, none, none
        return own > 0, fresh, self.steps.any_of([(codes & part) > 0 for part in parts])

    def _made(self, of: dict[int, Any], bad: Any, elements: str, alike: Any) -> Any:
        """Return the numbers that come from the operands, by result."""
        try:
            if elements != "computed":
                return self._moved(of, elements)
            if self.plan.elementwise:
                return self._of_each_operand(of, bad)
            if self.steps.guess:
                union = self._union_of_all(of)
                return {k: rows(union, b) for k, b in bad.items()}
            return self._of_each_set(of, bad, alike)
        except JaxprToolError:  # there is no batch rule
            self.steps.unknown |= ~alike
            return dict.fromkeys(bad, 0)

    def _moved(self, of: dict[int, Any], elements: str) -> dict[int, Any]:
        eqn, xp, sets = self.plan.eqn, numpy_namespace(), self.steps.sets
        if elements == "converted":
            return dict.fromkeys(self.bad, of[0])
        floats = [i for i, x in enumerate(eqn.inputs) if is_float(x.aval)]
        if len(floats) == len(eqn.inputs) and elements != "ordered":
            return self._moved_always(of)
        chooses = elements == "placed" and steering_facts[eqn.primitive] == "operand 0"
        packed = self._chosen_at_spots(of, floats) if chooses else None
        if packed is not None:
            return packed
        zeros = {i: xp.zeros(eqn.inputs[i].aval.shape, xp.int32) for i in floats}
        column, shapes = self.column, {i: eqn.inputs[i].aval.shape for i in of}
        given = {i: (column.spread(x, shapes[i]), True) for i, x in of.items()}
        numbers = {i: given.get(i, (zeros[i], False)) for i in floats}
        made = _run(column, eqn, self.n, numbers, ordered=elements == "ordered")
        return {k: sets.in_table(self._packed(made[k], k)) for k in self.plan.floats}

    def _chosen_at_spots(self, of: dict[int, Any], floats: Sequence[int]) -> dict[int, Any] | None:
        """Return the numbers of an index-by-index choice, at packed positions; None where it is not packed."""
        xp, eqn, n, column = numpy_namespace(), self.plan.eqn, self.n, self.column
        ((k, _),) = self.bad.items()
        shape = eqn.out_binders[k].aval.shape
        at = column.at(shape)
        if at is None or any(x.aval.shape not in (shape, ()) for x in eqn.inputs):
            return None
        ins: list[Any] = []
        for i, x in enumerate(eqn.inputs):
            picked = of.get(i, 0) if i in floats else column.picked(x, at)
            if i in of and not x.aval.shape:
                picked = of[i].reshape(n, 1)
            ins.append(xp.broadcast_to(picked, (n, len(at))))
        kinds = [
            x.aval.update(dtype=INT32 if i in floats else x.aval.dtype, shape=(n, len(at)))
            for i, x in enumerate(eqn.inputs)
        ]
        out = eqn.out_binders[k].aval.update(dtype=INT32, shape=(n, len(at)))
        made = prepare_impl(xp, eqn.primitive, kinds, [out], eqn.params)(*ins)
        return {k: self.steps.sets.in_table(xp.ascontiguousarray(made))}

    def _moved_always(self, of: dict[int, Any]) -> dict[int, Any]:
        """Return the numbers of an equation that moves elements in a way which its params alone determine."""
        xp, eqn, n = numpy_namespace(), self.plan.eqn, self.n
        alike = all(len(x) > 1 and not x.strides[0] for x in of.values())  # one row, repeated
        rows = 1 if alike else n
        sources = _SOURCES.of(self.column.logs[0].jaxpr, eqn, lambda: _sources(eqn))
        given, first = [xp.zeros((rows, 1), xp.int32)], 1
        column_of = xp.zeros(1 + sum(x.aval.size for x in eqn.inputs), xp.intp)
        begin = 1
        for i, x in enumerate(eqn.inputs):
            if i in of:
                flat = of[i][:rows].reshape(rows, -1)
                columns = xp.arange(first, first + flat.shape[1])
                at = self.column.at(x.aval.shape)
                column_of[begin : begin + x.aval.size][slice(None) if at is None else at] = columns
                given.append(flat)
                first += flat.shape[1]
            begin += x.aval.size
        whole, made = xp.concatenate(given, axis=1), dict[int, Any]()
        for k in self.plan.floats:
            shape, at = eqn.out_binders[k].aval.shape, self.column.at(eqn.out_binders[k].aval.shape)
            source = sources[k] if at is None else sources[k][at]
            numbers = whole[:, column_of[source]].reshape(rows, *(shape if at is None else [-1]))
            made[k] = xp.broadcast_to(numbers, (n, *numbers.shape[1:]))
        return made

    def _packed(self, x: Any, k: int) -> Any:
        """Pack what is known of the elements of result k."""
        return self.column.pack(x, self.plan.eqn.out_binders[k].aval.shape)

    def _of_each_operand(self, of: dict[int, Any], bad: dict[int, Any]) -> dict[int, Any]:
        xp, union = numpy_namespace(), self.steps.sets.union
        if len(of) == 1 or not self._drops():
            return dict.fromkeys(bad, self._together(of, bad))
        made: dict[int, Any] = dict.fromkeys(bad, 0)
        for i, numbers in of.items():
            alone = self._bad_with({j: x == 0 for j, x in of.items() if j != i})
            for k, b in bad.items():
                made[k] = union(made[k], xp.where(alone[k], rows(numbers, b), 0))
        for k, b in bad.items():
            left = b & (made[k] == 0)
            if left.any():
                made[k] = xp.where(left, self._together(of, bad), made[k])
        return made

    def _together(self, of: dict[int, Any], bad: dict[int, Any]) -> Any:
        (b,) = bad.values()
        whole, *more = [rows(x, b) for x in of.values()]
        for numbers in more:
            whole = self.steps.sets.union(whole, numbers)
        return whole

    def _union_of_all(self, of: dict[int, Any]) -> Any:
        """Return for each log the number of the union of all sets of all operands."""
        xp = numpy_namespace()
        flat = xp.concatenate([x.reshape(self.n, -1) for x in of.values()], axis=1)
        return self.steps.unions(flat)[0]

    def _of_each_set(self, of: dict[int, Any], bad: dict[int, Any], alike: Any) -> dict[int, Any]:
        xp, sets = numpy_namespace(), self.steps.sets
        if not self._drops() and all(self.plan.eqn.out_binders[k].aval.size == 1 for k in bad):
            union = self._union_of_all(of)  # all bad elements go into the only element
            return {k: rows(union, b) for k, b in bad.items()}
        among = {n for numbers in of.values() for n in sets.among(numbers)}
        if len(among) > MOST_SETS:
            self.steps.unknown |= ~alike
            return dict.fromkeys(bad, 0)
        made: dict[int, Any] = {k: xp.zeros(b.shape, xp.int32) for k, b in bad.items()}
        for n in among:
            alone = self._bad_with({i: (x == 0) | (x == n) for i, x in of.items()})
            here = self.steps.any_of([x == n for x in of.values()])
            for k, b in bad.items():
                where = alone[k] & rows(here, b)
                made[k] = sets.union(made[k], xp.multiply(where, n, dtype=xp.int32))
        union = self._union_of_all(of)
        return {k: xp.where(x == 0, rows(union, x), x) for k, x in made.items()}

    def _drops(self) -> bool:
        return self.steps.all_drop or self.plan.drops

    def _bad_with(self, kept: dict[int, Any]) -> dict[int, Any]:
        """Return which elements of the results are bad when only some elements of the operands are kept.

        kept: which elements of each operand, by position, are kept; 1 is in the place of the
        others.
        """
        xp, given = numpy_namespace(), dict[int, Any]()
        for i, where in kept.items():
            x = self.plan.eqn.inputs[i]
            values, each = self.column.stack(x)
            where = self.column.spread(where, x.aval.shape, fill=True)
            if not each:
                values = xp.broadcast_to(values, (self.n, *xp.shape(values)))
            given[i] = xp.where(where, values, values.dtype.type(1)), True
        made = _run(self.column, self.plan.eqn, self.n, given)
        which, bad = self.steps.sought.where, self.bad
        return {k: self._packed(which(made[k]), k) for k, b in bad.items() if b is not None}


def _sources(eqn: JaxprEqn) -> list[Any]:
    """For each result of an equation that moves elements, the flat index of the operand element that each element is.

    Indices run over all operands, one after the other, from 1; 0 is for elements that come from no
    operand.
    """
    xp, end, ins = numpy_namespace(), 1, list[Any]()
    for x in eqn.inputs:
        ins.append(xp.arange(end, end + x.aval.size, dtype=xp.int32).reshape(x.aval.shape))
        end += x.aval.size
    kinds = [x.aval.update(dtype=INT32) for x in eqn.inputs]
    outs = [v.aval.update(dtype=INT32) for v in eqn.out_binders]
    made = prepare_impl(xp, eqn.primitive, kinds, outs, eqn.params)(*ins)
    flat = [xp.asarray(x).reshape(-1) for x in (made if eqn.primitive.multiple_results else [made])]
    return [xp.where((x > 0) & (x < end), x, 0) for x in flat]


def _run(
    column: Column, eqn: JaxprEqn, n: int, given: dict[int, Any], *, ordered: bool = False
) -> list[Any]:
    """Compute an equation in many logs, with other values for some of its operands.

    Args:
      column: the logs.
      eqn: the equation.
      n: how many logs there are.
      given: the other values by position, each with whether it has a row for each log.
      ordered: for a sort: whether they are further operands, which are ordered along, instead.
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
    """Return the jaxpr of an equation on a batch; operands that are set numbers, and their results, are i32."""
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


def _padded(x: Any, size: int) -> Any:
    xp = numpy_namespace()
    if len(x) == size:
        return x
    return xp.concatenate([x, xp.broadcast_to(x[-1:], (size - len(x), *x.shape[1:]))])

"""Origins of bad elements in many iterations of a loop at once, before the iterations are followed.

Each iteration has run already: its values are in its log. The origins of an iteration's carry
depend on the iteration before, so that they would have to be computed one iteration after the
other. `Ahead` speculates instead: it guesses the origins of the carry for all iterations, computes
all iterations from the guess together (`lockstep`), and compares the carries that come out with the
guess. Everything before the first iteration whose carry differs is right. There are up to `_ROUNDS`
guesses: that every iteration gets the carry of the first one; then, that iterations only move
elements (`Moves`, found by giving each element of the carry an id of its own, `_Ids`, and composed
over the iterations); then the carries that the last computation gave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.bad_values import Sought, any_in_rows
from jaxprtool.analyses.blaming.columns import Column, inner_context
from jaxprtool.analyses.blaming.lockstep import Lockstep
from jaxprtool.analyses.blaming.origin_sets import OriginSets
from jaxprtool.analyses.blaming.plans import is_float
from jaxprtool.analyses.blaming.provenance import Call, Context, Made
from jaxprtool.analyses.blaming.separation import Separations
from jaxprtool.analyses.blaming.spots import spots_of
from jaxprtool.analyses.logs import Log
from jaxprtool.interpreters.evaluate import numpy_namespace

__all__ = ["Ahead", "Moves"]

_ROUNDS = 4  # guesses, at most
_WORD = 64  # bits of a word, and so origins that are told apart by words
_MOST_IDS = 2_000  # elements of the carry, at most, to give each an id of its own
_MOST_PARTS = 64  # elements, at most, from which the origins of one are composed


class Ahead:
    """What is known of the logs of iterations that have not been followed yet: from `start` up to `end`.

    Attributes:
      start: the index of the first of these logs.
      end: the index after the last log whose origins are known.
      moves: how elements of the carry move from one iteration to the next, as it was guessed; None
        where they do not just move.
      facts: for each known log an int that identifies its provenance apart from values: two logs
        with the same fact, given the same marks, yield the same marks.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        kinds: Sequence[Any],
        start: int,
        context: Context,
        call: Call,
        apart: Separations,
        sought: Sought,
        steers: Callable[[Log], bool],
        *,
        moves: Moves | None,
        named: dict[Any, int],
    ):
        """Guess and compute the origins of elements in the logs from `start` on.

        Args:
          logs: the logs of all iterations.
          kinds: the kind of each log, as `repeats` has it.
          start: the index of the first log that has not been followed.
          context: the context of the jaxpr that holds the loop's equation.
          call: what is known at that equation.
          apart: the origins of elements of values that have several.
          sought: what a bad value is.
          steers: whether the results of a log are no carry for the next one, as those of a loop's
            condition.
          moves: the moves that were found in earlier logs, or None.
          named: the facts of earlier logs, by kind and content; new ones are added.
        """
        self.moves, self._named = moves, named
        self.start, self._apart, self._sought, self._call = start, apart, sought, call
        self._logs, self._context = logs[start:], context
        self._where: dict[Any, Any] = {}
        for i, kind in enumerate(kinds[start:]):
            self._where.setdefault(kind, []).append(i)
        self._columns = {kind: self._column(where) for kind, where in self._where.items()}
        self._steering = [False] * len(self._logs)
        for where in self._where.values():
            for i in where if steers(self._logs[where[0]]) else ():
                self._steering[i] = True
        self._spots = spots_of([*self._columns.values()], sought)
        self._before = self._last_before()
        self._sources: dict[tuple[Any, int], tuple[str, int]] = {}
        self._numbers: dict[int, Any] = {}
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._worst: list[tuple[Made, Any, Any]] = []
        self.facts: list[int] = []
        self.end = start + self._look()
        for column in self._columns.values():
            column.close()

    # -- for those who skip iterations ---------------------------------------------------------

    def knows(self, i: int) -> bool:
        """Whether the origins in log i are known."""
        return self.start <= i < self.end

    def fact(self, i: int) -> int:
        """Return the fact of log i, whose origins have to be known (see `facts`)."""
        return self.facts[i - self.start]

    def numbers(self, k: int, i: int) -> Any:
        """Return the origin-set numbers of the elements of result k of log i; None where no log has a bad one."""
        found = self._numbers.get(k)
        if found is None:
            return None
        at = i - self.start
        return self._spots.spread(found[at : at + 1], self._shapes[k])[0]

    def rows(self, k: int, which: Sequence[int]) -> Any:
        """Return the origin-set numbers of result k of several logs, stacked: [len(which), *shape]."""
        found = self._numbers[k]
        return self._spots.spread(
            found[numpy_namespace().array(which) - self.start], self._shapes[k]
        )

    def count(self, start: int, end: int) -> None:
        """Raise `Made.count` and `Made.nan` of equations to their worst in the logs from start to end."""
        a, b = start - self.start, end - self.start
        for made, where, worst in self._worst:
            here = worst[(where >= a) & (where < b)]
            if here.size:
                made.count = max(made.count, int(here.max()) >> 1)
                made.nan = made.nan or bool((here & 1).any())

    # -- guesses -------------------------------------------------------------------------------

    def _last_before(self) -> list[int]:
        """For each log, the index of the log whose results are its carry; -1 for a log before `start`.

        Indices count from `start`. Logs of a loop's condition (`steers`) hand on no carry.
        """
        if not any(self._steering):
            return [*range(-1, len(self._logs) - 1)]
        found, last = list[int](), -1
        for i, steering in enumerate(self._steering):
            found.append(last)
            if not steering:
                last = i
        return found

    def _given(self, i: int) -> Sequence[Any]:
        """Return the values of the carry that log i is given."""
        last = self._before[i]
        return (self._call.outs if last < 0 else self._logs[last].outs) or ()

    def _look(self) -> int:
        """Guess, compute and compare in up to `_ROUNDS` rounds; return how many logs are right in the best one."""
        first = {j: self._first(j, x) for j, x in enumerate(self._call.outs)}
        self._first_numbers = {j: x for j, x in first.items() if x is not None}
        n, best, guess = len(self._logs), -1, self._constant()
        known = self.moves
        guess = guess if known is None else self._moved()
        for turn in range(_ROUNDS):
            outs, unknown, facts, worst = self._pass(guess)
            wrong = self._wrong(guess, outs)
            right = min(_first_of(wrong), _first_of(unknown))
            if right > best:
                best, self._numbers, self.facts, self._worst = right, outs, facts, worst
            if right == n or not wrong[right] or best * _ROUNDS < turn * n:
                break
            if turn == 0 and (known is None or self.moves is known):
                self.moves = None
                guess = self._moved()
            else:
                guess = self._shifted(outs)
        return best

    def _first(self, j: int, value: Any) -> Any:
        """Return the (packed) origin-set numbers of carry j, as the first log is given it; None where it is good."""
        mark = self._call.out_marks[j]
        if not mark.bad or not hasattr(value, "shape"):
            return None
        return self._spots.pack(self._of_value(value, mark.bad)[None], value.shape)[0]

    def _of_value(self, value: Any, bits: int) -> Any:
        numbers, sets = self._apart.numbers(value), self._apart.sets
        if numbers is not None:
            return numbers
        return numpy_namespace().asarray(sets.full(self._sought.where(value), bits))

    def _constant(self) -> dict[int, Any]:
        """Return the guess that each log is given the carry of the first one: numbers [n, ...] by position."""
        xp, n = numpy_namespace(), len(self._logs)
        return {j: xp.broadcast_to(x, (n, *x.shape)) for j, x in self._first_numbers.items()}

    def _shifted(self, outs: dict[int, Any]) -> dict[int, Any]:
        """Return the carry that each log is given if the logs give `outs`: numbers [n, ...] by position."""
        xp, found = numpy_namespace(), dict[int, Any]()
        for j in outs.keys() | self._first_numbers.keys():
            left, first = outs.get(j), self._first_numbers.get(j)
            if left is None:
                assert first is not None
                left = xp.zeros((len(self._logs), *first.shape), xp.int32)
            if first is None:
                first = xp.zeros(left.shape[1:], xp.int32)
            found[j] = xp.concatenate([first[None], left])[xp.array(self._before) + 1]
        return found

    def _wrong(self, guess: dict[int, Any], outs: dict[int, Any]) -> Any:
        """For each log, whether its carry, by `outs`, has bad elements whose origins differ from the guess."""
        xp, n = numpy_namespace(), len(self._logs)
        wrong = xp.zeros(n, bool)
        for j, given in self._shifted(outs).items():
            if j in self._used:
                differs = (given != 0) & (given != guess.get(j, 0))
                wrong |= any_in_rows(differs)
        return wrong

    # -- one pass ------------------------------------------------------------------------------

    def _pass(self, guess: dict[int, Any], ids: _Ids | None = None) -> tuple[Any, ...]:
        """Propagate origins through all logs, with their carries as guessed.

        Args:
          guess: the origin-set numbers of the carry, by position: [n, ...].
          ids: where given, each element of the carry has its id instead of origins.

        Returns:
          The numbers of the logs' results, by position; which logs are not known; the fact of each
          log; and, for each equation that made bad values, the logs in which it runs and its worst
          state in each.
        """
        xp, n = numpy_namespace(), len(self._logs)
        outs, unknown = dict[int, Any](), xp.zeros(n, bool)
        facts = [0] * n
        worst: list[tuple[Made, Any, Any]] = []
        self._used = set[int]()
        for kind, where in self._where.items():
            rows = xp.array(where)
            column = self._columns[kind]
            column.forget()
            sets, number = self._apart.sets, self._apart.sets.number
            if ids is not None:
                sets, number = ids.sets, ids.number
            steps = Lockstep(column.logs, self._sought, sets, number, guess=ids is not None)
            self._enter(kind, where, column, steps, guess, ids)
            steps.follow(column)
            unknown[rows] = steps.unknown
            worst += [(made, rows, states) for made, states in steps.worst]
            for i, fact in zip(where, self._facts_of(kind, steps, len(where)), strict=True):
                facts[i] = fact
            if not self._steering[where[0]]:
                for k, x in enumerate(column.logs[0].jaxpr.outs):
                    numbers = column.numbers.get(x)
                    if numbers is not None:
                        self._shapes[k] = x.aval.shape
                        if k not in outs:
                            outs[k] = xp.zeros((n, *numbers.shape[1:]), xp.int32)
                        outs[k][rows] = numbers
        return outs, unknown, facts, worst

    def _facts_of(self, kind: Any, steps: Lockstep, n: int) -> list[int]:
        """Return the fact of each of n logs of one kind; 0 for each where origins are only guessed."""
        if steps.guess or not steps.facts:
            return [0] * n
        xp, named = numpy_namespace(), self._named
        whole = xp.ascontiguousarray(xp.stack(steps.facts, axis=1))
        same = (whole == whole[0]).all()
        rows = [row.tobytes() for row in (whole[:1] if same else whole)]
        found = [named.setdefault((kind, row), len(named)) for row in rows]
        return found * n if same else found

    def _column(self, where: Sequence[int]) -> Column:
        logs = [self._logs[i] for i in where]
        return Column(logs, inner_context(self._context, logs[0]))

    def _enter(
        self,
        kind: Any,
        where: Sequence[int],
        column: Column,
        steps: Lockstep,
        guess: dict[int, Any],
        ids: _Ids | None,
    ) -> None:
        """Note the origin-set numbers of the arguments of the logs of one kind."""
        xp = numpy_namespace()
        rows = xp.array(where)
        for i, v in enumerate(column.logs[0].jaxpr.all_binders):
            if not is_float(v.aval):
                continue
            codes = column.look(v, self._sought)
            if codes is None:
                steps.nothing()
                continue
            source, j = self._source(kind, where, column, i)
            numbers: Any = 0
            if source == "carry":
                self._used.add(j)
                if j in guess:
                    numbers = guess[j][rows]
                    if ids is not None:
                        numbers = ids.of_carry(j, numbers.shape)
            elif source != "none":
                numbers = self._of_operand(source, j, column)
                if not isinstance(numbers, int):
                    numbers = self._spots.pack(numbers, v.aval.shape)
                if ids is not None:
                    numbers = ids.of_fixed(numbers)
            if ids is not None:
                steps.note(column, v, xp.broadcast_to(numbers, codes.shape))
                continue
            numbers = xp.where(codes > 0, numbers, 0).astype(xp.int32)
            steps.unknown |= any_in_rows((codes > 0) & (numbers == 0))
            steps.note(column, v, numbers)

    def _of_operand(self, source: str, j: int, column: Column) -> Any:
        """Return the numbers of an argument that is operand j, or the iteration's slice of it.

        They have a leading axis: of length 1 for an operand, of one row per log for a slice. An int
        is the number of all bad elements.
        """
        xp, value, bits = numpy_namespace(), self._call.ins[j], self._call.marks[j].bad
        if source == "operand":
            return self._of_value(value, bits)[None]
        numbers = self._apart.numbers(value)
        if numbers is None:
            return self._apart.sets.number(bits)
        return numbers[xp.array([log.number for log in column.logs])]

    def _source(self, kind: Any, where: Sequence[int], column: Column, i: int) -> tuple[str, int]:
        """Return where argument i of the logs of one kind comes from, and its position there.

        It is `operand` (an operand of the equation), `carry` (a result of the log before), `part`
        (the iteration's slice of an operand), or `none` where nobody knows.
        """
        found = self._sources.get((kind, i))
        if found is None:
            found = self._sources[kind, i] = self._find_source(where, column, i)
        return found

    def _find_source(self, where: Sequence[int], column: Column, i: int) -> tuple[str, int]:
        call, values = self._call, [log.args[i] for log in column.logs]
        given = [self._given(k) for k in where]
        if call.marks:
            for j, x in enumerate(call.ins):
                if all([v is x for v in values]):  # noqa: C419 (quicker)
                    return "operand", j
        for j, x in enumerate(given[0]):
            if values[0] is x:
                same = all([v is g[j] for v, g in zip(values, given, strict=True)])  # noqa: C419
                return ("carry", j) if same else ("none", 0)
        from_end = len(column.logs[0].args) - i
        if from_end <= len(call.marks) and call.marks[-from_end].taint:
            whole, number = call.ins[-from_end], column.logs[0].number
            numbers = self._apart.numbers(whole)
            if number is not None and numbers is None:
                return "part", len(call.ins) - from_end
            if number is not None and numbers.shape[1:] == values[0].shape:
                return "part", len(call.ins) - from_end
        return "none", 0

    # -- carries whose elements move -------------------------------------------------------------

    def _moved(self) -> dict[int, Any]:
        """Return the guess that iterations only move or combine the elements of the carry.

        One pass with ids tells the moves, unless those of earlier logs fit. A carry of more than
        `_MOST_IDS` elements is guessed to be constant.
        """
        if sum(x.size for x in self._first_numbers.values()) > _MOST_IDS:
            return self._constant()
        ids = _Ids(self._apart.sets, self._first_numbers)
        moves = self.moves
        if moves is None or moves.each is None or not ids.fits(moves):
            outs, *_ = self._pass(self._constant(), ids)
            moves = ids.moves(outs, self._used)
        self.moves = moves
        return self._shifted(ids.composed(moves, self._steering)) if moves.kept else {}


class Moves(NamedTuple):
    """From which elements of its incoming carry an iteration computes each element of its outgoing one.

    Attributes:
      n: how many elements the carry has.
      kept: the positions of the results that are a carry for the next iteration.
      of: [iterations, elements]: for each element that an iteration leaves, the number of the set
        of ids that it is computed from (`_Ids`); None where `kept` is empty.
      each: the one row of `of`, where every iteration moves elements without combining any, all in
        the same way; else None.
    """

    n: int
    kept: Sequence[int]
    of: Any
    each: Any


class _Ids:
    """Ids for the elements of the carry, to see how iterations move them.

    Ids are the lowest bits of sets: element i has bit i, and so its singleton has number i + 1. A
    set of origins that comes from outside of the carry has one of the bits after these.

    Attributes:
      sets: the numbers of sets of such ids.
      n: how many elements the carry has.
    """

    def __init__(self, of: OriginSets, first: dict[int, Any]):
        self.sets, self._of, self._first = OriginSets(), of, first
        self._begin: dict[int, int] = {}
        self.n = 0
        for j, x in first.items():
            self._begin[j] = self.n
            self.n += x.size
        for i in range(self.n):
            self.sets.number(1 << i)  # gets the number i + 1
        self._fixed: dict[int, int] = {}

    def fits(self, moves: Moves) -> bool:
        """Whether moves that were found for earlier logs are those of a carry of the same size."""
        known = all(j in self._first for j in moves.kept)
        sizes = sum(self._first[j].size for j in moves.kept) if known else -1
        return moves.n == self.n and moves.each is not None and sizes == len(moves.each)

    def number(self, bits: int) -> int:
        """Return the number here of the set that has the id of a set of origins, given as bits."""
        return self._number_of(self._of.number(bits))

    def _number_of(self, number: int) -> int:
        if not number:
            return 0
        at = self._fixed.setdefault(number, len(self._fixed))
        return self.sets.number(1 << self.n + at)

    def of_carry(self, j: int, shape: tuple[int, ...]) -> Any:
        """Return the numbers of the elements of carry j, as one row: each element has its own id."""
        xp, size = numpy_namespace(), self._first[j].size
        row = xp.arange(size, dtype=xp.int32).reshape(shape[1:]) + (self._begin[j] + 1)
        return row[None]

    def of_fixed(self, numbers: Any) -> Any:
        """Turn numbers of sets of origins into numbers of the sets here that stand for them."""
        xp = numpy_namespace()
        among, where = xp.unique(xp.asarray(numbers), return_inverse=True)
        found = xp.array([self._number_of(n) for n in among.tolist()], xp.int32)
        return found[where].reshape(xp.shape(numbers))

    def moves(self, outs: dict[int, Any], used: set[int]) -> Moves:
        """Return the moves of the iterations, by the numbers of what they leave.

        used: the positions of the results that an iteration reads as its carry.
        """
        xp = numpy_namespace()
        kept = [j for j in self._first if j in outs and j in used]
        if not kept:
            return Moves(self.n, kept, None, None)
        of = xp.concatenate([outs[j].reshape(len(outs[j]), -1) for j in kept], axis=1)
        same = (of[0] <= self.n).all() and (of == of[0]).all()
        return Moves(self.n, kept, of, of[0] if same else None)

    def composed(self, moves: Moves, steering: Sequence[bool]) -> dict[int, Any]:
        """Compose moves over the iterations, from the first carry on.

        Returns:
          The numbers of the sets of origins of what each iteration leaves, by position: [n, ...].
        """
        xp, n, kept = numpy_namespace(), len(steering), moves.kept
        if moves.each is not None and not any(steering):
            numbers = self._again_and_again(moves.each, self._numbers(), kept, n)
        else:
            of = moves.of
            if moves.each is not None:
                of = xp.broadcast_to(moves.each, (n, len(moves.each)))
            parts = self._parts(of)
            if parts.shape[1] == 1:
                numbers = self._one_by_one(parts[of, 0], self._numbers(), kept, steering)
            else:
                now, sets = self._words()
                found = self._one_by_one(of, now, kept, steering, parts)
                words, where = xp.unique(found, return_inverse=True)
                numbers = xp.array([sets(w) for w in words.tolist()], xp.int32)[where]
        ends = xp.cumsum([self._first[j].size for j in kept])[:-1]
        split = zip(kept, xp.split(numbers.reshape(n, -1), ends, axis=1), strict=True)
        return {j: x.reshape(n, *self._first[j].shape) for j, x in split}

    def _again_and_again(self, move: Any, now: Any, kept: Sequence[int], n: int) -> Any:
        """Compose one move n times with itself, by doubling; return what each iteration leaves."""
        xp, whole = numpy_namespace(), numpy_namespace().arange(len(now))
        whole[self._places(kept)] = move
        found = now[whole][None]
        while len(found) < n:
            found = xp.concatenate([found, found[:, whole]])
            whole = whole[whole]
        return found[:n, self._places(kept)]

    def _places(self, kept: Sequence[int]) -> Any:
        """Return the positions of the elements of the carry among ids, where 0 stands for none."""
        xp = numpy_namespace()
        begin = [self._begin[j] + 1 for j in kept]
        ends = [i + self._first[j].size for i, j in zip(begin, kept, strict=True)]
        return xp.concatenate([xp.arange(i, k) for i, k in zip(begin, ends, strict=True)])

    def _one_by_one(
        self,
        moves: Any,
        now: Any,
        kept: Sequence[int],
        steering: Sequence[bool],
        parts: Any = None,
    ) -> Any:
        """Compose the moves of iterations that differ, one after the other.

        Args:
          moves: what each iteration does with each element: [n, elements].
          now: what each id stands for in the first carry, 0 or an empty word first; is changed.
          kept: the positions of the results that are carries.
          steering: which logs hand on no carry: nothing changes at these.
          parts: the ids that each number in `moves` stands for, whose words are joined; None where
            `moves` are ids.

        Returns:
          What each iteration leaves: [n, elements].
        """
        xp = numpy_namespace()
        at: Any = self._places(kept)
        if at.size and at[-1] - at[0] + 1 == at.size:
            at = slice(int(at[0]), int(at[-1]) + 1)  # quicker
        found = xp.empty(moves.shape, now.dtype)
        for move, row, steers in zip(moves, found, steering, strict=True):
            if not steers:
                now[at] = (
                    now[move] if parts is None else xp.bitwise_or.reduce(now[parts[move]], axis=1)
                )
            row[:] = now[at]
        return found

    def _numbers(self) -> Any:
        """Return the origin-set number that each id stands for in the first carry; index 0 is none."""
        numbers = [0]
        for x in self._first.values():
            numbers += x.reshape(-1).tolist()
        return numpy_namespace().array([*numbers, *self._fixed], numpy_namespace().int32)

    def _words(self) -> tuple[Any, Callable[[int], int]]:
        """Return the origins of each id as bits of a uint64, and the function from such words to set numbers.

        Index 0 is none. Only the first 64 origins have bits: further ones do not count.
        """
        xp, of = numpy_namespace(), self._of
        numbers = self._numbers().tolist()
        union = of.whole({*numbers})
        places = [i for i in range(union.bit_length()) if union >> i & 1][:_WORD]
        words: dict[int, int] = {}
        for number in {*numbers}:
            bits = of.whole([number])
            words[number] = sum(1 << k for k, i in enumerate(places) if bits >> i & 1)

        def number_of(word: int) -> int:
            return of.number(sum(1 << i for k, i in enumerate(places) if word >> k & 1))

        return xp.array([words[x] for x in numbers], xp.uint64), number_of

    def _parts(self, moves: Any) -> Any:
        """Return the ids in the set of each number in `moves`: [numbers, width], filled up with 0.

        Of a set with more than `_MOST_PARTS` ids only so many are told.
        """
        xp, table = numpy_namespace(), dict[int, list[int]]()
        for number in self.sets.among(moves):
            bits, table[number] = self.sets.whole([number]), []
            while bits and len(table[number]) < _MOST_PARTS:
                table[number].append(bits.bit_length())
                bits ^= 1 << bits.bit_length() - 1
        width = max(map(len, table.values()), default=1)
        found = xp.zeros((int(moves.max()) + 1, width), xp.int64)
        for number, parts in table.items():
            found[number, : len(parts)] = parts
        return found


def _first_of(where: Any) -> int:
    """Return the first index at which a boolean array is true; its length where it is nowhere."""
    return int(where.argmax()) if where.any() else len(where)

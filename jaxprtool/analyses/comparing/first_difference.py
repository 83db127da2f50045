"""Find the first equation whose results differ although its operands agree, in two evaluations that run in step.

`Search` takes the events of both (`in_step.Stepped`), pairs the equations of each two jaxprs
(`counterparts`), and compares the results of each pair. Where results differ, `_origin` decides
whether the pair itself is to blame, or its operands differed before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from jaxprtool.analyses.comparing.comparison import First
from jaxprtool.analyses.comparing.counterparts import (
    NO_EQUATION,
    counterparts,
    in_order,
    other_results,
    results,
    same_operation,
)
from jaxprtool.analyses.comparing.handing import Handing
from jaxprtool.analyses.comparing.in_step import Enter, Leave, See, Stepped
from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.analyses.places import Place, Step
from jaxprtool.analyses.sites import Sites
from jaxprtool.interpreters.batch import is_elementwise
from jaxprtool.interpreters.evaluation.observe import written_as
from jaxprtool.interpreters.evaluation.state_values import Cell
from jaxprtool.ir.diagnostics import UsageError
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Var

__all__ = ["Search"]

Pairs = list[tuple[int, int]]
_TURNS = 10_000  # iterations of loops of unknown length that a run may take after a difference,
_MORE = 10  # or so many times those of the other run
_MOST = 1_000_000  # such iterations that each run may take while no difference is known,
_MANY = 100  # or so many times those of the other run, if that has ended


class Search:
    """The search in two evaluations.

    Attributes:
      a, b: the evaluations.
      first: the first difference that was found, or None.
      flips: the first pair of equations with a differing result that is no float, or None.
      stopped: for each evaluation the error that stopped it because it took too many iterations, or
        None.
    """

    def __init__(
        self,
        a: Stepped,
        b: Stepped,
        same: Callable[[Any, Any], bool],
        difference: Callable[[Any, Any], Any],
        *,
        bounded: bool = True,
    ):
        """Prepare the search.

        Args:
          a, b: the evaluations, which have not begun.
          same: whether two values are equal bit by bit.
          difference: how two values differ, as `backends.differences.Found` has it.
          bounded: whether loops are bounded: an evaluation is stopped that takes many more
            iterations than the other one once a difference is known or the other one has ended, and
            both are where they take very many without an end.
        """
        self.a, self.b, self.bounded = a, b, bounded
        self.stopped: list[UsageError | None] = [None, None]
        if bounded:
            a.bound, b.bound = partial(self._bound, b), partial(self._bound, a)
        self.same, self.difference = same, difference
        self.first: First | None = None
        self.flips: First | None = None
        self._paths: tuple[tuple[Step, ...], tuple[Step, ...]] = ((), ())
        self._pairs: dict[tuple[Jaxpr, Jaxpr], tuple[Pairs, list[int]]] = {}
        self._carried: First | None = None
        self._met: First | None = None  # the innermost pair at which differing operands were found
        self._signatures = Signatures()
        self._handing = Handing(lambda x, y: same(x, y) or not difference(x, y).n_different)

    def run(self) -> None:
        """Run both evaluations to their ends, or as far as they may run."""
        for k, run in enumerate((self._follow, partial(_drain, self.a), partial(_drain, self.b))):
            try:
                run()
            except UsageError as e:
                if e.diagnostics[0].code != "step-limit" or not (self._known or self.bounded):
                    raise
                if k:
                    self.stopped[k - 1] = e
                    if all(self.stopped) and not self.bounded:
                        raise  # neither side has results within the user's limit
        self.first = self.first or self._carried

    @property
    def _known(self) -> bool:
        """Whether a difference is known."""
        return self.first is not None or self._carried is not None

    def _bound(self, other: Stepped) -> int:
        """Return how many iterations an evaluation may take in all, given what the other one has taken."""
        if self._known:
            return max(_TURNS, _MORE * other.turns.taken)
        return max(_MOST, _MANY * other.turns.taken) if other.complete else _MOST

    def _follow(self) -> None:
        """Follow both evaluations in step."""
        a, b = self.a.peek(), self.b.peek()
        if isinstance(a, Enter) and isinstance(b, Enter):
            self._level()

    def _level(self) -> None:
        """Follow one jaxpr of each side, both of which begin now, to their ends."""
        enter_a, enter_b = self.a.next(), self.b.next()
        assert isinstance(enter_a, Enter) and isinstance(enter_b, Enter)
        a, b = enter_a.jaxpr, enter_b.jaxpr
        outer = self._paths
        if enter_a.step is not None and enter_b.step is not None:
            self._paths = (*outer[0], enter_a.step), (*outer[1], enter_b.step)
        known = self._pairs.get((a, b))
        if known is None:
            pairs = _counterparts(a, b)
            known = self._pairs[a, b] = pairs, other_results(a, b, pairs)
        pairs, others = known
        i = j = 0
        for p, q in pairs:
            if p > i or q > j:
                self._skip(self.a, p - i)
                self._skip(self.b, q - j)
            self._pair(pairs, (a, b))
            i, j = p + 1, q + 1
        self._skip(self.a, len(a.eqns) - i)
        self._skip(self.b, len(b.eqns) - j)
        leave_a, leave_b = self.a.next(), self.b.next()
        if (
            others
            and self.first is None
            and isinstance(leave_a, Leave)
            and isinstance(leave_b, Leave)
        ):
            self._compare_results(pairs, others, (a, b), (leave_a, leave_b))
        self._paths = outer

    def _skip(self, side: Stepped, n: int) -> None:
        """Run n equations of a side that have no counterparts."""
        for _ in range(n):
            while isinstance(side.peek(), Enter):
                _skip_level(side)
            event = side.next()
            if isinstance(event, See) and self.first is None:
                self._handing.skipped(event)

    def _handed_on(
        self, jaxpr: Jaxpr, x: Any, paired: Collection[int], *, shown: bool = False
    ) -> Any:
        """Return the variable that x is a copy of: equations without counterparts that only hand a value on are skipped.

        shown: as of `Handing.given_by`.
        """
        where = results(jaxpr)
        while isinstance(x, Var):
            i = where.get(x, NO_EQUATION)[0]
            if i is None or i in paired:
                return x
            given = self._handing.given_by(jaxpr.eqns[i], shown=shown)
            if given is None:
                return x
            x = given
        return x

    def _compare_results(
        self,
        pairs: Pairs,
        others: Sequence[int],
        jaxprs: tuple[Jaxpr, Jaxpr],
        ends: tuple[Leave, Leave],
    ) -> None:
        """Compare the jaxprs' results at positions where the equations that compute them are no counterparts."""
        defined = [results(j) for j in jaxprs]
        for k in others:
            x, y = ends[0].outs[k], ends[1].outs[k]
            if self.same(x, y):
                continue
            found = self.difference(x, y)
            if found.n_different:
                atoms = [j.outs[k] for j in jaxprs]
                given = [
                    d.get(z, NO_EQUATION)[0] if isinstance(z, Var) else None
                    for d, z in zip(defined, atoms, strict=True)
                ]
                if given != [None, None]:
                    eqns = self._where_alone_begins(pairs, jaxprs, (given[0], given[1]))
                    places = [
                        self._place(i, e) if e else self._around(i) for i, e in enumerate(eqns)
                    ]
                    self.first = First(places[0], places[1], found)
                return

    def _where_alone_begins(
        self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr], given: tuple[int | None, int | None]
    ) -> list[JaxprEqn | None]:
        """Return the equations to blame for two differing values, at least one of which comes from an equation without a counterpart.

        They are the equations that compute the values. Where the same operations lead to both
        values, they are those where these operations begin: one side may compute once what the
        other one computes twice, with a mistake.
        """
        chosen = [*given]
        paired = [{i for i, _ in pairs}, {j for _, j in pairs}]
        for side in (0, 1):
            i = given[side]
            if i is not None and i not in paired[side]:
                ways = self._ways(jaxprs[side], i, paired[side])
                ends = ((m, _follow(jaxprs, pairs, given, side, ways[m])) for m in sorted(ways))
                begin = next((end for end in ends if end[1] is not None), None)
                if begin is not None:
                    chosen[side], chosen[1 - side] = begin
                    break
        return [None if i is None else j.eqns[i] for j, i in zip(jaxprs, chosen, strict=True)]

    def _ways(self, jaxpr: Jaxpr, i: int, paired: set[int]) -> dict[int, list[int]]:
        """Return the equations without counterparts that equation i depends on through others of these.

        Each has the positions of operands that lead to it from equation i.
        """
        where = results(jaxpr)
        ways: dict[int, list[int]] = {i: []}
        queue = [i]
        while queue:
            n = queue.pop()
            for k, x in enumerate(jaxpr.eqns[n].inputs):
                m = where.get(x, NO_EQUATION)[0] if isinstance(x, Var) else None
                if m is None or m in paired or m in ways:
                    continue
                ways[m] = [*ways[n], k]
                queue.append(m)
        del ways[i]
        return ways

    def _pair(self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr]) -> None:
        """Run a pair of equations, one of each side, with the jaxprs inside them."""
        before = self.first
        while True:
            x, y = self.a.peek(), self.b.peek()
            if type(x) is See and type(y) is See:
                break
            if isinstance(x, Enter) and isinstance(y, Enter) and _matches(x.step, y.step):
                self._level()
                continue
            inside = [isinstance(e, Enter) for e in (x, y)]
            for side, entered in zip((self.a, self.b), inside, strict=True):
                if entered:
                    _skip_level(side)
            if not any(inside):
                break
        seen_a, seen_b = self.a.next(), self.b.next()
        if isinstance(seen_a, See) and isinstance(seen_b, See):
            if before is None and self.first is not None:  # found inside, where operands may differ
                here = First(self._place(0, seen_a.eqn), self._place(1, seen_b.eqn))
                outside = self._of_operands(pairs, jaxprs, seen_a, seen_b, here)
                self.first = self.first if outside in (here, None) else outside
            self._compare(pairs, jaxprs, seen_a, seen_b)

    def _compare(self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr], a: See, b: See) -> None:
        """Compare the results of a pair, and record where a difference comes from."""
        if self.first is not None and self.flips is not None:
            return
        carried = None if self._carried is None else self._carried.a
        if isinstance(carried, Place) and carried.eqn is a.eqn:
            # the arguments of the inner jaxprs are known now
            here = First(self._place(0, a.eqn), self._place(1, b.eqn))
            self._carried = self._origin(pairs, jaxprs, a, b, here)
            if self._carried is None:
                # At the top the constants differ: the first equation that reads them counts.
                self._carried = self._outside(here) if all(self._paths) else self._met
        for k, (x, y) in enumerate(zip(a.outs, b.outs, strict=False)):
            if self.first is not None and _is_float(a.eqn, k):
                continue  # only a comparison that flips is left to find
            if self.same(x, y):
                continue
            found = self.difference(x, y)
            if not found.n_different:
                continue
            given = _given(a, b, k, found.where)
            here = First(self._place(0, a.eqn), self._place(1, b.eqn), found, k, given)
            if self.first is None:
                self.first = self._origin(pairs, jaxprs, a, b, here)
            if self.first is None and self._carried is None:
                self._carried, self._met = self._outside(here), here
            if found.exact and self.flips is None:
                self.flips = here

    def _place(self, side: int, eqn: JaxprEqn) -> Place:
        return Place(eqn, self._paths[side])

    def _around(self, side: int) -> Place | None:
        """Return the place of the equation that holds the running jaxpr; None at the top."""
        path = self._paths[side]
        return Place(path[-1].eqn, path[:-1]) if path else None

    def _outside(self, here: First) -> First:
        """Return the equations that hold the running jaxprs, whose arguments differ; `here` at the top."""
        if not all(self._paths):
            return here
        return First(self._around(0), self._around(1))

    def _origin(
        self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr], a: See, b: See, here: First
    ) -> First | None:
        """Return the equations to blame for the differing results of a pair; None where its operands differed before.

        It is the pair itself where its operations differ, where its operands agree, or where it
        reads variables that are no counterparts. Where an operand comes from an equation without a
        counterpart, it is that equation.
        """
        same = len(a.ins) == len(b.ins)
        if not (same and same_operation(a.eqn, b.eqn, self._signatures, folded=True)):
            # A minimum that was put for a sum may return an operand by chance, and reads what the sum reads.
            if not (same and all(map(self.same, a.ins, b.ins))):
                for seen in (a, b):
                    self._handing.ran(seen)
            return self._computed(pairs, jaxprs, (a.eqn, b.eqn), here)
        return self._of_operands(pairs, jaxprs, a, b, here)

    def _computed(
        self,
        pairs: Pairs,
        jaxprs: tuple[Jaxpr, Jaxpr],
        eqns: tuple[JaxprEqn, JaxprEqn],
        here: First,
    ) -> First:
        """Return the difference at two equations with different operations.

        Where one of them only hands an operand on, its side is the equation without a counterpart that computes the operand.
        """
        given = [self._handing.given_by(eqn, shown=True) for eqn in eqns]
        for side in (0, 1):
            if given[side] is None or given[1 - side] is not None:
                continue
            paired = {pair[side] for pair in pairs}
            x = self._handed_on(jaxprs[side], given[side], paired, shown=True)
            i = results(jaxprs[side]).get(x, NO_EQUATION)[0]
            if i is not None and i not in paired:
                place = self._place(side, jaxprs[side].eqns[i])
                return replace(here, **{"ab"[side]: place}, given=())
        return here

    def _of_operands(
        self, pairs: Pairs, jaxprs: tuple[Jaxpr, Jaxpr], a: See, b: See, here: First
    ) -> First | None:
        """As `_origin`, without regard to what the operations are."""
        if len(a.ins) != len(b.ins):
            return here
        partner = dict(pairs)
        binders = [{v: i for i, v in enumerate(j.all_binders)} for j in jaxprs]
        defined = [results(j) for j in jaxprs]
        origin: First | None = here
        for k, (x, y) in enumerate(zip(a.ins, b.ins, strict=True)):
            if type(x) is Cell or self.same(x, y):
                continue
            found = self.difference(x, y)
            if not found.n_different:
                continue
            u, v = a.eqn.inputs[k], b.eqn.inputs[k]
            u, v = self._where_computed(jaxprs, partner, (u, v))
            if not isinstance(u, Var) or not isinstance(v, Var):
                return self._of_constant(pairs, jaxprs, (a.eqn, b.eqn), (u, v), found) or here
            (i, of_a), (j, of_b) = defined[0].get(u, NO_EQUATION), defined[1].get(v, NO_EQUATION)
            alone = i is not None and i not in partner, j is not None and j not in partner.values()
            if any(alone):
                begins = self._where_alone_begins(pairs, jaxprs, (i, j))
                p, q = begins[0] or a.eqn, begins[1] or b.eqn
                if _are_written(
                    jaxprs, [e if one else None for e, one in zip((p, q), alone, strict=True)]
                ):
                    return here
                return First(self._place(0, p), self._place(1, q), found)
            if i is None and j is None:
                carried = binders[0].get(u) == binders[1].get(v)
            else:
                carried = i is not None and partner.get(i) == j and of_a == of_b
            if not carried:
                return here
            origin = None
        return origin

    def _where_computed(
        self, jaxprs: tuple[Jaxpr, Jaxpr], partner: dict[int, int], operands: tuple[Any, Any]
    ) -> tuple[Any, Any]:
        """Return two operands, or the variables that they are copies of.

        The latter only where an equation without a counterpart computes one of those variables.
        """
        known = {*partner}, {*partner.values()}
        found = [self._handed_on(*x) for x in zip(jaxprs, operands, known, strict=True)]
        alone: list[bool] = []
        for jaxpr, paired, x in zip(jaxprs, known, found, strict=True):
            i = results(jaxpr).get(x, NO_EQUATION)[0] if isinstance(x, Var) else None
            alone.append(i is not None and i not in paired)
        if any(alone):  # one that has a counterpart is not what the other one's stands for
            pairs = zip(alone, found, operands, strict=True)
            found = [x if one else old for one, x, old in pairs]
        return found[0], found[1]

    def _of_constant(
        self,
        pairs: Pairs,
        jaxprs: tuple[Jaxpr, Jaxpr],
        eqns: tuple[JaxprEqn, JaxprEqn],
        operands: tuple[Any, Any],
        found: Any,
    ) -> First | None:
        """Return the equation that computes an operand from constants alone, where the other program has a literal of another value.

        None where no equation without a counterpart computes it: then the literal is a part of the
        operation.
        """
        side = 0 if isinstance(operands[0], Var) else 1
        where = results(jaxprs[side])
        i = where.get(operands[side], NO_EQUATION)[0]
        paired = {pair[side] for pair in pairs}
        if i is None or i in paired:
            return None
        chain = sorted([i, *self._ways(jaxprs[side], i, paired)])
        read = {x for n in chain for x in jaxprs[side].eqns[n].inputs if isinstance(x, Var)}
        if not all(where.get(x, NO_EQUATION)[0] in chain for x in read):
            return None
        made = [self._place(side, jaxprs[side].eqns[n]) for n in chain]
        places = [self._place(n, eqn) for n, eqn in enumerate(eqns)]
        places[side] = made.pop()
        return First(places[0], places[1], found, among=((), made) if side else (made, ()))


def _given(a: See, b: See, k: int, where: tuple[int, ...] | None) -> list[tuple[Any, Any]]:
    """Return the operands, in A and B, of two elementwise equations at an index of their results.

    [] for other equations, and where an operand has no element at that index.
    """
    if where is None or len(a.ins) != len(b.ins):
        return []
    if not is_elementwise(a.eqn.primitive) or not is_elementwise(b.eqn.primitive):
        return []
    pairs, shapes = list(zip(a.ins, b.ins, strict=True)), ((), a.outs[k].shape)
    if any(getattr(x, "shape", None) not in shapes for pair in pairs for x in pair):
        return []
    return [
        (x[where if x.ndim else ()].item(), y[where if y.ndim else ()].item()) for x, y in pairs
    ]


def _counterparts(a: Jaxpr, b: Jaxpr) -> Pairs:
    """Return the pairs of indices of counterparts.

    Where evaluation runs other jaxprs in the place of two (`written_as`), these are paired as the
    written ones are.
    """
    written = written_as(a), written_as(b)
    if written[0] is a or written[1] is b:
        return counterparts(a, b)
    made = _made(a, written[0]), _made(b, written[1])
    pairs: Pairs = []
    for p, q in counterparts(*written):
        of_p, of_q = made[0].get(p, []), made[1].get(q, [])
        several = [[j.eqns[i].primitive for i in of] for j, of in ((a, of_p), (b, of_q))]
        pairs += (
            zip(of_p, of_q, strict=True)
            if several[0] == several[1]
            else zip(of_p[-1:], of_q[-1:], strict=False)
        )
    return in_order(sorted(pairs), a)


def _made(jaxpr: Jaxpr, written: Jaxpr) -> dict[int, list[int]]:
    """Map the indices of written equations to those of the equations that run in their place."""
    sites = Sites(written)
    where = {id(eqn): i for i, eqn in enumerate(written.eqns)}
    found: dict[int, list[int]] = {}
    for n, eqn in enumerate(jaxpr.eqns):
        i = where.get(id(sites.written(eqn)))
        if i is not None:
            found.setdefault(i, []).append(n)
    return found


def _are_written(jaxprs: tuple[Jaxpr, Jaxpr], eqns: Sequence[JaxprEqn | None]) -> bool:
    """Whether equations that have no counterparts among those that run have some among those that are written.

    What is run for all devices of a mesh in the place of a jaxpr lacks the equations that nobody
    reads.
    """
    written = [*map(written_as, jaxprs)]
    if written[0] is jaxprs[0] or written[1] is jaxprs[1]:
        return False
    pairs = counterparts(*written)
    for side, eqn in enumerate(eqns):
        if eqn is not None:
            there = Sites(written[side]).written(eqn)
            if not any(written[side].eqns[pair[side]] is there for pair in pairs):
                return False
    return True


def _is_float(eqn: JaxprEqn, k: int) -> bool:
    """Whether result k of an equation is floating; the content of its cells, which follow its results, counts as such."""
    if k >= len(eqn.out_binders):
        return True
    dtype = getattr(eqn.out_binders[k].aval, "dtype", None)
    return dtype is not None and dtype.is_inexact


def _matches(a: Step | None, b: Step | None) -> bool:
    """Whether two jaxprs are in the same place of two equations that are counterparts."""
    if a is None or b is None:
        return a is b
    return (a.param, a.branch, a.step) == (b.param, b.branch, b.step)


def _follow(
    jaxprs: tuple[Jaxpr, Jaxpr],
    pairs: Pairs,
    given: tuple[int | None, int | None],
    side: int,
    way: Sequence[int],
) -> int | None:
    """Follow a way through operands on both sides; return the equation at its end on the other side.

    None unless the operations on the way are the same, and the equations at its ends read
    corresponding variables.

    Args:
      jaxprs: both jaxprs.
      pairs: their counterparts.
      given: the equations at which the way begins.
      side: the side whose way it is.
      way: the position of the operand at each equation.
    """
    here, there = given[side], given[1 - side]
    where = [results(j) for j in jaxprs]
    for k in way:
        if here is None or there is None:
            return None
        p, q = jaxprs[side].eqns[here], jaxprs[1 - side].eqns[there]
        if p.primitive is not q.primitive or len(p.inputs) != len(q.inputs):
            return None
        here, there = [
            where[s].get(x, NO_EQUATION)[0] if isinstance(x, Var) else None
            for s, x in ((side, p.inputs[k]), (1 - side, q.inputs[k]))
        ]
    if here is None or there is None:
        return None
    partner = {pair[side]: pair[1 - side] for pair in pairs}
    ours = _reads(jaxprs[side], here, where[side], partner)
    return there if ours == _reads(jaxprs[1 - side], there, where[1 - side], None) else None


def _reads(
    jaxpr: Jaxpr,
    i: int,
    where: dict[Var, tuple[int, int]],
    partner: dict[int, int] | None,
) -> set[tuple[int | None, int]]:
    """Return the variables that an equation reads: as results of equations, or of their partners, or as binders."""
    binders = {v: n for n, v in enumerate(jaxpr.all_binders)}
    found: set[tuple[int | None, int]] = set()
    for x in jaxpr.eqns[i].inputs:
        if isinstance(x, Var):
            n, k = where.get(x, NO_EQUATION)
            if n is None:
                found.add((None, binders.get(x, -1)))
            else:
                found.add((n if partner is None else partner.get(n, -1), k))
    return found


def _drain(side: Stepped) -> None:
    """Run a side to its end."""
    while side.next() is not None:
        pass


def _skip_level(side: Stepped) -> None:
    """Run a jaxpr of one side alone."""
    depth = 0
    while True:
        event = side.next()
        depth += isinstance(event, Enter) - isinstance(event, Leave)
        if depth <= 0:
            return

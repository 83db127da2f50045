"""Replay what a rule has recorded for one equation for other equations of its kind, instead of running the rule again.

# Note [Replayed rules]

A program of layers or of time steps applies an operation again and again, with the same params, to
operands of the same types. The rule of the operation then records the same equations each time, but
for their variables. So the rule runs only for the first equation of a kind: for the others, the
equations that it recorded are recorded once more, with other variables. Neither the rule nor the
type rules of the operations it applies run again, which is most of the work of a transformation.

What a rule records depends on the params of an equation, on the types of its operands, on which of
them are equal or literals (and on the values of those), and on which are symbolic zeros. Equations
that agree in all of this are of one kind.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from jaxprtool.core.trace import Symbolic, Trace
from jaxprtool.interpreters.reuse.equation_keys import Keys
from jaxprtool.interpreters.stage import JaxprTrace, JaxprTracer
from jaxprtool.ir.jaxpr import (
    Atom,
    Aval,
    ClosedJaxpr,
    JaxprEqn,
    Lit,
    Params,
    Primitive,
    Value,
    Var,
    new_eqn,
    new_var,
)
from jaxprtool.ir.walk import all_eqns, sub_jaxprs

__all__ = ["Replayer", "joined"]

_FEWEST = 8  # fewest equations with the same params for which a recording pays

_atom_of = operator.attrgetter("atom")
_aval_of = operator.attrgetter("aval")
_binders_of = operator.attrgetter("out_binders")
_inputs_of = operator.attrgetter("inputs")
_trace_of = operator.attrgetter("_trace")


def joined(eqn: JaxprEqn, outs: Sequence[Value], others: Sequence[Any]) -> list[Value]:
    """Return the results of an equation by its rule, followed by what the rule returns beside each:
    tangents, or batch axes.

    Raises ValueError where the rule returns more or fewer of either than the equation has results.
    """
    found, n = [*outs, *others], len(eqn.out_binders)
    if len(outs) != n or len(found) != 2 * n:
        given = f"{len(outs)} results and {len(found) - len(outs)} beside them"
        raise ValueError(f"a rule of {eqn.primitive} gives {given}, where there are {n}")
    return found


class _Keys(Keys):
    """Keys of params in which a jaxpr is equal to itself alone, since others may have other names and origins."""

    def jaxpr(self, closed: ClosedJaxpr) -> int:
        return id(closed)

    def of_params(self, params: Params) -> int:
        """Return the number of params: the same for params with the same values in the same order."""
        key = tuple([(k, self.value(v)) for k, v in params.items()])
        return self._numbers.setdefault(key, len(self._numbers))


class Replayer:
    """Applies the rules of one table to the equations of one jaxpr.

    Attributes:
      often: the equations that share primitive and params with enough others; empty where the
        current trace does not record.
      first: the trace that records, or the outer of two.
      second: the inner trace; None where there is only one.
      params: a number for the params of each equation, by their ids: the same for equal params.
      met: for each kind of equation, what its rule recorded at first; then, how to replay it, or
        None where that is impossible.
      consts: the values of the constants of `second`.
    """

    __slots__ = ("consts", "first", "met", "often", "params", "second", "traces")

    def __init__(self, trace: Trace, eqns: Sequence[JaxprEqn]):
        self.first, self.second = trace.recorders()
        self.often: set[JaxprEqn] = set()
        if self.first is None or len({e.primitive for e in eqns}) > len(eqns) - _FEWEST + 1:
            return  # no primitive occurs often enough
        self.traces = {self.first, self.second, None, *Symbolic.__subclasses__()}
        self.met: dict[tuple[Any, ...], _Recording | _Replay | None] = {}
        self.consts: dict[Any, Value] = {}
        self.params: dict[int, int] = {}
        keys = _Keys()
        for alike in _alike(eqns):
            params = {id(e.params): e.params for e in alike}
            numbers = {i: keys.of_params(p) for i, p in params.items()}
            count = Counter([numbers[id(e.params)] for e in alike])
            self.params.update(numbers)
            self.often.update(e for e in alike if count[numbers[id(e.params)]] >= _FEWEST)

    def apply(
        self,
        eqn: JaxprEqn,
        values: Sequence[Value],
        axes: Sequence[int | None],
        rule: Callable[..., Sequence[Value]],
        *args: Any,
    ) -> Sequence[Value]:
        """Return what rule(*args) returns, where the rule is applied to an equation in `often`;
        replay it where possible.

        Args:
          eqn: the equation, which is `state.eqn`.
          values: the operands and symbolic zeros in `args`, which differ between equations of one
            primitive and params.
          axes: the batch axes in `args`, which differ likewise.
        """
        try:
            traces = (*map(_trace_of, values),)
        except AttributeError:  # an array
            return rule(*args)
        if not self.traces.issuperset(traces):
            return rule(*args)
        types = (*map(_aval_of, values), *map(_aval_of, eqn.out_binders))
        key: Any = eqn.primitive, self.params[id(eqn.params)], (*axes,), traces, types
        if None in traces:
            key += tuple([_number(x) for x in values if type(x) is Lit])
        tracers = [x for x in values if type(x) is JaxprTracer]
        atoms = [*map(_atom_of, tracers)]
        if len({*atoms}) < len(atoms):
            key += (*map(atoms.index, atoms),)
        found = self.met.get(key, self)
        if type(found) is _Recording:
            found = self.met[key] = self._replay(found)
        if type(found) is _Replay:
            return found.play(eqn, tracers, atoms, self.first, self.second)
        if found is None:
            return rule(*args)
        first, second = self.first.eqns, self.second.eqns if self.second else ()
        start, start_second = len(first), len(second)
        results = rule(*args)
        made = slice(start, len(first)), slice(start_second, len(second))
        self.met[key] = _Recording(eqn, atoms, *made, results)
        return results

    def _replay(self, recording: _Recording) -> _Replay | None:
        """Return how a recording is replayed; None where it contains equations with another origin,
        from an inlined jaxpr.
        """
        eqns, rest = (
            self.first.eqns[recording.first],
            self.second.eqns[recording.second] if self.second else [],
        )
        at, given = recording.eqn, recording.atoms
        inlined = {e.origin for c in sub_jaxprs(at) for e in all_eqns(c.jaxpr)} - {None}
        if at.origin in inlined or Lit in map(type, given):
            return None
        if any(e.origin is not at.origin or e.span is not at.span for e in chain(eqns, rest)):
            return None
        bound, bound_rest = _bound(eqns), _bound(rest)
        residuals = self._residuals(rest, {*given, *bound})
        made = {*given, *bound, *residuals, *bound_rest}
        operands = chain.from_iterable(map(_inputs_of, chain(eqns, rest)))
        fixed = [*dict.fromkeys(x for x in operands if x not in made)]
        atoms = [*given, *fixed, *bound, *residuals, *bound_rest]
        places: dict[Any, int] = {}
        for i, x in enumerate(atoms):
            places.setdefault(x, i)
        outs = [x.atom if type(x) is JaxprTracer else None for x in recording.results]
        same = [x for x, atom in zip(recording.results, outs, strict=True) if atom not in made]
        read = {*outs, *residuals.values()}
        boxed = [x for x in bound if x in read]
        boxed_rest = [x for x in (*residuals, *bound_rest) if x in read]
        numbers: dict[Any, int] = {}  # value -> its position in the list of values
        for i, x in enumerate([*given, *map(id, same), *boxed, *boxed_rest]):
            numbers.setdefault(x, i)
        of_results = zip(recording.results, outs, strict=True)
        return _Replay(
            fixed,
            [_Step.of(e, places) for e in eqns],
            [places[x] for x in boxed],
            [numbers[x] for x in residuals.values()],
            [_Step.of(e, places) for e in rest],
            [places[x] for x in boxed_rest],
            same,
            [numbers[atom if atom in made else id(x)] for x, atom in of_results],
        )

    def _residuals(self, eqns: Sequence[JaxprEqn], variables: set[Any]) -> dict[Any, Atom]:
        """Return the constants of `second` among the operands of equations that are one of these variables of `first`.

        The result maps each such constant to the variable.
        """
        operands = dict.fromkeys(chain.from_iterable(map(_inputs_of, eqns)))
        bound = {*variables, *_bound(eqns)}
        consts = [x for x in operands if type(x) is not Lit and x not in bound]
        for start in (len(self.consts), 0):  # the new ones; all, if some were dropped
            if self.consts.keys() >= {*consts}:
                break
            binders, known = self.second.const_binders, self.second.consts
            self.consts.update(zip(binders[start:], known[start:], strict=True))
        values = [(x, self.consts.get(x)) for x in consts]
        atoms = [(x, v.atom) for x, v in values if type(v) is JaxprTracer]
        return {x: atom for x, atom in atoms if atom in variables}


def _alike(eqns: Sequence[JaxprEqn]) -> list[list[JaxprEqn]]:
    """Group the equations by primitive and by hash of the params; return the groups that are large enough."""
    groups: dict[Any, list[JaxprEqn]] = {}
    for eqn in eqns:
        groups.setdefault((eqn.primitive, _hash(eqn.params)), []).append(eqn)
    return [alike for alike in groups.values() if len(alike) >= _FEWEST]


def _hash(params: Params) -> int:
    """Return a number that is the same for equal params; 0 for those without a hash."""
    try:
        return hash((*params.values(),))
    except TypeError:
        return 0


def _number(x: Lit) -> Any:
    """Return a key that distinguishes a literal from others of its type."""
    value = x.val
    if type(value) not in (bool, int, float, complex):
        return id(value)  # of an array
    # 0.0 and -0.0 are equal, and so are complex numbers with them as parts
    return type(value), value if value and type(value) is not complex else repr(value)


def _bound(eqns: Iterable[JaxprEqn]) -> list[Var]:
    return [*chain.from_iterable(map(_binders_of, eqns))]


class _Recording(NamedTuple):
    """What a rule recorded for an equation.

    Attributes:
      eqn: the equation that it was applied to.
      atoms: the atoms of the tracers among the values.
      first: the slice of the equations of the first trace that it recorded.
      second: the same for the second trace.
      results: the results of the rule.
    """

    eqn: JaxprEqn
    atoms: list[Atom]
    first: slice
    second: slice
    results: Sequence[Value]


class _Step(NamedTuple):
    """An equation to record.

    Attributes:
      primitive, params: the operation.
      operands: takes the operands from a list of atoms.
      aval: the type of the only result; None where there are several.
      avals: the types of all results.
    """

    primitive: Primitive
    params: Params
    operands: Callable[[list[Atom]], Sequence[Atom]]
    aval: Aval
    avals: list[Aval]

    @classmethod
    def of(cls, eqn: JaxprEqn, places: dict[Any, int]) -> _Step:
        """Make the step of an equation whose operands are at these positions."""
        at = [places[x] for x in eqn.inputs]
        few = slice(at[0], at[0] + 1) if at else slice(0)
        avals = [v.aval for v in eqn.out_binders]
        take = operator.itemgetter(*at) if len(at) > 1 else operator.itemgetter(few)
        return cls(eqn.primitive, eqn.params, take, avals[0] if len(avals) == 1 else None, avals)


class _Replay(NamedTuple):
    """A recording whose variables and values are positions in two lists.

    The list of atoms consists of: the atoms of the given tracers, `fixed`, the results of `eqns`,
    the residuals as constants of the second trace, and the results of `rest`. The list of values
    consists of: the given tracers, `same`, and the tracers of `boxed` and `boxed_rest`.

    Attributes:
      fixed: the operands that are the same each time.
      eqns: the equations that the first trace records.
      boxed: positions of the atoms bound by `eqns` that are residuals or results of the rule.
      residuals: positions of the values that the second trace reads.
      rest: the equations that the second trace records.
      boxed_rest: positions of the residuals and atoms bound by `rest` that are results of the rule.
      same: results of the rule that are the same each time.
      results: positions of the values that are the results of the rule.
    """

    fixed: list[Atom]
    eqns: list[_Step]
    boxed: list[int]
    residuals: list[int]
    rest: list[_Step]
    boxed_rest: list[int]
    same: list[Value]
    results: list[int]

    def play(
        self,
        eqn: JaxprEqn,
        tracers: list[Value],
        atoms: list[Atom],
        first: JaxprTrace,
        second: JaxprTrace | None,
    ) -> list[Value]:
        """Record the equations for another equation of the kind, with these operands.

        Returns the results of the rule.
        """
        fixed, eqns, boxed, residuals, rest, boxed_rest, same, results = self
        values = tracers + same
        atoms += fixed
        if eqns:
            _record(eqns, atoms, eqn, first.eqns)
            values += [JaxprTracer(first, atoms[i]) for i in boxed]
        if second is not None:
            atoms += second.atoms([values[i] for i in residuals])
            _record(rest, atoms, eqn, second.eqns)
            values += [JaxprTracer(second, atoms[i]) for i in boxed_rest]
        return [values[i] for i in results]


def _record(eqns: Sequence[_Step], atoms: list[Any], at: JaxprEqn, made: list[JaxprEqn]) -> None:
    """Record equations with the span and origin of another one, and append their results to the atoms."""
    span, origin = at.span, at.origin
    for primitive, params, operands, aval, avals in eqns:
        binders = [*map(new_var, avals)] if aval is None else [new_var(aval)]
        made.append(new_eqn(primitive, operands(atoms), params, binders, span, None, origin))
        atoms += binders

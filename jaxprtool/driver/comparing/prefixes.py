"""Find the first equation whose results differ between two runs of which one is compiled, by bisecting prefixes.

A prefix is the program cut after an equation; its results are the values that the rest reads. Where
the results of a pair of prefixes agree and those of the next pair do not, the difference arises in
the next equation. If that holds jaxprs, a run on NumPy gives the values on which they run, in
order; each is run on both backends, and searched in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.comparing.comparison import First
from jaxprtool.analyses.comparing.counterparts import (
    counterparts,
    definitions,
    giving,
    other_results,
    same_operation,
)
from jaxprtool.analyses.identity.signature import Signatures
from jaxprtool.analyses.places import Place, Step, Watch
from jaxprtool.interpreters.evaluate import eval_jaxpr, numpy_namespace
from jaxprtool.interpreters.evaluation.observe import observed_by, written_as
from jaxprtool.interpreters.evaluation.state_values import Cell, Token
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Value, Var
from jaxprtool.ir.walk import jaxprs_in

__all__ = ["Bodies", "Program", "first_of_prefixes"]

Pair = tuple[int, int]


class Program(NamedTuple):
    """A jaxpr without constants of its own, its arguments, and a function that runs it.

    Attributes:
      jaxpr: the jaxpr; all its binders are arguments.
      args: the values of the arguments.
      run: returns the results of any such jaxpr on values.
      path: the path to the jaxpr.
    """

    jaxpr: Jaxpr
    args: Sequence[Value]
    run: Callable[[ClosedJaxpr, Sequence[Value]], Sequence[Value]]
    path: tuple[Step, ...] = ()

    def values(self, n: int, outs: Sequence[Atom]) -> Sequence[Value]:
        """Return the values of some variables after the first n equations."""
        if not outs:
            return []
        jaxpr = self.jaxpr
        cut = Jaxpr(jaxpr.all_binders, jaxpr.eqns[:n], [*outs], [])
        return self.run(ClosedJaxpr(cut, []), self.args)

    def around(self) -> Place | None:
        """Return the equation that holds the jaxpr; None at the top."""
        return Place(self.path[-1].eqn, self.path[:-1]) if self.path else None

    def inside(self, jaxpr: Jaxpr, args: Sequence[Value], step: Step) -> Program:
        """Return the program of a jaxpr that an equation of this one runs."""
        path = (*self.path, step)
        given = [_fitting(x, v) for x, v in zip(args, jaxpr.all_binders, strict=True)]
        return self._replace(jaxpr=jaxpr, args=given, path=path)


def _fitting(x: Value, v: Var) -> Value:
    """Convert a value to the type of a binder; one side may have it in double precision."""
    xp = numpy_namespace()
    x = xp.value(x)
    dtype = xp.dtype_of_aval(v.aval.dtype) if v.aval.dtype.is_inexact else x.dtype
    return x if x.dtype == dtype else x.astype(dtype)


def first_of_prefixes(
    a: Program, b: Program, difference: Callable[[Any, Any], Any]
) -> First | None:
    """Return the first pair of equations whose results differ; None where no prefix shows a difference.

    Args:
      a, b: the programs.
      difference: returns how two values differ, as a `backends.differences.Found`.

    Raises:
      UnsupportedError: a backend does not accept a prefix.
    """
    pairs = counterparts(a.jaxpr, b.jaxpr)
    shared = [_shared(side.jaxpr, [p[k] for p in pairs]) for k, side in enumerate((a, b))]
    found: dict[int, tuple[Any, int] | None] = {}

    def differs(n: int) -> bool:
        """Whether the results of the first n pairs include one that differs between the sides."""
        if n not in found:
            found[n] = _differing(a, b, pairs, shared, n, difference)
        return found[n] is not None

    if not pairs or not differs(len(pairs)):
        return _of_results(a, b, pairs, difference)
    low, high = 0, len(pairs)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if differs(middle) else (middle, high)
    i, j = pairs[high - 1]
    if (missing := _of_operands(a, b, pairs, (i, j), difference)) is not None:
        return missing
    inner = _inside(a, b, (i, j), difference)
    if inner is not None:
        return inner
    said, k = found[high] or (None, 0)
    return First(Place(a.jaxpr.eqns[i], a.path), Place(b.jaxpr.eqns[j], b.path), said, k)


def _of_operands(
    a: Program, b: Program, pairs: Sequence[Pair], at: Pair, difference: Callable[[Any, Any], Any]
) -> First | None:
    """Return the equations that make an operand of a pair which differs, where one of them has no
    counterpart; else None.
    """
    p, q = a.jaxpr.eqns[at[0]], b.jaxpr.eqns[at[1]]
    if len(p.inputs) != len(q.inputs) or not same_operation(p, q, Signatures()):
        return None
    defined, paired = [definitions(side.jaxpr) for side in (a, b)], [*zip(*pairs, strict=True)]
    for x, y in zip(p.inputs, q.inputs, strict=True):
        if not isinstance(x, Var) or not isinstance(y, Var) or not (_is_array(x) and _is_array(y)):
            continue
        i, j = defined[0].get(x), defined[1].get(y)
        if (i is None or i in paired[0]) and (j is None or j in paired[1]):
            continue
        found = difference(a.values(at[0], [x])[0], b.values(at[1], [y])[0])
        if found.n_different:
            u, v = p if i is None else a.jaxpr.eqns[i], q if j is None else b.jaxpr.eqns[j]
            return First(Place(u, a.path), Place(v, b.path), found)
    return None


def _of_results(
    a: Program, b: Program, pairs: Sequence[Pair], difference: Callable[[Any, Any], Any]
) -> First | None:
    """Return the equations that make the first result that differs, among results whose equations
    are not counterparts.
    """
    for k in other_results(a.jaxpr, b.jaxpr, pairs):
        outs = [side.jaxpr.outs[k] for side in (a, b)]
        if not all(map(_is_array, outs)):
            continue
        whole = [(side, len(side.jaxpr.eqns)) for side in (a, b)]
        values = [side.values(n, [x])[0] for (side, n), x in zip(whole, outs, strict=True)]
        if (found := difference(*values)).n_different:
            eqns = [giving(side.jaxpr, k) for side in (a, b)]
            sides = zip((a, b), eqns, strict=True)
            places = [Place(e, side.path) if e else side.around() for side, e in sides]
            return First(places[0], places[1], found) if any(eqns) else None
    return None


def _shared(jaxpr: Jaxpr, at: Sequence[int]) -> list[int]:
    """Return for each of some equations the position of the last equation that reads a result of
    it; past the end for results.
    """
    last: dict[Any, int] = {}
    for n, eqn in enumerate(jaxpr.eqns):
        last.update((x, n) for x in eqn.inputs if type(x) is not Lit)
    last.update((x, len(jaxpr.eqns)) for x in jaxpr.outs if type(x) is not Lit)
    return [max((last.get(v, -1) for v in jaxpr.eqns[n].out_binders), default=-1) for n in at]


def _differing(
    a: Program,
    b: Program,
    pairs: Sequence[Pair],
    read: Sequence[Sequence[int]],
    n: int,
    difference: Callable[[Any, Any], Any],
) -> tuple[Any, int] | None:
    """Return the first difference among the values alive after n pairs, those of the last pair
    first, and the result's position.
    """
    cuts = [pairs[n - 1][side] + 1 for side in (0, 1)]
    alive = [m for m in range(n - 1) if all(read[k][m] >= cuts[k] for k in (0, 1))]
    names: list[tuple[Var, Var, int]] = []
    for m in (n - 1, *alive):
        p, q = a.jaxpr.eqns[pairs[m][0]], b.jaxpr.eqns[pairs[m][1]]
        outs = zip(p.out_binders, q.out_binders, strict=False)
        names += [(v, w, k) for k, (v, w) in enumerate(outs) if _is_array(v) and _is_array(w)]
    xs = a.values(cuts[0], [v for v, _, _ in names])
    ys = b.values(cuts[1], [w for _, w, _ in names])
    for x, y, (_, _, k) in zip(xs, ys, names, strict=True):
        found = difference(x, y)
        if found.n_different:
            return found, k
    return None


def _is_array(v: Atom) -> bool:
    return hasattr(v.aval, "dtype")


class Bodies(Watch):
    """Calls a function with each jaxpr that one equation runs, and with its arguments, until the
    function has an answer.
    """

    def __init__(self, tell: Callable[[Jaxpr, Sequence[Value], Step], Any]):
        super().__init__()
        self.tell = tell
        self.found: Any = None

    def enter(self, jaxpr: Jaxpr, args: Sequence[Any]) -> bool:
        if not super().enter(jaxpr, args):
            return False
        step = self.levels[-1].step
        if len(self.levels) == 2 and step is not None and self.found is None:
            with observed_by(None):
                self.found = self.tell(jaxpr, args, step)
        return True

    def watch(self, eqn: JaxprEqn, operands: Mapping[Any, Value]) -> Any:
        """Run an equation on values of its operands, by variable; return the answer."""
        alone = ClosedJaxpr(Jaxpr([*operands], [eqn], [*eqn.out_binders], []), [])
        with observed_by(self):
            eval_jaxpr(alone, [*operands.values()])
        return self.found


def _inside(
    a: Program, b: Program, at: Pair, difference: Callable[[Any, Any], Any]
) -> First | None:
    """Return the first difference in the inner jaxprs of a pair of equations; None where there is
    none, or it is not known.
    """
    p, q = a.jaxpr.eqns[at[0]], b.jaxpr.eqns[at[1]]
    names = list(dict.fromkeys(x for x in p.inputs if isinstance(x, Var)))
    if not (p.primitive.holds_jaxprs and q.primitive.holds_jaxprs):
        return None
    if not all(map(_is_array, names)) or len(p.inputs) != len(q.inputs):
        return None
    operands = dict(zip(names, a.values(at[0], names), strict=True))
    bodies = {(step.param, step.branch): jaxpr for jaxpr, step in _held(q)}

    def tell(jaxpr: Jaxpr, args: Sequence[Value], step: Step) -> First | None:
        if written_as(jaxpr) is not jaxpr and p is not q:
            bodies.update(_made(q, _operands_of(q, p, operands)))
        other = jaxpr if p is q else bodies.get((step.param, step.branch))
        if other is None or len(other.all_binders) != len(jaxpr.all_binders):
            return None
        if any(isinstance(x, (Cell, Token)) for x in args):
            return None
        sides = a.inside(jaxpr, args, step), b.inside(other, args, step._replace(eqn=q))
        try:
            return first_of_prefixes(*sides, difference)
        except (
            JaxprToolError
        ):  # the backend cannot run a body alone, for example one with collectives
            return None

    return Bodies(tell).watch(p, operands)


def _held(eqn: JaxprEqn) -> Iterator[tuple[Jaxpr, Step]]:
    """Return the jaxprs in the params of an equation, each with the step into it."""
    for key, value in eqn.params.items():
        inner = [closed.jaxpr for closed in jaxprs_in(value)]
        for i, jaxpr in enumerate(inner):
            yield jaxpr, Step(eqn, key, i if len(inner) > 1 else None)


def _operands_of(q: JaxprEqn, p: JaxprEqn, operands: Mapping[Any, Value]) -> dict[Any, Value]:
    """Return the values of the operands of q, given those of its counterpart p."""
    pairs = [(y, x) for x, y in zip(p.inputs, q.inputs, strict=True) if type(y) is not Lit]
    return {y: numpy_namespace().value(operands.get(x, x)) for y, x in pairs}


def _made(eqn: JaxprEqn, operands: Mapping[Any, Value]) -> dict[tuple[str, int | None], Jaxpr]:
    """Return the jaxprs that evaluation runs in the place of those in the params of an equation
    (for all devices at once).
    """
    made: dict[tuple[str, int | None], Jaxpr] = {}

    def keep(jaxpr: Jaxpr, _args: Sequence[Value], step: Step) -> None:
        made[step.param, step.branch] = jaxpr

    Bodies(keep).watch(eqn, operands)
    return made

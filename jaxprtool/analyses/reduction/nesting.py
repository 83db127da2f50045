"""Edits that open equations which hold jaxprs, and edits inside those jaxprs.

How an equation uses its jaxprs is read off a run. Where an argument of the jaxpr is the same object
as an operand of the equation, or a result of the jaxpr the same as a result of the equation, their
variables are the same; all other variables become arguments with the values that they had. So calls
are inlined, branches taken, and a loop is replaced by one of its iterations, without a rule for any
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxprtool.analyses.reduction.candidate import Candidate, Edit, zeros_of
from jaxprtool.analyses.reduction.equations import substituted
from jaxprtool.analyses.reduction.record import Run, Values, fits
from jaxprtool.analyses.reduction.rounds import Rounds, State
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Lit, Value, Var
from jaxprtool.ir.walk import map_programs, sub_jaxprs

__all__ = ["entered", "inside", "opened"]


def opened(state: State, values: Values) -> Rounds:
    """Put the equations of a jaxpr in the place of the equation that holds it, as long as that succeeds."""
    yield from _repeated(state, values, lambda e, run: lambda c: _open(c, e, run, values))


def entered(state: State, values: Values) -> Rounds:
    """Replace the program by a jaxpr that one of its equations runs, with the values of a run, as long as that succeeds."""
    yield from _repeated(state, values, lambda e, run: lambda c: _enter(c, run))


def _repeated(
    state: State, values: Values, edit: Callable[[JaxprEqn, Run], Edit]
) -> Iterator[Sequence[Edit]]:
    """Yield an edit for each run of each equation, the last equation first; again as long as one succeeds."""
    before = None
    while before is not state.current:
        before = state.current
        values.record(before)
        for eqn in reversed(before.jaxpr.eqns):
            runs = _runs(eqn, values, before)
            if runs:
                yield [edit(eqn, run) for run in runs]


def _runs(eqn: JaxprEqn, values: Values, c: Candidate) -> list[Run]:
    """Return the runs of an equation's jaxprs; for a jaxpr that did not run (a derivative rule), one that is made up from types."""
    if not eqn.primitive.holds_jaxprs:
        return []
    runs = values.runs.get(eqn, []) if c.args is not None else []
    inner = dict.fromkeys(closed.jaxpr for closed in sub_jaxprs(eqn))
    others = [j for j in inner if all(r.jaxpr is not j for r in runs)]
    return [*runs, *(_by_types(eqn, j, c.args is not None) for j in others)]


class _Named:
    """Stands for a value where there are no values."""

    def __init__(self, aval: Any):
        self.shape = getattr(aval, "shape", None)


def _by_types(eqn: JaxprEqn, jaxpr: Jaxpr, valued: bool) -> Run:
    """Return a made-up run: the last operands are the arguments and the first results the results, as far as types agree.

    Args:
      eqn: the equation.
      jaxpr: one of its jaxprs.
      valued: whether arguments need values, which are zeros then.
    """

    def stand(x: Any) -> Any:
        is_array = isinstance(x.aval, ShapedArray) and x.aval.size >= 0
        return zeros_of(x.aval) if valued and is_array else _Named(x.aval)

    ins, results = [*map(stand, eqn.inputs)], [*map(stand, eqn.out_binders)]
    args, outs = [*map(stand, jaxpr.all_binders)], [*map(stand, jaxpr.outs)]
    for k in range(1, min(len(ins), len(args)) + 1):
        if eqn.inputs[-k].aval.strong == jaxpr.all_binders[-k].aval.strong:
            args[-k] = ins[-k]
    for k, (v, x) in enumerate(zip(eqn.out_binders, jaxpr.outs, strict=False)):
        if v.aval.strong == x.aval.strong:
            outs[k] = results[k]
    return Run(jaxpr, jaxpr, args, outs, ins, results)


def _enter(c: Candidate, run: Run) -> Candidate | None:
    binders = run.ran.all_binders
    if not run.ran.eqns or not all(map(fits, run.args, binders)):
        return None
    made = {v for e in run.ran.eqns for v in e.out_binders}
    outs = [*dict.fromkeys(x for x in run.ran.outs if x in made)]
    args = None if c.args is None else run.args
    return Candidate(Jaxpr(binders, run.ran.eqns, outs), args) if outs else None


def _open(c: Candidate, eqn: JaxprEqn, run: Run, values: Values) -> Candidate | None:
    """Return the candidate with the equations of a jaxpr in the place of the equation that runs it."""
    if eqn not in c.jaxpr.eqns:
        return None
    operands = _by_identity(eqn.inputs, run.ins)
    new: dict[Any, Any] = {}
    fresh: list[Var] = []
    given: dict[Var, Value] = {}
    for v, value in zip(run.ran.all_binders, run.args, strict=True):
        x = operands.get(id(value))
        if x is None or x.aval.strong != v.aval.strong:
            if not fits(value, v):
                return None
            x = Var(v.aval, v.name)
            fresh.append(x)
            given[x] = value
        new[v] = x
    body = _renamed(run.ran.eqns, new)
    inner = _by_identity([new.get(x, x) for x in run.ran.outs], run.outs)
    replaced: dict[Var, Any] = {}
    for v, value in zip(eqn.out_binders, run.results, strict=True):
        x = inner.get(id(value))
        if x is not None and x.aval.strong == v.aval.strong:
            replaced[v] = x
        elif isinstance(v.aval, ShapedArray):
            fresh.append(v)
        else:
            return None
    i = c.jaxpr.eqns.index(eqn)
    after, outs = substituted(c.jaxpr.eqns[i + 1 :], c.jaxpr.outs, replaced)
    eqns = [*c.jaxpr.eqns[:i], *body, *after]
    if not any(x in replaced.values() or x not in fresh for x in outs):
        outs = [x for x in inner.values() if type(x) is not Lit]
    read = {x for e in eqns for x in e.inputs}
    fresh = [v for v in fresh if v in read]
    return c.rebuilt(eqns, outs, fresh, lambda v: given[v] if v in given else values(v))


def _by_identity(atoms: Sequence[Any], values: Sequence[Value]) -> dict[int, Any]:
    """Map the id of each value to the atom that has it; variables come before literals."""
    found: dict[int, Any] = {}
    for x, value in zip(atoms, values, strict=True):
        if type(found.get(id(value))) is not Var:
            found[id(value)] = x
    return found


def _renamed(eqns: Sequence[JaxprEqn], new: dict[Any, Any]) -> list[JaxprEqn]:
    """Return copies of equations with variables of their own, so that a jaxpr can be put in several places."""
    made: list[JaxprEqn] = []
    for e in eqns:
        inputs = [x if type(x) is Lit else new.get(x, x) for x in e.inputs]
        binders = [type(v)(v.aval, v.name) for v in e.out_binders]
        new.update(zip(e.out_binders, binders, strict=True))
        made.append(e.replace(inputs=inputs, out_binders=binders))
    return made


# -- inside of jaxprs that stay --------------------------------------------------------------------


def inside(state: State, values: Values) -> Rounds:
    """Remove slices of the equations of nested jaxprs; earlier variables, arguments or zeros replace their results."""
    size = max((len(j.eqns) for j in _nested(state.current)), default=0)
    while size:
        edits: list[Edit] = []
        for jaxpr in _nested(state.current):
            for i in reversed(range(0, len(jaxpr.eqns), size)):
                gone = jaxpr.eqns[i : i + size]
                if len(gone) == size or i == 0:
                    edits += [_inside_edit({*gone}, stand) for stand in _STANDS]
        yield edits
        size //= 2


def _nested(c: Candidate) -> Iterator[Jaxpr]:
    """Yield the jaxprs inside a candidate, at any depth, each once, outer ones first."""
    seen: set[Jaxpr] = set()
    pending = [c.jaxpr]
    while pending:
        current = pending.pop(0)
        for closed in (c for e in current.eqns for c in sub_jaxprs(e)):
            if closed.jaxpr not in seen:
                seen.add(closed.jaxpr)
                pending.append(closed.jaxpr)
                yield closed.jaxpr


# (variable, atoms of its type that are bound before it: arguments, then results) -> the atom that replaces it.
_Stand = Callable[[Var, Sequence[Var]], Any]


def _latest(v: Var, known: Sequence[Var]) -> Any:
    return known[-1] if known else _zeros(v, known)


def _argument(v: Var, known: Sequence[Var]) -> Any:
    return known[0] if known else _zeros(v, known)


def _zeros(v: Var, known: Sequence[Var]) -> Any:
    """Return a literal 0, or a new variable for a constant of zeros."""
    aval = v.aval
    if aval.shape == () and aval.dtype.kind in "biufc":
        zero: Any = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}[aval.dtype.kind]
        return Lit(zero, aval)
    return Var(aval)


_STANDS: tuple[_Stand, ...] = (_latest, _argument, _zeros)


def _inside_edit(gone: set[JaxprEqn], stand: _Stand) -> Edit:
    def edit(c: Candidate) -> Candidate | None:
        def changed(closed: ClosedJaxpr) -> ClosedJaxpr:
            if gone.isdisjoint(closed.jaxpr.eqns):
                return closed
            return _without_inside(closed, gone, stand) or closed

        root = ClosedJaxpr(c.jaxpr)
        new = map_programs(root, lambda p: p if p.jaxpr is c.jaxpr else changed(p))
        if new.jaxpr is c.jaxpr:
            return None
        jaxpr, used = dce_jaxpr(new.jaxpr)
        args = c.args
        if args is not None:
            args = [x for x, u in zip(args, used, strict=True) if u]
        return Candidate(jaxpr, args)

    return edit


def _without_inside(closed: ClosedJaxpr, gone: set[JaxprEqn], stand: _Stand) -> ClosedJaxpr | None:
    """Return a nested jaxpr of the same type without some of its equations; None where one of their results is no array."""
    jaxpr = closed.jaxpr
    kept = [e for e in jaxpr.eqns if e not in gone]
    read = {x for e in kept for x in e.inputs} | {*jaxpr.outs}
    lost = [v for e in jaxpr.eqns if e in gone for v in e.out_binders if v in read]
    if not all(isinstance(v.aval, ShapedArray) and v.aval.size >= 0 for v in lost):
        return None
    known = [*jaxpr.all_binders]
    for e in jaxpr.eqns:
        if e in gone:
            break
        known += e.out_binders
    new = {v: stand(v, [b for b in known if b.aval.strong == v.aval.strong]) for v in lost}
    bound = {*known}
    fresh = [x for x in new.values() if type(x) is Var and x not in bound]
    eqns, outs = substituted(kept, jaxpr.outs, new)
    binders = [*jaxpr.const_binders, *fresh]
    body = jaxpr.replace(eqns=eqns, outs=outs, const_binders=binders)
    return ClosedJaxpr(body, [*closed.consts, *(zeros_of(v.aval) for v in fresh)])

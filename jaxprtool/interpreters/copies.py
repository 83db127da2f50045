"""Equations that compute what earlier ones have computed, and jaxprs without them.

Transformations make such equations: both terms of the derivative of `x * x` pull back to `mul ct x`, and the derivatives of sine
and cosine compute cosine and sine again. `grad`, `vjp`, `linearize` and `jvp` leave them out, in each jaxpr by itself. What a
`remat2` computes again is in a jaxpr of its own, and stays.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.interpreters.check import verified
from jaxprtool.interpreters.dce import draws_anew, has_effects, live_atoms, rebound
from jaxprtool.interpreters.equation_keys import Keys
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, DropVar, JaxprEqn, Lit, Var

__all__ = ["Copies", "copies_of", "is_pure", "merge_residuals", "once", "without_copies"]


def is_pure(eqn: JaxprEqn) -> bool:
    """Whether an equation has no effects, neither on the world nor on references, and no state of its own, so that its results are all there is of it."""
    if has_effects(eqn) or draws_anew(eqn):
        return False
    atoms = (*eqn.inputs, *eqn.out_binders)
    return not any(isinstance(x.aval, RefType) for x in atoms)


class Copies(NamedTuple):
    """Equations that repeat earlier ones.

    Attributes:
      first: for each of them the first one of its kind.
      instead: for each of their results that of the first one.
    """

    first: dict[JaxprEqn, JaxprEqn]
    instead: dict[Any, Var]


def copies_of(eqns: Sequence[JaxprEqn], keys: Keys | None = None) -> Copies:
    """The equations without effects whose operation, params and operands an earlier one has, where results of copies are taken as equal.

    keys: keeps the keys of jaxprs, for a caller that looks at many lists of equations.
    """
    keys = keys or Keys()
    found = Copies({}, {})
    instead: dict[Any, Var] = found.instead
    renamed = instead.keys()
    operands = _operands_with_literals(eqns, keys)
    firsts: dict[Any, JaxprEqn] = {}
    shared: set[Any] = set()  # keys of several equations: their first one has its finer key too
    for eqn in eqns:
        inputs = operands.get(eqn) or eqn.inputs
        if instead and not renamed.isdisjoint(inputs):
            inputs = tuple([instead.get(x, x) for x in inputs])
        key: Any = (eqn.primitive, inputs)
        first = firsts.setdefault(key, eqn)
        if first is eqn:  # most often; params are looked at only where operands are shared
            continue
        for finer in (_rough_params, keys.params):
            if key not in shared:
                shared.add(key)
                firsts[key, finer(first)] = first
            key = (key, finer(eqn))
            first = firsts.setdefault(key, eqn)
            if first is eqn:
                break
        if first is eqn or not is_pure(eqn):
            continue
        if not _has_results(first, eqn):
            firsts[key] = eqn
            continue
        found.first[eqn] = first
        instead.update(zip(eqn.out_binders, first.out_binders, strict=True))
    return found


def _rough_params(eqn: JaxprEqn) -> Any:
    """What is equal, as Python has it, where the params of two equations are; None where they have no hash, or hold jaxprs."""
    if eqn.primitive.holds_jaxprs:
        return None
    try:
        return frozenset(eqn.params.items())
    except TypeError:
        return None


def _operands_with_literals(
    eqns: Sequence[JaxprEqn], keys: Keys
) -> dict[JaxprEqn, tuple[Any, ...]]:
    """The operands of the equations that have literals among them, with one object for equal literals."""
    known: dict[Any, Lit] = {}

    def one(x: Any) -> Any:
        if type(x) is not Lit:
            return x
        value = x.val
        # the bits of other numbers follow from type and value
        plain = type(value) in (int, float) and value
        return known.setdefault((x.aval, value) if plain else keys.literal(x), x)

    return {e: (*map(one, e.inputs),) for e in eqns if Lit in map(type, e.inputs)}


def _has_results(first: JaxprEqn, eqn: JaxprEqn) -> bool:
    """Whether each result that is read of an equation has a name in the first one too."""
    pairs = zip(first.out_binders, eqn.out_binders, strict=True)
    return not any(isinstance(x, DropVar) and not isinstance(v, DropVar) for x, v in pairs)


def without_copies(closed: ClosedJaxpr, keys: Keys | None = None) -> ClosedJaxpr:
    """The program without equations that repeat earlier ones; jaxprs in params stay as they are.

    The same object where there are none. Where no equation was dead, none is.
    """
    jaxpr = closed.jaxpr
    copies, instead = copies_of(jaxpr.eqns, keys)
    if not copies:
        return closed
    made = _renamed(closed, [e for e in jaxpr.eqns if e not in copies], instead)
    live = live_atoms.find(jaxpr)
    if live is not None:
        live_atoms.keep(made.jaxpr, live.difference(instead))
    return made


def once(closed: ClosedJaxpr) -> ClosedJaxpr:
    """What a transformation has made without equations that repeat earlier ones, as `without_copies`.

    Most programs have none, and that is cheap to see.
    """
    eqns = closed.eqns
    if len({*map(_applied, eqns)}) == len(eqns):
        operands = _operands_with_literals(eqns, Keys())
        if len({(e.primitive, inputs) for e, inputs in operands.items()}) == len(operands):
            return closed
    return verified(without_copies(closed))


_applied = operator.attrgetter("primitive", "inputs")


def _renamed(closed: ClosedJaxpr, eqns: Sequence[JaxprEqn], instead: dict[Any, Var]) -> ClosedJaxpr:
    """The program with these equations, and variables in the place of others."""

    def atom(x: Atom) -> Atom:
        return x if type(x) is Lit else instead.get(x, x)

    new = [
        e if instead.keys().isdisjoint(e.inputs) else e.replace(inputs=map(atom, e.inputs))
        for e in eqns
    ]
    return closed.replace(
        jaxpr=closed.jaxpr.replace(eqns=new, outs=[*map(atom, closed.jaxpr.outs)])
    )


def merge_residuals(
    primal: ClosedJaxpr, linear: ClosedJaxpr, n_res: int
) -> tuple[ClosedJaxpr, ClosedJaxpr, int]:
    """Both parts of a linearized program without copies of equations, so that no residual is handed over twice.

    Args:
      primal: (a) -> (b, res).
      linear: (res, tangents of a) -> (tangents of b).
      n_res: the number of residuals.

    Returns:
      The parts, of the same types but for the residuals, and their number.
    """
    primal = once(primal)
    outs, binders = primal.jaxpr.outs, linear.jaxpr.in_binders
    n = len(outs) - n_res
    kept: dict[Atom, Var] = {}
    instead: dict[Var, Var] = {}
    for x, v in zip(outs[n:], binders, strict=False):
        if kept.setdefault(x, v) is not v:
            instead[v] = kept[x]
    if instead:
        primal = primal.replace(jaxpr=rebound(primal.jaxpr, outs=[*outs[:n], *kept]))
        linear = _renamed(linear, linear.eqns, instead)
        left = [v for v in binders if v not in instead]
        linear = linear.replace(jaxpr=linear.jaxpr.replace(in_binders=left))
    return verified(primal), once(verified(linear)), len(kept)

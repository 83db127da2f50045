"""Find and remove equations that compute what earlier ones have computed (common subexpressions).

Transformations make such equations: both terms of the derivative of `x * x` pull back to `mul ct
x`, and the derivatives of sine and cosine compute cosine and sine again. `grad`, `vjp`, `linearize`
and `jvp` remove them, in each jaxpr by itself. What a `remat2` computes again is in a jaxpr of its
own, and stays.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from jaxprtool.interpreters.check import verified
from jaxprtool.interpreters.dce import draws_anew, has_effects, live_atoms, rebound
from jaxprtool.interpreters.reuse.equation_keys import Keys
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import Atom, ClosedJaxpr, DropVar, JaxprEqn, Lit, Var

__all__ = ["Copies", "copies_of", "is_pure", "merge_residuals", "once", "without_copies"]


def is_pure(eqn: JaxprEqn) -> bool:
    """Whether an equation has no effects, on the world or on references, and no state, so that only
    its results matter.
    """
    if has_effects(eqn) or draws_anew(eqn):
        return False
    return RefType not in map(type, map(_aval_of, (*eqn.inputs, *eqn.out_binders)))


class Copies(NamedTuple):
    """Equations that repeat earlier ones.

    Attributes:
      first: equation -> the first equation that computes the same.
      instead: result of a copy -> the result of the first equation.
    """

    first: dict[JaxprEqn, JaxprEqn]
    instead: dict[Any, Var]


def copies_of(eqns: Sequence[JaxprEqn], keys: Keys | None = None) -> Copies:
    """Return the pure equations with the operation, params and operands of an earlier one.

    Operands count as the same where they are results of copies of one equation.

    Args:
      keys: caches the keys of jaxprs, for a caller that examines many lists of equations.
    """
    keys = keys or Keys()
    return _copies_of(eqns, keys, _equal_literals(eqns, keys))


def _copies_of(eqns: Sequence[JaxprEqn], keys: Keys, literals: dict[Any, Any]) -> Copies:
    """Do as `copies_of`; `literals` maps literals to the equal ones that represent them."""
    found = Copies({}, {})
    instead: dict[Any, Any] = {**literals}
    renamed = instead.keys()
    firsts: dict[Any, Any] = {}  # key -> equation; where several share it, a dict by a finer key
    roughs: dict[int, Any] = {}  # rough keys of params, by their ids
    for eqn in eqns:
        inputs = eqn.inputs
        if not renamed.isdisjoint(inputs):
            inputs = tuple([instead.get(x, x) for x in inputs])
        met = firsts.setdefault((eqn.primitive, inputs), eqn)
        if met is eqn:  # most often; params are only compared where operands are the same
            continue
        if type(met) is not dict:
            met = firsts[eqn.primitive, inputs] = {_rough_params(met, roughs): met}
        rough = _rough_params(eqn, roughs)
        same = met.setdefault(rough, eqn)
        if same is eqn:
            continue
        kind: dict[Any, Any] = met
        key, first = rough, same
        is_one = isinstance(same, JaxprEqn)
        if not is_one or same.params is not eqn.params or _types(same) != _types(eqn):
            kind = {keys.params(same): same} if is_one else same
            met[rough], key = kind, keys.params(eqn)
            first = kind.setdefault(key, eqn)
        if first is eqn or not is_pure(eqn):
            continue
        if not _has_results(first, eqn):
            kind[key] = eqn
            continue
        found.first[eqn] = first
        results = dict(zip(eqn.out_binders, first.out_binders, strict=True))
        instead.update(results)
        found.instead.update(results)
    return found


def _types(eqn: JaxprEqn) -> list[Any]:
    return [v.aval for v in eqn.out_binders]


def _rough_params(eqn: JaxprEqn, known: dict[int, Any]) -> Any:
    """Return a key that is equal, by Python's `==`, where the params of two equations are.

    None where the params have no hash, or hold jaxprs. `known` caches the keys by the ids of
    params.
    """
    params = eqn.params
    found = known.get(id(params), known)
    if found is known:
        try:
            found = None if eqn.primitive.holds_jaxprs else frozenset(params.items())
        except TypeError:
            found = None
        known[id(params)] = found
    return found


def _equal_literals(eqns: Sequence[JaxprEqn], keys: Keys) -> dict[Any, Any]:
    """Return for each literal among the operands that equals another one the one that represents all of them."""
    atoms = set(chain.from_iterable(map(_operands_of, eqns)))
    literals = [x for x in atoms if type(x) is Lit]
    firsts: dict[Any, Lit] = {}
    instead: dict[Any, Any] = {}
    for x in literals:
        value = x.val
        # type and value determine the bits of a plain number; others need a finer key
        plain = type(value) in (int, float) and value
        first = firsts.setdefault((x.aval, value) if plain else keys.literal(x), x)
        if first is not x:
            instead[x] = first
    return instead


def _has_results(first: JaxprEqn, eqn: JaxprEqn) -> bool:
    """Whether the first equation binds every result that the copy binds (neither is dropped, `_`)."""
    pairs = zip(first.out_binders, eqn.out_binders, strict=True)
    return not any(isinstance(x, DropVar) and not isinstance(v, DropVar) for x, v in pairs)


def without_copies(closed: ClosedJaxpr, keys: Keys | None = None) -> ClosedJaxpr:
    """Return the program without equations that repeat earlier ones; jaxprs in params stay as they are.

    The same object where there are none. If it is known that no equation is dead, this is recorded
    for the new program too.
    """
    return _without(closed, copies_of(closed.eqns, keys))


def _without(closed: ClosedJaxpr, found: Copies) -> ClosedJaxpr:
    jaxpr, (copies, instead) = closed.jaxpr, found
    if not copies:
        return closed
    made = _renamed(closed, [e for e in jaxpr.eqns if e not in copies], instead)
    live = live_atoms.find(jaxpr)
    if live is not None:
        live_atoms.keep(made.jaxpr, live.difference(instead))
    return made


def once(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the result of a transformation without equations that repeat earlier ones, as `without_copies` does.

    Most programs have none, which this finds out quickly.
    """
    eqns, keys = closed.eqns, Keys()
    literals = _equal_literals(eqns, keys)
    if not literals and len({*map(_applied, eqns)}) == len(eqns):
        return closed
    return verified(_without(closed, _copies_of(eqns, keys, literals)))


_applied = operator.attrgetter("primitive", "inputs")
_aval_of = operator.attrgetter("aval")
_operands_of = operator.attrgetter("inputs")


def _renamed(closed: ClosedJaxpr, eqns: Sequence[JaxprEqn], instead: dict[Any, Var]) -> ClosedJaxpr:
    """Return the program with these equations, and with variables replaced by others."""

    def atom(x: Atom) -> Atom:
        return x if type(x) is Lit else instead.get(x, x)

    renamed = instead.keys()
    new = [
        e if renamed.isdisjoint(e.inputs) else e.with_inputs([*map(atom, e.inputs)]) for e in eqns
    ]
    return closed.replace(
        jaxpr=closed.jaxpr.replace(eqns=new, outs=[*map(atom, closed.jaxpr.outs)])
    )


def merge_residuals(
    primal: ClosedJaxpr, linear: ClosedJaxpr, n_res: int
) -> tuple[ClosedJaxpr, ClosedJaxpr, int]:
    """Remove repeated equations from both parts of a linearized program, so that no residual is passed twice.

    Args:
      primal: (a) -> (b, res).
      linear: (res, tangents of a) -> (tangents of b).
      n_res: the number of residuals.

    Returns:
      The parts, of the same types except for the residuals, and their number.
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

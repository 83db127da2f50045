"""Facts of equations that do not depend on values, computed once for each jaxpr before bad values are followed."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.analyses.identity.products import floats_of, is_product
from jaxprtool.interpreters.batch import is_elementwise
from jaxprtool.interpreters.columns.flow import (
    elements_facts,
    goes_into_good_results,
    mask_facts,
    steering_facts,
)
from jaxprtool.interpreters.evaluate import numpy_namespace
from jaxprtool.ir.avals import RefType
from jaxprtool.ir.jaxpr import Jaxpr, JaxprEqn, Lit
from jaxprtool.ir.memo import MemoTable

__all__ = ["Plan", "Plans", "bad_literals", "is_float", "plans_of"]


class Plan(NamedTuple):
    """What it takes to propagate bad values through an equation.

    Attributes:
      eqn: the equation.
      floats: the positions of the floating results.
      single: whether the primitive has a single result, which is floating.
      operands: the operands that are variables.
      positions: the positions of these among all operands.
      literals: the positions of the literals that are bad.
      refs: the positions of the operands that are references.
      cells: whether a result is a reference.
      steering: the positions of the operands that decide something.
      elementwise: whether each element of the result is computed from those of the operands at its
        index.
      product: whether it is elementwise and multiplies one operand by another.
      sums: whether it may add up products of elements of floating operands (and is not
        elementwise).
      mixing: whether a good element of a result may have been computed from a bad one of an
        operand.
      moves: whether each element of a result is one of an operand, moved, rounded, stored or read.
      drops: whether a NaN or an infinity among the operands may leave all results finite.
    """

    eqn: JaxprEqn
    floats: tuple[int, ...]
    single: bool
    operands: tuple[Any, ...]
    positions: tuple[int, ...]
    literals: tuple[int, ...]
    refs: tuple[int, ...]
    cells: bool
    steering: tuple[int, ...]
    elementwise: bool
    product: bool
    sums: bool
    mixing: bool
    moves: bool
    drops: bool


class Plans:
    """The plans of a jaxpr.

    Attributes:
      eqns: the plan of each equation.
      plain: for each equation that is elementwise, has a single floating result, and neither steers
        nor has bad literals: itself, its variable operands and its result; else None.
      outs: the positions of the jaxpr's results that are bad literals.
    """

    __slots__ = ("eqns", "outs", "plain")

    def __init__(self, jaxpr: Jaxpr, sought: Sought):
        self.eqns = [_plan(eqn, sought) for eqn in jaxpr.eqns]
        if any(p.refs for p in self.eqns):
            read = {x for e in jaxpr.eqns for x in e.inputs if type(x) is not Lit}
            read.update(x for x in jaxpr.outs if type(x) is not Lit)
            self.eqns = [_of_read(p, read) if p.refs else p for p in self.eqns]
        self.plain = [
            (p.eqn, p.operands, p.eqn.out_binders[0])
            if p.single and p.elementwise and not p.steering and not p.literals
            else None
            for p in self.eqns
        ]
        self.outs = bad_literals(jaxpr.outs, sought)


def _of_read(plan: Plan, read: Container[Any]) -> Plan:
    """Leave out of the plan of an equation on references the results that nobody reads: they are what the references held."""
    return plan._replace(floats=tuple([i for i in plan.floats if plan.eqn.out_binders[i] in read]))


def plans_of(jaxpr: Jaxpr, sought: Sought) -> Plans:
    """Return the plans of a jaxpr for some sought values."""
    return _PLANS.of(jaxpr, sought.key, lambda: Plans(jaxpr, sought))


_PLANS = MemoTable[Plans]("what is looked at to follow bad values")


def _plan(eqn: JaxprEqn, sought: Sought) -> Plan:
    outs, inputs = eqn.out_binders, eqn.inputs
    floats = tuple([i for i, v in enumerate(outs) if is_float(v.aval)])
    single = floats == (0,) and not eqn.primitive.multiple_results
    elementwise, steering = is_elementwise(eqn.primitive), _steering(eqn)
    positions = tuple([i for i, x in enumerate(inputs) if type(x) is not Lit])
    refs = tuple([i for i in positions if type(inputs[i].aval) is RefType])
    literals = bad_literals(inputs, sought) if len(positions) < len(inputs) else ()
    return Plan(
        eqn,
        floats,
        single,
        tuple([inputs[i] for i in positions]),
        positions,
        literals,
        refs,
        any(type(v.aval) is RefType for v in outs),
        steering,
        elementwise,
        single and elementwise and is_product(eqn),
        single and not elementwise and len(floats_of(eqn)) > 1,
        goes_into_good_results(eqn),
        bool(refs) or elements_facts[eqn.primitive] != "computed",
        mask_facts[eqn.primitive] != "nothing",
    )


def is_float(aval: Any) -> bool:
    """Whether a type is one of floating or complex numbers."""
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and dtype.is_inexact


def bad_literals(atoms: Sequence[Any], sought: Sought) -> tuple[int, ...]:
    """Return the positions of the literals that are bad."""
    found = [i for i, x in enumerate(atoms) if type(x) is Lit and is_float(x.aval)]
    return tuple([i for i in found if numpy_namespace().value(atoms[i]) in sought])


def _is_infinite(x: Any) -> bool:
    return type(x) is Lit and isinstance(x.val, float) and math.isinf(x.val)


def _steering(eqn: JaxprEqn) -> tuple[int, ...]:
    """Return the positions of the operands by which an equation decides something."""
    fact = steering_facts[eqn.primitive]
    n = len(eqn.inputs)
    if fact == "all":
        # a comparison of a value with itself, or with an infinity, asks whether it is good, and decides nothing else
        asks = n == 2 and (eqn.inputs[0] is eqn.inputs[1] or any(map(_is_infinite, eqn.inputs)))
        return () if asks else tuple(range(n))
    if fact == "indices":
        return tuple(range(min(eqn.primitive.index_from, n), n))
    if fact == "num_keys":
        return tuple(range(min(eqn.params["num_keys"], n)))
    return {"operand 0": (0,), "operand 1": (1,)}.get(fact, ())

"""Collectives of trees: releases to 0.8.1 print one equation for all leaves of a tree, later ones
an equation for each.

    c:f32[3] d:f32[2] = psum[axes=('i',) axis_index_groups=None] a b

This is read as two equations. They share one object as params and one as span, which no other
equation has, so that dialects of these releases can print them as one again.
"""

from __future__ import annotations

from jaxprtool.ir.jaxpr import ClosedJaxpr, JaxprEqn
from jaxprtool.ir.walk import map_programs, with_eqns
from jaxprtool.syntax.releases.earlier import takes_leaves

__all__ = ["joined"]


def joined(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with one equation for all leaves of a tree, as in releases to 0.8.1.

    `check` does not accept it.

    The same object where there are no such equations.
    """
    return map_programs(program, _joined)


def _joined(program: ClosedJaxpr) -> ClosedJaxpr:
    eqns: list[JaxprEqn] = []
    for eqn in program.eqns:
        if eqns and _goes_on(eqns[-1], eqn):
            last = eqns[-1]
            ins, outs = (*last.inputs, *eqn.inputs), (*last.out_binders, *eqn.out_binders)
            eqns[-1] = last.replace(inputs=ins, out_binders=outs)
        else:
            eqns.append(eqn)
    return program if len(eqns) == len(program.eqns) else with_eqns(program, eqns)


def _goes_on(eqn: JaxprEqn, after: JaxprEqn) -> bool:
    """Whether an equation is that of the next leaf of the tree to which the equation before it belongs."""
    if eqn.primitive is not after.primitive or eqn.params is not after.params:
        return False
    if not takes_leaves(eqn.primitive) or eqn.span is not after.span or after.comments:
        return False
    return not {*eqn.out_binders} & {*after.inputs}

"""compare --first where the programs have different equations: what stands in whose place."""

from __future__ import annotations

import os
import random
import warnings

import pytest

import jaxprtool as jt
from jaxprtool.driver.compare import compare
from jaxprtool.driver.constants import load_constants
from jaxprtool.driver.values import arguments, open_binders
from jaxprtool.ir.jaxpr import DropVar, Var
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from tests.programs.catalogue import EXAMPLES

lax = jt.lax
CANDIDATES = 20 if os.environ.get("JAXPRTOOL_ALL") else 1
FILES = [
    p
    for p in sorted(EXAMPLES.glob("*.jaxpr")) + sorted((EXAMPLES / "zoo").glob("*.jaxpr"))
    if p.stem not in ("multiply_add", "data_parallel")  # a plug-in; types that vary over a mesh
]
# What takes the place of an equation, given its result, and whether the values stay what they are.
FORMS = {
    "times one": (lambda y: lax.mul(y, 1.0), True),
    "negated twice": (lambda y: lax.neg(lax.neg(y)), True),
    "three more": (lambda y: lax.mul(lax.neg(lax.mul(lax.neg(y), 2.0)), 0.5), True),
    "times three": (lambda y: lax.mul(y, 3.0), False),
    "two more": (lambda y: lax.add(lax.mul(y, 2.0), 1.0), False),
    "one of three": (lambda y: lax.mul(lax.neg(lax.mul(lax.neg(y), 2.0)), 0.75), False),
}


def rewritten(program, eqn, form):
    """The program with more operations in the place of an equation, as it is read from its text."""

    def rule(e):
        if e.span != eqn.span:
            return None
        return lambda *xs: form(jt.bind(e.primitive, *xs, **e.params))

    made = jt.rewrite(program, rule)
    return jt.parse(jt.format_jaxpr(made, lossless=True), "b")


def candidates(program, n, seed):
    """Equations of one result, of floats, that somebody reads."""
    eqns = [
        e
        for e in all_eqns(program.jaxpr)
        if not e.primitive.multiple_results
        and str(e.out_binders[0].aval.dtype) in ("f32", "f64")
        and not isinstance(e.out_binders[0], DropVar)
    ]
    random.Random(seed).shuffle(eqns)
    return eqns[:n]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_more_operations_in_the_place_of_one(path, form):
    """The first difference is the equation, or the one that reads it where that may stand for one of the new ones."""
    program = load_constants(jt.load(path))
    f, stays = FORMS[form]
    args = arguments(open_binders(program), ["random:0"])
    for eqn in candidates(program, CANDIDATES, form):
        other = rewritten(program, eqn, f)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = compare(program, other, args, first=True, step_limit=20000)
            except jt.JaxprToolError:
                continue
        what = f"{eqn.primitive.name} {eqn.span}\n{found}"
        if stays:
            assert found.equal and found.first is None, what
        elif found.first is not None:
            reads = any(
                x in eqn.out_binders for x in found.first.a.eqn.inputs if isinstance(x, Var)
            )
            # The combiner of a scatter runs inside of the operation, and is no step of its own.
            inside = [e.span for c in sub_jaxprs(found.first.a.eqn) for e in c.eqns]
            assert found.first.a.eqn.span == eqn.span or reads or eqn.span in inside, what
        else:
            assert found.equal, what

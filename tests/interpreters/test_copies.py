"""What grad, vjp, linearize and jvp make has no equation twice that the program did not have twice."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr, vjp_jaxpr
from jaxprtool.interpreters.reuse.copies import copies_of
from jaxprtool.ir.walk import all_eqns, sub_jaxprs
from tests.programs.catalogue import EXAMPLES, PROGRAMS, case_of

ZOO = sorted((EXAMPLES / "zoo").glob("*.jaxpr"))


def bodies(program: jt.ClosedJaxpr) -> set[jt.Jaxpr]:
    return {program.jaxpr, *(c.jaxpr for e in all_eqns(program.jaxpr) for c in sub_jaxprs(e))}


def copies(program: jt.ClosedJaxpr) -> set[tuple[str, str]]:
    """What is repeated in a jaxpr of a program: operations, with the types of their first results (calls hand over residuals besides)."""
    found = [
        eqn
        for jaxpr in bodies(program)
        for eqn in copies_of(jaxpr.eqns).first
        # partial evaluation splits calls, and the known parts of two may be equal
        if not (eqn.primitive.holds_jaxprs and all(isinstance(x, jt.Lit) for x in eqn.inputs))
    ]
    return {(eqn.primitive.name, str(eqn.out_binders[0].aval)) for eqn in found}


def check(program: jt.ClosedJaxpr, made: jt.ClosedJaxpr) -> None:
    new = copies(made) - copies(program)
    assert not new, f"{new}\n{made}"
    # in the outermost jaxpr there is none at all
    assert not copies_of(made.eqns).first


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_examples(name):
    case = case_of(name)
    for part in (*linearize_jaxpr(case.program)[:2], jt.jvp_jaxpr(case.program)[0]):
        check(case.program, part)
    if case.reverse:
        check(case.program, vjp_jaxpr(case.program))


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_examples(name):
    case = case_of(name)
    program = case.program
    floats = [i for i, a in enumerate(program.in_avals) if a.dtype.kind == "f"]
    outs = program.out_avals
    if case.reverse and len(outs) == 1 and outs[0].shape == () and outs[0].dtype.kind == "f":
        check(program, grad_jaxpr(program, floats))


@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_derivatives_of_the_zoo(path):
    program = jt.load(path)
    try:
        parts = linearize_jaxpr(program)[:2]
    except jt.JaxprToolError:  # it has no derivative
        return
    for part in parts:
        check(program, part)
    try:
        made = vjp_jaxpr(program)
    except jt.JaxprToolError:  # loops until a condition
        return
    check(program, made)


def names(program: jt.ClosedJaxpr) -> list[str]:
    return [e.primitive.name for e in program.eqns]


def test_both_terms_of_a_square_are_one():
    program = jt.parse("{ lambda ; a:f32[]. let b:f32[] = mul a a in (b,) }")
    assert names(grad_jaxpr(program)) == ["mul", "add_any"]


def test_sine_and_cosine_are_residuals_once():
    text = "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = sin a; d:f32[] = mul b c in (d,) }"
    primal, linear, n_res = linearize_jaxpr(jt.parse(text))
    assert names(primal).count("sin") == names(primal).count("cos") == 1
    assert n_res == 2 and len(linear.in_avals) == 3
    assert not copies_of(linear.eqns).first


def test_numbers_with_other_bits_are_no_copies():
    text = """{ lambda ; a:f32[]. let
    b:f32[] = mul a 0.0:f32[]
    c:f32[] = mul a -0.0:f32[]
    d:f32[] = mul a 0.0:f32[]
    e:f32[] = div b c
    f:f32[] = add e d
  in (f,) }"""
    assert [e.out_binders[0].name for e in copies_of(jt.parse(text).eqns).first] == ["d"]


def test_effects_and_references_are_no_copies():
    text = """{ lambda ; a:f32[]. let
    debug_print[fmt={} ordered=False] a
    b:f32[] = sin a
    debug_print[fmt={} ordered=False] a
    c:f32[] = mul a b
  in (c,) }"""
    assert names(grad_jaxpr(jt.parse(text))).count("debug_print") == 2


def test_what_a_remat_computes_again_stays():
    inner = "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = sin b in (c,) }"
    text = f"{{ lambda ; a:f32[]. let b:f32[] = remat2[jaxpr={inner} policy=None prevent_cse=True differentiated=False] a in (b,) }}"
    made = grad_jaxpr(jt.parse(text))
    assert sum(e.primitive.name == "sin" for e in all_eqns(made.jaxpr)) >= 1
    assert any(e.primitive.name == "remat2" for e in made.eqns)

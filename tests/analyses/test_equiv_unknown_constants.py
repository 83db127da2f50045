"""equiv of programs whose texts do not hold the values of constants: nothing is proved that depends on these."""

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.normal_form import same_normal_form
from jaxprtool.ir.jaxpr import ClosedJaxpr

TIMES = "{ lambda c:i32[3]; a:i32[3]. let b:i32[3] = mul a c in (b,) }"
CALL = f"jit[name=f jaxpr={TIMES}]"
LOOP = f"scan[jaxpr={TIMES} length=3 num_carry=1 num_consts=0 reverse=False unroll=1]"


def program(*equations, consts="", outs="w", binders="x:i32[3]"):
    lines = "\n    ".join(equations)
    return jt.parse(f"{{ lambda {consts}; {binders}. let\n    {lines}\n  in ({outs},) }}")


def two(holder):
    """The difference of what two jaxprs with constants of their own give."""
    return program(f"y:i32[3] = {holder} x", f"z:i32[3] = {holder} x", "w:i32[3] = sub y z")


def one(holder):
    return program(f"y:i32[3] = {holder} x", "w:i32[3] = sub y y")


def with_values(closed, *values):
    """The program with values for the constants of the jaxprs inside, one after the other."""
    left, eqns = [*values], []
    for eqn in closed.eqns:
        inner = eqn.params.get("jaxpr")
        if inner is not None:
            value = np.full(3, left.pop(0), np.int32)
            inner = ClosedJaxpr(inner.jaxpr, [value])
            eqn = eqn.replace(params={**eqn.params, "jaxpr": inner})
        eqns.append(eqn)
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)


@pytest.mark.parametrize("reads", ["a", "b"])
def test_which_constant_is_read_counts(reads):
    """An open constant is an argument, also where another one has no reader."""
    consts = "a:i32[3] b:i32[3]"
    a = program("w:i32[3] = mul x a", consts=consts)
    b = program(f"w:i32[3] = mul x {reads}", consts=consts)
    assert jt.equiv(a, b).status == ("proved" if reads == "a" else "refuted")


@pytest.mark.parametrize("holder", [CALL, LOOP])
def test_two_constants_without_values_are_two(holder):
    a, b = two(holder), one(holder)
    assert not same_normal_form(a, b)
    assert not same_normal_form(b, a)
    # and they are: with values that differ, so do the programs
    x = np.ones(3, np.int32)
    (given,) = jt.eval_jaxpr(with_values(a, 2, 3).jaxpr, [x])
    assert given.any()


@pytest.mark.parametrize("passes", ["cse", "inline,cse", "outline", "roll", "hoist,cse,simplify"])
@pytest.mark.parametrize("holder", [CALL, LOOP])
def test_passes_keep_two_constants_apart(holder, passes):
    made = jt.opt(two(holder), passes)
    assert same_normal_form(made, two(holder))


def test_dead_holders_count_as_others_do():
    first = program(f"y:i32[3] = {CALL} x", f"w:i32[3] = {CALL} x")
    other = program(f"w:i32[3] = {CALL} x", f"y:i32[3] = {CALL} x")
    assert same_normal_form(first, program(f"y:i32[3] = {CALL} x", f"w:i32[3] = {CALL} x"))
    assert not same_normal_form(first, other)


@pytest.mark.parametrize("holder", [CALL, LOOP])
def test_what_depends_on_unknown_constants_is_probable(holder):
    a, b = two(holder), two(holder)
    found = jt.equiv(a, b)
    assert found.status == "probable"
    assert found.json()["unknown"] == 2
    assert "2 constants of jaxprs inside" in str(found)
    assert jt.equiv(a, a).proved


def test_zeros_of_other_signs_are_said():
    a = jt.parse("{ lambda ; x:f32[3]. let w:f32[3] = add x 0.0:f32[] in (w,) }")
    b = jt.parse("{ lambda ; x:f32[3]. let in (x,) }")
    found = jt.equiv(a, b)
    assert found.status == "probable"
    assert found.json()["zero_signs"] > 0
    assert "0 and -0 count as equal" in str(found)
    assert jt.equiv(a, a).json()["zero_signs"] == 0

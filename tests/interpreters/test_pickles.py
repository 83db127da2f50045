"""The parts of a program go through `pickle` by themselves."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import jaxprtool as jt
from jaxprtool.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr
from jaxprtool.ir.origin import Frame, Origin

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.jaxpr"))


def copied(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_program_of_pickled_parts_is_the_program(path: Path):
    held = jt.load(path)
    for program in held.values() if isinstance(held, dict) else [held]:
        jaxpr = program.jaxpr
        parts = (jaxpr.in_binders, jaxpr.eqns, jaxpr.outs, jaxpr.const_binders)
        again = ClosedJaxpr(Jaxpr(*copied(parts)), program.consts)
        assert again.jaxpr.eqns[0] is not jaxpr.eqns[0]
        assert jt.hash_program(again) == jt.hash_program(program)


def test_what_a_part_says_is_kept():
    origin = Origin(Frame("model.py", 3, 4, "loss"), ("layer",), 3)
    (eqn,) = jt.parse("{ lambda ; a:f32[3]. let _:f32[3] = sin a in () }").jaxpr.eqns
    again = copied(eqn.with_origin(origin))
    assert again.primitive is eqn.primitive and again.origin.frame == origin.frame
    assert (again.origin.names, again.origin.shown) == (("layer",), 3)
    assert type(again.out_binders[0]) is DropVar
    assert copied(eqn.inputs[0]).name == "a"


def test_the_same_variable_is_one_variable_again():
    eqns = jt.parse("{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = cos b in (c,) }").jaxpr.eqns
    first, second = copied(eqns)
    assert first.out_binders[0] is second.inputs[0]


def double(x):
    """Twice x."""
    return x * 2


TRANSFORMED = {
    f.__name__: f
    for f in (jt.jit, jt.grad, jt.vmap, jt.value_and_grad, jt.checkpoint, jt.jacfwd, jt.hessian)
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_decorated_function_is_the_one_of_its_name(name: str, monkeypatch: pytest.MonkeyPatch):
    made = TRANSFORMED[name](double)
    monkeypatch.setitem(globals(), "double", made)
    assert copied(made) is made
    assert (made.__name__, made.__doc__) == ("double", "Twice x.")

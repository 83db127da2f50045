"""Programs cannot change, so that nothing that was derived from one is ever wrong."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.core.primitive import find_primitive
from jaxprtool.ir.memo import Memo, MemoTable
from jaxprtool.ir.walk import map_programs

TEXT = """\
{ lambda a:f32[3]; b:f32[3]. let
    c:f32[3] = jit[name=f jaxpr={ lambda ; d:f32[3]. let e:f32[3] = sin d in (e,) }] b
    f:f32[3] = mul c a
    g:f32[3] = mul f 2.0:f32[]
  in (g,) }"""
A = np.arange(3, dtype=np.float32)


def program():
    return jt.with_consts(jt.parse(TEXT), {"a": A})


PARTS = {
    "program": lambda p: (p, "jaxpr"),
    "constants": lambda p: (p, "consts"),
    "jaxpr": lambda p: (p.jaxpr, "eqns"),
    "results": lambda p: (p.jaxpr, "outs"),
    "equation": lambda p: (p.eqns[0], "primitive"),
    "params": lambda p: (p.eqns[0], "params"),
    "variable": lambda p: (p.jaxpr.in_binders[0], "aval"),
    "literal": lambda p: (p.eqns[2].inputs[1], "val"),
    "type": lambda p: (p.in_avals[0], "shape"),
    "element type": lambda p: (p.in_avals[0], "dtype"),
}


@pytest.mark.parametrize("part", PARTS)
def test_attributes_cannot_be_set_or_deleted(part):
    x, name = PARTS[part](program())
    with pytest.raises(AttributeError, match="does not change"):
        setattr(x, name, getattr(x, name))
    with pytest.raises(AttributeError, match="does not change"):
        delattr(x, name)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.eqns[0].params.update(name="g"),
        lambda p: p.eqns[0].params.pop("name"),
        lambda p: p.eqns[0].params.__setitem__("name", "g"),
        lambda p: p.eqns[0].params.setdefault("other", 1),
        lambda p: p.eqns[0].params.clear(),
    ],
)
def test_params_cannot_be_changed(change):
    with pytest.raises(TypeError, match="params do not change"):
        change(program())


ODD = "{ lambda ; a:f32[]. let b:f32[] = odd[f=<lambda> r=R(x=1) l=[1, [2]] d={'k': [3]} e= = 1] a in (b,) }"


@pytest.mark.parametrize(
    "change",
    [
        lambda v: setattr(v["f"], "text", "g"),
        lambda v: setattr(v["r"], "name", "S"),
        lambda v: setattr(v["r"], "args", (1,)),
        lambda v: v["r"].fields.update(x=2),
        lambda v: v["l"].append(1),
        lambda v: v["l"][1].sort(),
        lambda v: v["l"].__setitem__(0, 2),
        lambda v: v["d"].clear(),
        lambda v: v["d"]["k"].extend([1]),
    ],
)
def test_values_of_params_cannot_be_changed(change):
    """Of a program that was read, and of one that went through pickle and through copies."""
    p = jt.parse(ODD)
    text = str(p)
    for q in (p, pickle.loads(pickle.dumps(p)), copy.deepcopy(p)):
        with pytest.raises((TypeError, AttributeError), match=r"does not change|do not change"):
            change(q.eqns[0].params)
        assert str(q) == text == str(jt.parse(text))


def test_containers_are_tuples():
    p = program()
    for x in (p.consts, p.eqns, p.jaxpr.in_binders, p.jaxpr.outs, p.eqns[0].inputs):
        assert type(x) is tuple


def test_what_is_derived_follows_the_new_program():
    p, x = program(), np.ones(3, np.float32)
    before = jt.jaxpr_as_fun(p)(x)[0], jt.jvp_jaxpr(p)[0]
    changed = p.replace(consts=[2 * A])
    np.testing.assert_allclose(jt.jaxpr_as_fun(changed)(x)[0], 2 * before[0])
    tangents = jt.jaxpr_as_fun(jt.jvp_jaxpr(changed)[0])(x, x)
    np.testing.assert_allclose(tangents[1], 2 * jt.jaxpr_as_fun(before[1])(x, x)[1])

    cos = [e.replace(primitive=find_primitive("cos")) for e in p.eqns[0].params["jaxpr"].eqns]
    inner = p.eqns[0].params["jaxpr"]
    made = map_programs(
        p, lambda c: c.replace(jaxpr=c.jaxpr.replace(eqns=cos)) if c is inner else c
    )
    assert "cos" in str(made) and "sin" in str(p)
    np.testing.assert_allclose(jt.jaxpr_as_fun(made)(x)[0], np.cos(x) * A * 2, rtol=1e-6)


def test_memos_are_apart_and_stay_with_their_program():
    p, first, second = program(), Memo[int]("n"), Memo[int]("n")
    assert first.find(p) is None and first.of(p, lambda: 1) == 1
    assert first.of(p, lambda: 2) == 1 and second.find(p) is None
    assert first.find(p.jaxpr) is None and first.find(p.replace(consts=p.consts)) is None

    table = MemoTable[int]("n")
    assert table.find(p, "a") is None and table.keep(p, "a", 1) == 1
    assert table.of(p, "a", lambda: 2) == 1 and table.of(p, "b", lambda: 2) == 2
    assert table.find(p.jaxpr, "a") is None and table.find(p.replace(consts=p.consts), "a") is None


def test_what_a_text_says_of_its_layout_goes_with_the_same_equations_only():
    definition = "{ lambda ; d:f32[3]. let e:f32[3] = sin d in (e,) }"
    text = f"let f = {definition} in\n{TEXT.replace(definition, 'f')}"
    p = jt.parse(text)
    assert set(p.jaxpr.written.definitions) == {"f"} and str(map_programs(p, lambda c: c)) == str(p)
    assert p.jaxpr.replace(eqns=p.eqns[:0]).written is None
    lone = jt.parse("a:f32[3] = sin b")
    assert lone.jaxpr.written.lone_equation and not lone.jaxpr.written.definitions


def test_replace_takes_fields_only():
    with pytest.raises(TypeError, match="a JaxprEqn has no 'name'; it has primitive, inputs"):
        program().eqns[0].replace(name="f")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_copies_are_equal(copied):
    p = program()
    jt.jaxpr_as_fun(p)(A)  # so that there is something derived
    assert jt.diff(p, copied(p)).equal
    assert str(copied(p.jaxpr)) == str(p.jaxpr)

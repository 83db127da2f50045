"""jt.rewrite: passes of users, one equation at a time."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.interpreters.dce import dce_closed
from jaxprtool.ir.walk import all_eqns
from tests.laws.oracle import EXAMPLES, by_structure, ours

SINE = """\
{ lambda ; a:f32[3]. let
    # the angle
    b:f32[3] = mul a 2.0:f32[]  # doubled
    c:f32[3] = sin b
  in (c,) }"""

NESTED = """\
let f = { lambda ; x:f32[]. let y:f32[] = sin x in (y,) } in
{ lambda ; a:f32[] i:i32[]. let
    b:f32[] = jit[name=f jaxpr=f] a
    c:f32[] = jit[name=f jaxpr=f] b
    d:f32[] = cond[branches=( { lambda ; z:f32[]. let  in (z,) } f )] i c
    e:f32[] = scan[
      _split_transpose=False
      jaxpr={ lambda ; g:f32[]. let h:f32[] = jit[name=f jaxpr=f] g in (h,) }
      length=4 linear=(False,) num_carry=1 num_consts=0 reverse=False unroll=1
    ] d
  in (e,) }"""


def by_name(**functions):
    return lambda eqn: functions.get(eqn.primitive.name)


def names(program):
    return [e.primitive.name for e in all_eqns(program.jaxpr)]


def test_an_equation_is_replaced_and_names_and_comments_stay():
    made = jt.rewrite(jt.parse(SINE), by_name(sin=lax.cos))
    assert jt.format_jaxpr(made) == SINE.replace("sin", "cos")


def test_several_equations_for_one():
    made = jt.rewrite(jt.parse(SINE), by_name(sin=lambda x: lax.mul(lax.sin(x), lax.cos(x))))
    assert names(made) == ["mul", "sin", "cos", "mul"]
    x = np.array([0.1, 0.2, 0.3], np.float32)
    np.testing.assert_allclose(jt.eval_jaxpr(made, [x])[0], np.sin(2 * x) * np.cos(2 * x))


def test_an_operand_takes_the_place_of_an_equation():
    made = jt.rewrite(jt.parse(SINE), by_name(sin=lambda x: x))
    assert [str(x) for x in made.jaxpr.outs] == ["b:f32[3]"]
    jt.typecheck_jaxpr(made)


def test_any_depth_and_shared_jaxprs_stay_shared():
    program = jt.parse(NESTED)
    made = jt.rewrite(program, by_name(sin=lax.cos))
    assert "sin" not in names(made) and names(made).count("cos") == names(program).count("sin") == 1
    x = np.float32(0.3)
    wanted = x
    for _ in range(7):
        wanted = np.cos(wanted)
    np.testing.assert_allclose(jt.eval_jaxpr(made, [x, np.int32(1)])[0], wanted, rtol=1e-6)
    assert jt.format_jaxpr(made, lossless=True).count("cos") == 1


def test_the_rule_sees_an_equation_with_its_new_jaxprs():
    seen = []

    def rule(eqn):
        if eqn.primitive.name == "jit":
            seen.append(names(eqn.params["jaxpr"]))
        return by_name(sin=lax.cos)(eqn)

    jt.rewrite(jt.parse(NESTED), rule)
    assert seen == [["cos"]] * 3


def test_constants_become_constants_of_the_program():
    table = np.arange(3, dtype=np.float32)
    made = jt.rewrite(jt.parse(SINE), by_name(sin=lambda x: lax.add(x, table)))
    x = np.ones(3, np.float32)
    (out,) = jt.jaxpr_as_fun(jt.parse(jt.format_jaxpr(made, lossless=True)))(x)
    np.testing.assert_array_equal(out, 2 * x + table)


def test_results_that_nobody_reads():
    text = "{ lambda ; a:f32[4]. let _:f32[2] b:i32[2] = top_k[k=2 operand_dimension=0] a in (b,) }"
    program = jt.parse(text.replace("operand_dimension=0", "axis=0"))
    made = jt.rewrite(program, lambda e: lambda x: lax.top_k(lax.neg(x), **e.params))
    assert [str(v) for v in made.eqns[-1].out_binders][1].endswith("i32[2]")
    assert jt.eval_jaxpr(made, [np.array([3, 1, 2, 0], np.float32)])[0].tolist() == [3, 1]


def test_where_axes_have_names():
    text = """{ lambda ; a:f32[8]. let
    b:f32[] = shard_map[
      check_vma=False
      in_specs=(PartitionSpec('i',),)
      jaxpr={ lambda ; c:f32[2]. let
          d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
          e:f32[] = psum[axes=('i',) axis_index_groups=None] d
        in (e,) }
      manual_axes=frozenset({'i'})
      mesh=Mesh('i': 4)
      out_specs=(PartitionSpec(),)
    ] a
  in (b,) }"""
    made = jt.rewrite(jt.parse(text), by_name(psum=lambda x: lax.pmax(x, axes=("i",))))
    jt.typecheck_jaxpr(made)
    assert "pmax" in names(made) and "psum" not in names(made)


WRONG = {
    "type": (lambda x: lax.gt(x, 0.0), jt.JaxprTypeError, "its result is bool\\[3\\]"),
    "count": (lambda x: [x, x], jt.UsageError, "gives 2 results, and 1 are needed"),
    "operands": (lambda x: lax.add(x, np.ones(2, np.float32)), jt.JaxprTypeError, "add"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case):
    f, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        jt.rewrite(jt.parse(SINE), by_name(sin=f))


@pytest.mark.parametrize("example", by_structure(EXAMPLES), ids=lambda e: e.id)
def test_a_rule_without_effect_gives_the_same_object_and_bind_gives_the_same_program(example):
    try:
        program = jt.make_jaxpr(ours(example))(*[a.aval for a in example.args])
    except jt.JaxprToolError:
        pytest.skip("no program of its own")
    assert jt.rewrite(program, lambda eqn: None) is program

    def again(eqn):
        return lambda *xs: jt.bind(eqn.primitive, *xs, **eqn.params)

    made = jt.rewrite(program, again)
    assert jt.diff(dce_closed(program), dce_closed(made)).equal


def test_what_takes_the_place_of_an_equation_has_its_origin():
    text = """\
{ lambda ; a:f32[3]. let
    b:f32[3] = sin a  # net.py:3:8 (f)
                      # [layer1/attn]
  in (b,) }"""

    def twice_cos(x):
        return lax.mul(jt.jit(lax.cos)(x), 2.0)

    old = jt.parse(text)
    made = jt.rewrite(old, by_name(sin=twice_cos))
    (sin,) = old.eqns
    assert [e.primitive.name for e in made.eqns] == ["jit", "mul"]
    assert [e.origin for e in made.eqns] == [sin.origin, sin.origin]
    assert sin.origin.names == ("layer1", "attn")
    assert {e.origin.frame for e in all_eqns(made.jaxpr)} == {sin.origin.frame}

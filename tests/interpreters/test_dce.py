"""Dead code in the bodies of loops and branches, and what the parts of a carry need."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.core.env import Env
from jaxprtool.interpreters.dce import dce_jaxpr
from jaxprtool.ir.jaxpr import Lit, Var
from jaxprtool.ir.walk import count_eqns


def scan(body: str, carry: str, xs: str = "") -> str:
    """A scan of four steps; the body takes slices of `xs` after `carry`."""
    n = len(carry.split())
    return (
        "scan[jaxpr={ lambda ; "
        + body
        + f" }} length=4 linear=None num_carry={n} num_consts=0 reverse=False unroll=1 "
        + "_split_transpose=False] "
        + f"{carry} {xs}"
    )


def program(results: str, body: str, binders: str, carry: str, xs: str = "") -> jt.ClosedJaxpr:
    text = (
        "{ lambda ; a:f32[] b:f32[] s:f32[4]. let\n  "
        + f"{binders} = {scan(body, carry, xs)}\n  in ({results},) }}"
    )
    return jt.parse(text)


def smaller(p: jt.ClosedJaxpr) -> jt.ClosedJaxpr:
    return jt.ClosedJaxpr(dce_jaxpr(p.jaxpr, keep_inputs=True)[0], p.consts)


def body_of(p: jt.ClosedJaxpr) -> jt.Jaxpr:
    return p.jaxpr.eqns[0].params["jaxpr"].jaxpr


def test_dead_equations_go_also_where_all_results_are_read():
    body = "c:f32[] x:f32[]. let d:f32[] = mul c x; e:f32[] = sin x; f:f32[] = cos e in (d, d)"
    p = program("y, z", body, "y:f32[] z:f32[4]", "a", "s")
    assert [e.primitive.name for e in body_of(smaller(p)).eqns] == ["mul"]


def test_dead_equations_of_a_branch_go_also_where_all_results_are_read():
    p = jt.parse(
        "{ lambda ; a:i32[] b:f32[]. let\n  c:f32[] = cond[branches=(\n"
        "    { lambda ; d:f32[]. let e:f32[] = sin d; f:f32[] = cos d in (e,) }\n"
        "    { lambda ; g:f32[]. let h:f32[] = exp g in (h,) }\n  )] a b\n  in (c,) }"
    )
    assert count_eqns(p.jaxpr) == 4
    assert count_eqns(smaller(p).jaxpr) == 3


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        # only the stacked result is read: it needs the first part, which needs itself
        ("c:f32[] d:f32[]. let e:f32[] = sin c; f:f32[] = mul d d in (e, f, e)", 1),
        # which needs the second
        ("c:f32[] d:f32[]. let e:f32[] = mul c d; f:f32[] = mul d d in (e, f, e)", 2),
        # each needs the other, and the stacked result neither
        ("c:f32[] d:f32[]. let e:f32[] = sin d; f:f32[] = sin c in (e, f, 1.0:f32[])", 0),
        # the second needs itself alone
        ("c:f32[] d:f32[]. let e:f32[] = sin c; f:f32[] = sin d in (e, f, c)", 1),
    ],
)
def test_the_carry_is_what_the_stacked_results_need(body, kept):
    p = smaller(program("z", body, "_:f32[] _:f32[] z:f32[4]", "a b"))
    assert p.jaxpr.eqns[0].params["num_carry"] == kept
    assert jt.typecheck_jaxpr(p.jaxpr)


def test_what_a_nested_loop_does_not_need_is_not_carried():
    """The inner loop passes d on and reads it for its first result alone, which nobody reads."""
    inner = (
        "scan[jaxpr={ lambda ; g:f32[] h:f32[]. let i:f32[] = mul g h; j:f32[] = sin h in (i, j) } length=2 "
        "linear=None num_carry=2 num_consts=0 reverse=False unroll=1 _split_transpose=False] d c"
    )
    body = f"c:f32[] d:f32[]. let e:f32[] f:f32[] = {inner} in (f, e, f)"
    p = smaller(program("z", body, "_:f32[] _:f32[] z:f32[4]", "a b"))
    assert p.jaxpr.eqns[0].params["num_carry"] == 1
    assert body_of(p).eqns[0].params["num_carry"] == 1


def test_an_environment_holds_variables_and_literals_stand_for_themselves():
    aval = jt.ShapedArray((), "float32")
    x, y, one = Var(aval), Var(aval), Lit(1.0, aval)
    env = Env({x: 3})
    assert env.read([x, one]) == [3, one]
    env.write([y], [4])
    assert env.read([y, x]) == [4, 3]


def test_a_variable_that_is_not_bound_is_an_error():
    aval = jt.ShapedArray((), "float32")
    with pytest.raises(KeyError):
        Env().read([Var(aval)])
    with pytest.raises(ValueError, match="shorter"):
        Env().write([Var(aval), Var(aval)], [1])


PERMUTED = "{ lambda ; a:f32[2,2]. let b:f32[2,2] = broadcast_in_dim[broadcast_dimensions=(1, 0) shape=(2, 2)] a in (b,) }"


def test_a_broadcast_that_permutes_is_no_identity():
    # To JAX it is one (it drops the equation, so it prints none); to StableHLO it is a transposition.
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    program = jt.parse(PERMUTED)
    transformed, _ = jt.jvp_jaxpr(program)
    untouched, _ = jt.jvp_jaxpr(program, [False])
    for p, args in ((program, [x]), (transformed, [x, x]), (untouched, [x])):
        for out in (jt.eval_jaxpr(p, args)[0], np.asarray(jt.compile(p)(*args)[0])):
            np.testing.assert_array_equal(out, x.T)

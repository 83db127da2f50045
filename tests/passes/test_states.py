"""Operations with a state of their own give other results each time: no pass and no transformation makes one of two."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.driver.grad import grad
from jaxprtool.driver.jvp import jvp
from jaxprtool.driver.vjp import vjp
from jaxprtool.ir.walk import all_eqns

DRAW = "rng_uniform[shape=(3,)] 0.0:f32[] 1.0:f32[]"
PLAIN = f"""{{ lambda ; a:f32[3]. let
    b:f32[3] = {DRAW}
    c:f32[3] = {DRAW}
    d:f32[3] = sub b c
    e:f32[3] = mul d a
    f:f32[] = reduce_sum[axes=(0,) out_sharding=None] e
  in (f,) }}"""
CALLED = f"""{{ lambda ; a:f32[3]. let
    b:f32[3] = jit[name=draw jaxpr={{ lambda ; . let c:f32[3] = {DRAW} in (c,) }}]
    c:f32[3] = jit[name=draw jaxpr={{ lambda ; . let c:f32[3] = {DRAW} in (c,) }}]
    d:f32[3] = sub b c
    e:f32[3] = mul d a
    f:f32[] = reduce_sum[axes=(0,) out_sharding=None] e
  in (f,) }}"""
LOOP = f"""{{ lambda ; a:f32[3]. let
    b:f32[3] = scan[
      jaxpr={{ lambda ; c:f32[3]. let d:f32[3] = {DRAW}; e:f32[3] = mul c d in (e,) }}
      length=4
      linear=(False,)
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
      _split_transpose=False
    ] a
    f:f32[] = reduce_sum[axes=(0,) out_sharding=None] b
  in (f,) }}"""


def draws(program) -> int:
    return sum(eqn.primitive.name == "rng_uniform" for eqn in all_eqns(program.jaxpr))


def made(text, changed):
    program = jt.parse(text)
    return jt.opt(program, passes=changed) if isinstance(changed, str) else changed(program)


@pytest.mark.parametrize("changed", [jvp, vjp, grad, "cse", "fold", "simplify", "hoist", "outline"])
def test_two_stay_two(changed):
    assert draws(made(PLAIN, changed)) == 2
    assert draws(jt.opt(made(CALLED, changed), passes="inline")) == 2


@pytest.mark.parametrize("changed", [jvp, vjp, grad, "hoist", "cse", "fold"])
def test_a_loop_draws_in_each_turn(changed):
    program = made(LOOP, changed)
    assert all(e.primitive.name != "rng_uniform" for e in program.eqns), "it is in the loop"
    assert draws(program) >= 1


def test_what_nobody_reads_goes():
    assert draws(made(PLAIN.replace("sub b c", "sub b b"), "dce")) == 1


def test_it_is_not_proved_equal_to_itself():
    once = jt.parse(PLAIN.replace("sub b c", "sub b b"))
    assert not jt.equiv(jt.parse(PLAIN), once, samples=1).proved
    assert jt.equiv(once, once, samples=1).proved

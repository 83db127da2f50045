"""Texts that earlier releases of JAX printed, read as the current one prints them."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt

CURRENT = """\
{ lambda ; a:f32[8]. let
    b:f32[8] = shard_map[
      check_vma=True
      in_specs=(P('i',),)
      jaxpr={ lambda ; c:f32[4]{V:i}. let
          d:f32[4] = psum_invariant[axes=('i',)] c
          e:f32[4]{V:i} = pvary[axes=('i',)] d
          f:f32[4]{V:i} = mul c e
        in (f,) }
      mesh=Mesh('i': 2, axis_types=(Auto,))
      newly_manual_axes=frozenset({'i'})
      out_specs=(P('i',),)
    ] a
  in (b,) }"""

# As 0.7, 0.6 and 0.4 print it, where what changed lies between.
JAX_0_7 = (
    CURRENT.replace("{V:i}", "{i}")
    .replace("newly_manual_axes", "manual_axes")
    .replace("P('i',)", "PartitionSpec('i',)")
    .replace("axes=('i',)]", "axes=('i',) axis_index_groups=None]")
)
JAX_0_4 = """\
{ lambda ; a:f32[8]. let
    b:f32[8] = pjit[
      name=f
      jaxpr={ lambda ; c:f32[8]. let
          d:f32[8] = shard_map[
            auto=frozenset()
            check_rep=True
            in_names=({0: ('i',)},)
            jaxpr={ lambda ; e:f32[4]. let
                f:f32[4] = psum2[axes=('i',) axis_index_groups=None] e
                g:f32[4] = pbroadcast[axes=('i',) axis_index_groups=None] f
                h:f32[4] = mul e g
              in (h,) }
            mesh=Mesh('i': 2)
            out_names=({0: ('i',)},)
            rewrite=True
          ] c
        in (d,) }
    ] a
  in (b,) }"""
JAX_0_3 = """\
{ lambda ; a:f32[8]. let
    b:f32[8] = xla_call[
      call_jaxpr={ lambda ; c:f32[8]. let d:f32[8] = sin c in (d,) }
      name=f
    ] a
  in (b,) }"""
X = np.arange(8, dtype=np.float32)
TWICE = np.concatenate([X[:4] + X[4:]] * 2)


def test_shard_map_of_0_7_reads_as_the_current_one():
    program = jt.parse(JAX_0_7)
    jt.typecheck_jaxpr(program)
    text = CURRENT.replace("in_specs=(P('i',),)", "in_specs=(PartitionSpec('i',),)")
    assert jt.format_jaxpr(program) == text.replace(
        "out_specs=(P('i',),)", "out_specs=(PartitionSpec('i',),)"
    )


@pytest.mark.parametrize("text", [CURRENT, JAX_0_7, JAX_0_4])
def test_values_and_gradients(text):
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    run = jt.jaxpr_as_fun(program)
    for got in (run(X)[0], jt.compile(program)(X)[0]):
        np.testing.assert_allclose(np.asarray(got), X * TWICE)
    ct = np.cos(X)
    (got,) = jt.vjp(run, X)[1]([ct])
    parts = (ct * X)[:4] + (ct * X)[4:]
    np.testing.assert_allclose(got, ct * TWICE + np.concatenate([parts] * 2), rtol=1e-5)


def test_a_sum_that_leaves_a_shard_map_of_0_4():
    """Its cotangent goes to every device whole: the sum is computed once."""
    text = JAX_0_4.replace("g:f32[4] = pbroadcast", "g:f32[4] = psum2").replace("e g", "g g")
    program = jt.parse(text)
    run = jt.jaxpr_as_fun(program)
    total = 2 * TWICE
    np.testing.assert_allclose(run(X)[0], total**2)


def test_part_of_a_mesh_is_left_to_the_compiler():
    text = JAX_0_4.replace("auto=frozenset()", "auto=frozenset({'j'})")
    program = jt.parse(text.replace("Mesh('i': 2)", "Mesh('i': 2, 'j': 4)"))
    jt.typecheck_jaxpr(program)
    printed = jt.format_jaxpr(program)
    assert "newly_manual_axes=frozenset({'i'})" in printed and "in_specs=(P('i',),)" in printed


def test_calls():
    program = jt.parse(JAX_0_3)
    jt.typecheck_jaxpr(program)
    assert "= jit[\n      name=f" in jt.format_jaxpr(program)
    np.testing.assert_allclose(jt.eval_jaxpr(program, [X])[0], np.sin(X))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("in_names=({0: ('i',)},)", "in_names=({0: i})", "shard_map has no param auto"),
        ("rewrite=True", "rewrite=True\n            color=red", "has no param color"),
        ("axes=('i',) axis_index_groups=None] e", "axes=('k',)] e", "no axis is called k here"),
        (
            "in_names=({0: ('i',)},)",
            "in_names=({0: ('k',)},)",
            "mentions the axis k, which is not mapped",
        ),
    ],
)
def test_faults(old, new, message):
    with pytest.raises(jt.JaxprTypeError, match=message):
        jt.typecheck_jaxpr(jt.parse(JAX_0_4.replace(old, new)))

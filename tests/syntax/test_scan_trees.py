"""The trees of a scan, from JAX 0.11 on, say how many of its operands are constants, carry and slices."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool.syntax.releases.scan_trees import flat_trees, parts_of_trees


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("((), (None,), (RightsOnly(Right(None)),))", (0, 1, 1)),
        ("((None, None), ((None,), (None,)), ())", (2, 2, 0)),
        ("((RightsOnly(Left(None)),), (None,), (None,))", (0, 1, 1)),
        ("((None, RightsOnly(RightsOnly(Right(Left(None))))), (None,), (None,))", (1, 1, 1)),
        ("((RightsOnly(RightsOnly(Right(Right(None)))),), (None,), (None,))", (1, 1, 1)),
        ("((RightsOnly(Left(Right(None))),), (RightsOnly(Right(Right(Left(None)))),), (None,))", (0, 0, 1)),
        ("((Pytree(vals=[None], tree=PyTreeDef(([*], []))), RightsOnly(Pytree(vals=[Left(None)], tree=PyTreeDef(([*], []))))), (), ())", (1, 0, 0)),
        ("((), (RightsOnly(Pytree(vals=[Right(None), Left(None), Right(Left(None))], tree=PyTreeDef(([], [*, *, *])))),), (None,))", (0, 1, 1)),
        ("((Pytree(vals=[None], tree=PyTreeDef((None, {'*': *, '(': None}))),), (Static(None), Static((None, *))), (None,))", (1, 0, 1)),
        ("(Pytree(vals=[None, Right(None)], tree=PyTreeDef({'a': *, 'b': [*]})), (None,), ())", (2, 1, 0)),
    ],
)  # fmt: skip
def test_leaves_of_each_part(text, parts):
    assert parts_of_trees(text, 3) == parts


@pytest.mark.parametrize("counts", [(0, 0, 0), (1, 2, 3), (4, 0, 1)])
def test_trees_of_counts_have_them(counts):
    assert parts_of_trees(flat_trees(counts, "RightsOnly(Right(None))"), 3) == counts


def test_a_second_derivative_through_a_linearised_scan_is_read():
    text = """{ lambda ; a:f32[2] b:f32[2] c:f32[3,2] d:f32[3,2]. let
    e:f32[2] f:f32[2] = scan[
      ft_in=((Pytree(vals=[], tree=PyTreeDef(([], []))), RightsOnly(Pytree(vals=[], tree=PyTreeDef(([], []))))), (Pytree(vals=[None], tree=PyTreeDef(([], [*]))), RightsOnly(Pytree(vals=[Right(None)], tree=PyTreeDef(([], [*]))))), (Pytree(vals=[None, None], tree=PyTreeDef(([], [], [*, *]))), RightsOnly(Pytree(vals=[Left(None), Left(None)], tree=PyTreeDef(([], [], [*, *]))))))
      ft_out=((Pytree(vals=[None], tree=PyTreeDef(([], [*]))), RightsOnly(Pytree(vals=[Right(None)], tree=PyTreeDef(([], [*]))))), ((Pytree(vals=[], tree=PyTreeDef([])), ()), (RightsOnly(Pytree(vals=[], tree=PyTreeDef([]))), ())))
      jaxpr={ lambda ; g:f32[2] h:f32[2] i:f32[2] j:f32[2]. let
          k:f32[2] = mul g i
          l:f32[2] = mul h j
        in (k, l) }
      length=3
      reverse=True
      unroll=1
    ] a b c d
  in (e, f) }"""
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    assert (program.eqns[0].params["num_consts"], program.eqns[0].params["num_carry"]) == (0, 2)
    assert str(program) == text


def test_a_constant_that_a_second_derivative_leaves_out_is_no_operand():
    text = """{ lambda ; a:i32[] b:f32[] c:f32[3]. let
    d:f32[] e:f32[3] = scan[
      ft_in=((None, RightsOnly(RightsOnly(Right(Left(None))))), (None,), (None,))
      ft_out=((None,), (RightsOnly(Right(None)),))
      jaxpr={ lambda ; f:i32[] g:f32[] h:f32[]. let
          i:f32[] = integer_pow[y=2] g
          j:f32[] = add i h
        in (j, i) }
      length=3
      reverse=False
      unroll=1
    ] a b c
  in (d, e) }"""
    params = jt.parse(text).eqns[0].params
    assert (params["num_consts"], params["num_carry"]) == (1, 1)

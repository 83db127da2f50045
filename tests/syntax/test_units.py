"""Units, `*`, in texts with types: those of JAX 0.2.22 to 0.3.9."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt

X = np.array([0.5, -1.0, 2.0], np.float32)

# lax.fori_loop(0, 5, lambda i, x: x * 2 + i, x): the counter has a type, and 0.2.22 prints it as if it had none
DROPPED = """\
{ lambda ; a:f32[3]. let
    _:* = neg a
    _:* b:f32[3] = scan[
      jaxpr={ lambda ; c:i32[] d:f32[3]. let
          e:i32[] = add c 1
          f:f32[3] = mul d 2.0
          g:f32[] = convert_element_type[new_dtype=float32 weak_type=False] c
          h:f32[3] = add f g
        in (e, h) }
      length=5
      linear=(False, False)
      num_carry=2
      num_consts=0
      reverse=False
      unroll=1
    ] 0 a
  in (b,) }"""
# Part of the gradient of a loop: a unit that the printer gave a name.
_LOOP = """\
{ lambda ; a:f32[3]. let
    b:f32[3] _:* _:* _:* c:f32[2,3] = scan[
      jaxpr={ lambda ; d:f32[3] e:f32[3] u:*. let
          g:f32[3] = mul d e%s
      length=2
      linear=(False, False, True)
      num_carry=2
      num_consts=1
      reverse=False
      unroll=1
    ] a a *
  in (b, c) }"""
NAMED = (
    _LOOP
    % """
        in (g, *, r, r, e) }"""
)
# The name of the unit is that of a param too.
NAMED_AS_A_PARAM = (
    _LOOP
    % """
          h:f32[3] = xla_call[
            call_jaxpr={ lambda ; i:f32[3]. let j:f32[3] = integer_pow[y=2] i in (j,) }
            name=f
          ] g
        in (h, *, y, y, e) }"""
)
# Part of the gradient of a pmap.
MAPPED = """\
{ lambda ; a:f32[1,3]. let
    b:f32[1,3] _:* c:f32[1] = xla_pmap[
      axis_name=d
      axis_size=1
      backend=None
      call_jaxpr={ lambda ; g:f32[3] h:*. let
          i:f32[3] = sin g
          k:f32[3] = psum[axes=('d',) axis_index_groups=None] i
          n:f32[] = reduce_sum[axes=(0,)] k
        in (k, *, n) }
      devices=None
      donated_invars=(False, False)
      global_arg_shapes=(None,)
      global_axis_size=None
      in_axes=(0, 0)
      name=jvp(<lambda>)
      out_axes=(0, 0, 0)
    ] a *
  in (b, c) }"""


@pytest.mark.parametrize(
    ("text", "x", "want"),
    [
        (DROPPED, X, [32 * X + 26]),
        (NAMED, X, [X**3, np.stack([X, X**2])]),
        # a name that is a param's, or the value of one
        (NAMED_AS_A_PARAM, X, [X**10, np.stack([X, X**4])]),
        (NAMED_AS_A_PARAM.replace("y, y", "f, f"), X, [X**10, np.stack([X, X**4])]),
        (MAPPED, X[None], [np.sin(X)[None], np.sin(X).sum()[None]]),
    ],
    ids=["dropped", "named", "named as a param", "named as a value", "mapped"],
)
def test_a_unit_takes_nothing_else_with_it(text, x, want):
    program = jt.parse(text)
    jt.typecheck_jaxpr(program.jaxpr)
    assert "*" not in jt.format_jaxpr(program, dialect="jax-0.4.1")  # which has no units
    got = jt.eval_jaxpr(program.jaxpr, [x])
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        NAMED.replace("_:* _:* _:* c", "_:* _:* q:f32[3] c"),  # the result is read
        NAMED.replace("_:* _:* _:* c", "_:* _:* r:f32[3] c"),  # the name is another's
        NAMED.replace("in (b, c)", "in (b, r)"),  # nothing is around the jaxpr
        NAMED.replace(" _:* _:* _:*", " _:f32[3] _:f32[3] _:f32[3]")
        .replace(" u:*", " u:f32[3]")
        .replace("*, r", "e, r")
        .replace("a a *", "a a a"),  # no unit is in the text
    ],
    ids=["read", "bound elsewhere", "of the program", "no units"],
)
def test_a_name_that_is_bound_nowhere_is_no_unit_otherwise(text):
    with pytest.raises(jt.JaxprToolError) as caught:
        jt.parse(text)
    assert "r is not bound" in str(caught.value)

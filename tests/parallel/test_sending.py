"""`psend` and `precv`, the two halves of an exchange on GPUs: they have types, and say why they do not run."""

from __future__ import annotations

import pytest

import jaxprtool as jt

TEXT = """\
{ lambda ; a:f32[4,2]. let
    b:f32[4,2] = shard_map[
      check_vma=False
      in_specs=(P('x', None),)
      jaxpr={ lambda ; c:f32[2,2]. let
          d:Tok = psend[axis_name=('x',) perm=((0, 1),)] c
          e:f32[2,2] = precv[
            axis_name=('x',)
            out_shape=float32[2,2]
            perm=((0, 1),)
          ] d
        in (e,) }
      mesh=Mesh('x': 2, axis_types=(Auto,))
      newly_manual_axes=frozenset({'x'})
      out_specs=(P('x', None),)
    ] a
  in (b,) }"""


def test_types_and_text():
    program = jt.parse(TEXT)
    assert str(jt.typecheck_jaxpr(program.jaxpr)) == "(f32[4,2]) -> (f32[4,2])"
    assert str(program) == TEXT


@pytest.mark.parametrize(
    ("was", "is_", "message"),
    [
        ("psend[axis_name=('x',) perm=((0, 1),)]", "psend[axis_name=('x',) perm=((0, 2),)]", "each destination in perm"),
        ("psend[axis_name=('x',)", "psend[axis_name=('y',)", "no axis is called y here"),
        ("] d\n", "] c\n", "precv takes a token"),
        ("float32[2,2]", "float32[2,3]", "f32[2,3]"),
    ],
)  # fmt: skip
def test_wrong_ones(was, is_, message):
    assert was in TEXT
    with pytest.raises(jt.JaxprTypeError) as e:
        jt.typecheck_jaxpr(jt.parse(TEXT.replace(was, is_)).jaxpr)
    assert message in str(e.value)


def test_refused():
    with pytest.raises(jt.JaxprToolError, match="on GPUs alone"):
        jt.eval_jaxpr(jt.parse(TEXT), [[[1.0, 2.0]] * 4])


def test_what_takes_tokens_says_why_it_does_not_run_on_devices():
    """They do alone what they do, by a loop, and no loop has tokens: its own types were at fault."""
    line = "e:f32[2,2] = precv[\n            axis_name=('x',)\n            out_shape=float32[2,2]\n            perm=((0, 1),)\n          ] d"
    text = TEXT.replace("psend[axis_name=('x',) perm=((0, 1),)] c", "create_token")
    text = text.replace(line, "e:Tok = outfeed[partitions=None] d c").replace("in (e,)", "in (c,)")
    program = jt.parse(text)
    jt.typecheck_jaxpr(program.jaxpr)
    with pytest.raises(jt.JaxprToolError, match="no queue between host and device"):
        jt.eval_jaxpr(program, [[[1.0, 2.0]] * 4])

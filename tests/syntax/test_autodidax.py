# ruff: noqa: W291 (blanks at the end of a line are the tutorial's)
"""The Autodidax dialect: read into our primitives, printed back in the tutorial's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxprtool as jt
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.walk import all_eqns
from jaxprtool.syntax.parse import parse, parse_file
from jaxprtool.syntax.print import format_jaxpr
from tests.timing import assert_growth

TEXTS = {
    "identity": "{ lambda a:float64[] .\n  let \n  in ( a ) }",
    "no inputs": "{ lambda  .\n  let a:float64[] = mul 2.0 2.0\n  in ( a ) }",
    "literal result": "{ lambda  .\n  let \n  in ( 3.0 ) }",
    "two arguments": """\
{ lambda a:float64[], b:float64[] .
  let c:float64[] = mul a b
      d:bool[] = greater c 0.0
  in ( c, d ) }""",
    "params": """\
{ lambda a:float64[3] .
  let b:float64[2,3] = broadcast [ axes=(0,)
                                   shape=(2, 3) ] a
      c:float64[3,2] = transpose [ perm=(1, 0) ] b
      d:float64[2] = reduce_sum [ axis=(0,) ] c
  in ( d ) }""",
    "lists": """\
{ lambda  .
  let a:float64[3] = broadcast [ axes=[0]
                                 shape=[3] ] 1.0
  in ( a ) }""",
    "nested": """\
{ lambda a:float64[] .
  let b:bool[] = greater a 0.0
      c:float64[] = cond b a a
        { lambda a:float64[], b:float64[] .
          let c:float64[] = xla_call [ num_consts=0 ] b
                { lambda a:float64[] .
                  let b:float64[] = neg a
                  in ( b ) }
          in ( c ) }
        { lambda a:float64[], b:float64[] .
          let 
          in ( 0.0 ) }
      d:float64[] = mul c 2.0
  in ( d ) }""",
    "literal predicate": """\
{ lambda a:float64[] .
  let b:float64[] = cond True a
        { lambda a:float64[] .
          let 
          in ( a ) }
        { lambda a:float64[] .
          let 
          in ( 0.0 ) }
  in ( b ) }""",
}


@pytest.mark.parametrize("case", TEXTS)
def test_round_trip(case):
    assert format_jaxpr(parse(TEXTS[case]), "autodidax") == TEXTS[case]


def test_in_our_spelling():
    assert format_jaxpr(parse(TEXTS["params"])) == (
        "{ lambda ; a:f64[3]. let\n"
        "    b:f64[2,3] = broadcast_in_dim[broadcast_dimensions=(1,)] a\n"
        "    c:f64[3,2] = transpose[permutation=(1, 0)] b\n"
        "    d:f64[2] = reduce_sum[axes=(0,) out_sharding=None] c\n"
        "  in (d,) }"
    )


def test_cond_becomes_branches_with_the_false_one_first():
    program = parse(TEXTS["nested"])
    assert [e.primitive.name for e in program.eqns] == ["gt", "convert_element_type", "cond", "mul"]
    false, true = program.eqns[2].params["branches"]
    assert not false.eqns and true.eqns[0].primitive.name == "jit"
    assert str(program.eqns[1].out_binders[0].aval) == "i32[]"


def test_literals_take_the_type_beside_them():
    eqns = parse(
        "{ lambda a:float32[], b:int64[] .\n  let c:float32[] = mul 2.0 a\n      d:int64[] = add b 1\n"
        "  in ( c, d ) }"
    ).eqns
    assert str(eqns[0].inputs[0].aval) == "f32[]" and str(eqns[1].inputs[1].aval) == "i64[]"


def test_our_programs_in_the_tutorial_s_layout():
    program = parse(
        "{ lambda c:f32[3]; x:f32[3]. let _:f32[3] = add c x; y:f32[3] = mul x 2.0:f32[] in (y,) }"
    )
    assert format_jaxpr(program, "autodidax") == (
        "{ lambda a:float32[3], b:float32[3] .\n  let c:float32[3] = add a b\n"
        "      d:float32[3] = mul b 2.0\n  in ( d ) }"
    )  # fmt: skip


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.jaxpr")), ids=lambda path: path.stem)
def test_what_the_layout_has_no_place_for_is_read_again(path):
    """Jaxprs in params of other primitives than `xla_call`, some of which occur several times, with the lines of Python beside them."""
    held = parse_file(path.read_text(), str(path))
    for program in held.values():
        again = parse(format_jaxpr(program, "autodidax"))
        if all(eqn.primitive.known for eqn in all_eqns(program.jaxpr)):
            typecheck_jaxpr(again)
        n = len(again.in_avals) - len(program.in_avals)  # constants come first
        assert again.in_avals[n:] == program.in_avals
        assert again.out_avals == program.out_avals


def test_a_jaxpr_that_occurs_twice_is_defined_above_the_program():
    program = parse("""\
let f = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in
{ lambda ; x:f32[] n:i32[]. let
    y:f32[] = custom_jvp_call[name=f call_jaxpr=f jvp=g symbolic_zeros=False] x
    z:f32[] = cond[branches=(f f)] n y
  in (z,) }""")
    text = format_jaxpr(program, "autodidax")
    assert text.startswith(
        "let f = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in\n{ lambda "
    )
    assert "call_jaxpr=f" in text


def _loops(n: int) -> jt.ClosedJaxpr:
    """A program of n loops, whose bodies each have a function of their own that they call twice."""
    definitions, equations = "", ""
    for i in range(n):
        definitions += (
            f"let g{i} = {{ lambda ; x:f32[]. let y:f32[] = mul x {i}.0:f32[] in (y,) }} in\n"
        )
        call = f"jit[name=g{i} jaxpr=g{i}]"
        body = f"{{ lambda ; c:f32[]. let s:f32[] = {call} c; t:f32[] = {call} s in (t,) }}"
        rest = "length=3 num_carry=1 num_consts=0 reverse=False unroll=1"
        equations += f"    v{i + 1}:f32[] = scan[jaxpr={body} {rest}] v{i}\n"
    return jt.parse(f"{definitions}{{ lambda ; v0:f32[]. let\n{equations}  in (v{n},) }}")


def test_printing_takes_time_in_proportion_to_what_is_defined():
    assert_growth(_loops, lambda p: jt.format_jaxpr(p, style="autodidax"), 250, 2000, 16)


def test_jaxprs_that_solvers_inside_of_solvers_share():
    """They stand in records, where the JAX style has names for them too."""

    def solve(a: Any, b: Any) -> Any:
        def direct(_: Any, x: Any) -> Any:
            return jnp.linalg.solve(a, x)

        return jax.lax.custom_linear_solve(lambda x: a @ x, b, direct, direct, symmetric=True)

    program = jt.from_jax(jax.make_jaxpr(solve)(jnp.eye(3), jnp.ones(3)))
    text = jt.format_jaxpr(program, style="autodidax")
    assert text.count("lu ") == 1, "the direct solver is a definition"
    read = jt.parse(text)
    assert jt.format_jaxpr(read, style="autodidax") == text
    assert jt.diff(program, read).equal

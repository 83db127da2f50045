"""Sizes that are operands (0.3 to 0.7.0), and names of functions that look like params, in texts of earlier releases."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.syntax.parse import parse_file
from tests.invoke import invoke
from tests.syntax.two_readers import difference
from tests.timing import assert_growth

SIZES = {
    "jax-0.4.13": """{ lambda ; a:i32[] b:f32[a]. let
    c:f32[a] = broadcast_in_dim[broadcast_dimensions=() shape=(None,)] 2.0 a
    d:f32[a] = mul b c
    e:i32[a] = iota[dimension=0 dtype=int32 shape=(None,)] a
    f:f32[] = reduce_sum[axes=(0,)] d
  in (d, e, f) }""",
    "jax-0.6.2": """{ lambda ; a:i32[] b:f32[a,2]. let
    c:f32[a,2] = broadcast_in_dim[
      broadcast_dimensions=()
      shape=(None, 2)
      sharding=None
    ] 2.0:f32[] a
    d:f32[a,2] = mul b c
    e:i32[a] = iota[dimension=0 dtype=int32 shape=(None,) sharding=None] a
    f:f32[] = reduce_sum[axes=(0, 1)] d
  in (d, e, f) }""",
}


@pytest.mark.parametrize("release", SIZES)
def test_sizes_as_operands(release):
    """They are read as sizes of the shape, and printed as they were."""
    text = SIZES[release]
    assert difference(text) is None
    program = jt.parse(text)
    jt.typecheck_jaxpr(program.jaxpr)
    assert str(program) == text
    assert [len(eqn.inputs) for eqn in program.eqns] == [1, 2, 0, 1]
    again = jt.parse(jt.format_jaxpr(program, lossless=True))
    jt.typecheck_jaxpr(again.jaxpr)
    assert [*map(str, again.out_avals)] == [*map(str, program.out_avals)]
    fixed = jt.parse(invoke(["opt", "--passes", "specialise a=3"], text).output)
    x = np.ones(fixed.in_avals[1].shape, np.float32)
    d, e, f = jt.eval_jaxpr(fixed, [np.int32(3), x])
    assert np.array_equal(d, 2 * x) and np.array_equal(e, [0, 1, 2]) and f == 2 * x.size


def test_printing_sizes_is_linear():
    """Ten times as many equations take at most thirty times as long: a square would be a hundred."""

    def many(count: int) -> jt.ClosedJaxpr:
        lines = [
            f"v{i}:f32[a] = broadcast_in_dim[broadcast_dimensions=() shape=(None,)] 2.0 a"
            for i in range(count)
        ]
        return jt.parse("{ lambda ; a:i32[]. let\n    " + "\n    ".join(lines) + "\n  in (v0,) }")

    assert str(many(2)).count("(None,)] 2.0 a") == 2
    assert_growth(many, str, 400, 4000, 30)


def test_a_shape_that_nothing_tells_is_refused():
    text = SIZES["jax-0.4.13"].replace("shape=(None,)] 2.0 a", "shape=(None,)] 2.0")
    with pytest.raises(jt.JaxprTypeError, match="shape"):
        jt.typecheck_jaxpr(jt.parse(text).jaxpr)


NAMED = {
    "jit": """{ lambda ; a:f32[3]. let
    b:f32[3] = pjit[
      jaxpr={ lambda ; c:f32[3]. let d:f32[3] = add c 1.0 in (d,) }
      name=in let=lambda {x} ; [y]
    ] a
  in (b,) }""",
    "xla_call": """{ lambda  ; a.
  let b = xla_call[ backend=None
                    call_jaxpr={ lambda  ; a.
                                 let b = add a 1.0
                                 in (b,) }
                    device=None
                    donated_invars=(False,)
                    inline=False
                    name=in let=lambda {x} ; [y] ] a
  in (b,) }""",
}


@pytest.mark.parametrize("call", NAMED)
def test_a_name_that_holds_what_looks_like_a_param(call):
    assert difference(NAMED[call]) is None
    program = jt.parse(NAMED[call])
    assert program.eqns[0].params["name"] == "in let=lambda {x} ; [y]"
    assert jt.eval_jaxpr(program, [np.ones(3, np.float32)])[0].tolist() == [2, 2, 2]
    assert str(jt.parse(str(program))) == str(program)


def test_a_key_without_blanks_before_it_is_in_no_name():
    text = NAMED["jit"].replace("in let=lambda {x} ; [y]", "<lambda>name=<lambda>")
    assert difference(text) is None
    with pytest.raises(jt.JaxprToolError, match="holds `name=`"):
        jt.parse(text)


@pytest.mark.parametrize("params", ["name=f foo=3", "foo=3 name=f", "name=f inlin=True"])
def test_a_param_that_no_call_has_is_refused_beside_a_name(params):
    """People write several params on a line, which JAX never does."""
    jaxpr = "jaxpr={ lambda ; c:f32[3]. let  in (c,) }"
    text = f"{{ lambda ; a:f32[3]. let b:f32[3] = jit[{jaxpr} {params}] a in (b,) }}"
    with pytest.raises(jt.JaxprToolError, match=r"foo|inlin"):
        jt.typecheck_jaxpr(parse_file(text)[""].jaxpr)


def test_names_of_functions_of_the_installed_jax():
    def f(x):
        return x + 1.0

    f.__name__ = "in let=lambda {x} ; [y]"
    closed = jax.make_jaxpr(lambda x: jax.jit(f)(x) * 2.0)(np.ones(3, np.float32))
    program = jt.parse(str(closed))
    jt.typecheck_jaxpr(program.jaxpr)
    assert jt.eval_jaxpr(program, [np.ones(3, np.float32)])[0].tolist() == [4, 4, 4]


def test_params_of_an_unknown_primitive_that_hold_brackets_and_jaxprs():
    """Releases to 0.2.21 write each param on a line, and only names follow the bracket that closes them."""
    text = """{ lambda  ; a.
  let b = my-prim.v2:fancy[ semi=x ; y
                            text=a=b ] [ { lambda ; c:f32[]. let in (c,) } ] a
      c = sin b
  in (c,) }"""
    assert difference(text) is None
    program = jt.parse(text)
    held = dict(program.eqns[0].params)
    assert str(held["text"]) == "a=b ] [ { lambda ; c:f32[]. let in (c,) }"
    assert str(held["semi"]) == "x ; y"
    assert len(program.eqns[0].inputs) == 1
    assert str(program) == text

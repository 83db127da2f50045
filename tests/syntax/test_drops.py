"""Results `_` of a jaxpr that something reads: which of its values they are (JAX 0.5.3 to 0.10.0 do not print it)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.syntax.building.drops import AmbiguousResultWarning

# Part of jnp.unique: the second result of the sort, the positions, is read, by way of the result of the inner call.
TEXT = """\
{{ lambda ; a:i32[4]. let
    b:i32[4] _:i32[4] = pjit[
      name=_unique
      jaxpr={{ lambda ; a:i32[4]. let
          _:i32[4] = pjit[
            name=lexsort
            jaxpr={{ lambda ; a:i32[4]. let
                c:i32[4] = iota[dimension=0 dtype=int32 shape=(4,) sharding=None]
                _:i32[4] _:i32[4] = sort[dimension=0 is_stable=True num_keys=1] a c
                {extra}
              in (_,) }}
          ] a
          b:i32[4] = {use}
        in (b, _) }}
    ] a
  in (b,) }}"""
A = np.array([30, 10, 40, 20], np.int32)


@pytest.mark.parametrize(
    ("extra", "use", "warned", "expected"),
    [
        ("d:i32[4] = neg c", "neg _", True, [-1, -3, 0, -2]),  # nothing tells: the last
        ("d:i32[4] = neg c", "neg a", False, -A),  # nobody reads it
        # What the body reads must be the result, or it had a name.
        ("d:i32[4] = neg _", "neg _", True, [-10, -20, -30, -40]),
    ],
)
def test_which_of_several_values_a_result_without_a_name_is(extra, use, warned, expected):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program = jt.parse(TEXT.format(extra=extra, use=use))
    assert bool(found) is warned
    assert all(x.category is AmbiguousResultWarning for x in found)
    (got,) = jt.eval_jaxpr(program.jaxpr, [A])
    np.testing.assert_array_equal(got, expected)


# An LU decomposition of which nobody reads the results, behind another result of the type of its first.
ROW = """{ lambda ; a:f32[2,2] b:f32[2,2]. let
    _:f32[2,2] _:f32[2,2] _:i32[2] _:i32[2] c:f32[2,2] d:f32[2,2] = jit[
      name=solve
      jaxpr={ lambda ; a:f32[2,2] b:f32[2,2]. let
          _:f32[2,2] = neg a
          _:f32[2,2] _:i32[2] _:i32[2] = lu a
          c:f32[2,2] = custom_jvp_call[
            name=solve
            call_jaxpr={ lambda ; e:f32[2,2] f:i32[2] g:f32[2,2]. let
                h:i32[2,1] = reshape[dimensions=None new_sizes=(2, 1) sharding=None] f
                i:f32[2,1] = convert_element_type[new_dtype=float32 weak_type=False sharding=None] h
                j:f32[2,2] = mul e i
                k:f32[2,2] = add j g
              in (k,) }
            jvp=solve_jvp
            symbolic_zeros=False
          ] _ _ b
          d:f32[2,2] = custom_jvp_call[
            name=solve
            call_jaxpr={ lambda ; e:f32[2,2] f:i32[2] g:f32[2,2]. let
                h:f32[2,2] = add e g
              in (h,) }
            jvp=solve_jvp
            symbolic_zeros=False
          ] _ _ c
        in (_, _, _, _, c, d) }
    ] a b
  in (c, d) }"""


def test_operands_in_a_row_are_results_in_a_row():
    """Each time: what an equation read is no less likely to be read again."""
    with pytest.warns(AmbiguousResultWarning):
        program = jt.parse(ROW)
    a, b = np.array([[1, 2], [4, 3]], np.float32), np.ones((2, 2), np.float32)
    lu = np.array([[4, 3], [0.25, 1.25]], np.float32)
    c, d = jt.eval_jaxpr(program.jaxpr, [a, b])
    np.testing.assert_allclose(c, lu * [[1], [1]] + b)
    np.testing.assert_allclose(d, lu + c)


# As the derivative of a linear solve: `_` of the equation that gives `c` is the result before `c`.
BESIDE = """{{ lambda ; a:f32[3]. let
    _:f32[] d:f32[] c:f32[3] = jit[
      name=solve
      jaxpr={{ lambda ; a:f32[3]. let
          _:f32[] = reduce_max[axes=(0,) out_sharding=None] a
          {equation}
          _:f32[] = reduce_min[axes=(0,) out_sharding=None] c
        in (_, {results}) }}
    ] a
  in (d, c) }}"""


@pytest.mark.parametrize(
    ("equation", "results"),
    [
        ("_:f32[] c:f32[3] = {call} a", "_, c"),
        ("c:f32[3] _:f32[] = {call} a", "c, _"),
    ],
)
def test_a_result_is_the_one_beside_the_result_beside_it(equation, results):
    outs = "(d, e)" if results == "_, c" else "(e, d)"
    inner = (
        "jit[name=g jaxpr={ lambda ; x:f32[3]. let d:f32[] = reduce_sum[axes=(0,) out_sharding=None] x; "
        f"e:f32[3] = neg x in {outs} }}]"
    )
    text = BESIDE.format(equation=equation.replace("{call}", inner), results=results)
    if results == "c, _":
        text = text.replace("_:f32[] d:f32[] c:f32[3] = jit", "_:f32[] c:f32[3] d:f32[] = jit")
    with pytest.warns(AmbiguousResultWarning):
        program = jt.parse(text)
    d, c = jt.eval_jaxpr(program.jaxpr, [np.array([1, 2, 4], np.float32)])
    assert d == 7
    np.testing.assert_array_equal(c, [-1, -2, -4])


# As the derivative of a singular value decomposition: `s == 0` and `s + (s == 0)` are of the singular values.
TWICE = """{ lambda ; a:f32[3]. let
    _:f32[3] _:f32[3] b:f32[3] = jit[
      name=svd
      jaxpr={ lambda ; a:f32[3]. let
          _:f32[3] = abs a
          _:f32[3] = neg a
          c:bool[3] = eq _ 0.0:f32[]
          d:f32[3] = convert_element_type[new_dtype=float32 weak_type=False] c
          b:f32[3] = add _ d
        in (_, _, b) }
    ] a
  in (b,) }"""


def test_operands_are_of_the_first_value_each_time():
    with pytest.warns(AmbiguousResultWarning):
        program = jt.parse(TWICE)
    (b,) = jt.eval_jaxpr(program.jaxpr, [np.array([-2, 0, 3], np.float32)])
    np.testing.assert_array_equal(b, [2, 1, 3])


@pytest.mark.parametrize("name", ["b", "z"])  # as JAX names it, and otherwise
@pytest.mark.parametrize("dialect", ["jax-0.10.2", "jax-0.12"])
def test_a_release_that_names_them_is_written_with_names(name, dialect):
    with pytest.warns(AmbiguousResultWarning):
        program = jt.parse(
            TWICE.replace("b:f32", f"{name}:f32")
            .replace(", b)", f", {name})")
            .replace("(b,)", f"({name},)"),
            dialect="jax-0.9.0",
        )
    text = jt.format_jaxpr(program, lossless=True, dialect=dialect)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = jt.parse(text)
    assert jt.diff(program, again).equal
    assert "eq _" not in text


# Part of the derivative of jnp.linalg.lstsq: the type of the call's second result tells what its operand is.
CALL = """\
{ lambda ; a:f32[3]. let
    b:f32[1] = jit[
      name=residual
      jaxpr={ lambda ; a:f32[3]. let
          c:i32[3] = convert_element_type[new_dtype=int32 weak_type=False] a
          _:i32[] = reduce_sum[axes=(0,) out_sharding=None] c
          _:f32[3] = mul a 2.0:f32[]
          d:f32[1] _:f32[1] = jit[
            name=norm
            jaxpr={ lambda ; _:f32[3]. let
                e:f32[3] = mul _ _
                f:f32[] = reduce_sum[axes=(0,) out_sharding=None] e
                d:f32[1] = broadcast_in_dim[
                  broadcast_dimensions=()
                  shape=(1,)
                  sharding=None
                ] f
                _:f32[1] = div 0.5:f32[] d
              in (d, _) }
          ] _
          b:f32[1] = neg d
        in (b,) }
    ] a
  in (b,) }"""


def test_an_operand_has_the_type_that_a_call_takes_whose_results_have_no_names():
    program = jt.parse(CALL)
    jt.typecheck_jaxpr(program)
    (got,) = jt.eval_jaxpr(program.jaxpr, [np.array([1, 2, 3], np.float32)])
    np.testing.assert_array_equal(got, [-56])


# Part of the derivative of jnp.frexp (JAX 0.11.1): what is converted is not of the type that is wanted.
CONVERTED = """\
{ lambda ; a:f32[2]. let
    _:f32[2] _:i32[2] b:f32[2] = jit[
      name=frexp
      jaxpr={ lambda ; a:f32[2]. let
          _:f32[2] _:i32[2] = jit[
            name=frexp
            jaxpr={ lambda ; a:f32[2]. let
                _:f32[2] = mul a 2.0:f32[]
                _:i32[2] = convert_element_type[new_dtype=int32 weak_type=False] a
              in (_, _) }
          ] a
          b:f32[2] = convert_element_type[new_dtype=float32 weak_type=False] _
        in (_, _, b) }
    ] a
  in (b,) }"""


def test_an_operand_is_one_with_which_the_equation_does_something():
    with pytest.warns(AmbiguousResultWarning):
        program = jt.parse(CONVERTED)
    (got,) = jt.eval_jaxpr(program.jaxpr, [np.array([1.5, 2.5], np.float32)])
    np.testing.assert_array_equal(got, [1, 2])


# Part of the derivative of jnp.linalg.tensorsolve (JAX 0.7.1): a product takes numbers of two types too.
MIXED = """\
{ lambda ; a:f32[2,2] b:f32[2]. let
    _:f32[2] c:f32[2] = jit[
      name=solve
      jaxpr={ lambda ; a:f32[2,2] b:f32[2]. let
          d:f32[2,2] _:i32[2] e:i32[2] = lu a
          _:f32[2] = mul b 2.0:f32[]
          c:f32[2] = dot_general[dimension_numbers=(([1], [0]), ([], []))] a _
        in (_, c) }
    ] a b
  in (c,) }"""


def test_an_operand_is_of_an_element_type_that_the_equation_has():
    with pytest.warns(AmbiguousResultWarning):
        program = jt.parse(MIXED)
    values = [np.eye(2, dtype=np.float32), np.array([1.5, 2.5], np.float32)]
    np.testing.assert_array_equal(jt.eval_jaxpr(program.jaxpr, values)[0], [3, 5])

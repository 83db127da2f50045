"""Programs that fuzzing found: what `check` accepts, every verb takes or refuses with a message."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.driver.linearize import linearize
from jaxprtool.driver.transpose import transpose
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprtool.ir.params import NumpyScalar, Opaque

SCATTER = (
    "{ lambda ; a:f32[4,3] b:i32[2,1] c:f32[2,3]. let d:f32[4,3] = scatter-mul[dimension_numbers="
    "ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), "
    "scatter_dims_to_operand_dims=(0,), operand_batching_dims=(), scatter_indices_batching_dims=()) "
    "indices_are_sorted=False mode=GatherScatterMode.FILL_OR_DROP unique_indices=True update_consts=() "
    "update_jaxpr={ lambda ; e:f32[] f:f32[]. let g:f32[] = mul e f in (g,) }] a b c in (d,) }"
)


def test_a_product_is_not_linear_in_both_factors():
    p = jt.parse(SCATTER)
    with pytest.raises(jt.JaxprToolError, match="scatter-mul is not linear"):
        transpose(p, [0, 2])
    with pytest.raises(jt.JaxprToolError, match="scatter-mul is not linear"):
        jt.transpose_jaxpr(p, [True, False, True])
    assert transpose(p, [0]).in_avals  # in one of them it is


def test_a_rule_that_gives_a_tangent_for_a_value_is_refused():
    p = jt.parse(
        "{ lambda ; a:f32[]. let b:f32[] = custom_jvp_call[name=f call_jaxpr={ lambda ; c:f32[]. let in (c,) } "
        "jvp=jvp jvp_jaxpr={ lambda ; d:f32[] e:f32[]. let in (e, d) } symbolic_zeros=False] a in (b,) }"
    )
    with pytest.raises(
        jt.UnsupportedError, match="result 0 has no value without tangents: it is a tangent"
    ):
        linearize(p)


def test_a_result_may_be_a_literal_of_several_axes():
    text = "{ lambda ; a:f32[]. let  in ([...]:f64[5,4], a, [...]:i32[2]) }"
    p = jt.parse(text)
    assert [str(t) for t in p.out_avals] == ["f64[5,4]", "f32[]", "i32[2]"]
    assert same_program(p, jt.parse(str(p)))
    with pytest.raises(jt.JaxprParseError):
        jt.parse("{ lambda ; a:f32[]. let  in ([...]:f64[5,4, a) }")


def program(op, params, ins, out):
    binders = [Var(a) for a in ins]
    eqn = JaxprEqn(op.primitive, binders, params, [Var(out)])
    return ClosedJaxpr(Jaxpr(binders, [eqn], [*eqn.out_binders]), [])


@pytest.mark.parametrize("alpha", [1, 1.0, NumpyScalar(1)])
def test_a_number_is_equal_to_its_text_whatever_holds_it(alpha):
    ins = [ShapedArray((2, 3), "float32"), ShapedArray((2, 2), "float32")]
    p = program(jt.lax.symmetric_product, {"alpha": alpha, "beta": 2.0}, ins, ins[1])
    assert same_program(p, jt.parse(jt.format_jaxpr(p, lossless=True)))


def test_a_name_is_equal_to_its_text_whatever_holds_it():
    aval = ShapedArray((), "float32")
    p = program(jt.lax.checkpoint_name, {"name": Opaque("<f at 0x1>")}, [aval], aval)
    assert same_program(p, jt.parse(jt.format_jaxpr(p, lossless=True)))


def test_windows_have_to_lie_within_the_operand_where_there_are_any():
    head = "{ lambda ; a:i32[2,0] b:i32[%d,0]. let c:i32[%d,2,2] = gather[dimension_numbers="
    tail = (
        "GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(), "
        "operand_batching_dims=(), start_indices_batching_dims=()) fill_value=None indices_are_sorted=False "
        "mode=GatherScatterMode.PROMISE_IN_BOUNDS slice_sizes=(2, 2) unique_indices=False] a b in (c,) }"
    )
    with pytest.raises(jt.JaxprTypeError, match="not within"):
        jt.typecheck_jaxpr(jt.parse(head % (2, 2) + tail))
    p = jt.parse(head % (0, 0) + tail)
    arrays = np.zeros((2, 0), np.int32), np.zeros((0, 0), np.int32)
    assert jt.eval_jaxpr(p, [*arrays])[0].shape == (0, 2, 2)


def test_what_has_no_zeros_is_refused():
    p = jt.parse("{ lambda ; a:odd[2] b:f32[]. let in (b,) }")
    with pytest.raises(jt.JaxprToolError):
        jt.transpose_jaxpr(p, [True, False])


@pytest.mark.parametrize("dim", ["1e4002", "f64[2", "3lambda"])
def test_what_is_no_dimension_is_refused_where_it_is_read(dim):
    with pytest.raises(jt.JaxprParseError, match=r"is not a dimension|expected binders"):
        jt.parse(f"{{ lambda ; a:f64[{dim},3]. let in (a,) }}")


def test_symbolic_dimensions_that_a_derivative_computes_with():
    p = jt.parse("{ lambda ; a:f64[2*n + 1,3]. let b:f64[] = reduce_prod[axes=(0, 1)] a in (b,) }")
    made = jt.opt(jt.jvp_jaxpr(p)[0], passes="specialise n=1")
    want = jt.jvp_jaxpr(jt.opt(p, passes="specialise n=1"))[0]
    x = np.linspace(0.5, 1.5, 9).reshape(3, 3)
    np.testing.assert_allclose(jt.eval_jaxpr(made, [x, x]), jt.eval_jaxpr(want, [x, x]))


def test_sizes_that_nobody_can_compare_are_refused():
    p = jt.parse("{ lambda ; a:f64[n] b:f64[m]. let c:f64[n] = add a b in (c,) }")
    with pytest.raises(jt.JaxprTypeError):
        jt.check(p)


COMBINED = {
    "scatter-add": "add",
    "scatter-sub": "sub",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}


@pytest.mark.parametrize("update", ["", "mul", "sub", "max", "second"])
@pytest.mark.parametrize("name", COMBINED)
def test_what_updates_are_combined_with_is_the_same_everywhere(name, update):
    """What the param says; what the name says where it says nothing: on NumPy, in our lowering, and in JAX."""
    combine = {
        "": "None",
        "second": "{ lambda ; e:f32[] f:f32[]. let  in (f,) }",
    }.get(update, f"{{ lambda ; e:f32[] f:f32[]. let g:f32[] = {update} e f in (g,) }}")
    text = SCATTER.replace("scatter-mul", name).replace(
        "unique_indices=True", "unique_indices=False"
    )
    start = text.index("update_jaxpr=")
    p = jt.parse(f"{text[:start]}update_jaxpr={combine}] a b c in (d,) }}")
    x = np.arange(12, dtype=np.float32).reshape(4, 3) - 4
    args = [x, np.array([[1], [1]], np.int32), np.full((2, 3), 2, np.float32)]
    (expected,) = jt.run(p, *args)
    np.testing.assert_array_equal(jt.run(p, *args, jit=True)[0], expected)
    np.testing.assert_array_equal(jt.run(p, *args, through="jax")[0], expected)
    own = {"add": x[1] + 4, "sub": x[1] - 4, "mul": x[1] * 4, "max": np.maximum(x[1], 2)}
    own |= {"min": np.minimum(x[1], 2), "second": args[2][0]}
    np.testing.assert_array_equal(expected[1], own[update or COMBINED[name]])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "rule",
    [
        "",
        "jvp_jaxpr={ lambda ; d:f32[] e:f32[] f:f32[] g:f32[]. let h:f32[] = add f g in (d, h) } ",
    ],
)
def test_constants_of_a_custom_call_are_not_differentiated(rule):
    """With its rule and without, as in JAX."""
    p = jt.parse(
        "{ lambda ; a:f32[] b:f32[]. let c:f32[] = custom_jvp_call[name=f call_jaxpr={ lambda ; d:f32[] e:f32[]. let "
        f"g:f32[] = add d e in (g,) }} jvp=jvp {rule}num_consts=1 symbolic_zeros=False] a b in (c,) }}"
    )
    one, two = np.float32(1), np.float32(2)
    _, (tangent,) = jt.jvp(jt.jaxpr_as_fun(p), [one, one], [one, two])
    assert tangent == 2
    if not rule:  # JAX has one that reads constants in no program
        f = jt.to_jax_function(p)
        assert jax.jvp(f, (one, one), (one, two))[1] == [2]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumlogsumexp_of_large_negative_numbers_has_a_derivative(dtype, reverse):
    """What stands before the first element is less than all numbers, also of complex ones."""

    def f(x):
        return jax.lax.cumlogsumexp(x, axis=0, reverse=reverse)

    x = np.array([-911, -204, 3, -300], dtype)
    if dtype == np.complex64:
        x = x + np.array([0, 63j, 1j, -2j], dtype)
    tangent = np.array([1, 2, 3, 4], dtype)
    want = jax.jvp(f, (x,), (tangent,))[1]
    have = jt.jvp(jt.jaxpr_as_fun(jt.trace(f, x)), [x], [tangent])[1][0]
    np.testing.assert_allclose(have, want, rtol=1e-4)


def test_the_cotangent_of_an_empty_transform_is_zero():
    """JAX divides by the number of elements; `jnp.fft.hfft` of one element has none."""
    program = jt.parse(
        "{ lambda ; a:c64[1]. let b:f32[0] = fft[fft_lengths=(0,) fft_type=3] a in (b,) }"
    )
    out, back = jt.vjp(lambda a: jt.eval_jaxpr(program, [a])[0], np.ones(1, np.complex64))
    (cotangent,) = back(out)
    assert cotangent.dtype == np.complex64 and np.array_equal(cotangent, [0])


@pytest.mark.parametrize(
    ("equation", "want"),
    [
        ("", [2, 2, 2]),
        ("b:f32[6] = concatenate[dimension=0] a 2.0:f32[3]", [1, 1, 1, 2, 2, 2]),
        ("b:f32[] = reduce_sum[axes=(0,)] 2.0:f32[3]", 6),
    ],
)
def test_a_number_of_several_axes_is_that_number_everywhere(equation, want):
    result = "b" if equation else "2.0:f32[3]"
    program = jt.parse(f"{{ lambda ; a:f32[3]. let {equation} in ({result},) }}")
    jt.typecheck_jaxpr(program)
    ones = np.ones(3, np.float32)
    for got in (jt.eval_jaxpr(program, [ones]), jt.compile(program)(ones)):
        assert np.array_equal(np.asarray(got[0]), np.float32(want))
    mapped, _ = jt.vmap_jaxpr(program, 2, [0])
    assert np.array_equal(jt.eval_jaxpr(mapped, [np.stack([ones] * 2)])[0], np.float32([want] * 2))

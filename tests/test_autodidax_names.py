"""Typing along with the Autodidax tutorial, under its own names: `from jaxprtool.autodidax import *`."""

from __future__ import annotations

import builtins
import subprocess
import sys
import types

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import autodidax
from jaxprtool.autodidax import *  # noqa: F403
from jaxprtool.autodidax import (
    Elsewhere,
    JVPTrace,
    PartialVal,
    Primitive,
    ShapedArray,
    UndefPrimal,
    add_p,
    bind,
    bind1,
    broadcast,
    broadcast_p,
    cond,
    cos,
    deriv,
    eval_jaxpr,
    eval_jaxpr_transposed,
    find_top_trace,
    flatten_fun,
    full_lower,
    full_raise,
    get_aval,
    grad,
    greater,
    jacfwd,
    jaxpr_as_fun,
    jit,
    jvp,
    jvp_flat,
    jvp_jaxpr,
    jvp_v1,
    less,
    linearize,
    linearize_flat,
    make_jaxpr,
    make_jaxpr_v1,
    mapped_aval,
    merge_lists,
    move_batch_axis,
    mul,
    neg,
    partial_eval_flat,
    partial_eval_jaxpr,
    partition_list,
    pp_jaxpr,
    raise_to_shaped,
    reduce_sum,
    reduce_sum_p,
    sin,
    split_half,
    split_list,
    swap,
    transpose,
    transpose_jaxpr,
    transpose_p,
    tree_flatten,
    tree_unflatten,
    typecheck_jaxpr,
    typecheck_partial_eval_jaxpr,
    unmapped_aval,
    vjp,
    vjp_flat,
    vmap,
    vmap_flat,
    vmap_jaxpr,
    zeros_like,
)  # fmt: skip
from jaxprtool.ir.frozen import amend

# Every name that a state of the tutorial, from 2021 to now, defines at its top level, but for `f`, `x`, `y` and the like.
NAMES = """
Primitive add_p mul_p neg_p sin_p cos_p reduce_sum_p greater_p less_p transpose_p broadcast_p add mul neg sin cos
greater less transpose broadcast reduce_sum bind1 MainTrace trace_stack dynamic_trace new_main Trace Tracer swap
ShapedArray ConcreteArray get_aval jax_types bind find_top_trace full_lower full_raise EvalTrace impl_rules
broadcast_impl zeros_like unzip2 map zip JVPTracer JVPTrace jvp_rules add_jvp mul_jvp sin_jvp cos_jvp neg_jvp
reduce_sum_jvp greater_jvp less_jvp jvp_v1 deriv jvp_flat jvp flatten_fun Empty empty Store NodeType
register_pytree_node node_types PyTreeDef Leaf leaf tree_flatten tree_unflatten mapped_aval move_batch_axis moveaxis
NotMapped not_mapped BatchAxis BatchTracer BatchTrace vmap_rules binop_batching_rule vectorized_unop_batching_rule
reduce_sum_batching_rule vmap_flat vmap add_one_to_a_scalar jacfwd Var Lit Atom JaxprEqn Jaxpr raise_to_shaped
JaxprType typecheck_jaxpr typecheck_atom eval_jaxpr jaxpr_as_fun split_list partition_list JaxprTracer JaxprTrace
abstract_eval_rules JaxprBuilder _inline_literals binop_abstract_eval compare_abstract_eval
vectorized_unop_abstract_eval reduce_sum_abstract_eval broadcast_abstract_eval make_jaxpr_v1 PPrint pp vcat pp_jaxpr
var_str pp_eqn pp_params pp_rules new_dynamic make_jaxpr jit xla_call_p IDHashable MlirContext xla_call_impl
xla_callable aval_to_ir_type aval_to_xla_shape jaxpr_subcomp execute_compiled default_input_handler input_handlers
handle_result hlo_translations xla_translations direct_translation compare_translation reduce_sum_translation
broadcast_translation xla_call_jvp_rule jvp_jaxpr xla_call_vmap_rule vmap_jaxpr unmapped_aval
xla_call_abstract_eval_rule xla_call_translation Array DeviceArray pprint_xla_call split_half merge_lists
linearize_flat linearize vspace PartialVal partial_eval_flat LambdaBindingRecipe ConstRecipe JaxprEqnRecipe
JaxprRecipe PartialEvalTracer PartialEvalTrace partial_eval_rules tracers_to_jaxpr recipe_to_eqn tracer_parents
toposort remove_duplicates check_toposort xla_call_partial_eval partial_eval_jaxpr typecheck_partial_eval_jaxpr
partial_eval_jaxpr_rules xla_call_peval_eqn vjp_flat vjp UndefPrimal eval_jaxpr_transposed transpose_rules
mul_transpose_rule neg_transpose_rule add_transpose_rule reduce_sum_transpose_rule xla_call_transpose_rule
transpose_jaxpr grad foo assert_allclose cond cond_p _join_jaxpr_consts bind_cond cond_impl cond_jvp_rule
cond_vmap_rule cond_abstract_eval cond_translation cond_partial_eval _cond_partial_eval _join_jaxpr_res
cond_peval_eqn cond_transpose_rule pprint_cond _mlir_dtype _hlo_const _hlo_consts _xla_consts _xla_params
""".split()  # noqa: SIM905 (a list of them would be a page long)

F64 = ShapedArray((), np.dtype("float64"))


def f(x):
    y = sin(x) * 2.0
    z = -y + x
    return z


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_usable_or_explained(name):
    found = getattr(autodidax, name)
    assert (name in autodidax.__all__) == (name not in ("map", "zip"))  # these two hide Python's
    if not isinstance(found, Elsewhere):
        return
    assert found.sentence in repr(found) and " " in found.sentence
    for use in (
        lambda: found(1),
        lambda: found[add_p],
        lambda: found.__setitem__(add_p, 1),
        lambda: found.level,
        lambda: list(found),
        lambda: isinstance(1, found),
        lambda: types.new_class("Mine", (found,)),
    ):
        with pytest.raises(jt.UsageError) as caught:
            use()
        assert name in str(caught.value) and found.sentence in str(caught.value)


def test_no_other_names():
    assert set(autodidax.__all__) <= set(NAMES)
    with pytest.raises(AttributeError, match="no name 'sine'"):
        autodidax.sine


def test_with_the_explained_stack_of_traces():
    with pytest.raises(jt.UsageError, match="set_current_trace"), autodidax.new_main(JVPTrace):
        pass


def test_python_s_map_and_zip_stay():
    assert map is builtins.map and zip is builtins.zip
    assert autodidax.map(lambda x: x + 1, [1, 2]) == [2, 3]
    assert autodidax.zip([1, 2], "ab") == [(1, "a"), (2, "b")]
    with pytest.raises(ValueError):
        autodidax.zip([1], [1, 2])


def test_importing_it_loads_nothing_heavy():
    code = (
        "import sys; import jaxprtool.autodidax;"
        "print([m for m in ('numpy', 'jax', 'jaxlib', 'ml_dtypes') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- part 1 ------------------------------------------------------------------------------------


def test_evaluation():
    assert f(3.0) == pytest.approx(2.7177599838802657)
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(transpose(x, (1, 0)), x.T)
    np.testing.assert_array_equal(broadcast(x, (2, 4, 3), (1,)), np.stack([x] * 4, 1))
    np.testing.assert_array_equal(broadcast(1.0, [3], [0]), np.ones(3))
    assert reduce_sum(x) == 15 and reduce_sum(x, axis=(0, 1)) == 15
    np.testing.assert_array_equal(reduce_sum(x, axis=0), x.sum(0))
    assert greater(2.0, 1.0) and less(1.0, 2.0) and neg(1.0) == -1 and swap(greater)(1.0, 2.0)
    np.testing.assert_array_equal(zeros_like(x), x * 0)


def test_bind():
    x = np.arange(6.0).reshape(2, 3)
    (out,) = bind(reduce_sum_p, x, axis=(0,))
    np.testing.assert_array_equal(out, x.sum(0))
    np.testing.assert_array_equal(bind1(reduce_sum_p, x, axes=(0,), out_sharding=None), x.sum(0))
    np.testing.assert_array_equal(bind1(transpose_p, x, perm=(1, 0)), x.T)
    np.testing.assert_array_equal(bind1(broadcast_p, x, shape=(1, 2, 3), axes=(0,)), x[None])
    assert bind(add_p, 1.0, 2.0) == [3.0]
    with pytest.raises(jt.UsageError, match=r"foo has no rules(.|\n)*jaxprtool.define"):
        bind(Primitive("foo"), 1.0)


def test_jvp():
    assert jvp_v1(sin, (3.0,), (1.0,)) == pytest.approx((np.sin(3.0), np.cos(3.0)))
    assert jvp(f, (3.0,), (1.0,))[1] == pytest.approx(2.979984993200891)
    assert deriv(deriv(deriv(sin)))(3.0) == pytest.approx(-np.cos(3.0))
    assert deriv(lambda x: 2.0 * x if x > 0.0 else x)(-3.0) == 1.0
    primals, tangents = jvp_flat(lambda x, y: [sin(x), x * y], (3.0, 2.0), (1.0, 0.0))
    assert primals == pytest.approx([np.sin(3.0), 6.0])
    assert tangents == pytest.approx([np.cos(3.0), 2.0])
    out, out_dot = jvp(lambda x: {"hi": f(x), "there": [x, sin(x)]}, (3.0,), (1.0,))
    assert out["there"][0] == 3.0 and out_dot["there"] == pytest.approx([1.0, np.cos(3.0)])


def test_vmap():
    def add_one(scalar):
        assert np.ndim(scalar) == 0
        return 1 + scalar

    np.testing.assert_array_equal(vmap(add_one, (0,))(np.arange(3.0)), [1, 2, 3])
    x = np.arange(3.0)
    np.testing.assert_allclose(jacfwd(sin, x), np.diag(np.cos(x)))
    (out,) = vmap_flat(lambda a, b: [a * b], (0, None), x, 2.0)
    np.testing.assert_array_equal(out, x * 2)
    np.testing.assert_array_equal(move_batch_axis(3, None, 1, np.ones(2)), np.ones((2, 3)))
    assert mapped_aval(0, ShapedArray((3, 2), "float64")) == ShapedArray((2,), "float64")
    assert unmapped_aval(3, 1, ShapedArray((2,), "float64")) == ShapedArray((2, 3), "float64")
    assert unmapped_aval(3, None, F64) == F64


def test_trees_and_traces():
    leaves, tree = tree_flatten({"a": (1, [2]), "b": 3})
    assert leaves == [1, 2, 3] and tree_unflatten(tree, leaves) == {"a": (1, [2]), "b": 3}
    flat, out_tree = flatten_fun(lambda x, y: {"s": x + y}, tree_flatten((1, 2))[1])
    assert flat(1, 2) == [3] and tree_unflatten(out_tree(), [3]) == {"s": 3}
    trace = JVPTrace(find_top_trace([]))
    assert full_raise(trace, 3.0).primal == 3.0 and full_lower(full_raise(trace, 3.0)) == 3.0
    assert split_list([1, 2, 3], 1) == [[1], [2, 3]] and split_half([1, 2]) == ([1], [2])
    assert partition_list([False, True], [1, 2]) == ([1], [2])
    assert merge_lists([False, True], [1], [2]) == [1, 2]
    with pytest.raises(jt.UsageError):
        split_half([1])


# -- part 2 ------------------------------------------------------------------------------------


def test_make_jaxpr_prints_as_in_the_tutorial():
    jaxpr, consts, _ = make_jaxpr_v1(lambda x: 2.0 * x, raise_to_shaped(get_aval(3.0)))
    text = "{ lambda a:float64[] .\n  let b:float64[] = mul 2.0 a\n  in ( b ) }"
    assert str(jaxpr) == repr(jaxpr) == pp_jaxpr(jaxpr) == text and consts == []
    assert str(typecheck_jaxpr(jaxpr)) == "(float64[]) -> (float64[])"
    assert len(jaxpr.in_binders) == len(jaxpr.eqns) == len(jaxpr.outs) == 1
    assert eval_jaxpr(jaxpr, [3.0]) == [6.0] and jaxpr_as_fun(jaxpr)(3.0) == [6.0]
    assert str(make_jaxpr(lambda x: 2.0 * x, F64)[0]) == text


def test_what_the_first_make_jaxpr_does_not_stage():
    staged, _, _ = make_jaxpr(lambda: mul(2.0, 2.0))
    assert str(staged) == "{ lambda  .\n  let a:float64[] = mul 2.0 2.0\n  in ( a ) }"
    at_once, _, tree = make_jaxpr_v1(lambda x: {"k": mul(2.0, 2.0), "x": neg(x)}, F64)
    assert str(at_once) == "{ lambda a:float64[] .\n  let b:float64[] = neg a\n  in ( 4.0, b ) }"
    outs = eval_jaxpr(at_once, [1.0])
    assert tree_unflatten(tree, outs) == {"k": 4.0, "x": -1.0}


def test_constants_are_leading_arguments():
    c = np.arange(3.0)
    for maker in (make_jaxpr, make_jaxpr_v1):
        jaxpr, consts, _ = maker(lambda x: x * c, ShapedArray((3,), np.float64))
        assert str(typecheck_jaxpr(jaxpr)) == "(float64[3], float64[3]) -> (float64[3])"
        np.testing.assert_array_equal(eval_jaxpr(jaxpr, [*consts, c])[0], c * c)


def test_type_errors():
    jaxpr, _, _ = make_jaxpr(f, F64)
    amend(jaxpr.eqns[0].out_binders[0], aval=ShapedArray((2,), np.float64))
    with pytest.raises(TypeError):
        typecheck_jaxpr(jaxpr)


# -- parts 3 to 5 --------------------------------------------------------------------------------


def test_jit(capsys):
    @jit
    def g(x, y):
        print("tracing!")
        return sin(x) * cos(y)

    assert g(3.0, 4.0) == pytest.approx(np.sin(3.0) * np.cos(4.0))
    assert g(4.0, 5.0) == pytest.approx(np.sin(4.0) * np.cos(5.0))
    assert capsys.readouterr().out == "tracing!\n"
    assert jit(lambda x: reduce_sum(x, axis=0))(np.array([1.0, 2.0, 3.0])) == 6.0
    assert jit(deriv(deriv(f)))(3.0) == pytest.approx(deriv(deriv(f))(3.0))
    np.testing.assert_allclose(vmap(jit(f), (0,))(np.arange(3.0)), [f(x) for x in np.arange(3.0)])


def test_calls_in_jaxprs():
    jaxpr, _, _ = make_jaxpr(lambda x: jit(sin)(x) * 2.0, F64)
    assert "= xla_call [ num_consts=0 ] a\n" in str(jaxpr)
    assert eval_jaxpr(jaxpr, [3.0])[0] == pytest.approx(2 * np.sin(3.0))


def test_transformed_jaxprs():
    jaxpr, _, _ = make_jaxpr(lambda x: neg(sin(x)), F64)
    jvp_of, consts = jvp_jaxpr(jaxpr)
    assert consts == []
    assert [e.primitive.name for e in jvp_of.eqns] == ["sin", "cos", "mul", "neg", "neg"]
    known, unknown, unknowns, num_res = partial_eval_jaxpr(jvp_of, [False, True])
    assert (unknowns, num_res) == ([False, True], 1)
    typecheck_partial_eval_jaxpr(jvp_of, [False, True], unknowns, known, unknown)
    out, *res = eval_jaxpr(known, [3.0])
    np.testing.assert_allclose(
        [out, *eval_jaxpr(unknown, [*res, 1.0])], eval_jaxpr(jvp_of, [3.0, 1.0])
    )
    batched, _ = vmap_jaxpr(jaxpr, 3, (0,))
    assert str(typecheck_jaxpr(batched)) == "(float64[3]) -> (float64[3])"
    linear, _, _ = make_jaxpr(lambda x: neg(x) * 2.0, F64)
    transposed, _ = transpose_jaxpr(linear, (True,))
    assert eval_jaxpr(transposed, [1.0]) == [-2.0]
    assert eval_jaxpr_transposed(linear, [UndefPrimal(F64)], [1.0]) == [-2.0]


def test_partial_evaluation():
    pvals = [PartialVal.known(3.0), PartialVal.unknown(F64)]
    assert [p.is_known for p in pvals] == [True, False] and [p.is_unknown for p in pvals] == [
        False,
        True,
    ]
    jaxpr, outs, consts = partial_eval_flat(lambda x, y: [sin(x), sin(x) * y], pvals)
    assert outs[0].const == pytest.approx(np.sin(3.0)) and outs[1].is_unknown
    assert eval_jaxpr(jaxpr, [*consts, 2.0]) == pytest.approx([2 * np.sin(3.0)])


def test_linearize_vjp_and_grad():
    y, sin_lin = linearize(sin, 3.0)
    assert (y, sin_lin(1.0)) == pytest.approx((np.sin(3.0), np.cos(3.0)))
    (y,), flat_lin = linearize_flat(lambda x: [sin(x)], 3.0)
    assert flat_lin(1.0) == pytest.approx([np.cos(3.0)])
    y, f_vjp = vjp(sin, 3.0)
    assert f_vjp(1.0) == pytest.approx((np.cos(3.0),))
    _, flat_vjp = vjp_flat(lambda x: [sin(x), cos(x)], 3.0)
    assert flat_vjp(1.0, 1.0) == pytest.approx([np.cos(3.0) - np.sin(3.0)])
    assert grad(f)(3.0) == pytest.approx(2.979984993200891)
    assert grad(jit(grad(f)))(3.0) == pytest.approx(2 * np.sin(3.0))


def test_cond():
    assert cond(True, lambda: 3, lambda: 4) == 3
    assert jvp(lambda x: cond(True, lambda: x * x, lambda: 0.0), (1.0,), (1.0,))[1] == 2.0
    out = vmap(lambda x: cond(True, lambda: x + 1.0, lambda: 0.0), (0,))(np.array([1.0, 2.0, 3]))
    np.testing.assert_array_equal(out, [2, 3, 4])
    assert jit(lambda: cond(False, lambda: 1, lambda: 2))() == 2
    _, f_lin = linearize(jit(lambda x: cond(True, lambda: x, lambda: 0.0)), 1.0)
    assert f_lin(3.14) == 3.14
    assert grad(lambda x: cond(True, lambda: x * x, lambda: 0.0))(1.0) == 2.0
    jaxpr, _, _ = make_jaxpr(lambda x: cond(greater(x, 0.0), lambda: x, lambda: 0.0), F64)
    assert "let b:bool[] = greater a 0.0\n      c:float64[] = cond b a\n" in str(jaxpr)
    assert eval_jaxpr(jaxpr, [-1.0]) == [0.0]

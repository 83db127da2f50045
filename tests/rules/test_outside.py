"""Calls of what is outside of a program have types, are printed as JAX prints them, and refuse to run."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.custom_partitioning import custom_partitioning

import jaxprtool as jt
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.ir.walk import all_eqns

_ADDRESS = re.compile(r" at 0x\w+")
INFEED = """\
{ lambda ; a:f32[3]. let
    b:Tok = create_token{blank}
    c:f32[3] d:Tok = infeed[partitions=None shapes=(ShapedArray(float32[3]),)] b
    e:f32[3] = add c a
    f:Tok = outfeed[partitions=None] d e
  in (c, f) }""".replace("{blank}", " ")


def _ffi(vmap_method=None, **options):
    shape = jax.ShapeDtypeStruct((3,), np.float32)
    call = jax.ffi.ffi_call("a_target", shape, vmap_method=vmap_method, **options)
    return lambda x: call(x, eps=np.float32(1e-5), mode="fast")


def _exported():
    return jax.export.export(jax.jit(lambda x: x + 1))(jax.ShapeDtypeStruct((3,), np.float32)).call


X = np.float32([1, 2, 3])
PROGRAMS = {
    "ffi_call": _ffi(),
    "ffi_call with effects": _ffi(has_side_effect=True),
    "call_exported": _exported(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_of_what_is_outside(name):
    closed = jax.make_jaxpr(PROGRAMS[name])(X)
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        assert str(program) == str(closed)
        assert [str(t) for t in typecheck_jaxpr(program.jaxpr).out_types] == ["f32[3]"]
        with pytest.raises(jt.JaxprToolError) as error:
            jt.eval_jaxpr(program.jaxpr, [*program.consts, X])
        assert error.value.diagnostics[0].code == "outside"
        with pytest.raises(jt.JaxprToolError):
            jt.lower(program)
    assert str(jt.to_jax(jt.from_jax(closed))) == str(closed)


def test_queues():
    program = jt.parse(INFEED)
    assert str(program) == INFEED
    assert [str(t) for t in typecheck_jaxpr(program.jaxpr).out_types] == ["f32[3]", "Tok"]
    with pytest.raises(jt.JaxprToolError, match="queue"):
        jt.eval_jaxpr(program.jaxpr, [X])


@pytest.mark.parametrize(
    "method", ["expand_dims", "broadcast_all", "legacy_vectorized", "sequential"]
)
def test_vmap_of_a_foreign_function(method):
    shape = jax.ShapeDtypeStruct((3,), np.float32)

    def f(x, y):
        return jax.ffi.ffi_call("a_target", shape, vmap_method=method)(x, y)

    mine = jt.vmap_jaxpr(jt.from_jax(jax.make_jaxpr(f)(X, X)), 4, [0, None])[0]
    mapped = jax.make_jaxpr(jax.vmap(f, in_axes=(0, None)))(np.zeros((4, 3), np.float32), X)
    assert _calls(mine) == _calls(jt.from_jax(mapped))


def _calls(program):
    return [
        (
            [str(v.aval) for v in (*e.inputs, *e.out_binders)],
            e.params["result_avals"],
            e.params["input_layouts"],
            e.params["output_layouts"],
        )
        for e in all_eqns(program.jaxpr)
        if e.primitive.name == "ffi_call"
    ]


def test_a_foreign_function_that_says_nothing_of_batches_is_not_mapped():
    program = jt.from_jax(jax.make_jaxpr(_ffi())(X))
    with pytest.raises(jt.JaxprToolError, match="vmap_method"):
        jt.vmap_jaxpr(program, 4, [0])


def test_partitioning_is_about_several_devices_and_not_about_values():
    f = custom_partitioning(lambda x, y: jnp.sin(x) * y)
    f.def_partition(partition=lambda *_: None, sharding_rule="i, i -> i")
    closed = jax.make_jaxpr(f)(X, X)
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        assert _ADDRESS.sub("", str(program)) == _ADDRESS.sub("", str(closed))
        run = jt.jaxpr_as_fun(program)
        np.testing.assert_allclose(run(X, X)[0], np.sin(X) * X, rtol=1e-6)
        np.testing.assert_allclose(jt.compile(program)(X, X)[0], np.sin(X) * X, rtol=1e-6)
        (tangent,) = jt.jvp(run, (X, X), (X, X * 0))[1]
        np.testing.assert_allclose(tangent, np.cos(X) * X * X, rtol=1e-6)
        (grad,) = jt.vjp(run, X, X)[1]([X])[:1]
        np.testing.assert_allclose(grad, np.cos(X) * X * X, rtol=1e-6)
        batched = np.stack([X, X + 1])
        (mapped,) = jt.vmap(run, in_axes=(0, None))(batched, X)
        np.testing.assert_allclose(mapped, np.sin(batched) * X, rtol=1e-6)


# Programs that need a GPU, TensorFlow or a Python function, as texts have them.
KERNELS = {
    "dot_product_attention_fwd_wrapper": """\
{ lambda ; a:bf16[2,4,1,8] b:bf16[2,4,1,8] c:bf16[2,4,1,8]. let
    d:bf16[2,4,1,8] = dot_product_attention_fwd_wrapper[
      dropout_rate=0.0
      is_training=False
      layout=0
      mask_type=MaskType.NO_MASK
      scale=1.0
      seed=42
      sliding_window_length=0
      variadic_args=(False, False)
    ] a b c
  in (d,) }""",
    "dot_product_attention_fwd_wrapper of JAX 0.4.28": """\
{ lambda ; a:bf16[2,4,1,8] b:bf16[2,4,1,8] c:bf16[2,4,1,8] d:bf16[0] e:bf16[0]. let
    f:bf16[2,4,1,8] = dot_product_attention_fwd_wrapper[
      dropout_rate=0.0
      is_causal_mask=False
      is_flash_attention=True
      is_training=False
      layout=0
      scale=1.0
      seed=42
      variadic_args=(False, False, False)
    ] a b c d e
  in (f,) }""",
    "dot_product_attention_fp8_bwd": """\
{ lambda ; a:f8_e4m3fn[2,4,1,8] b:f32[1,1,1,1]. let
    c:f8_e4m3fn[2,4,1,8] _:f32[1,1,1,1] = dot_product_attention_fp8_bwd[
      layout=1
      scale=0.125
      use_causal_mask=True
    ] a b
  in (c,) }""",
    "rnn_fwd": """\
{ lambda ; a:f32[1,4,2] b:f32[1,1,3] c:f32[1,1,3] d:f32[84] e:i32[1]. let
    f:f32[1,4,3] _:f32[1,1,3] _:f32[1,1,3] _:f32[16] = rnn_fwd[
      bidirectional=False
      cudnn_allow_tf32=True
      dropout=0.0
      hidden_size=3
      input_size=2
      num_layers=1
    ] a b c d e
  in (f,) }""",
    "call_tf": """\
{ lambda ; a:f32[3]. let
    b:f32[3] = call_tf[
      args_flat_sig_tf=(TensorSpec(shape=(3,), dtype=tf.float32, name=None),)
      call_tf_graph=False
      callable_flat_tf=<function call_tf.<locals>.make_call.<locals>.callable_flat_tf at 0xXXXXXXXXXXXX>
      function_flat_tf=<tensorflow.python.eager.polymorphic_function.polymorphic_function.Function object at 0xXXXXXXXXXXXX>
      has_side_effects=True
      ordered=False
      output_avals=None
    ] a
  in (b,) }""",
    "buffer_callback": """\
{ lambda ; a:f32[3]. let
    b:f32[3] = buffer_callback[
      callback=<function f at 0xXXXXXXXXXXXX>
      command_buffer_compatible=False
      has_side_effect=False
      in_tree=PyTreeDef(((*,), {}))
      input_output_aliases=()
      out_tree=PyTreeDef(*)
      result_avals=(ShapedArray(float32[3]),)
      vmap_method=None
    ] a
  in (b,) }""",
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_no_text_holds(name):
    text = KERNELS[name]
    program = jt.parse(text)
    assert jt.format_jaxpr(program).strip() == text
    typecheck_jaxpr(program.jaxpr)
    args = [np.zeros(t.shape, np_dtype(t.dtype)) for t in program.jaxpr.in_avals]
    with pytest.raises(jt.JaxprToolError) as error:
        jt.eval_jaxpr(program.jaxpr, args)
    primitive, eqn = name.split()[0], program.eqns[0]
    assert error.value.diagnostics[0].code == "outside"
    assert error.value.diagnostics[0].message.startswith(f"{primitive}: ")
    assert eqn.primitive.name == primitive
    for refuses in (
        lambda: jt.lower(program),
        lambda: jt.jvp(jt.jaxpr_as_fun(program), args, args),
    ):
        with pytest.raises(jt.JaxprToolError):
            refuses()


def test_a_kernel_with_a_param_that_no_release_has():
    text = KERNELS["rnn_fwd"].replace("input_size", "inputs_size")
    with pytest.raises(jt.JaxprToolError, match=r"7:7: error: rnn_fwd has no param inputs_size"):
        typecheck_jaxpr(jt.parse(text).jaxpr)

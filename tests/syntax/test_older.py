"""Texts that earlier releases of JAX printed, read as the current one prints them."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.identity.signature import same_program
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.syntax.building.drops import AmbiguousResultWarning

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
JAX_0_6_0 = """\
{ lambda ; a:f32[8]. let
    b:f32[8] = shard_map[
      auto=frozenset()
      check_rep=True
      in_names=({0: ('i',)},)
      jaxpr={ lambda ; c:f32[4]{i}. let
          d:f32[4] = psum_invariant[axes=('i',) axis_index_groups=None] c
          e:f32[4]{i} = pvary[axes=('i',) axis_index_groups=None] d
          f:f32[4]{i} = mul c e
        in (f,) }
      mesh=Mesh('i': 2, axis_types=(Auto,))
      out_names=({0: ('i',)},)
      rewrite=True
    ] a
  in (b,) }"""
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


@pytest.mark.parametrize("text", [JAX_0_7, JAX_0_6_0])
def test_shard_map_whose_types_say_what_varies_reads_as_the_current_one(text):
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    assert jt.format_jaxpr(program, dialect="jax-0.10.2") == CURRENT


@pytest.mark.parametrize("text", [CURRENT, JAX_0_7, JAX_0_6_0, JAX_0_4])
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
    printed = jt.format_jaxpr(program, dialect="jax-0.10.2")
    assert "newly_manual_axes=frozenset({'i'})" in printed and "in_specs=(P('i',),)" in printed


def test_calls():
    program = jt.parse(JAX_0_3)
    jt.typecheck_jaxpr(program)
    assert "= jit[\n      name=f" in jt.format_jaxpr(program, dialect="jax-0.12")
    assert jt.format_jaxpr(program) == JAX_0_3
    assert "= pjit[\n      name=f" in jt.format_jaxpr(program, dialect="jax-0.6")
    np.testing.assert_allclose(jt.eval_jaxpr(program, [X])[0], np.sin(X))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("in_names=({0: ('i',)},)", "in_names=({0: i})", "its param in_names cannot be read"),
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


# An equation as an earlier release prints it, and as the current one does; operands and results are those of the second.
SPELLINGS = {
    "top_k": (
        "c:f32[2] d:i32[2] = top_k[k=2] a",
        "c:f32[2] d:i32[2] = top_k[axis=0 k=2] a",
    ),
    "round by name": (
        "c:f32[3] = round[rounding_method=RoundingMethod.TO_NEAREST_EVEN] a",
        "c:f32[3] = round[rounding_method=1] a",
    ),
    "round away from zero": (
        "c:f32[3] = round[rounding_method=RoundingMethod.AWAY_FROM_ZERO] a",
        "c:f32[3] = round[rounding_method=0] a",
    ),
    "select": ("c:f32[3] = select p a b", "c:f32[3] = select_n p b a"),
    "convolution": (
        "c:f32[1,1,3] = conv_general_dilated[batch_group_count=1 dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 1, 2), "
        "rhs_spec=(0, 1, 2), out_spec=(0, 1, 2)) feature_group_count=1 lhs_dilation=(1,) lhs_shape=(1, 1, 3) "
        "padding=((0, 0),) precision=None preferred_element_type=None rhs_dilation=(1,) rhs_shape=(1, 1, 1) "
        "window_strides=(1,)] i w",
        "c:f32[1,1,3] = conv_general_dilated[batch_group_count=1 dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 1, 2), "
        "rhs_spec=(0, 1, 2), out_spec=(0, 1, 2)) feature_group_count=1 lhs_dilation=(1,) padding=((0, 0),) precision=None "
        "preferred_element_type=None rhs_dilation=(1,) window_strides=(1,)] i w",
    ),
    "reduce": (
        "c:f32[] = reduce[computation=<function f at 0x7f0> consts=() dimensions=(0,) jaxpr={ lambda ; x:f32[] y:f32[]. let "
        "z:f32[] = add x y in (z,) }] a 0.0",
        "c:f32[] = reduce[computation=<function f at 0x7f0> dimensions=(0,) jaxpr={ lambda ; x:f32[] y:f32[]. let "
        "z:f32[] = add x y in (z,) }] a 0.0:f32[]",
    ),
    "remat_call": (
        "c:f32[3] = remat_call[call_jaxpr={ lambda ; x:f32[3]. let y:f32[3] = sin x in (y,) } concrete=False "
        "differentiated=False name=g policy=None prevent_cse=True] a",
        "c:f32[3] = remat2[jaxpr={ lambda ; x:f32[3]. let y:f32[3] = sin x in (y,) } differentiated=False policy=None "
        "prevent_cse=True] a",
    ),
    "custom_jvp_call_jaxpr": (
        "c:f32[3] = custom_jvp_call_jaxpr[fun_jaxpr={ lambda ; x:f32[3]. let y:f32[3] = max x 0.0 in (y,) } "
        "jvp_jaxpr_thunk=<function _memoize.<locals>.memoized at 0x7f0> num_consts=0] a",
        "c:f32[3] = custom_jvp_call[name=f call_jaxpr={ lambda ; x:f32[3]. let y:f32[3] = max x 0.0:f32[] in (y,) } jvp=jvp "
        "symbolic_zeros=False] a",
    ),
    "custom_jvp_call": (
        "c:f32[3] = custom_jvp_call[call_jaxpr={ lambda ; x:f32[3]. let y:f32[3] = max x 0.0 in (y,) } "
        "jvp_jaxpr_fun=<function g at 0x7f0> num_consts=0 symbolic_zeros=False] a",
        "c:f32[3] = custom_jvp_call[name=f call_jaxpr={ lambda ; x:f32[3]. let y:f32[3] = max x 0.0:f32[] in (y,) } jvp=jvp "
        "symbolic_zeros=False] a",
    ),
    "custom_vjp_call_jaxpr": (
        "c:f32[3] = custom_vjp_call_jaxpr[bwd=<function f.<locals>.f_bwd at 0x7f0> fun_jaxpr={ lambda ; x:f32[3]. let "
        "y:f32[3] = sin x in (y,) } fwd_jaxpr_thunk=<function g at 0x7f0> num_consts=0 out_trees=<function h at 0x7f0> "
        "symbolic_zeros=False] a",
        "c:f32[3] = custom_vjp_call[name=f bwd=f_bwd call_jaxpr={ lambda ; x:f32[3]. let y:f32[3] = sin x in (y,) } fwd=fwd "
        "symbolic_zeros=False] a",
    ),
    "linear_call": (
        "c:f32[3] = linear_call[callee={ lambda ; x:f32[] y:f32[3]. let z:f32[3] = mul y x in (z,) } num_callee_consts=0 "
        "num_res=1 num_transpose_consts=0 transpose={ lambda ; x:f32[] y:f32[3]. let z:f32[3] = mul y x in (z,) }] 2.0 a",
        "c:f32[3] = linear_call[callee={ lambda ; x:f32[] y:f32[3]. let z:f32[3] = mul y x in (z,) } num_callee_consts=0 "
        "num_res=1 transpose_jaxpr={ lambda ; x:f32[] y:f32[3]. let z:f32[3] = mul y x in (z,) }] 2.0:f32[] a",
    ),
    "device_put": (
        "c:f32[3] = device_put[device=None src=None] a",
        "c:f32[3] = device_put[copy_semantics=(ArrayCopySemantics.REUSE_INPUT,) devices=(None,) srcs=(None,)] a",
    ),
    "device_put with lists": (
        "c:f32[3] d:f32[3] = device_put[devices=[None, None] srcs=[None, None]] a b",
        "c:f32[3] d:f32[3] = device_put[copy_semantics=(ArrayCopySemantics.REUSE_INPUT, ArrayCopySemantics.REUSE_INPUT) "
        "devices=(None, None) srcs=(None, None)] a b",
    ),
    "platform_index": (
        "c:i32[] = platform_index[has_default=True platforms=(('cpu',), ('tpu',))] ",
        "c:i32[] = platform_index[platforms=(('cpu',), ('tpu',), None)] ",
    ),
    "random_split": (
        "c:key<fry>[2] = random_split[count=2] k",
        "c:key<fry>[2] = random_split[shape=(2,) partitionable=False] k",
    ),
    "rng_bit_generator": (
        "c:u32[4] d:u32[2] = rng_bit_generator[algorithm=RNG_DEFAULT dtype=<class 'numpy.uint32'> shape=(2,)] u",
        "c:u32[4] d:u32[2] = rng_bit_generator[algorithm=RNG_DEFAULT dtype=uint32 out_sharding=None shape=(2,)] u",
    ),
    "pure_callback": (
        "c:f32[3] = pure_callback[callback=g result_avals=(ShapedArray(float32[3]),) sharding=None vectorized=True] a",
        "c:f32[3] = pure_callback[callback=g result_avals=(ShapedArray(float32[3]),) sharding=None "
        "vmap_method=legacy_vectorized] a",
    ),
    "pure_callback, one by one": (
        "c:f32[3] = pure_callback[callback=g result_avals=(ShapedArray(float32[3]),) sharding=None vectorized=False] a",
        "c:f32[3] = pure_callback[callback=g result_avals=(ShapedArray(float32[3]),) sharding=None "
        "vmap_method=sequential] a",
    ),
    "pure_callback, one by one where nothing is said": (
        "c:f32[3] = pure_callback[callback=g result_avals=(ShapedArray(float32[3]),) sharding=None "
        "vectorized=Deprecated vmap_method=None] a",
        "c:f32[3] = pure_callback[callback=g result_avals=(ShapedArray(float32[3]),) sharding=None "
        "vmap_method=sequential] a",
    ),
    "ffi_call": (
        "c:f32[3] = ffi_call[eps=1e-05 mode=fast result_avals=(ShapedArray(float32[3]),) target_name=t vectorized=True] a",
        "c:f32[3] = ffi_call[attributes=(('eps', 1e-05), ('mode', 'fast')) input_layouts=((0,),) output_layouts=((0,),) "
        "result_avals=(ShapedArray(float32[3]),) target_name=t vmap_method=legacy_vectorized] a",
    ),
    "sharding_constraint": (
        "c:f32[3] = sharding_constraint[layout=None resource_env=ResourceEnv(mesh=Mesh(), ()) sharding=None "
        "unconstrained_dims=frozenset()] a",
        "c:f32[3] = sharding_constraint[context_mesh=None layout=None sharding=None unconstrained_dims=frozenset()] a",
    ),
    "mutable_array": (
        "c:Ref{float32[3]} = mutable_array a",
        "c:Ref{f32[3]} = new_ref[kind=None memory_space=None] a",
    ),
    "broadcast": ("c:f32[2,3] = broadcast[sizes=(2,)] a", "c:f32[2,3] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(2, 3)] a"),
    "dot": ("c:f32[] = dot[precision=None] a b", "c:f32[] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a b"),
    "reshape": ("c:f32[3,1] = reshape[dimensions=None new_sizes=(3, 1) old_sizes=(3,)] a", "c:f32[3,1] = reshape[dimensions=None new_sizes=(3, 1)] a"),
    "reduce_sum": ("c:f32[] = reduce_sum[axes=(0,) input_shape=(3,)] a", "c:f32[] = reduce_sum[axes=(0,)] a"),
    "slice": ("c:f32[1] = slice[limit_indices=(1,) operand_shape=(3,) start_indices=(0,) strides=None] a",
              "c:f32[1] = slice[limit_indices=(1,) start_indices=(0,) strides=None] a"),
    "convert_element_type": ("c:i32[3] = convert_element_type[new_dtype=int32 old_dtype=float32] a",
                             "c:i32[3] = convert_element_type[new_dtype=int32 weak_type=False] a"),
    "gather without a mode": (
        "c:f32[1] = gather[dimension_numbers=GatherDimensionNumbers(offset_dims=(0,), collapsed_slice_dims=(), "
        "start_index_map=(0,)) slice_sizes=(1,)] a j",
        "c:f32[1] = gather[dimension_numbers=GatherDimensionNumbers(offset_dims=(0,), collapsed_slice_dims=(), "
        "start_index_map=(0,)) fill_value=None indices_are_sorted=False mode=GatherScatterMode.CLIP slice_sizes=(1,) "
        "unique_indices=False] a j"),
    "sort": ("c:f32[3] = sort[dimension=-1] a", "c:f32[3] = sort[dimension=0 is_stable=False num_keys=1] a"),
    "sort_key_val": ("c:f32[3] d:f32[3] = sort_key_val[dimension=0] a b",
                     "c:f32[3] d:f32[3] = sort[dimension=0 is_stable=True num_keys=1] a b"),
    "cumsum": ("c:f32[3] = cumsum[axis=0] a", "c:f32[3] = cumsum[axis=0 reverse=False] a"),
    "safe_mul": ("c:f32[3] = safe_mul a b", "c:f32[3] = mul a b"),
    "tie_in": ("c:f32[3] = tie_in a b", "c:f32[3] = copy b"),
    "reduce_window_max": (
        "c:f32[1] = reduce_window_max[padding=PaddingType.VALID window_dimensions=(3,) window_strides=(1,)] a",
        "c:f32[1] = reduce_window_max[base_dilation=(1,) padding=((0, 0),) window_dilation=(1,) window_dimensions=(3,) "
        "window_strides=(1,)] a"),
    "padding that keeps the size": (
        "c:f32[2] = reduce_window_sum[input_shape=(3,) padding=PaddingType.SAME window_dimensions=(2,) window_strides=(2,)] a",
        "c:f32[2] = reduce_window_sum[base_dilation=(1,) padding=((0, 1),) window_dilation=(1,) window_dimensions=(2,) "
        "window_strides=(2,)] a"),
    "scan forward": (
        "c:f32[] = scan[forward=False jaxpr={ lambda ; x:f32[] y:f32[]. let z:f32[] = add x y in (z,) } length=3 "
        "linear=(False, False) num_carry=1 num_consts=0] 0.0 a",
        "c:f32[] = scan[jaxpr={ lambda ; x:f32[] y:f32[]. let z:f32[] = add x y in (z,) } length=3 linear=(False, False) "
        "num_carry=1 num_consts=0 reverse=True unroll=1] 0.0:f32[] a"),
    "scan by trees": (
        "c:f32[] = scan[ft_in=((), (None,), (Right(None),)) ft_out=((None,), ()) jaxpr={ lambda ; x:f32[] y:f32[]. let "
        "z:f32[] = add x y in (z,) } length=3 reverse=False unroll=1] 0.0:f32[] a",
        "c:f32[] = scan[jaxpr={ lambda ; x:f32[] y:f32[]. let z:f32[] = add x y in (z,) } length=3 num_carry=1 "
        "num_consts=0 reverse=False unroll=1] 0.0:f32[] a"),
    "scan by trees of lists": (
        "c:f32[] = scan[ft_in=Pytree(vals=[None, None], tree=PyTreeDef((([], []), ([], [*]), ([], [*], [])))) "
        "ft_out=Pytree(vals=[None], tree=PyTreeDef(([], [*]))) jaxpr={ lambda ; x:f32[] y:f32[]. let "
        "z:f32[] = add x y in (z,) } length=3 reverse=False unroll=1] 0.0:f32[] a",
        "c:f32[] = scan[jaxpr={ lambda ; x:f32[] y:f32[]. let z:f32[] = add x y in (z,) } length=3 num_carry=1 "
        "num_consts=0 reverse=False unroll=1] 0.0:f32[] a"),
    "primal_fun": (
        "c:f32[3] = primal_fun[in_tree=PyTreeDef(*) jaxpr={ lambda ; x:f32[3]. let y:f32[3] = sin x in (y,) } num_consts=0 "
        "out_tree=PyTreeDef(*)] a",
        "c:f32[3] = core_call[call_jaxpr={ lambda ; x:f32[3]. let y:f32[3] = sin x in (y,) }] a"),
    "a scalar of any contents": (
        "o:f32[] = empty[dtype=float32]",
        "o:f32[] = empty2[dtype=float32 memory_space=None]",
    ),
    "svd without an algorithm": (
        "o:f32[1] l:f32[1,1] r:f32[1,1] = svd[compute_uv=True full_matrices=False subset_by_index=None] m",
        "o:f32[1] l:f32[1,1] r:f32[1,1] = svd[algorithm=None compute_uv=True full_matrices=False subset_by_index=None] m",
    ),
    "roll by a param": (
        "o:f32[1,1] = roll[axis=1 shift=2 stride=None stride_axis=None] m",
        "o:f32[1,1] = roll[axis=1 stride=None stride_axis=None] m 2:i32[]",
    ),
    "tridiagonal with info": (
        "o:f32[1,1] d:f32[1] e:f32[0] t:f32[0] n:i32[] = tridiagonal[lower=True] m; c:bool[] = eq n 0",
        "o:f32[1,1] d:f32[1] e:f32[0] t:f32[0] = tridiagonal[lower=True] m; n:i32[] = broadcast_in_dim[shape=() "
        "broadcast_dimensions=()] 0:i32[]; c:bool[] = eq n 0:i32[]"),
    "closed_call with a name": (
        "c:f32[3] = closed_call[call_jaxpr={ lambda ; x:f32[3]. let y:f32[3] = sin x in (y,) } "
        "name=<unnamed wrapped function>] a",
        "c:f32[3] = closed_call[call_jaxpr={ lambda ; x:f32[3]. let y:f32[3] = sin x in (y,) }] a"),
    "for": (
        "c:f32[3] = for[jaxpr={ lambda ; x:i32[] y:Ref{float32[3]}. let z:f32[] <- y[x]; y[x] <- z in () } nsteps=3 "
        "reverse=True unroll=1 which_linear=(False,)] a",
        "r:Ref{f32[3]} = new_ref a; s:i32[3] = iota[dimension=0 dtype=int32 shape=(3,)] ; scan[jaxpr={ lambda ; "
        "y:Ref{f32[3]} x:i32[]. let z:f32[] <- y[x]; y[x] <- z in () } length=3 num_carry=0 num_consts=1 reverse=True] r s; "
        "c:f32[3] = freeze r"),
    "void": ("c:void[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] (b'',)",
             "c:float0[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] (b'',):float0[]"),
    "named axes in types": ("c:f32[3;i:4] = sin a", "c:f32[3] = sin a"),
}  # fmt: skip
HEAD = (
    "{ lambda ; p:bool[3] a:f32[3] b:f32[3] i:f32[1,1,3] w:f32[1,1,1] k:key<fry>[] u:u32[4] j:i32[1] m:f32[1,1]. let\n"
    "    <equation>\n  in () }"
)


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_earlier_releases(name):
    old, new = (jt.parse(HEAD.replace("<equation>", text)) for text in SPELLINGS[name])
    jt.typecheck_jaxpr(new)
    jt.typecheck_jaxpr(old)
    assert same_program(old, new)
    assert same_program(jt.parse(jt.format_jaxpr(old, lossless=True)), new)


def test_a_primitive_of_ones_own_with_an_old_name(tmp_path):
    """`select` that somebody declares is theirs, with their operands in their order."""
    module = tmp_path / "mine.py"
    module.write_text(
        "import jaxprtool as jt\n"
        "@jt.primitive\ndef select(c, t, f):\n    'f'\n"
        "jt.define(select, abstract_eval=lambda c, t, f: t, impl=lambda xp, c, t, f: f, jvp=jt.unsupported('none'),\n"
        "    transpose=jt.unsupported('none'), batch=jt.unsupported('none'), lower=jt.unsupported('none'))\n"
    )
    text = "{ lambda ; p:bool[3] a:f32[3]. let c:f32[3] = select p a a in (c,) }"
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mine, jaxprtool as jt;"
        f"print(jt.parse({text!r}).eqns[0].primitive)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "select\n"


def test_equations_without_results_begin_with_an_equals_sign():
    """They stand one column further to the right, and do not continue the equation before."""
    program = jt.parse(
        "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n     = debug_callback[\n      callback=<function f at 0x7f0>\n"
        "      effect=Debug\n    ] b\n      a\n    c:f32[3] = cos b\n  in (c,) }"
    )
    jt.typecheck_jaxpr(program)
    assert [len(e.inputs) for e in program.eqns] == [1, 2, 1]


@pytest.mark.parametrize(
    "dims",
    ["{4294967296: ('x',)}", "{64: ('i',)}", "{'a': ('i',)}", "{0.5: ('i',)}", "1", "{-1: 2}"],
)
def test_dimensions_that_no_array_has(dims):
    """The equation stays as it is, in no time, and the checker says so."""
    text = JAX_0_4.replace("in_names=({0: ('i',)},)", f"in_names=({dims},)")
    start = time.process_time()
    with pytest.raises(jt.JaxprTypeError):
        jt.typecheck_jaxpr(jt.parse(text))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("dims", ["frozenset({})", "frozenset({0})", "frozenset({0, 1})"])
def test_dimensions_without_a_constraint_are_kept(dims):
    text = f"""\
{{ lambda ; a:f32[8,6]. let
    b:f32[8,6] = sharding_constraint[
      context_mesh=Mesh()
      layout=None
      sharding=NamedSharding(mesh=Mesh('i': 4, 'j': 2, axis_types=(Auto, Auto)), spec=P(UNCONSTRAINED, 'j'), memory_kind=device)
      unconstrained_dims={dims}
    ] a
  in (b,) }}"""
    assert str(jt.parse(text)) == text


@pytest.mark.parametrize("dims", ["{0}", "{0, 1}"])
def test_a_set_of_dimensions_by_its_literal(dims):
    text = f"""\
{{ lambda ; a:f32[8,6]. let
    b:f32[8,6] = sharding_constraint[
      resource_env=ResourceEnv(Mesh(device_ids=[], axis_names=()), ())
      sharding=GSPMDSharding({{devices=[1,2,1,2]0,2,1,3 last_tile_dim_replicate}})
      unconstrained_dims={dims}
    ] a
  in (b,) }}"""
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    assert f"frozenset({dims})" in jt.format_jaxpr(program, dialect="jax-0.10.2")


def test_axes_that_vary_are_a_set_in_0_7():
    """It prints them in any order, also inside of a call that stands there twice."""
    varying = """\
{ lambda ; a:f32[8]. let
    b:f32[8] = shard_map[
      check_vma=True
      in_specs=(PartitionSpec('i',),)
      jaxpr={ lambda ; c:f32[4]{i}. let
          d:f32[4]{j,i} = pvary[axes=('j',) axis_index_groups=None] c
          e:f32[4]{i,j} = jit[name=f jaxpr={ lambda ; f:f32[4]{j,i}. let g:f32[4]{i,j} = sin f in (g,) }] d
          h:f32[4]{i} = psum_invariant[axes=('j',) axis_index_groups=None] e
        in (h,) }
      manual_axes=frozenset({'j', 'i'})
      mesh=Mesh('i': 2, 'j': 2, axis_types=(Auto, Auto))
      out_specs=(PartitionSpec('i',),)
    ] a
  in (b,) }"""
    program = jt.parse(varying)
    jt.typecheck_jaxpr(program)
    printed = jt.format_jaxpr(program, dialect="jax-0.10.2")
    assert "{V:(i,j)}" in printed and "{V:(j,i)}" not in printed
    np.testing.assert_allclose(jt.jaxpr_as_fun(program)(X)[0], 2 * np.sin(X), rtol=1e-6)


@pytest.mark.parametrize("mesh", ["Mesh()", "Mesh(, axis_types=())"])
def test_a_mesh_without_axes_around_a_call(mesh):
    """As 0.7.0 and 0.7.1 print it, and later releases, where they print all params."""
    program = jt.parse(
        "{ lambda ; a:f32[3]. let\n"
        f"    b:f32[3] = jit[ctx_mesh={mesh} name=f jaxpr={{ lambda ; c:f32[3]. let d:f32[3] = sin c in (d,) }}] a\n"
        "  in (b,) }"
    )
    jt.typecheck_jaxpr(program)
    assert program.eqns[0].params.get("ctx_mesh") is None


@pytest.mark.parametrize(
    "pairs, triples",
    [
        ("('level', 3)", "('level', (3,), PyTreeDef(*))"),
        (
            "('axes', (0, 1)), ('l', [2])",
            "('axes', (0, 1), PyTreeDef((*, *))), ('l', (2,), PyTreeDef([*]))",
        ),
    ],
)
def test_attributes_as_pairs(pairs, triples):
    """Those of `composite`, to 0.5.3."""
    text = """\
{ lambda ; a:f32[3]. let
    b:f32[3] = composite[
      attributes=(ATTRIBUTES,)
      jaxpr={ lambda ; c:f32[3]. let d:f32[3] = sin c in (d,) }
      name=my.op
      version=1
    ] a
  in (b,) }"""
    program = jt.parse(text.replace("ATTRIBUTES", pairs))
    jt.typecheck_jaxpr(program)
    assert str(program) == str(jt.parse(text.replace("ATTRIBUTES", triples)))
    np.testing.assert_allclose(jt.jaxpr_as_fun(program)(X[:3])[0], np.sin(X[:3]), rtol=1e-6)


def test_a_batch_of_products_of_groups_of_rows():
    """`ragged_dot` under `vmap`, to 0.5.2, has no param that says so."""
    one = """\
{ lambda ; a:f32[4,3] b:f32[2,3,5] c:i32[2]. let
    d:f32[4,5] = ragged_dot[group_offset=None precision=None preferred_element_type=None] a b c
  in (d,) }"""
    both = one
    for shape in ("4,3", "2,3,5", "2", "4,5"):
        both = both.replace(f"[{shape}]", f"[2,{shape}]")
    alone, batch = jt.parse(one), jt.parse(both)
    jt.typecheck_jaxpr(batch)
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=n).astype(np.float32) for n in ((2, 4, 3), (2, 2, 3, 5)))
    sizes = np.array([[1, 3], [4, 0]], np.int32)
    got = jt.jaxpr_as_fun(batch)(x, w, sizes)[0]
    each = [jt.jaxpr_as_fun(alone)(*row)[0] for row in zip(x, w, sizes, strict=True)]
    np.testing.assert_allclose(got, np.stack(each), rtol=1e-5)


@pytest.mark.parametrize("name", ["relu", "expit", "my_function"])
def test_functions_under_custom_transforms_are_called(name):
    """To 0.1.62 such a function is a primitive of its own name."""
    text = f"""\
{{ lambda  ; a.
  let b = {name}[ in_tree=PyTreeDef(tuple, [*])
               jaxpr={{ lambda  ; a.
                       let b = max a 0.0
                       in (b,) }}
               num_consts=0
               out_tree=* ] a
  in (b,) }}
"""
    program = jt.parse(text)
    assert [float(x) for x in jt.eval_jaxpr(program, [np.float32(-2)])] == [0]
    jt.typecheck_jaxpr(jt.with_types(program, "f32[]"))


@pytest.mark.parametrize("aval", ["f32[3]", "bf16[2,2]", "i32[]", "bool[2]", "c64[1]"])
def test_zeros_of_a_type(aval):
    """`zeros_like`, to 0.4.23 in derivatives."""
    program = jt.parse(f"{{ lambda ; a:{aval}. let b:{aval} = zeros_like a in (b,) }}")
    jt.typecheck_jaxpr(program)
    (taken,) = program.in_avals
    (value,) = jt.eval_jaxpr(program, [np.ones(taken.shape, np_dtype(taken.dtype))])
    assert not np.asarray(value).any()
    assert "zeros_like" not in str(program)


def test_zeros_of_a_number_without_a_type():
    program = jt.parse("{ lambda ; . let a:i32[] = zeros_like 0 in (a,) }")
    printed = jt.format_jaxpr(program, lossless=True)
    assert "zeros_like" not in printed
    assert jt.format_jaxpr(jt.parse(printed), lossless=True) == printed


def test_there_are_no_zeros_of_a_key():
    with pytest.raises(jt.JaxprToolError, match="unknown primitive zeros_like"):
        text = "{ lambda ; a:key<fry>[]. let b:key<fry>[] = zeros_like a in (b,) }"
        jt.typecheck_jaxpr(jt.parse(text))


def test_a_product_that_0_5_called_symmetric_update():
    text = """\
{ lambda ; a:f32[2,3] b:f32[2,2]. let
    c:f32[2,2] = symmetric_update[alpha=1.0 beta=0.0] a b
  in (c,) }"""
    assert str(jt.parse(text)) == text.replace("symmetric_update", "symmetric_product")


OUTSIDE = """\
{ lambda ; a:f32[3]. let
    b:f32[3] = outside_call[
      arg_treedef=PyTreeDef(*)
      callback=<jax.experimental.host_callback._CallbackWrapper object at 0x7f1ceff5c430>
      device_index=0
      identity=True
    ] a
    c:f32[3] = mul b 2.0
  in (c,) }
"""


def test_a_function_of_the_host_that_looks_at_operands_is_the_identity():
    program = jt.parse(OUTSIDE)
    jt.check(program)
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [np.ones(3, "f")])[0], [2, 2, 2])


def test_a_param_that_was_deprecated_is_dropped():
    text = (
        "{ lambda ; a:f32[3]. let b:f32[3] = ffi_call[attributes=() custom_call_api_version=4"
        " has_side_effect=False input_layouts=((0,),) input_output_aliases=() legacy_backend_config=None"
        " output_layouts=((0,),) result_avals=(ShapedArray(float32[3]),) target_name=my_target"
        " vectorized=Deprecated vmap_method=None] a in (b,) }"
    )
    assert str(jt.check(jt.parse(text))) == "(f32[3]) -> (f32[3])"


def test_a_tolerance_of_which_only_the_address_is_printed():
    text = "{ lambda ; a:f32[3]. let b:f32[3] = tanh[accuracy=<jax._src.lax.lax.Tolerance object at 0x7f12>] a in (b,) }"
    program = jt.parse(text)
    jt.check(program)
    np.testing.assert_allclose(jt.eval_jaxpr(program, [np.ones(3, "f")])[0], np.tanh(1), rtol=1e-6)


def test_a_constraint_by_axes_of_a_mesh():
    text = """\
{ lambda ; a:f32[4,4]. let
    b:f32[4,4] = sharding_constraint[
      axis_resources=ParsedPartitionSpec(partitions=(('x',), ()), unsafe_user_spec=PartitionSpec('x', None), sync=2)
      resource_env=ResourceEnv(Mesh(array([[0, 1],
       [2, 3]]), ('x', 'y')), ())
    ] a
    c:f32[4,4] = add b 1.0
  in (c,) }
"""
    program = jt.parse(text)
    assert str(jt.check(program)) == "(f32[4,4]) -> (f32[4,4])"
    x = np.ones((4, 4), "f")
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [x])[0], x + 1)


KEYS = """\
{ lambda ; a:key<fry>[3] b:key<fry>[3]. let
    c:key<fry>[3] = convert_element_type[new_dtype=key<fry> weak_type=False] a
    d:key<fry>[6] = concatenate[dimension=0] c b
    e:u32[6,2] = random_unwrap d
  in (e,) }
"""


def test_keys_that_are_converted_to_their_own_kind():
    """As concatenations of keys printed it from 0.4.13 to 0.4.30."""
    program = jt.parse(KEYS)
    jt.check(program)
    words = [np.arange(6, dtype=np.uint32).reshape(3, 2) + 10 * i for i in range(2)]
    keys = [jt.eval_jaxpr(jt.parse(WRAP), [w])[0] for w in words]
    for found in (jt.eval_jaxpr(program, keys)[0], jt.compile(program)(*keys)[0]):
        np.testing.assert_array_equal(np.asarray(found), np.concatenate(words))
    mapped, _ = jt.vmap_jaxpr(program, 2, [0, 0])
    assert str(mapped.out_avals[0]) == "u32[2,6,2]"
    with pytest.raises(jt.JaxprTypeError, match="key<rbg>"):
        jt.check(jt.parse(KEYS.replace("new_dtype=key<fry>", "new_dtype=key<rbg>")))


WRAP = "{ lambda ; a:u32[3,2]. let b:key<fry>[3] = random_wrap[impl=fry] a in (b,) }"


@pytest.mark.parametrize(
    "module", ["numpy", "jax.numpy", "jax.numpy.lax_numpy", "jax._src.numpy.lax_numpy"]
)
def test_an_element_type_by_its_class(module):
    """`numpy.float32`, or `jax.numpy.float32` by the module of its release."""
    text = (
        "{ lambda ; a:f32[2,3] b:f32[3,4]. let c:f32[2,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ()))"
        f" precision=None preferred_element_type=<class '{module}.float32'>] a b in (c,) }}"
    )
    program = jt.parse(text)
    assert str(jt.check(program)) == "(f32[2,3], f32[3,4]) -> (f32[2,4])"
    assert str(program.eqns[0].params["preferred_element_type"]) == "f32"


def test_primitives_that_are_objects_where_all_params_are_printed():
    """`custom_pp_eqn_rules=False` of 0.12; objects that nobody declares stay as they are, and so do those with jaxprs."""
    text = "{{ lambda ; a:f32[5] b:f32[]. let c:i32[] = {} a b in (c,) }}"
    named = "SearchSorted[side=right dimension=0 batch_dims=0 method=sort]"
    program = jt.parse(text.format(f"call_hi_primitive[_prim={named}]"))
    assert jt.diff(program, jt.parse(text.format(named))).equal
    jt.check(program)
    for other in (
        "Mul2[{'k': 2}]",
        "CustomRoot[\n  solve_jaxpr={ lambda ; a:f32[]. let in (a,) }\n  has_aux=None]",
    ):
        kept = jt.parse(text.format(f"call_hi_primitive[_prim={other}]"))
        assert kept.jaxpr.eqns[0].primitive.name == "call_hi_primitive"


@pytest.mark.parametrize(
    ("params", "precision"),
    [
        ("algorithm=None transpose_algorithm=None precision=None", None),
        ("algorithm=BF16_BF16_F32 transpose_algorithm=None precision=None", "BF16_BF16_F32"),
        ("out_type=None precision=HIGHEST", "HIGHEST"),
    ],
)
def test_params_of_products_that_were_printed_for_a_while(params, precision):
    """0.4.32 to 0.4.34 and to 0.4.38, where all params are printed."""
    text = f"{{ lambda ; a:f32[2,2]. let b:f32[2,2] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) {params} preferred_element_type=float32] a a in (b,) }}"
    program = jt.parse(text)
    jt.check(program)
    found = program.jaxpr.eqns[0].params["precision"]
    assert found is None if precision is None else precision in str(found)


@pytest.mark.parametrize("enum", ["Precision", "PrecisionConfig_Precision"])
def test_precisions_that_containers_print_by_repr(enum):
    """To 0.4.25. What reads such a text has the words of today: JAX gets its own objects, a new text holds no old form."""
    pair = f"(<{enum}.HIGH: 1>, <{enum}.HIGHEST: 2>)"
    text = HEAD.replace(
        "<equation>",
        f"""c:f32[] = dot_general[
      dimension_numbers=(((0,), (0,)), ((), ())) precision={pair} preferred_element_type=None
    ] a b
    d:f32[1,1,3] = conv_general_dilated[
      batch_group_count=1
      dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 1, 2), rhs_spec=(0, 1, 2), out_spec=(0, 1, 2))
      feature_group_count=1
      lhs_dilation=(1,)
      lhs_shape=(1, 1, 3)
      padding=((0, 0),)
      precision={pair}
      preferred_element_type=None
      rhs_dilation=(1,)
      rhs_shape=(1, 1, 1)
      window_strides=(1,)
    ] i w""",
    ).replace("in ()", "in (c, d)")
    program = jt.parse(text)
    jt.check(program)
    for eqn in program.eqns:
        assert str(eqn.params["precision"]) == "(Precision.HIGH, Precision.HIGHEST)"
    assert "<" not in jt.format_jaxpr(program, dialect="jax-0.12").replace("key<fry>", "")
    jaxpr = jt.to_jax(program).jaxpr
    level = jax.lax.Precision
    assert [eqn.params["precision"] for eqn in jaxpr.eqns] == [(level.HIGH, level.HIGHEST)] * 2


def test_a_key_that_may_be_used_again():
    """`reuse_key` of 0.4.24 and 0.4.25 is `random_clone`."""
    program = jt.parse("{ lambda ; a:key<fry>[2]. let b:key<fry>[2] = reuse_key a in (b,) }")
    assert [e.primitive.name for e in program.eqns] == ["random_clone"]
    jt.check(program)


def test_what_looks_at_a_value_and_what_keeps_it():
    text = (
        "{ lambda ; a:f32[3]. let\n    inspect_sharding[callback=<built-in function print>] a\n"
        "    b:f32[3] = sin a\n    dce_sink b\n    c:f32[3] = neg a\n  in (c,) }"
    )
    program = jt.parse(text)
    jt.check(program)
    assert np.array_equal(jt.eval_jaxpr(program.jaxpr, [np.ones(3, np.float32)])[0], [-1, -1, -1])
    assert len(jt.optimize(program).eqns) == 4
    assert jt.format_jaxpr(program, dialect="jax-0.9.2") == text
    in_0_10 = text.replace("dce_sink b", "dce_sink[prevent_mlir_dce=False] b")
    assert jt.format_jaxpr(program, dialect="jax-0.10.2") == in_0_10


# As 0.5.3 to 0.10.0 print a call whose results are not read, where its body reads them.
READS = """\
{{ lambda ; a:f32[3] i:i32[]. let
    _:f32[3] _:i32[] _:f32[3] b:f32[] = jit[
      name=f
      jaxpr={{ lambda ; a:f32[3] i:i32[]. let
          _:f32[3] = sin a
          _:i32[] = add i 1:i32[]
          _:f32[3] = cos a
          {equations}
        in (_, _, _, b) }}
    ] a i
  in (b,) }}"""
AT = np.array([0.5, 1.0, 2.0], np.float32)
SIN, COS = np.sin(AT), np.cos(AT)


@pytest.mark.parametrize(
    ("equations", "warned", "expected"),
    [
        ("c:i32[] = neg _ | b:f32[] = convert_element_type[new_dtype=float32] c", False, -8),
        ("c:f32[3] = jit[name=g jaxpr={ lambda ; x:f32[3] k:i32[]. let d:f32[3] = integer_pow[y=2] x "
         "in (d,) }] _ _ | b:f32[] = reduce_sum[axes=(0,)] c", True, (SIN**2).sum()),
        ("c:f32[3] = neg _ | d:f32[3] = exp _ | e:f32[3] = add c d | b:f32[] = reduce_sum[axes=(0,)] e", True,
         (np.exp(SIN) - SIN).sum()),
        ("c:f32[3] = neg _ | d:f32[3] = neg _ | e:f32[3] = mul 2.0:f32[] d | f:f32[3] = add c e | "
         "b:f32[] = reduce_sum[axes=(0,)] f", True, (-SIN - 2 * COS).sum()),
        ("c:f32[3] = sub _ _ | b:f32[] = reduce_sum[axes=(0,)] c", True, (SIN - COS).sum()),
    ],
)  # fmt: skip
def test_results_without_a_name_that_the_body_reads(equations, warned, expected):
    """Types decide which it is; else it is the first that the same equation has not had before, which a warning says."""
    text = READS.format(equations="\n          ".join(equations.split(" | ")))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program = jt.parse(text)
    assert bool(found) is warned
    assert all(x.category is AmbiguousResultWarning for x in found)
    jt.check(program)
    (b,) = jt.eval_jaxpr(program.jaxpr, [AT, np.int32(7)])
    assert np.allclose(b, expected, rtol=1e-5)

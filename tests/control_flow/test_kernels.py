"""Kernels of Pallas give what JAX's interpret mode gives, live and from files, on NumPy, compiled, and transformed."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from jaxprtool.interpreters.check import typecheck_jaxpr
from jaxprtool.interpreters.dce import dce_closed
from tests.control_flow.kernels import KERNELS, X

EARLIER = """\
{ lambda ; a:f32[16,128]. let
    b:f32[16,128] = pallas_call[
      backend=None
      compiler_params={}
      cost_estimate=None
      debug=False
      grid_mapping=GridMapping(grid=(2,), grid_names=None, block_mappings=(BlockMapping(block_shape=(8, 128), transformed_block_aval=MemRef<None>{float32[8,128]}, index_map_jaxpr={ lambda ; a:i32[]. let  in (a, 0) }, index_map_src_info=<lambda> at /path/to/kernel.py:19, indexing_mode=Blocked, array_shape_dtype=ShapeDtypeStruct(shape=(16, 128), dtype=float32), origin='x_ref', transforms=()), BlockMapping(block_shape=(8, 128), transformed_block_aval=MemRef<None>{float32[8,128]}, index_map_jaxpr={ lambda ; a:i32[]. let  in (a, 0) }, index_map_src_info=<lambda> at /path/to/kernel.py:19, indexing_mode=Blocked, array_shape_dtype=ShapeDtypeStruct(shape=(16, 128), dtype=float32), origin='outputs', transforms=())), index_map_tree=PyTreeDef(((*,), {})), index_map_avals=(ShapedArray(int32[]),), vmapped_dims=(), num_index_operands=0, num_inputs=1, num_outputs=1, num_scratch_operands=0, get_grid_indices=None, local_grid_env=None)
      input_output_aliases=()
      interpret=True
      jaxpr={ lambda ; c:MemRef<None>{float32[8,128]} d:MemRef<None>{float32[8,128]}. let
          e:i32[] = program_id[axis=0]
          f:f32[8,128] <- c[:,:]
          g:f32[] = convert_element_type[new_dtype=float32 weak_type=False] e
          h:f32[8,128] = mul f g
          d[:,:] <- h
        in () }
      name_and_src_info=kernel at /path/to/kernel.py:10
      out_avals=(ShapedArray(float32[16,128]),)
    ] a
  in (b,) }"""


@pytest.fixture(autouse=True)
def _with_what_overflows():
    """Kernels read NaN where nothing was written, and compare it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _traced(name):
    f, args, *_ = KERNELS[name]
    closed = jax.make_jaxpr(f)(*args)
    return closed, jt.from_jax(closed)


def _close(got, want):
    for x, y in zip(got, jax.tree.leaves(want), strict=True):
        assert np.asarray(x).dtype == y.dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5, atol=1e-6)


def _run(program, args):
    return jt.eval_jaxpr(program.jaxpr, [*program.consts, *args])


def _through_jax(program, args):
    return jaxpr_as_fun(jt.to_jax(program))(*args)


@pytest.mark.parametrize("name", KERNELS)
def test_text(name):
    closed, program = _traced(name)
    assert str(program) == str(jt.parse(str(closed))) == str(closed)
    assert str(jt.to_jax(program)) == str(closed)
    text = jt.format_jaxpr(program, lossless=True)
    assert jt.format_jaxpr(jt.parse(text), lossless=True) == text


@pytest.mark.parametrize("name", KERNELS)
def test_values(name):
    f, args, *_ = KERNELS[name]
    program = _traced(name)[1]
    typecheck_jaxpr(program.jaxpr)
    want = f(*args)
    _close(_run(program, args), want)
    _close(_run(jt.parse(jt.format_jaxpr(program, lossless=True)), args), want)
    _close(jt.compile(program)(*args), want)
    _close(_through_jax(program, args), want)


@pytest.mark.parametrize("name", [n for n, p in KERNELS.items() if p.vmap])
@pytest.mark.parametrize("only_last", [False, True])
def test_vmap(name, only_last):
    f, args, *_ = KERNELS[name]
    dims = [None if only_last and i + 1 < len(args) else 0 for i in range(len(args))]
    stacked = [a if d is None else np.stack([a, a + 1]) for a, d in zip(args, dims, strict=True)]
    want = jax.vmap(f, in_axes=tuple(dims))(*stacked)
    batched = jt.vmap_jaxpr(_traced(name)[1], 2, dims)[0]
    typecheck_jaxpr(batched.jaxpr)
    _close(_run(batched, stacked), want)
    _close(jt.compile(batched)(*stacked), want)
    _close(_through_jax(batched, stacked), want)


@pytest.mark.parametrize("name", [n for n, p in KERNELS.items() if p.jvp])
def test_jvp(name):
    f, args, *_ = KERNELS[name]
    tangents = tuple(a * 0.5 + 1 for a in args)
    primals_out, tangents_out = jax.jvp(f, args, tangents)
    inexact = [t for t in jax.tree.leaves(tangents_out) if t.dtype == np.float32]
    program = _traced(name)[1]
    differentiated = jt.jvp_jaxpr(program)[0]
    typecheck_jaxpr(differentiated.jaxpr)
    want = [*jax.tree.leaves(primals_out), *inexact]
    _close(_run(differentiated, [*args, *tangents]), want)
    _close(jt.compile(differentiated)(*args, *tangents), want)
    _close(_through_jax(differentiated, [*args, *tangents]), want)


@pytest.mark.parametrize("name", [n for n, p in KERNELS.items() if not p.jvp])
def test_what_jax_does_not_differentiate_does_not_end_in_an_error_of_python(name):
    program = _traced(name)[1]
    try:
        typecheck_jaxpr(jt.jvp_jaxpr(program)[0].jaxpr)
    except jt.JaxprToolError as error:
        assert "pallas_call" in str(error)


def test_there_is_no_reverse_derivative():
    program = _traced("elementwise")[1]
    with pytest.raises(jt.JaxprToolError, match="pallas_call"):
        jt.vjp(jt.jaxpr_as_fun(program), X, X)


def test_a_kernel_whose_results_nobody_reads_is_removed():
    program = jt.from_jax(jax.make_jaxpr(lambda x: (KERNELS["aliases"].function(x, x), x)[1])(X))
    assert not dce_closed(program).jaxpr.eqns


def test_the_references_of_a_kernel_are_its_own():
    program = _traced("matrix_product")[1]
    assert jt.discharge(program) is program


def test_a_text_without_the_map_of_a_block():
    text = str(_traced("elementwise")[0])
    program = jt.parse(text)
    typecheck_jaxpr(program.jaxpr)
    with pytest.raises(jt.JaxprToolError) as error:
        _run(program, (X, X))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "no-index-map"
    assert "block 0, [4, 2] of f32[8,8]" in diagnostic.message


def test_a_text_of_whole_arrays_has_all_that_there_is_to_say():
    f, args, *_ = KERNELS["without_a_grid"]
    program = jt.parse(str(_traced("without_a_grid")[0]))
    _close(_run(program, args), f(*args))
    assert str(jt.to_jax(program)) == str(program)
    _close(_through_jax(program, args), f(*args))


def test_maps_of_blocks_in_texts_of_earlier_releases():
    program = jt.parse(EARLIER)
    typecheck_jaxpr(program.jaxpr)
    x = np.ones((16, 128), np.float32)
    want = x * np.repeat([0, 1], 8)[:, None].astype(np.float32)
    _close(_run(program, [x]), [want])
    _close(jt.compile(program)(x), [want])
    _close(_through_jax(program, [x]), [want])


def test_the_point_of_the_grid_inside_of_what_a_kernel_calls():
    """JAX's interpret mode has it outside of loops and branches alone."""
    from jax.experimental import pallas as pl

    def kernel(x, out):
        def body(i, carry):
            out[i, :] = x[i, :] + pl.program_id(0)
            return carry

        jax.lax.fori_loop(0, 4, body, 0)

    block = pl.BlockSpec((4, 8), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct((8, 8), np.float32)
    f = pl.pallas_call(
        kernel, out_shape=shape, grid=(2,), in_specs=[block], out_specs=block, interpret=True
    )
    program = jt.from_jax(jax.make_jaxpr(f)(X))
    want = X + np.repeat([0, 1], 4)[:, None].astype(np.float32)
    _close(_run(program, [X]), [want])
    _close(jt.compile(program)(X), [want])


def test_the_point_of_the_grid_outside_of_kernels():
    program = jt.parse("{ lambda ; . let a:i32[] = program_id[axis=0]  in (a,) }")
    typecheck_jaxpr(program.jaxpr)
    with pytest.raises(jt.JaxprToolError, match="of a kernel"):
        _run(program, [])


REJECTED = {
    "axis-range": ("program_id[axis=0]", "program_id[axis=3]"),
    "argument-type": ("block_shape=(Blocked(block_size=4)", "block_shape=(Blocked(block_size=8)"),
    "param-value": ("grid=(2, 3)", "grid=(-2, 3)"),
    "unsupported-block": ("(Blocked(block_size=4)", "(Other(block_size=4)"),
    "argument-count": (
        "(ShapedArray(float32[7,5]),)",
        f"({', '.join(['ShapedArray(float32[7,5])'] * 2)})",
    ),
}


@pytest.mark.parametrize("code", REJECTED)
def test_a_kernel_that_does_not_fit_is_rejected(code):
    old, new = REJECTED[code]
    text = str(_traced("ragged")[0])
    assert old in text
    with pytest.raises(jt.JaxprTypeError) as error:
        typecheck_jaxpr(jt.parse(text.replace(old, new)).jaxpr)
    assert code in {d.code for d in error.value.diagnostics}

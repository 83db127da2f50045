"""`xmap` and `soft_pmap`, which map along axes that have names, as the releases to 0.4.30 print them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import jaxprtool as jt

XMAP = """\
{ lambda ; a:f32[4,3,2] w:f32[3]. let
    b:f32[2,3,4] c:f32[2] d:i32[4] = xmap[
      axis_resources=FrozenDict({'i': (), 'j': ()})
      backend=None
      call_jaxpr={ lambda ; e:f32[2;i:4,j:3] w:f32[;j:3]. let
          f:f32[2;j:3] = psum[axes=('i',) axis_index_groups=None] e
          g:f32[2;i:4,j:3] = add e f
          h:f32[2;i:4,j:3] = mul g w
          k:f32[2] = psum[axes=('i', 'j') axis_index_groups=None] h
          l:i32[] = axis_index[axis_name=i]
        in (h, k, l) }
      donated_invars=(False, False)
      global_axis_sizes=FrozenDict({'i': 4, 'j': 3})
      in_axes=(FrozenDict({'i': 0, 'j': 1}), FrozenDict({'j': 0}))
      name=<lambda>
      out_axes=(FrozenDict({'i': 2, 'j': 1}), FrozenDict({}), FrozenDict({'i': 0}))
      resource_env=ResourceEnv(mesh=Mesh(), ())
      spmd_in_axes=None
      spmd_out_axes=None
    ] a w
  in (b, c, d) }
"""


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def reference(a, w):
    b = (a + a.sum(0)) * w[None, :, None]
    return [b.transpose(2, 1, 0), b.sum((0, 1)), np.arange(4, dtype=np.int32)]


def test_values():
    program, args = jt.parse(XMAP), (draw(4, 3, 2), draw(3))
    jt.typecheck_jaxpr(program)
    through_jax = jt.to_jax_function(program)(*args)
    for outs in (jt.eval_jaxpr(program, args), jt.compile(program)(*args), through_jax):
        for got, want in zip(outs, reference(*args), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-6)
    assert jt.diff(jt.parse(jt.format_jaxpr(program)), program).equal


def test_transformations():
    f, args = jt.jaxpr_as_fun(jt.parse(XMAP)), (draw(4, 3, 2), draw(3))
    a, w = args
    tangent = jt.jvp(lambda a: f(a, w)[0], (a,), (a,))[1]
    np.testing.assert_allclose(tangent, reference(*args)[0], rtol=1e-5, atol=1e-6)
    by_a, by_w = jt.grad(lambda a, w: f(a, w)[1].sum(), argnums=(0, 1))(a, w)
    np.testing.assert_allclose(by_a, np.broadcast_to(5 * w[None, :, None], a.shape), rtol=1e-5)
    np.testing.assert_allclose(by_w, 5 * a.sum((0, 2)), rtol=1e-4, atol=1e-5)
    batched = jt.vmap(f, (0, None))(np.stack([a, a + 1]), w)
    for got, want in zip(batched, reference(a + 1, w), strict=True):
        np.testing.assert_allclose(got[1], want, rtol=1e-5, atol=1e-5)


def test_cost_is_that_of_all_slices():
    assert jt.stats(jt.parse(XMAP)).json()["equations"]["executed"]["high"] == 1 + 12 * 5


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("in_axes=(FrozenDict({'i': 0, 'j': 1})", "in_axes=(FrozenDict({'i': 0, 'j': 0})", "no axis 0 of the size 3 of j"),
        ("in_axes=(FrozenDict({'i': 0, 'j': 1})", "in_axes=(FrozenDict({'i': 0, 'k': 1})", "of the size None of k"),
        ("in_axes=(FrozenDict({'i': 0, 'j': 1})", "in_axes=(FrozenDict({'i': 0, 'j': 1.5})", "a tuple of dicts of integers by names"),
        ("in_axes=(FrozenDict({'i': 0, 'j': 1}), ", "in_axes=(FrozenDict({}), FrozenDict({}), ", "do not fit"),
        ("out_axes=(FrozenDict({'i': 2, 'j': 1})", "out_axes=(FrozenDict({'i': 2})", "i cannot be its axis 2"),
        ("out_axes=(FrozenDict({'i': 2, 'j': 1})", "out_axes=(FrozenDict({'i': 1})", "result 0 varies along j"),
        ("out_axes=(FrozenDict({'i': 2, 'j': 1})", "out_axes=(FrozenDict({'i': 1, 'j': 1})", "one axis for several names"),
        ("axis_index[axis_name=i]", "axis_index[axis_name=k]", "no axis is called k"),
        ("mul g w", "mul g nothing", "nothing is not bound"),
    ],
)  # fmt: skip
def test_bad_params(old, new, message):
    with pytest.raises(jt.JaxprToolError, match=re.escape(message)):
        jt.check(jt.parse(XMAP.replace(old, new)))


SOFT_PMAP = """\
{ lambda  ; a b.
  let c = soft_pmap[ axis_name=i
                     axis_size=4
                     call_jaxpr={ lambda  ; a b.
                                  let c = psum[ axis_index_groups=None
                                                axis_name=i ] a
                                      d = div a c
                                      e = mul d b
                                  in (e,) }
                     mapped_invars=(True, False) ] a b
  in (c,) }
"""


def test_soft_pmap():
    x, y = draw(4, 3) ** 2, np.float32(2)
    program = jt.with_types(jt.parse(SOFT_PMAP), x, y)
    (got,) = jt.eval_jaxpr(program, [x, y])
    np.testing.assert_allclose(got, x / x.sum(0) * 2, rtol=1e-5)
    later = SOFT_PMAP.replace("mapped_invars=(True, False)", "in_axes=(1, None) out_axes=(1,)")
    (got,) = jt.eval_jaxpr(jt.with_types(jt.parse(later), x.T, y), [x.T, y])
    np.testing.assert_allclose(got, (x / x.sum(0) * 2).T, rtol=1e-5)


SHARDED_CALL = """\
{ lambda ; a:f32[4,4]. let
    b:f32[4,4] = sharded_call[
      call_jaxpr={ lambda ; c:f32[4,4]. let d:f32[4,4] = add c 1.0 in (d,) }
      in_parts=(PartitionSpec(2, 2),)
      local_in_parts=None
      local_nparts=None
      local_out_parts_thunk=<hashable <lambda> with closure=None>
      name=<lambda>
      nparts=4
      out_parts_thunk=<hashable <lambda> with closure=(None, ())>
    ] a
  in (b,) }
"""


def test_sharded_call():
    program = jt.parse(SHARDED_CALL)
    jt.check(program)
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [draw(4, 4)])[0], draw(4, 4) + 1)
    assert jt.diff(jt.parse(jt.format_jaxpr(program)), program).equal


def test_an_object_in_angle_brackets_hides_no_param():
    hidden = SHARDED_CALL.replace("<hashable <lambda> with closure=None>", "<hashable f nparts=3>")
    with pytest.raises(jt.JaxprToolError):
        jt.check(jt.parse(hidden))

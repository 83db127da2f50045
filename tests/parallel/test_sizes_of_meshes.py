"""Meshes of sizes that no mesh has, and that do not divide what is split over them."""

from __future__ import annotations

import pytest

import jaxprtool as jt

RESHARD = """\
{{ lambda ; a:f32[8,4]. let
    b:f32[8@x,4] = reshard[
      concrete_mesh=None
      dst_sharding=NamedSharding(mesh=AbstractMesh('x': {n}, axis_types=(Explicit,), device_kind=cpu, num_cores=None), spec=P('x', None))
    ] a
  in (b,) }}"""
CONTEXT = """\
{{ lambda ; a:f32[8]. let
    b:f32[8] = jit[
      name=f
      ctx_mesh=Mesh('x': {n}, axis_types=(Explicit,))
      jaxpr={{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }}
    ] a
  in (b,) }}"""
SHARDS = """\
{{ lambda ; a:f32[8]. let
    b:f32[8] = shard_map[
      check_vma=False
      in_specs=(P(None,),)
      jaxpr={{ lambda ; c:f32[8]. let d:f32[8] = sin c in (d,) }}
      mesh=Mesh('x': {n}, axis_types=(Auto,))
      newly_manual_axes=frozenset({{'x'}})
      out_specs=(P(None,),)
    ] a
  in (b,) }}"""


@pytest.mark.parametrize("text", [CONTEXT, SHARDS], ids=["jit", "shard_map"])
@pytest.mark.parametrize("n", [0, -2])
def test_a_mesh_has_devices(text, n):
    """JAX ends the process where a mesh has none."""
    jt.typecheck_jaxpr(jt.parse(text.format(n=2)).jaxpr)
    with pytest.raises(jt.JaxprTypeError, match="has to be a mesh"):
        jt.typecheck_jaxpr(jt.parse(text.format(n=n)).jaxpr)
    with pytest.raises(jt.JaxprToolError):
        jt.to_jax(jt.parse(text.format(n=n)))


def test_explicit_axes_divide_dimensions():
    jt.typecheck_jaxpr(jt.parse(RESHARD.format(n=4)).jaxpr)
    with pytest.raises(jt.JaxprTypeError, match="dimension 0 of size 8 is not divisible by 7"):
        jt.typecheck_jaxpr(jt.parse(RESHARD.format(n=7)).jaxpr)


@pytest.mark.parametrize("specs", ["in_specs=(P(None,),)", "out_specs=(P(None,),)"])
def test_an_axis_splits_one_dimension(specs):
    key = specs.split("=")[0]
    text = SHARDS.format(n=1).replace("f32[8]", "f32[8,8]")
    twice = text.replace(specs, f"{key}=(P('x', 'x'),)")
    jt.typecheck_jaxpr(jt.parse(text).jaxpr)
    with pytest.raises(jt.JaxprTypeError, match="splits several dimensions over one axis"):
        jt.typecheck_jaxpr(jt.parse(twice).jaxpr)

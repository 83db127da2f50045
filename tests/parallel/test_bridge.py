"""Programs on meshes to JAX and back: the types have their meshes again, and JAX runs and differentiates them."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.core import check_jaxpr
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import jaxprtool as jt
from tests.parallel import test_explicit_sharding as explicit

AUTO = jax.make_mesh((1, 1), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = jax.make_mesh((1, 1), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
X = np.linspace(0, 1, 32, dtype=np.float32).reshape(8, 4)


def shards(f, in_specs, out_specs, mesh=AUTO, **options):
    return jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


def scanned(y):
    return lax.scan(lambda c, z: (c * z + lax.axis_index("i"), c.sum()), y[0] * 0, y)[0]


varying = shards(lambda y: jnp.sin(y) * 2, P("i", "j"), P("i", "j"))
summed = shards(lambda y: lax.psum(jnp.sin(y).sum(), ("i", "j")), P("i", "j"), P())
SHARD_MAPS = {
    "varying": varying,
    "summed": summed,
    "scanned": shards(scanned, P("i"), P("i")),
    "gradient": jax.grad(lambda x: summed(x * 2)),
    "in a jit": jax.jit(lambda x: varying(x) + 1),
    "unchecked": shards(lambda y: lax.psum(y, "i"), P("i"), P(), check_vma=False),
    "partly manual": jax.jit(shards(jnp.sin, P("i"), P("i"), axis_names={"i"})),
    "constrained": lambda x: lax.with_sharding_constraint(x, jax.NamedSharding(AUTO, P("i"))),
    "branches": shards(lambda y: lax.cond(y[0, 0] > 0, jnp.sin, jnp.cos, y), P("i"), P("i")),
}


def forms(closed):
    """A program as it comes from JAX, from JAX's text, and from ours."""
    live = jt.from_jax(closed)
    return [live, jt.parse(str(closed)), jt.parse(jt.format_jaxpr(live, lossless=True))]


@pytest.mark.parametrize("name", SHARD_MAPS)
def test_types_that_vary(name):
    f = SHARD_MAPS[name]
    closed = jax.make_jaxpr(f)(X)
    live, text, lossless = forms(closed)
    for program in (live, text, lossless):
        back = jt.to_jax(program)
        assert str(back) == str(closed)
        assert [e.effects for e in back.eqns] == [e.effects for e in closed.eqns]
        check_jaxpr(back.jaxpr)
        (got,) = jax.jit(jaxpr_as_fun(back))(X)
        np.testing.assert_allclose(got, f(X), rtol=1e-6)
        assert program is text or jt.diff(jt.from_jax(back), live).equal


def test_jax_differentiates_what_comes_back():
    back = jt.to_jax(jt.from_jax(jax.make_jaxpr(summed)(X)))
    got = jax.grad(lambda x: jaxpr_as_fun(back)(x)[0])(X)
    np.testing.assert_allclose(got, np.cos(X), rtol=1e-6)


@pytest.mark.parametrize("f", explicit.PROGRAMS, ids=lambda f: f.__name__)
def test_types_on_explicit_axes(f):
    """A program that came from JAX knows its mesh; of a text the process has to."""
    closed = explicit.made(f, *explicit.typed(explicit.ARGS))
    live, text, lossless = forms(closed)
    assert str(jt.to_jax(live)) == str(closed)
    for program in (text, lossless):
        with jax.sharding.use_abstract_mesh(explicit.MESH):
            back = jt.to_jax(program)
        assert str(back) == str(closed)
        for ours, theirs in zip(back.eqns, closed.eqns, strict=True):
            assert [v.aval for v in ours.outvars] == [v.aval for v in theirs.outvars] or any(
                v.aval.sharding.mesh.empty for v in theirs.outvars
            )


def test_values_on_explicit_axes():
    with jax.set_mesh(EXPLICIT):
        x = jax.device_put(X, jax.NamedSharding(EXPLICIT, P("x", "y")))
        f = lambda a: jax.reshard((jnp.sin(a) * 2).sum(1), P(None))
        closed = jax.make_jaxpr(f)(x)
        for program in forms(closed):
            (got,) = jaxpr_as_fun(jt.to_jax(program))(x)
            np.testing.assert_allclose(got, f(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ lambda ; a:f32[8@z]. let b:f32[8@z] = sin a in (b,) }", "is not on the mesh"),
        ("{ lambda ; a:f32[8]{V:z}. let b:f32[8]{V:z} = sin a in (b,) }", "no such axes"),
    ],
)
def test_axes_that_the_mesh_does_not_have(text, message):
    with (
        jax.sharding.use_abstract_mesh(explicit.MESH),
        pytest.raises(jt.UnsupportedError, match=message),
    ):
        jt.to_jax(jt.parse(text))
    with pytest.raises(jt.UnsupportedError, match="cannot be handed to JAX") as e:
        jt.to_jax(jt.parse(text))
    assert "jax.set_mesh" in e.value.diagnostics[0].help


def test_shardings_inside_are_on_the_mesh_that_has_devices(tmp_path):
    """A text names the mesh inside of a shard_map without the kind of the devices that JAX's own has."""
    mesh = AbstractMesh((1,), ("i",), axis_types=(AxisType.Auto,))
    spec = P("i")
    f = lambda x: lax.scan(lambda c, _: (c * 0.5 + x, None), x, None, length=2)[0]
    mapped = jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    x = np.float32([1, 2, 3])
    file = tmp_path / "gradient.jaxpr"
    jt.save(jt.from_jax(jax.make_jaxpr(jax.grad(lambda x: mapped(x).sum()))(x)), file)
    (found,) = jt.run(jt.load(file), x, through="jax")
    np.testing.assert_allclose(found, np.full(3, 1.75), rtol=1e-6)


# Printed where `jax.set_mesh` had set a mesh of four devices (JAX 0.9.0): its types have no axes, but JAX asks for the mesh.
SET = """\
{ lambda ; a:f32[4]. let
    b:f32[4] = jit[
      name=f
      ctx_mesh=Mesh('x': 2, 'y': 2, axis_types=(Explicit, Explicit))
      jaxpr={ lambda ; a:f32[4]. let b:f32[4] = mul a 2.0:f32[] in (b,) }
    ] a
    c:f32[4@x] = reshard[
      concrete_mesh=Mesh('x': 2, 'y': 2, axis_types=(Explicit, Explicit))
      dst_sharding=NamedSharding(mesh=AbstractMesh('x': 2, 'y': 2, axis_types=(Explicit, Explicit), device_kind=cpu, num_cores=None), spec=PartitionSpec('x',))
    ] b
    d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
  in (b, d) }
"""
NAMED = """\
{ lambda ; a:f32[4]. let
    b:f32[4] = broadcast_in_dim[
      broadcast_dimensions=()
      shape=(4,)
      sharding=NamedSharding(mesh=AbstractMesh('x': 2, axis_types=(Explicit,), device_kind=cpu, num_cores=None), spec=PartitionSpec(None,))
    ] 2.0:f32[]
    c:f32[4] = mul a b
    d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
  in (c, d) }
"""


@pytest.mark.parametrize("text", [SET, NAMED])
def test_a_program_traced_under_a_mesh_runs_under_it(text, tmp_path):
    """In a process of its own, which has as many devices as the mesh."""
    file = tmp_path / "program.jaxpr"
    file.write_text(text)
    words = [sys.executable, "-m", "jaxprtool", "run", "--through", "jax", str(file)]
    done = subprocess.run([*words, "--args", "ramp"], capture_output=True, text=True)
    assert done.stdout == "f32[4] [0., 2., 4., 6.]\nf32[] 12.0\n", done.stderr

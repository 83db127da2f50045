"""Layouts that a program names, on a mesh without devices, are JAX's again, also where no call around them names the mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxprtool as jt
from jaxprtool.driver.storage.output import program_text

MESH = AbstractMesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
reshard = getattr(jax.sharding, "reshard", None) or jax.reshard


def product(a, b):
    a = reshard(a, NamedSharding(MESH, P("x", None)))
    return jnp.einsum("ij,jk->ik", a, b, out_sharding=P("x", None))


def traced(f, *shape):
    x = np.ones((4, 4), np.float32)
    with jax.sharding.use_abstract_mesh(MESH):
        return jax.make_jaxpr(f)(x, np.ones((*shape, 4, 4), np.float32))


@pytest.mark.parametrize("batch", [False, True])
def test_a_program_is_the_same_after_jax(batch):
    closed = traced(jax.vmap(product, (None, 0)), 3) if batch else traced(product)
    program = jt.from_jax(closed)
    assert jt.format_jaxpr(program) == str(closed)
    assert str(jt.to_jax(jt.parse(program_text({"": program})))) == str(closed)


def test_a_program_is_batched():
    closed = jt.from_jax(traced(product))
    batched, _ = jt.vmap_jaxpr(jt.parse(program_text({"": closed})), 3, (None, 1))
    jt.typecheck_jaxpr(batched.jaxpr)
    text = program_text({"": batched})
    assert program_text({"": jt.parse(text)}) == text

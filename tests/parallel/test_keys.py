"""Arrays of keys in a `shard_map`: each device does to its keys what it does without a mesh, on NumPy and with XLA."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

import jaxprtool as jt

N = 4
SPLIT = PartitionSpec("i")
MESH = AbstractMesh((N,), ("i",), axis_types=(AxisType.Auto,))

# Functions of two keys, and what they draw or the words of keys.
BODIES = {
    "one of them": lambda ks: jax.random.normal(ks[1], (1, 3)),
    "each": lambda ks: jax.vmap(lambda k: jax.random.uniform(k, (3,)))(ks),
    "taken by an index": lambda ks: jax.random.key_data(ks[jnp.array([1, 0, 1])]),
    "a slice of them": lambda ks: jax.random.key_data(lax.dynamic_slice(ks, (jnp.int32(1),), (1,))),
    "joined": lambda ks: jax.random.key_data(jnp.concatenate([ks[::-1], ks])),
    "chosen": lambda ks: jax.random.key_data(jnp.where(jnp.array([True, False]), ks, ks[::-1])),
    "split": lambda ks: jax.random.key_data(jax.random.split(ks[0], (1, 3))),
    "laid out": lambda ks: jax.random.key_data(jnp.broadcast_to(ks, (3, 2)).T.reshape(6)),
    "put in place": lambda ks: jax.random.key_data(ks.at[0].set(ks[1])),
    "compared": lambda ks: (ks[:1] == ks[1:]).astype(jnp.int32),
    "a loop": lambda ks: lax.fori_loop(
        0, 3, lambda i, c: jax.vmap(lambda k: jax.random.fold_in(k, i))(c), ks
    ),
}


def _on_shards(body):
    def words(ks):
        out = body(ks)
        return jax.random.key_data(out) if jnp.issubdtype(out.dtype, jax.dtypes.prng_key) else out

    return words


def _keys(impl):
    return jax.random.split(jax.random.key(3, impl=impl), 2 * N)


@pytest.mark.parametrize("jit", [False, True], ids=["numpy", "xla"])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("name", BODIES)
def test_each_device_has_its_keys(name, impl, jit):
    if name == "each" and impl != "threefry2x32":
        pytest.skip("batches of draws of such keys are drawn from the first one")
    body, ks = _on_shards(BODIES[name]), _keys(impl)
    sharded = jax.shard_map(body, mesh=MESH, in_specs=SPLIT, out_specs=SPLIT, check_vma=False)
    (found,) = jt.run(jt.from_jax(jax.make_jaxpr(sharded)(ks)), ks, jit=jit)
    expected = np.concatenate([body(ks[2 * k : 2 * k + 2]) for k in range(N)])
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


@pytest.mark.parametrize("tracked", [False, True])
def test_draws_that_are_loops(tracked):
    """What XLA runs for such a draw is a jaxpr with loops: its types say nothing of the mesh."""
    draw = lambda ks: jax.random.gamma(ks[1], 2.0, (1, 3))
    sharded = jax.shard_map(draw, mesh=MESH, in_specs=SPLIT, out_specs=SPLIT, check_vma=tracked)
    ks = _keys("threefry2x32")
    (found,) = jt.run(jt.from_jax(jax.make_jaxpr(sharded)(ks)), ks, jit=True)
    expected = np.concatenate([draw(ks[2 * k : 2 * k + 2]) for k in range(N)])
    np.testing.assert_allclose(
        np.asarray(found), expected, rtol=1e-4
    )  # releases of XLA round otherwise

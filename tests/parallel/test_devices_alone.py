"""On NumPy each device of a `shard_map` does alone what a batch rule does for all at once: draws, callbacks, users' rules."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import jaxprtool as jt

MESH = AbstractMesh((4,), ("i",), axis_types=(AxisType.Auto,))
X = np.arange(1, 9, dtype=np.float32)


def _on_devices(f, *args):
    """What our program of `f` on the shards of its arguments gives on NumPy."""
    mapped = jax.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    (out,) = jt.eval_jaxpr(jt.from_jax(jax.make_jaxpr(mapped)(*args)), [*args])
    return np.asarray(out)


def _one_by_one(f, x):
    """What JAX gives for each shard."""
    return np.concatenate([np.asarray(f(shard)) for shard in np.split(x, 4)])


def _split_in_loop(k):
    step = lambda c, _: (jax.random.split(c)[0], jax.random.normal(c))
    return jax.lax.scan(step, k, None, length=2)[1]


DRAWS = {
    "bits": lambda k: jax.random.bits(k, (3,)),
    "split": lambda k: jax.random.key_data(jax.random.split(k, 2)),
    "fold_in": lambda k: jax.random.uniform(jax.random.fold_in(k, 7), (2,)),
    "gamma": lambda k: jax.random.gamma(k, 2.0, (2,)),
    "in a loop": _split_in_loop,
}


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("name", DRAWS)
def test_a_device_draws_with_its_own_key(name, impl):
    draw = DRAWS[name]
    words = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(0, impl=impl), 4)))
    f = lambda data: draw(jax.random.wrap_key_data(data[0], impl=impl))[None]
    np.testing.assert_allclose(_on_devices(f, words), _one_by_one(f, words), rtol=1e-5)


@pytest.mark.parametrize("method", [None, "sequential", "expand_dims", "broadcast_all"])
def test_a_callback_is_given_one_shard(method):
    def share(v):
        return v / np.linalg.norm(v)

    def f(x):
        return jax.pure_callback(
            share, jax.ShapeDtypeStruct((2,), np.float32), x, vmap_method=method
        )

    np.testing.assert_allclose(_on_devices(f, X), _one_by_one(share, X), rtol=1e-6)


def test_no_batching_rule_is_applied():
    sine = custom_vmap(jnp.sin)
    sine.def_vmap(lambda size, batched, x: (7 * x, True))
    np.testing.assert_allclose(_on_devices(sine, X), np.sin(X), rtol=1e-6)
    batched = lambda x: jax.vmap(sine)(x[:, None])[:, 0]
    np.testing.assert_allclose(_on_devices(batched, X), 7 * X, rtol=1e-6)

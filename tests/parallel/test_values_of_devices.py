"""Each saved value of a device of a `shard_map` is that of the device, where sizes do not say which axis the devices stand along.

All axes have as many elements as there are devices, and rules of batches put the devices first, last or between.
"""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

import jaxprtool as jt
from tests.invoke import invoke

N = 4
MESH = AbstractMesh((N,), ("i",), axis_types=(AxisType.Auto,))
X = np.random.default_rng(0).normal(size=(N * N, N)).astype("f")
W = np.random.default_rng(1).normal(size=(N, N)).astype("f")

FUNCTIONS = {
    "products": lambda w, x: w @ x + x @ w + (w @ x[0])[:, None] + x @ x,
    "shapes": lambda w, x: x.T + x[::-1] + jnp.roll(x, 1, 0) + x.reshape(N * N).reshape(N, N),
    "joins": lambda w, x: jnp.concatenate([w[:2], x[2:]]) + jnp.where(x > 0, w, x),
    "reductions": lambda w, x: x.sum(0) + x.max(1) + jnp.cumsum(x, 1)[0] + lax.sort(x, dimension=0),
    "indices": lambda w, x: w[jnp.argsort(x[0])] + x.at[:, 1].set(0.0) + x[jnp.array([2, 0, 1, 1])],
    "slices": lambda w, x: (
        lax.dynamic_slice(w, (jnp.int32(x[0, 0]), 0), (1, N))
        + lax.dynamic_update_slice(x, w[:1], (jnp.argmax(x[1]), 0))
    ),
    "a call": lambda w, x: jax.jit(lambda y: (w @ y[0]) * y.T)(x) + jax.jit(jnp.outer)(x[0], w[1]),
    "batches": lambda w, x: jax.vmap(lambda r: w @ r, 1, 1)(x) + jnp.einsum("ij,kj->ki", w, x),
    "factors": lambda w, x: jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(N, dtype="f")) @ w,
    "convolutions": lambda w, x: lax.conv_general_dilated(x[None], w[:, :, None], (1,), "SAME")[0],
}


def _saved(program, args, folder):
    """The saved values by primitive and depth, and by device; those that all devices share are of device -1."""
    (folder / "p.jaxpr").write_text(jt.format_jaxpr(program, lossless=True))
    for k, x in enumerate(args):
        np.save(folder / f"{k}.npy", x)
    given = [str(folder / f"{k}.npy") for k in range(len(args))]
    values = folder / "values"
    done = invoke(["run", str(folder / "p.jaxpr"), "--args", *given, "--save-values", str(values)])
    assert done.status == 0, done.error
    found = {}
    for value in json.loads((values / "index.json").read_text())["values"]:
        place = value["place"]
        depth = sum(step["primitive"] != "shard_map" for step in place["path"])
        number = place.get("device", {}).get("i", -1)
        each = found.setdefault((depth, place["primitive"]), {}).setdefault(number, [])
        each.append(np.load(values / value["file"]))
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_saved_values_are_those_of_a_device_alone(name, tmp_path):
    f, folders = FUNCTIONS[name], [tmp_path / str(k) for k in range(N + 1)]
    for folder in folders:
        folder.mkdir()
    specs = {"in_specs": (PartitionSpec(), PartitionSpec("i")), "out_specs": PartitionSpec("i")}
    mapped = jax.shard_map(f, mesh=MESH, check_vma=False, **specs)
    together = _saved(jt.from_jax(jax.make_jaxpr(mapped)(W, X)), [W, X], folders[N])
    together.pop((0, "shard_map"))
    assert any(len(by_device) == N for by_device in map(_varying, together.values()))
    for number, shard in enumerate(np.split(X, N)):
        alone = _saved(jt.from_jax(jax.make_jaxpr(f)(W, shard)), [W, shard], folders[number])
        assert together.keys() == alone.keys()
        for key, by_device in together.items():
            found = by_device.get(number, []) + by_device.get(-1, [])
            assert len(found) == len(alone[key][-1]), key
            for value in found:
                assert any(_close(value, other) for other in alone[key][-1]), (key, value)


def _varying(by_device):
    return by_device.keys() - {-1}


def _close(x, y):
    return x.shape == y.shape and np.allclose(x, y, rtol=2e-4, atol=1e-5)

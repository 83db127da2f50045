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


def _taken_alone(x):
    """On device 0 the logarithm of its shard, twice that on the others."""
    return jax.lax.cond(jax.lax.axis_index("i") == 0, jnp.log, lambda v: 2 * v, x)


def _turned_alone(x):
    """As many square roots of x - 1 as the device has before it."""
    n = jax.lax.axis_index("i")
    return jax.lax.fori_loop(0, n, lambda i, v: jnp.sqrt(v - 1), x)


def _both(x):
    return jax.lax.switch(
        jax.lax.axis_index("i"), [_halved, jnp.log, lambda v: v + 1, lambda v: -v], x
    )


def _halved(x):
    """x, halved until its sum is below 1, which takes each device another number of steps."""
    return jax.lax.while_loop(lambda v: v.sum() > 1, lambda v: v / 2, x)


def _program(f, *args):
    mapped = jax.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    return jt.from_jax(jax.make_jaxpr(mapped)(*args))


@pytest.mark.parametrize("f", [_taken_alone, _turned_alone, _both, _halved])
@pytest.mark.parametrize("differentiated", [False, True])
def test_a_device_takes_its_own_branches_and_steps(f, differentiated):
    program = _program(f, X)
    if differentiated:
        program, _ = jt.jvp_jaxpr(program)
    args = [X] * len(program.in_avals)
    for x, y in zip(jt.eval_jaxpr(program, args), jt.compile(program)(*args), strict=True):
        np.testing.assert_allclose(x, np.asarray(y), rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "good", "bad", "device"),
    [
        (_taken_alone, [1, 1, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0], 0),
        (_turned_alone, [0, 0, 1, 1, 2, 2, 5, 5], [0, 0, 1, 1, 1.5, 1.5, 5, 5], 2),
        (_both, [0, 0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0], 1),
    ],
)
def test_what_a_device_does_not_do_is_not_to_blame(f, good, bad, device):
    program = _program(f, X)
    assert not jt.blame(program, np.float32(good)).found
    first = jt.blame(program, np.float32(bad)).first
    assert first is not None and first.json()["device"] == {"i": device}
    assert f"shard_map at 2 > device i={device} > " in str(first)


def test_a_branch_has_its_effects_where_it_is_taken(capfd):
    def f(x):
        taken = lambda v: (jax.debug.print("taken {}", v[0]), v)[1]
        return jax.lax.cond(jax.lax.axis_index("i") == 2, taken, lambda v: v, x)

    jt.eval_jaxpr(_program(f, X), [X])
    jax.effects_barrier()
    assert capfd.readouterr().out.split() == ["taken", "5.0"]


def test_bad_values_of_all_devices_have_the_types_of_the_text_and_the_devices():
    program = _program(lambda x: jnp.log(x) * 2, X)
    found = jt.blame(program, np.float32([1, 1, 1, 1, 1, 0, 0, 1]))
    first = found.json()["appearances"][0]
    assert first["operands"][0]["type"] == "f32[2]" and first["operands"][0]["values"] == [0, 0]
    assert first["result"]["type"] == "f32[2]" and first["result"]["count"] == 2
    assert first["result"]["indices"] == [[1], [0]]
    assert first["result"]["devices"] == [{"i": 2}, {"i": 3}]
    line = (
        "f32[2]: 2 of 8 elements of 4 devices: -inf at [1] of device i=2, -inf at [0] of device i=3"
    )
    assert f"  result   {line}\n  operand  c:f32[2]: 0 to 1; there 0, 0\n" in str(found)


def test_a_part_of_a_collective_has_the_type_of_the_whole():
    program = _program(lambda x: jax.lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 3), (3, 0)]), X)
    found = jt.blame(program, np.float32([1, 1, 1, 1, 1, np.nan, 1, 1]))
    first = found.json()["appearances"][0]
    assert first["place"]["primitive"] == "ppermute" and first["result"]["type"] == "f32[2]"
    assert "  result   f32[2]: nan\n" in str(found)


def test_a_stopped_run_names_the_device():
    program = _program(lambda x: jnp.sqrt(x) * 2, X)
    with pytest.raises(jt.JaxprToolError) as stopped:
        jt.run(program, np.float32([1, 1, 1, 1, 1, 1, 1, -1]), check_nans=True)
    start = (
        "sqrt gives NaN in 1 of 8 elements of 4 devices, the first at [1] of device i=3: shard_map"
    )
    assert stopped.value.diagnostics[0].message.startswith(start)

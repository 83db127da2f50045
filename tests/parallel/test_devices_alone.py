"""On NumPy each device of a `shard_map` does alone what a batch rule does for all at once: draws, callbacks, users' rules."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import jaxprtool as jt
from tests.invoke import invoke

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
    assert f" > device i={device} > " in str(first)


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


TEXT = """{ lambda ; a:f32[4]. let
    b:f32[4] = shard_map[
      check_vma=True
      in_specs=(P('i',),)
      jaxpr={ lambda ; c:f32[1]{V:i}. let
          d:i32[]{V:i} = axis_index[axis_name=i]
          e:i32[]{V:i} = pvary[axes=('i',)] 2:i32[]
          f:bool[]{V:i} = eq d e
          g:i32[]{V:i} = convert_element_type[new_dtype=int32 weak_type=False] f
          h:f32[1]{V:i} = cond[
            branches=(
              { lambda ; i:f32[1]{V:i}. let j:f32[1]{V:i} = neg i in (j,) }
              { lambda ; k:f32[1]{V:i}. let l:f32[1]{V:i} = sin k in (l,) }
            )
          ] g c
          m:f32[1]{V:i} = ppermute[axis_name=('i',) perm=((0, 1), (1, 2), (2, 3), (3, 0))] h
        in (m,) }
      mesh=Mesh('i': 4, axis_types=(Auto,))
      newly_manual_axes=frozenset({'i'})
      out_specs=(P('i',),)
    ] a
  in (b,) }
"""


def test_values_of_variables_are_printed_for_each_device():
    found = invoke("run - --args ramp --print d,e,h,l,m", TEXT)
    lines = found.output.splitlines()[:-1]
    way = "  # shard_map at 2 > "
    assert lines[:5] == [f"d:i32[] {i}{way}device i={i} > axis_index at 6" for i in range(4)] + [
        f"e:i32[] 2{way}pvary at 7"
    ]
    assert [x for x in lines if x.startswith("l:")] == [
        f"l:f32[1] [0.9092974]{way}device i=2 > cond at 10, branch 1 > sin at 13"
    ]
    cond, exchanged = "cond at 10", "ppermute at 16"
    assert [x.split(way)[1] for x in lines if x.startswith("h:")] == [
        f"device i={i} > {cond}" for i in range(4)
    ]
    assert [x.split(way)[1] for x in lines if x.startswith("m:")] == [
        f"device i={i} > {exchanged}" for i in range(4)
    ]


def test_saved_values_are_those_of_the_text(tmp_path):
    folder = tmp_path / "values"
    invoke(["run", "-", "--args", "ramp", "--save-values", str(folder)], TEXT)
    values = json.loads((folder / "index.json").read_text())["values"]
    assert {v["type"] for v in values if v["name"] in "hm"} == {"f32[1]"}
    assert all(v["step"] == [] for v in values)
    written = {"axis_index", "pvary", "eq", "convert_element_type", "neg", "sin", "cond"}
    assert {v["place"]["primitive"] for v in values} == written | {"ppermute", "shard_map"}
    assert len({(v["key"], v["result"]) for v in values}) == len(values)
    again = invoke(["compare", str(folder), "-", "--args", "ramp"], TEXT)
    assert again.status == 0 and f"equal: {len(values)} results" in again.output
    file = tmp_path / "other.jaxpr"
    file.write_text(TEXT.replace("sin k", "cos k"))
    other = invoke(["compare", "--first", str(folder), str(file), "--args", "ramp"])
    assert other.status == 1 and "device i=2 > cond at 10, branch 1 > cos at 13" in other.output


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("2:i32[]", "1:i32[]", "shard_map at 2 > pvary at 7"),
        ("sin k", "cos k", "shard_map at 2 > device i=2 > cond at 10, branch 1 > cos at 13"),
        ("axis_index[axis_name=i]", "pvary[axes=('i',)] 1:i32[]", "shard_map at 2 > pvary at 6"),
    ],
)
def test_the_first_difference_is_at_an_equation_of_the_text(old, new, place, tmp_path):
    files = [tmp_path / "a.jaxpr", tmp_path / "b.jaxpr"]
    for file, text in zip(files, (TEXT, TEXT.replace(old, new)), strict=True):
        file.write_text(text)
    found = invoke(["compare", "--first", *map(str, files), "--args", "ramp"])
    assert f"b.jaxpr:{place.rpartition(' ')[2]}:" in found.output and f"{place}\n" in found.output

"""On NumPy devices take branches and steps with those alone with which they exchange values; each knows which one it is."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import jaxprtool as jt
from tests.invoke import invoke

LINE = AbstractMesh((4,), ("i",), axis_types=(AxisType.Auto,))
SQUARE = AbstractMesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto, AxisType.Auto))
X = np.arange(1, 9, dtype=np.float32)
index = jax.lax.axis_index
cond = jax.lax.cond


def _asks_inside(x):
    """A branch that asks which device it is on."""
    return cond(
        index("i") == 0, lambda v: jnp.log(v) * (index("i") + 1), lambda v: v + index("i"), x
    )


def _turns_inside(x):
    return jax.lax.fori_loop(0, index("i"), lambda k, v: jnp.sqrt(v - 1) + index("i"), x)


def _agreed(x):
    """Branches that exchange values, by a value that is the same on all devices, which no type says."""
    chosen = jax.lax.all_gather(x, "i")[0, 0] > 0
    both = lambda v: jax.lax.psum(v, "i")
    return cond(chosen, lambda v: v + both(v), lambda v: jnp.log(v) + both(v), x)


def _agreed_of_three(x):
    chosen = jax.lax.all_gather(x, "i")[0, 0].astype(int)
    branches = [lambda v: -v, lambda v: jax.lax.ppermute(v, "i", [(0, 1), (1, 2), (2, 3), (3, 0)])]
    return jax.lax.switch(chosen, [*branches, lambda v: jnp.log(-v) + jax.lax.psum(v, "i")], x)


def _stages(x):
    """Stages of a pipeline, each split over devices: the devices of one exchange values."""
    first = lambda v: jnp.log(v) + jax.lax.psum(v, "j")
    return cond(index("i") == 0, first, lambda v: v - jax.lax.pmax(v, "j"), x)


def _stages_of_columns(x):
    first = lambda v: jnp.log(v) + jax.lax.psum(v, "i")
    return cond(index("j") == 0, first, lambda v: v - index(("i", "j")), x)


def _turns_together(x):
    """As many steps as the row of the device has before it, and one more; each sums over the row."""
    step = lambda c: (c[0] + 1, jnp.sqrt(c[1] - 1) + jax.lax.psum(c[1], "j"))
    return jax.lax.while_loop(lambda c: c[0] < index("i") + 1, step, (0, x))[1]


def _alone_inside_of_a_group(x):
    alone = lambda v: cond(index("j") == 0, jnp.log, lambda w: w * 3, v)
    stage = lambda v: alone(v) + jax.lax.psum(v, "j")
    return cond(index("i") == 0, stage, lambda v: v - index("j"), x)


def _program(f, mesh, check_vma=False):
    spec = P(mesh.axis_names)
    mapped = jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma)
    return jt.from_jax(jax.make_jaxpr(mapped)(X))


# On these nobody makes a NaN or an infinity, though a branch or a step that a device does not take would.
GOOD = [
    (_asks_inside, LINE, [1, 1, 0, 0, 0, -1, 0, 0]),
    (_turns_inside, LINE, [0, 0, 1, 1, 2, 2, 5, 5]),
    (_agreed, LINE, [1, 1, 0, 0, -1, 0, 0, 0]),
    (_agreed_of_three, LINE, [1, 1, 0, 0, 2, 0, 0, 0]),
    (_stages, SQUARE, [1, 1, 1, 1, 0, 0, -1, 0]),
    (_stages_of_columns, SQUARE, [1, 1, 0, 0, 1, 1, -1, 0]),
    (_turns_together, SQUARE, [4, 4, 5, 5, 8, 9, 8, 9]),
    (_alone_inside_of_a_group, SQUARE, [1, 1, -1, 0, 0, 0, -1, 0]),
]


@pytest.mark.parametrize(("f", "mesh", "values"), GOOD)
@pytest.mark.parametrize("differentiated", [False, True])
def test_devices_do_what_xla_does(f, mesh, values, differentiated):
    if differentiated and f in (_stages,):
        pytest.skip("no derivative of pmax")
    program = _program(f, mesh)
    if differentiated:
        program, _ = jt.jvp_jaxpr(program)
    args = [np.float32(values)] * len(program.in_avals)
    for x, y in zip(jt.eval_jaxpr(program, args), jt.compile(program)(*args), strict=True):
        np.testing.assert_allclose(x, np.asarray(y), rtol=1e-5)


@pytest.mark.parametrize(("f", "mesh", "values"), GOOD)
def test_what_no_device_does_is_not_to_blame(f, mesh, values):
    program = _program(f, mesh)
    assert not jt.blame(program, np.float32(values)).found
    jt.run(program, np.float32(values), check_nans=True)


@pytest.mark.parametrize(
    ("f", "mesh", "bad", "way"),
    [
        (_asks_inside, LINE, [0, 1, 1, 1, 1, 1, 1, 1], "device i=0 > cond"),
        (_turns_inside, LINE, [0, 0, 0, 0, 2, 2, 5, 5], "device i=1 > while"),
        (_agreed, LINE, [-1, 1, 1, 1, 1, 1, 1, 1], "cond"),
        (_stages, SQUARE, [1, 1, 1, -1, 1, 1, 1, 1], "device i=0 > cond"),
        (_stages_of_columns, SQUARE, [1, 1, 1, 1, -1, 1, 1, 1], "device j=0 > cond"),
        (_turns_together, SQUARE, [4, 4, 5, 5, 8, 0, 8, 9], "device i=1 > while"),
    ],
)
def test_what_a_device_does_is_to_blame(f, mesh, bad, way):
    first = jt.blame(_program(f, mesh), np.float32(bad)).first
    assert first is not None and first.eqn.primitive.name in ("log", "sqrt")
    assert f"shard_map at 2 > {way}" in str(first)


def test_the_element_of_a_device_of_a_group_is_named():
    found = jt.blame(_program(_stages, SQUARE), np.float32([1, 1, 1, -1, 1, 1, 1, 1]))
    text = "f32[2]: 1 of 4 elements of 2 devices: nan at [1] of device j=1"
    assert f"  result   {text}\n" in str(found)


def test_devices_that_do_not_agree_have_their_own_results():
    """Real devices wait for each other for ever; what would be exchanged is not to blame."""
    mixed = lambda v: cond(index("i") < 2, lambda w: jax.lax.psum(w, "i"), jnp.log, v)
    (out,) = jt.eval_jaxpr(_program(mixed, LINE), [X])
    np.testing.assert_allclose(out, [16, 20, 16, 20, *np.log(X[4:])], rtol=1e-6)
    found = jt.blame(_program(mixed, LINE), np.float32([1, 1, 1, 1, -1, 1, 1, 1]))
    assert found.first is not None and found.first.eqn.primitive.name == "cond"


# -- meshes inside each other --------------------------------------------------------------------


def _nested(f):
    inner = jax.shard_map(f, in_specs=P("j"), out_specs=P("j"), axis_names={"j"}, check_vma=False)
    outer = jax.shard_map(
        lambda x: inner(x) * 2,
        mesh=SQUARE,
        in_specs=P("i"),
        out_specs=P("i"),
        axis_names={"i"},
        check_vma=False,
    )
    return jt.from_jax(jax.make_jaxpr(outer)(X))


def _diagonal(v):
    return cond(index("i") == index("j"), jnp.log, lambda w: w * 3, v)


@pytest.mark.parametrize("f", [lambda v: jnp.sin(v) * (1 + index("i") + 2 * index("j")), _diagonal])
def test_a_device_knows_where_it_is_in_each_mesh(f):
    program = _nested(f)
    (x,), (y,) = jt.eval_jaxpr(program, [X]), jt.compile(program)(X)
    np.testing.assert_allclose(x, np.asarray(y), rtol=1e-6)


def test_a_bad_element_is_that_of_a_device_of_each_mesh():
    found = jt.blame(_nested(jnp.log), np.float32([1, 1, 1, -1, 1, 0, 1, 1]))
    result = "-inf at [1] of device i=1, j=0, nan at [1] of device i=0, j=1"
    assert f"f32[2]: 2 of 8 elements of 4 devices: {result}\n" in str(found)
    first = jt.blame(_nested(_diagonal), np.float32([1, 1, 0, 0, 0, 0, -1, 1])).first
    assert first is not None and first.json()["device"] == {"i": 1, "j": 1}
    assert " > device i=1 > device j=1 > cond" in str(first)


def test_saved_values_name_the_device_of_each_mesh(tmp_path):
    file, folder = tmp_path / "nested.jaxpr", tmp_path / "values"
    jt.save(_nested(lambda v: v + index("j")), file)
    assert invoke(["run", str(file), "--args", "ramp", "--save-values", str(folder)]).status == 0
    values = json.loads((folder / "index.json").read_text())["values"]
    found = [(v["place"]["primitive"], v["type"], v["place"].get("device")) for v in values]
    each = [{"i": i, "j": j} for i in (0, 1) for j in (0, 1)]
    assert [d for name, _, d in found if name == "add"] == each
    assert [d for name, _, d in found if name == "axis_index"] == [{"j": 0}, {"j": 1}]
    assert [d for name, _, d in found if name == "mul"] == [{"i": 0}, {"i": 1}]
    assert {t for name, t, _ in found if name == "add"} == {"f32[2]"}

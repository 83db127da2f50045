"""Programs on meshes that were written with our own functions, from the command line, and bad ones."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import PartitionSpec as P
from jaxprtool import lax
from jaxprtool.driver.compile import from_bytes
from jaxprtool.driver.run import run
from jaxprtool.interpreters.origins import without_origins
from jaxprtool.ir.avals import NO_GROUPS, AxisGroups
from jaxprtool.ir.params import Opaque, Structured
from jaxprtool.ir.sharding import Mesh, known_mesh, partition_specs, specs_of
from jaxprtool.ir.source import NAMES, python_source
from jaxprtool.syntax.params import format_value, read_value
from jaxprtool.syntax.types import read_type

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# -- the example ---------------------------------------------------------------------------------


def training_data():
    return draw(4, 8), draw(8, 1), draw(32, 4), draw(32, 1)


def reference_step(w1, w2, x, y):
    def loss(w1, w2):
        return 0.5 * jnp.mean((jnp.tanh(x @ w1) @ w2 - y) ** 2)

    value, grads = jax.value_and_grad(loss, argnums=(0, 1))(w1, w2)
    return w1 - 0.1 * grads[0], w2 - 0.1 * grads[1], value


@pytest.mark.parametrize("jit", [False, True])
def test_data_parallel_training(jit):
    """Ten steps on eight devices are ten steps on one: the loss goes down alike."""
    program = jt.parse((EXAMPLES / "data_parallel.jaxpr").read_text())
    w1, w2, x, y = training_data()
    v1, v2, losses = w1, w2, []
    for _ in range(10):
        w1, w2, value = run(program, [w1, w2, x, y], jit=jit, devices=8 if jit else None)
        v1, v2, want = reference_step(v1, v2, x, y)
        np.testing.assert_allclose(value, want, rtol=1e-4)
        losses.append(float(value))
    np.testing.assert_allclose(w1, v1, rtol=1e-3, atol=1e-4)
    assert losses == sorted(losses, reverse=True)


def test_the_file_is_what_the_example_gives():
    source = (EXAMPLES / "data_parallel.py").read_text()
    scope = {}
    exec(compile(source, "data_parallel.py", "exec"), scope)
    w1, w2, x, y = training_data()
    program = jt.make_jaxpr(scope["train_step"])({"w1": w1, "w2": w2}, x, y)
    kept = jt.parse((EXAMPLES / "data_parallel.jaxpr").read_text())
    assert jt.format_jaxpr(program) == jt.format_jaxpr(without_origins(kept))


def test_too_few_devices():
    program = jt.parse((EXAMPLES / "data_parallel.jaxpr").read_text())
    with pytest.raises(jt.UsageError, match="mesh has 8 devices, and there are 4"):
        run(program, training_data(), jit=True, devices=4)
    with pytest.raises(jt.UsageError, match="goes with --jit"):
        run(program, training_data(), devices=8)


def test_artifact_of_a_program_on_several_devices():
    program = jt.parse((EXAMPLES / "data_parallel.jaxpr").read_text())
    args = training_data()
    again = from_bytes(jt.compile(program).to_bytes())
    assert again.stablehlo.devices == 8
    for x, y in zip(again(*args), jt.eval_jaxpr(program, args), strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-4, atol=1e-5)


# -- shard_map in Python ---------------------------------------------------------------------------


def test_shard_map_of_a_closure_and_its_gradient():
    w = draw(4)

    def f(x, scale):
        local = jt.shard_map(
            lambda v: lax.psum(lax.sin(v * w) * scale, axes=("j",)),
            {"i": 2, "j": 4},
            P("i", "j"),
            P("i"),
        )
        return local(x).sum()

    x, scale = draw(6, 16), np.float32(1.5)
    whole = np.sin(x.reshape(6, 4, 4) * w).sum((1, 2)).sum() * 1.5
    np.testing.assert_allclose(f(x, scale), whole, rtol=1e-4)
    want = np.cos(x.reshape(6, 4, 4) * w) * w * 1.5
    np.testing.assert_allclose(jt.grad(f)(x, scale), want.reshape(6, 16), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jt.jit(f)(x, scale), whole, rtol=1e-4)


def test_results_that_are_the_same_everywhere():
    """A result that no operand reaches is computed once, and repeated where the spec splits it."""

    def f(x):
        return lax.mul(x, 2.0), lax.ones((3,), "float32")

    g = jt.shard_map(f, {"i": 2}, P("i"), (P("i"), P("i")))
    doubled, ones = g(np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(doubled, [0, 2, 4, 6])
    np.testing.assert_array_equal(ones, np.ones(6))


def test_devices_are_row_major_and_specs_may_join_axes():
    """The order of the axes in a spec is the order of the shards."""

    def f():
        i, j = (lax.axis_index(axis_name=n) for n in "ij")
        return lax.expand_dims(i * 10 + j, dimensions=(0,))

    for spec, want in [
        (P(("i", "j")), [0, 1, 2, 10, 11, 12]),
        (P(("j", "i")), [0, 10, 1, 11, 2, 12]),
        (P("j"), [0, 1, 2]),
    ]:
        g = jt.shard_map(f, {"i": 2, "j": 3}, (), spec)
        np.testing.assert_array_equal(g(), want)
        if spec is not None and len(want) == 6:
            np.testing.assert_array_equal(jt.compile(jt.make_jaxpr(g)())()[0], want)


@pytest.mark.parametrize(
    "in_specs, out_specs, message",
    [
        (P("k"), P(), "mentions k, no axis"),
        (P(None, "i"), P(), "longer than the shape"),
        (P(), P("k"), "out_specs: .* mentions k"),
        ((P(), P()), P(), "in_specs is no prefix"),
        ("i", P(), "is no PartitionSpec"),
    ],
)
def test_specs_that_do_not_fit(in_specs, out_specs, message):
    with pytest.raises(jt.UsageError, match=message):
        jt.shard_map(lambda x: x, {"i": 2}, in_specs, out_specs)(np.ones(4))


def test_dimension_that_is_no_multiple():
    with pytest.raises(jt.UsageError, match="dimension 0 of size 5 is not divisible by 2"):
        jt.shard_map(lambda x: x, {"i": 2}, P("i"), P("i"))(np.ones(5))


# -- text with mistakes ----------------------------------------------------------------------------

GOOD = """\
{ lambda ; a:f32[8,4]. let
    b:f32[8,4] = shard_map[
      check_vma=True
      in_specs=(P('i', 'j'),)
      jaxpr={ lambda ; c:f32[2,2]{V:(i,j)}. let
          d:f32[2,2]{V:j} = psum_invariant[axes=('i',)] c
          e:f32[2,2]{V:(i,j)} = pvary[axes=('i',)] d
          f:f32[2,2]{V:(i,j)} = add e c
        in (f,) }
      mesh=Mesh('i': 4, 'j': 2, axis_types=(Auto, Auto))
      newly_manual_axes=frozenset({'i', 'j'})
      out_specs=(P('i', 'j'),)
    ] a
  in (b,) }
"""

MISTAKES = {
    "unbound name": (
        "psum_invariant[axes=('i',)]",
        "psum_invariant[axes=('k',)]",
        "no axis is called k",
    ),
    "unbound in a spec": (
        "in_specs=(P('i', 'j'),)",
        "in_specs=(P('k', 'j'),)",
        "mentions the axis k",
    ),
    "shard of another shape": (
        "in_specs=(P('i', 'j'),)",
        "in_specs=(P('j', 'i'),)",
        "a shard of operand 0",
    ),
    "spec too long": (
        "in_specs=(P('i', 'j'),)",
        "in_specs=(P('i', 'j', None),)",
        "longer than the shape",
    ),
    "not divisible": ("a:f32[8,4]", "a:f32[6,4]", "dimension 0 of size 6 is not divisible by 4"),
    "too many specs": (
        "in_specs=(P('i', 'j'),)",
        "in_specs=(P('i', 'j'), P())",
        "2 specs in in_specs",
    ),
    "too few out_specs": ("out_specs=(P('i', 'j'),)", "out_specs=()", "0 out_specs"),
    "unreadable spec": (
        "in_specs=(P('i', 'j'),)",
        "in_specs=(P('i', x=3),)",
        "in_specs is (P('i', x=3),), and has to be a tuple of partition specs",
    ),
    "unreadable mesh": (
        "mesh=Mesh('i': 4, 'j': 2, axis_types=(Auto, Auto))",
        "mesh=grid",
        "mesh is grid, and has to be a mesh",
    ),
    "result varies": ("out_specs=(P('i', 'j'),)", "out_specs=(P('i'),)", "result 0 varies along j"),
    "varies already": ("pvary[axes=('i',)] d", "pvary[axes=('j',)] d", "varies along it"),
    "does not vary": (
        "= pvary[axes=('i',)] d",
        "= psum_invariant[axes=('i',)] d",
        "does not vary along it",
    ),
    "binder does not vary": ("f:f32[2,2]{V:(i,j)} =", "f:f32[2,2]{V:i} =", "f is declared as"),
    "wrong result": ("b:f32[8,4] =", "b:f32[8,8] =", "b is declared as"),
}


def test_the_program_without_mistakes():
    jt.typecheck_jaxpr(jt.parse(GOOD))


@pytest.mark.parametrize("old, new, message", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_reported(old, new, message):
    assert GOOD.count(old) == 1
    with pytest.raises(jt.JaxprTypeError, match=re.escape(message)):
        jt.typecheck_jaxpr(jt.parse(GOOD.replace(old, new)))


BODY = """\
{{ lambda ; a:f32[8,4]. let
    b:f32[{out}] = shard_map[
      check_vma=False
      in_specs=(P(None, 'i'),)
      jaxpr={{ lambda ; c:f32[8,2]. let d:f32[{out}] = {eqn} c in (d,) }}
      mesh=Mesh('i': 2, axis_types=(Auto,))
      newly_manual_axes=frozenset({{'i'}})
      out_specs=(P(),)
    ] a
  in (b,) }}
"""
GATHER = "all_gather[all_gather_dimension={} axis_index_groups=None axis_name=('i',) axis_size={} tiled=False]"
EXCHANGE = "all_to_all[axis_index_groups=None axis_name=i concat_axis={} split_axis={} tiled=True]"
SCATTER = (
    "reduce_scatter[axis_index_groups=None axis_name=i axis_size=2 scatter_dimension={} tiled={}]"
)
BAD_COLLECTIVES = [
    (GATHER.format(0, 3), "axis_size=3, and the axis has 2 members"),
    (GATHER.format(5, 2), "all_gather_dimension 5 is out of range"),
    (EXCHANGE.format(0, 2), "split_axis 2 is out of range"),
    (SCATTER.format(0, False), "cannot be cut into 2 parts"),
    (SCATTER.format(2, True), "scatter_dimension 2 is out of range"),
    ("ppermute[axis_name=('i',) perm=((0, 1), (0, 0))]", "each source in perm"),
    ("ppermute[axis_name=('i',) perm=((0, 1), (1, 2))]", "each destination in perm"),
    ("pbroadcast[axis_name=i source=2]", "source=2 is no member of 2"),
    ("psum[axes=('i',) axis_index_groups=((0,),)]", "does not contain each of 0 to 1 once"),
    ("psum[axes=('i', 0) axis_index_groups=((0,), (1,))]", "exclude each other"),
    ("psum[axes=(2,) axis_index_groups=None]", "axis 2 is out of range"),
]


@pytest.mark.parametrize("eqn, message", BAD_COLLECTIVES)
def test_params_of_collectives(eqn, message):
    with pytest.raises(jt.JaxprTypeError, match=re.escape(message)):
        jt.typecheck_jaxpr(jt.parse(BODY.format(eqn=eqn, out="8,2")))


def test_pmax_has_no_derivative():
    program = jt.parse(BODY.format(eqn="pmax[axes=('i',) axis_index_groups=None]", out="8,2"))
    with pytest.raises(jt.MissingRuleError, match="no jvp rule for pmax"):
        jt.jvp_jaxpr(program)


def test_meshes_of_different_sizes_do_not_run_together():
    def f(x):
        twice = jt.shard_map(lambda v: v * np.float32(2), {"i": 2}, P("i"), P("i"))
        again = jt.shard_map(lambda v: v + np.float32(1), {"i": 4}, P("i"), P("i"))
        return again(twice(x))

    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(f(x), 2 * x + 1)
    with pytest.raises(jt.UnsupportedError, match="meshes differ in size: 2, 4"):
        jt.compile(jt.make_jaxpr(f)(x))


def test_reshard_changes_no_value():
    """JAX prints it for changes of layout, also of constants in a gradient."""
    x = draw(3)
    np.testing.assert_array_equal(lax.reshard(x), x)
    program = jt.make_jaxpr(jt.grad(lambda v: (lax.reshard(v) * v).sum()))(x)
    np.testing.assert_allclose(jt.compile(program)(x)[0], 2 * x, rtol=1e-6)
    np.testing.assert_array_equal(jt.vmap(lax.reshard)(np.stack([x, x])), np.stack([x, x]))


# -- xla_pmap, as older releases print it ------------------------------------------------------------

PMAP = """\
{ lambda ; a:f32[2,3] b:f32[]. let
    c:f32[2,3] d:f32[3,2] e:i32[2] = xla_pmap[
      axis_name=i
      axis_size=2
      backend=None
      call_jaxpr={ lambda ; f:f32[3] g:f32[]. let
          h:f32[3] = mul f g
          i:f32[3] = psum[axes=('i',) axis_index_groups=None] f
          j:i32[] = axis_index[axis_name=i]
        in (h, i, j) }
      devices=None
      donated_invars=(False, False)
      global_axis_size=None
      in_axes=(0, None)
      is_explicit_global_axis_size=False
      name=<lambda>
      out_axes=(0, 1, 0)
    ] a b
  in (c, d, e) }
"""


def test_pmap_of_older_releases():
    program = jt.parse(PMAP)
    jt.typecheck_jaxpr(program)
    x, s = draw(2, 3), np.float32(3)
    want = [x * 3, np.stack([x.sum(0)] * 2, 1), np.array([0, 1], np.int32)]
    for outs in (jt.eval_jaxpr(program, [x, s]), jt.compile(program)(x, s)):
        for got, w in zip(outs, want, strict=True):
            np.testing.assert_allclose(np.asarray(got), w, rtol=1e-5)
    f = jt.jaxpr_as_fun(program)
    grads = jt.grad(lambda x, s: (f(x, s)[0] * f(x, s)[1].T).sum(), argnums=(0, 1))(x, s)
    total = x.sum(0)
    np.testing.assert_allclose(grads[0], np.stack([6 * total] * 2), rtol=1e-4)
    np.testing.assert_allclose(grads[1], (x * total).sum(), rtol=1e-4)
    batched = jt.vmap(f, (0, None))(np.stack([x, x + 1]), s)
    np.testing.assert_allclose(batched[1][1], np.stack([(x + 1).sum(0)] * 2, 1), rtol=1e-5)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("in_axes=(0, None)", "in_axes=(1, None)", "no axis 1 of size 2"),
        ("in_axes=(0, None)", "in_axes=(0,)", "do not fit"),
        ("out_axes=(0, 1, 0)", "out_axes=(0, 1, 1)", "out_axes[2]=1 is out of range"),
        ("axis_index[axis_name=i]", "axis_index[axis_name=k]", "no axis is called k"),
    ],
)
def test_bad_pmap(old, new, message):
    with pytest.raises(jt.JaxprTypeError, match=re.escape(message)):
        jt.typecheck_jaxpr(jt.parse(PMAP.replace(old, new)))


# -- meshes and specs as text ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, sizes, explicit",
    [
        ("Mesh('x': 2, 'y': 3, axis_types=(Auto, Explicit))", {"x": 2, "y": 3}, {"y"}),
        ("Mesh('x': 2, 'y': 3)", {"x": 2, "y": 3}, set()),
        (
            "Mesh(device_ids=array([[0, 1],\n       [2, 3]]), axis_names=('x', 'y'))",
            {"x": 2, "y": 2},
            set(),
        ),
        ("AbstractMesh('x': 2, axis_types=(Explicit,), device_kind='TPU')", {"x": 2}, {"x"}),
        ("AbstractMesh((('x', 2), ('y', 1)), axis_types=None)", {"x": 2, "y": 1}, set()),
        ("AbstractMesh(axis_sizes=(2,), axis_names=('x',), axis_types=(Auto,))", {"x": 2}, set()),
        ("Mesh()", {}, set()),
    ],
)
def test_meshes_are_read(text, sizes, explicit):
    mesh = read_value(text)
    assert isinstance(mesh, Mesh) and mesh.sizes == sizes and mesh.explicit == explicit
    assert format_value(mesh) == text
    assert eval(python_source(mesh), NAMES) == mesh
    assert pickle.loads(pickle.dumps(mesh)) == mesh and format_value(copy.copy(mesh)) == text


def test_a_mesh_does_not_change():
    mesh = Mesh({"x": 2})
    with pytest.raises(AttributeError, match="a Mesh does not change"):
        mesh.axis_types = ("Explicit",)
    with pytest.raises(TypeError):
        mesh.sizes["y"] = 3


@pytest.mark.parametrize("value", [None, Opaque("Mesh"), {"x": 2}])
def test_other_values_are_no_mesh(value):
    with pytest.raises(ValueError, match="not a mesh"):
        known_mesh(value)


@pytest.mark.parametrize("text", ["P('i', x={'y'})", "P('i': 2)", "Mesh('x': y)", "P(1)"])
def test_other_calls_of_these_names(text):
    value = read_value(text)
    assert not isinstance(value, Structured) and format_value(value) == text


def test_specs_print_as_they_are_read():
    text = "(P('i', None, ('j', 'k')), P(), P(None, 'i'))"
    specs = specs_of(read_value(text))
    assert specs == ((("i",), (), ("j", "k")), (), ((), ("i",)))
    assert format_value(partition_specs(specs)) == text
    assert format_value(partition_specs([(("i",),)])) == "(P('i',),)"


@pytest.mark.parametrize(
    "text, groups",
    [
        ("f32[2]{V:i}", AxisGroups(["i"])),
        ("f32[2]{V:(i,j)}", AxisGroups(["i", "j"])),
        ("f32[2]{V:i, U:(k,l), R:m}", AxisGroups(["i"], ["k", "l"], ["m"])),
        ("f32[2]{U:k}", AxisGroups(unreduced=["k"])),
        ("f32[2]", NO_GROUPS),
    ],
)
def test_axes_of_types(text, groups):
    aval = read_type(text)
    assert aval.vary is groups and str(aval) == text and bool(groups) == ("{" in text)
    assert eval(python_source(aval), NAMES) is aval and pickle.loads(pickle.dumps(aval)) is aval


def test_axes_of_types_as_earlier_releases_print_them():
    assert read_type("f32[2]{i,j}") is read_type("f32[2]{V:(i,j)}")

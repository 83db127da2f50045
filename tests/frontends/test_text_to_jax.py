"""What JAX prints comes back as JAX's program that prints the same, beside each release: params that a text names are objects again."""

from __future__ import annotations

import re
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.custom_batching import custom_vmap
from jax.experimental import sparse
from jax.extend.core import primitives

import jaxprtool as jt
from jaxprtool.backends.jax.releases import since
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.driver.fmt import fmt
from jaxprtool.driver.storage.output import program_text
from jaxprtool.ir.walk import map_programs
from tests.programs.catalogue import GRADIENTS, PROGRAMS, case_of
from tests.releases import SERIES
from tests.zoo.oracle import NAMES, Program

X = np.linspace(0.5, 1.5, 4, dtype=np.float32)


def zeros(v):
    if v.aval.dtype.kind == "k":
        return jt.KeyArray(v.aval.dtype.name[4:-1], np.zeros(v.aval.physical.shape, np.uint32))
    return np.zeros(v.aval.shape, np_dtype(v.aval.dtype))


def with_zeros(program):
    """A program whose constants, of which JAX's text holds none, are zeros."""

    def filled(p):
        pairs = zip(p.jaxpr.const_binders, p.consts, strict=True)
        return jt.ClosedJaxpr(p.jaxpr, [zeros(v) if c is None else c for v, c in pairs])

    return map_programs(program, lambda p: filled(p) if None in map(type_or_none, p.consts) else p)


def type_or_none(x):
    return None if x is None else type(x)


def comes_back(closed):
    text = str(closed)
    back = jt.to_jax(with_zeros(jt.parse(text)))
    assert str(back) == text
    assert fmt(text).text.rstrip("\n") == text  # nor has `fmt` anything to change


@pytest.mark.parametrize(
    "name, params",
    [
        ("broadcast_in_dim", {"shape": (3,), "broadcast_dimensions": ()}),
        ("convert_element_type", {"new_dtype": np.dtype("float32"), "weak_type": True}),
    ],
)
def test_a_sharding_on_an_empty_mesh(name, params):
    """It stands in the texts of some releases, and in no others'."""
    bind = getattr(primitives, f"{name}_p").bind
    closed = jax.make_jaxpr(lambda x: bind(x, sharding=jax.typeof(x).sharding, **params))(X[0])
    comes_back(closed)
    program = jt.from_jax(closed)
    assert jt.format_jaxpr(program) == str(closed)
    assert str(jt.to_jax(program)) == str(closed)


@pytest.mark.parametrize("name", NAMES)
def test_the_zoo(name):
    program = Program(name)
    comes_back(jax.make_jaxpr(program.f)(*program.args))


# In 0.11 a root prints as an object, and not as the primitive that 0.12 has.
UNSAID = {"root"} if SERIES == (0, 11) else set()


@pytest.mark.parametrize("name", [n for n in [*PROGRAMS, *GRADIENTS] if n not in UNSAID])
def test_the_examples(name):
    case = case_of(name)
    with case.precision():
        comes_back(case.jaxpr)


def outputs_of_a_scan(x):
    return lax.scan(lambda c, t: (jnp.tanh(c * t), {"a": c, "b": [t * c]}), x[0], x)


def sparse_product(x):
    matrix = sparse.BCOO((x, np.arange(8).reshape(4, 2) % 4), shape=(4, 4))
    return (matrix @ x).sum()


def solved(x, solve=jnp.linalg.solve):
    return solve(jnp.outer(x, x) + jnp.eye(4), x)


def solved_twice(x):
    """Two solves of the same text, and one in a call that is shared."""
    inner = jax.jit(
        lambda x: lax.custom_linear_solve(lambda v: v * x, x, lambda f, b: b / x, symmetric=True)
    )
    return inner(x) + inner(inner(x)) + solved(x) + solved(jnp.sin(x)).sum()


def solved_alike(x):
    """Solves of one text in calls of their own, whose functions are each held twice."""

    def solving():
        solve = partial(jax.scipy.sparse.linalg.cg, lambda v: v * 2, maxiter=3)
        return jax.jit(lambda x: solve(x)[0])

    f, g = solving(), solving()
    return f(x) + f(x + 1) + g(x) + g(x * 2)


def calls_of_calls(x):
    """Definitions that use definitions, one of which stands elsewhere too."""
    inner = jax.jit(lambda x: jnp.sin(x) * 2)
    outer = jax.jit(lambda x: lax.cond(x[0] > 1, inner, lambda x: x - 1, inner(x) + 1))
    return outer(x) + outer(outer(x)) + inner(x)


def stored(x):
    cell = jax.new_ref(jnp.zeros(4)) if hasattr(jax, "new_ref") else jax.array_ref(jnp.zeros(4))

    def body(i, c):
        cell[i] = x[i] * 2 + c
        cell[...] += x
        return c + cell[i]

    return lax.fori_loop(0, 3, body, 0.0) + cell[...].sum()


@custom_vmap
def its_batches(x, more):
    return jnp.sin(x) * more["a"][0] + more["b"]


@its_batches.def_vmap
def _(size, batched, x, more):
    del size, batched
    return jnp.cos(x) * more["a"][0] + more["b"], True


MESH = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
OBJECTS = {
    "a scalar of NumPy's": lax.composite(lambda x: x * 2, name="my.double"),
    "a pytree": lambda x: lax.composite(lambda x, s: x * s, name="my.scale")(x, s=np.float32(0.5)),
    "a named tuple": sparse_product,
    "a class": lambda x: jnp.searchsorted(x, 0.7),
    "a class of two operands": lambda x: jnp.ldexp(x, 2),
    "a class of two results": lambda x: jnp.frexp(x),
    "a device": lambda x: jax.device_put(x, jax.devices()[0]),
    "a mesh": jax.shard_map(lambda x: lax.psum(x, "i"), mesh=MESH, in_specs=jax.P("i"), out_specs=jax.P()),
    "a sharding": lambda x: lax.with_sharding_constraint(x, jax.NamedSharding(MESH, jax.P())),
    "a policy": jax.grad(lambda x: jax.checkpoint(jnp.sin, policy=jax.checkpoint_policies.dots_saveable)(x).sum()),
    "a preset": lambda x: lax.dot(x, x, precision=lax.DotAlgorithmPreset.F32_F32_F32),
    "a pytree of lists": lambda x: jax.debug.print("{} {y}", [x, (x, [])], y={"a": [x]}),
    "trees of a scan": lambda x: lax.scan(lambda c, t: ([c[0] + t], {"a": t, "b": [c[0]]}), [x[0]], x),
    "trees of a scan forwards": lambda x: jax.jvp(outputs_of_a_scan, (x,), (x,)),
    "trees of a scan forwards twice": lambda x: jax.jvp(
        lambda y: jax.jvp(outputs_of_a_scan, (y,), (x,)), (x,), (x,)
    ),
    "trees of a scan, forwards over reverse": jax.hessian(lambda x: outputs_of_a_scan(x)[0].sum()),
    "trees of a scan with a derivative": jax.grad(
        lambda x: lax.scan(lambda c, t: (jnp.tanh(c * t), [c, (t * x[0],)]), x[0], x)[0]
    ),
    "a jaxpr that is written out twice": lambda x: lax.custom_linear_solve(lambda v: v * 2, x, lambda f, b: b / 2, symmetric=True),
    "jaxprs of one text": jax.grad(lambda x: lax.custom_linear_solve(lambda v: v * x, x * x, lambda f, b: b / x, lambda f, b: b / x).sum()),
    "jaxprs in calls of jaxprs that are written out": jax.grad(lambda x: solved(x).sum()),
    "long jaxprs that are written out": lambda x: solved(x, jax.scipy.sparse.linalg.cg)[0],
    "solves in a call that is shared": solved_twice,
    "solves of one text in calls": solved_alike,
    "what solvers call": lambda x: solved(x, partial(jax.scipy.linalg.solve, assume_a="pos")),
    "solves in a loop": lambda x: lax.fori_loop(0, 2, lambda i, x: solved(x), x),
    "trees of a rule for batches": lambda x: its_batches(x, {"a": [x, x], "b": x[0]}) + jax.jit(its_batches)(x, {"a": (x,), "b": 1.0}),
    "calls of calls": calls_of_calls,
    "stores whose old value nobody reads": jax.grad(stored),
    "an enum": lambda x: lax.fft(x, "rfft", (4,)),
}  # fmt: skip
# Before 0.10 policies print with their addresses, so that none prints twice the same.
UNPRINTED = () if since(0, 10) else ("a policy",)


@pytest.mark.parametrize("name", [name for name in OBJECTS if name not in UNPRINTED])
def test_objects(name):
    comes_back(jax.make_jaxpr(OBJECTS[name])(X))


def test_sizes_that_are_symbols():
    args = jax.export.symbolic_args_specs([jnp.zeros((4, 2)), jnp.zeros(2)], ["a, b", "b"])
    f = lambda x, y: jnp.concatenate([x + y, x]) * 2
    comes_back(jax.make_jaxpr(f)(*args))


def test_axes_that_nothing_binds():
    """As under a `vmap` that is still to come."""
    f = lambda x: lax.psum(jnp.sin(x), "i") - lax.axis_index("i")
    closed = jax.make_jaxpr(f, axis_env=[("i", 2)])(X)
    comes_back(closed)
    batch = jnp.stack([X, X + 1])
    ours = jt.to_jax_function(jt.parse(str(closed)))
    got = jax.vmap(ours, axis_name="i")(batch)
    np.testing.assert_allclose(got[0], jax.vmap(f, axis_name="i")(batch), rtol=1e-6)


EARLIER = {
    "copies without a word on buffers, to 0.4.29": """\
{ lambda ; a:f32[4]. let b:f32[4] = device_put[device=None src=None] a in (b,) }""",
    "copies in lists, to 0.4.33": """\
{ lambda ; a:f32[4]. let b:f32[4] = device_put[devices=[None] srcs=[None]] a in (b,) }""",
    "a sharding that names no mesh, to 0.4.25": """\
{ lambda ; a:f32[4]. let
    b:f32[4] = sharding_constraint[
      resource_env=ResourceEnv(Mesh(device_ids=[], axis_names=()), ())
      sharding=GSPMDSharding({devices=[1]<=[1]})
      unconstrained_dims=set()
    ] a
  in (b,) }""",
}


@pytest.mark.parametrize("name", EARLIER)
def test_equations_of_earlier_releases_that_say_less_than_todays(name):
    """Texts that are the identity: JAX evaluates, compiles and transforms what comes back."""
    f = jt.to_jax_function(jt.parse(EARLIER[name]))

    def g(x):
        return f(x)[0]

    assert (g(X) == X).all() and (jax.jit(g)(X) == X).all()
    assert (jax.vmap(g)(X[None]) == X).all()
    assert (jax.jvp(g, (X,), (X,))[1] == X).all() and (jax.vjp(g, X)[1](X)[0] == X).all()


@pytest.mark.parametrize("solve", ["bicgstab", "cg", "gmres"])
def test_functions_of_solvers_come_back_from_a_file(solve):
    """Functions inside values have results that nobody reads there: JAX has names for them where it prints such a function beside the others."""
    with_steps = partial(getattr(jax.scipy.sparse.linalg, solve), maxiter=2)
    closed = jax.make_jaxpr(lambda x: solved(x, with_steps)[0])(X)
    text = jt.format_jaxpr(jt.from_jax(closed), lossless=True)
    assert str(jt.to_jax(jt.parse(text))) == str(closed)


def test_a_class_of_an_element_type():
    """`ragged_dot` keeps the class that its user gave."""
    f = partial(lax.ragged_dot, preferred_element_type=jnp.float32)
    closed = jax.make_jaxpr(f)(
        np.ones((3, 2), np.float32), np.ones((1, 2, 4), np.float32), np.array([3])
    )
    comes_back(closed)
    program = jt.from_jax(closed)
    jt.typecheck_jaxpr(program.jaxpr)
    args = np.ones((3, 2), np.float32), np.ones((1, 2, 4), np.float32), np.array([3], np.int32)
    np.testing.assert_array_equal(jt.eval_jaxpr(program, args)[0], np.full((3, 4), 2, np.float32))


@pytest.mark.parametrize(
    "value",
    [np.array([1, 2]), np.array([True]), np.zeros((0, 3), np.float32), np.array([0.5, 1.25], np.float32),
     np.array([[1, 2], [3, 4]], np.int32), np.arange(24.0).reshape(2, 3, 4), np.array([1 + 2j, 3]),
     np.dtype("float32"), np.float32(0.5), np.True_, "words", {"k": (1, [2.5])}],
    ids=repr,
)  # fmt: skip
def test_attributes_of_a_composite(value):
    """Arrays print with lines, padding and complex numbers without brackets, none of them a literal of Python's."""
    f = lax.composite(lambda x, *, key: 2 * x, name="mine.double")
    closed = jax.make_jaxpr(lambda x: f(x, key=value))(X)
    program = jt.parse(str(closed))
    jt.typecheck_jaxpr(program.jaxpr)
    comes_back(closed)


@pytest.mark.parametrize(
    "array",
    [np.array([0.1, 1 / 3]), np.arange(2000), np.array(np.pi, np.float32)],
    ids=["digits", "elements", "scalar"],
)
def test_an_array_that_prints_in_part_is_whole_in_a_file(array):
    f = lax.composite(lambda x, *, key: 2 * x, name="mine.double")
    closed = jax.make_jaxpr(lambda x: f(x, key=array))(X)
    program = jt.from_jax(closed)
    assert jt.format_jaxpr(program) == str(closed)
    text = program_text({"": program})
    back = jt.to_jax(jt.parse(text))
    ((_, (held,), _),) = back.eqns[0].params["attributes"]
    np.testing.assert_array_equal(held.val, array, strict=True)
    assert program_text({"": jt.parse(text)}) == text
    assert str(jt.lower(jt.parse(text))) == str(jt.lower(program))


def test_a_tolerance_is_in_a_file():
    """JAX prints the address of the object that it is."""
    tolerance = lax.Tolerance(atol=1e-3, ulps=2)
    closed = jax.make_jaxpr(lambda x: lax.sin(x, accuracy=tolerance))(X)
    program = jt.from_jax(closed)
    masked = re.sub("0x[0-9a-f]+", f"0x{'X' * 12}", str(closed))
    assert re.sub("0x[0-9a-fX]+", f"0x{'X' * 12}", jt.format_jaxpr(program)) == masked
    back = jt.to_jax(jt.parse(program_text({"": program})))
    assert vars(back.eqns[0].params["accuracy"]) == vars(tolerance)


OFFLOADING = {
    "dots": jax.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "names": jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"],
        names_which_can_be_offloaded=["b"],
        offload_src="device",
        offload_dst="pinned_host",
    ),
}


@pytest.mark.parametrize("policy", OFFLOADING)
def test_a_policy_that_moves_values(policy):
    """Some releases have a class for it, the others a function."""
    f = jax.checkpoint(
        lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "b")), policy=OFFLOADING[policy]
    )
    program = jt.from_jax(jax.make_jaxpr(f)(X))
    text = program_text({"": program})
    back = jt.from_jax(jt.to_jax(jt.parse(text)))
    assert program_text({"": back}) == text
    assert jt.hash(back) == jt.hash(program)


def test_policies_are_equal_by_class_and_by_function():
    text = "{{ lambda ; a:f32[3]. let b:f32[3] = remat2[differentiated=False jaxpr={{ lambda ; c:f32[3]. let in (c,) }} policy={} prevent_cse=True] a in (b,) }}"
    fields = "(offload_src='device', offload_dst='pinned_host')"
    names = "(names_which_can_be_saved={}, names_which_can_be_offloaded={}, " + fields[1:]
    pairs = [
        (f"OffloadDotWithNoBatchDims{fields}", f"offload_dot_with_no_batch_dims{fields}"),
        ("SaveAndOffloadOnlyTheseNames" + names.format("frozenset({'b', 'a'})", "frozenset()"),
         "save_and_offload_only_these_names" + names.format("('a', 'b')", "()")),
    ]  # fmt: skip
    for pair in pairs:
        one, other = (jt.hash(jt.parse(text.format(p))) for p in pair)
        assert one == other

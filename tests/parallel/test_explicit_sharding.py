"""Programs whose types say how values are laid out, `f32[8@x,4@y]`, beside JAX's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxprtool as jt
from jaxprtool.ir.walk import count_eqns
from tests.control_flow.oracle import close

MESH = AbstractMesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
RNG = np.random.default_rng(0)
reshard = jax.sharding.reshard


def matmul(a, b):
    return jnp.sin(reshard(a, P("x", None)) @ reshard(b, P(None, "y")))


def moving(a, b):
    """Transposition, reduction and broadcasting take the layout along."""
    c = jnp.exp(reshard(a, P("x", "y")))
    total = c.sum(1, keepdims=True) + c.max(axis=1)[:, None]
    return (c / total).T, jnp.where(c > 1, c, 2.0), reshard(c.mean(0), P(None)) @ b


def both_axes(a, b):
    c = reshard(a, P(("x", "y"), None)) * 2
    return reshard(c, P(None, "x")).astype(jnp.int32), jnp.squeeze(c[:, :, None], 2) @ b


PROGRAMS = [matmul, moving, both_axes]
ARGS = [RNG.normal(size=(8, 4)).astype(np.float32), RNG.normal(size=(4, 6)).astype(np.float32)]


def made(f, *shapes):
    """What JAX makes of a function on the mesh."""
    with jax.sharding.use_abstract_mesh(MESH):
        return jax.make_jaxpr(f)(*shapes)


def typed(args):
    sharding = NamedSharding(MESH, P())
    return [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding) for x in args]


def value(f, *args):
    """The values, which no layout changes."""
    with pytest.MonkeyPatch.context() as m:
        m.setitem(globals(), "reshard", lambda x, _: x)
        return jax.tree.leaves(f(*args))


def types(avals):
    return [str(a) for a in avals]


@pytest.mark.parametrize("f", PROGRAMS)
def test_text_types_and_values(f):
    closed = made(f, *typed(ARGS))
    program = jt.parse(str(closed))
    jt.typecheck_jaxpr(program)
    assert jt.format_jaxpr(program) == str(closed)
    assert jt.format_jaxpr(jt.from_jax(closed)) == str(closed)
    retraced = jt.make_jaxpr(jt.jaxpr_as_fun(program))(*ARGS)
    assert types(retraced.out_avals) == types(program.out_avals)
    close(jt.eval_jaxpr(program, ARGS), value(f, *ARGS))
    close([np.asarray(x) for x in jt.compile(program)(*ARGS)], value(f, *ARGS))


@pytest.mark.parametrize("f", PROGRAMS)
def test_transformations(f):
    program = jt.parse(str(made(f, *typed(ARGS))))
    ours, tangents = jt.jaxpr_as_fun(program), tuple(np.cos(x) for x in ARGS)
    theirs = made(lambda *xs: jax.jvp(f, xs[:2], xs[2:]), *typed([*ARGS, *tangents]))
    pushed, _ = jt.jvp_jaxpr(program)
    jt.typecheck_jaxpr(pushed)
    floating = [a for a in pushed.out_avals if "i32" not in str(a)]
    assert types(floating) == [
        t for t in types(jt.from_jax(theirs).out_avals) if t[0] == "f" and "float0" not in t
    ]
    assert count_eqns(pushed.jaxpr) <= count_eqns(jt.from_jax(theirs).jaxpr)
    batch = [np.stack([x, x + 1, x + 2]) for x in ARGS]
    theirs = made(jax.vmap(f), *typed(batch))
    mapped, _ = jt.vmap_jaxpr(program, 3, [0, 0])
    jt.typecheck_jaxpr(mapped)
    assert types(mapped.out_avals) == types(jt.from_jax(theirs).out_avals)
    close(jt.vmap(ours)(*batch), jax.tree.leaves(value(jax.vmap(f), *batch)))


def test_cotangents_are_laid_out_as_the_arguments():
    program = jt.parse(str(made(matmul, *typed(ARGS))))
    ct = RNG.normal(size=(8, 6)).astype(np.float32)
    pull_back = lambda a, b, ct: jt.vjp(jt.jaxpr_as_fun(program), a, b)[1]([ct])
    made_back = jt.make_jaxpr(pull_back)(*ARGS, ct)
    jt.typecheck_jaxpr(made_back)
    assert types(made_back.out_avals) == ["f32[8,4]", "f32[4,6]"]
    want = jax.vjp(lambda a, b: jnp.sin(a @ b), *ARGS)[1](ct)
    close(jt.eval_jaxpr(made_back, [*ARGS, ct]), want)


def test_texts_of_older_releases_and_partial_sums():
    text = """{ lambda ; a:f32[8@x,4@y] b:f32[4@y,2]. let
    c:f32[8@x,2]{U:y} = dot_general[
      dimension_numbers=(([1], [0]), ([], []))
      preferred_element_type=float32
    ] a b
    d:f32[8@x,2] = reshard c
    e:f32[8@(x,y),2] = reshard[
      dst_sharding=NamedSharding(mesh=AbstractMesh('x': 2, 'y': 2, axis_types=(Explicit, Explicit)), spec=PartitionSpec(('x', 'y'), None))
    ] d
    f:f32[8,2]{R:(x,y)} = reshard e
    g:f32[8,2]{R:(x,y)} = sin f
  in (c, g) }"""
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    # only since 0.10 are sharding constraints without params, and these releases write P
    assert jt.format_jaxpr(program) == text.replace("PartitionSpec(", "P(")
    a, b = ARGS[0], ARGS[1][:, :2]
    close(jt.eval_jaxpr(program, [a, b]), [a @ b, np.sin(a @ b)])
    retraced = jt.make_jaxpr(jt.jaxpr_as_fun(program))(a, b)
    assert types(retraced.out_avals)[1] == "f32[8,2]{R:(x,y)}"


@pytest.mark.parametrize("wrong", ["f32[8@x,3]", "i32[8@x,4]", "f32[8@x,4,1]"])
def test_layouts_excuse_nothing_else(wrong):
    text = f"{{ lambda ; a:f32[8,4]. let b:{wrong} = reshard a in (b,) }}"
    with pytest.raises(jt.JaxprTypeError, match="and b is declared as"):
        jt.typecheck_jaxpr(jt.parse(text))


def _changed_in_place(a, b):
    ref = jax.new_ref(reshard(a, P("x", None)))
    ref[...] = jnp.sin(ref[...]) + b
    jax.ref.addupdate(ref, ..., ref[...] * 2)
    return jax.freeze(ref)


def test_a_reference_is_where_its_array_is():
    a = ARGS[0]
    closed = made(_changed_in_place, *typed([a, a[0]]))
    program = jt.from_jax(closed)
    assert types(jt.check(program).out_types) == ["f32[8@x,4]"]
    read = jt.parse(str(closed))
    assert jt.format_jaxpr(read) == str(closed)
    assert types(jt.check(read).out_types) == ["f32[8@x,4]"]
    pure = jt.discharge(program)
    assert types(jt.check(pure).out_types) == ["f32[8@x,4]"]
    for each in (program, read, pure):
        close(jt.eval_jaxpr(each, [a, a[0]]), [(np.sin(a) + a[0]) * 3])


def repeated(x):
    return jax.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c), x)


def until(x):
    return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1]


@pytest.mark.parametrize("loop", [repeated, until])
def test_loops_over_sharded_values_take_arrays_of_no_mesh(loop):
    """As in JAX: NumPy's arrays have no sharding, and `jit` records them without one."""
    x = ARGS[0]
    sharded = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(MESH, P("x")))
    program = jt.parse(str(made(loop, sharded)))
    assert "f32[8@x,4]" in str(program)

    def run(a):
        return jt.eval_jaxpr(program, [a])

    want, tangent = jax.jvp(loop, (x,), (x,))
    got = jt.jvp(run, (x,), (x,))
    close(got[0][0], want, 1e-5)
    close(got[1][0], tangent, 1e-5)
    close(jt.vmap(run)(np.stack([x, x]))[0], np.stack([want, want]), 1e-5)
    close(jt.jit(run)(x)[0], want, 1e-5)
    close(jt.linearize(run, x)[1](x)[0], tangent, 1e-5)
    bare = jt.parse(str(program).replace("lambda ; a:f32[8@x,4]", "lambda ; a:f32[8,4]"))
    jt.typecheck_jaxpr(bare.jaxpr)


def test_a_step_that_changes_the_layout_is_refused():
    text = """{ lambda ; a:f32[4@x]. let
    b:f32[4] = scan[
      jaxpr={ lambda ; c:f32[4@x]. let d:f32[4] = sin c in (d,) }
      length=3 num_carry=1 num_consts=0 reverse=False unroll=1
    ] a
  in (b,) }"""
    with pytest.raises(jt.JaxprTypeError, match="before a step"):
        jt.typecheck_jaxpr(jt.parse(text).jaxpr)

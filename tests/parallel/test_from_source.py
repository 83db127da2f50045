"""`pbroadcast_dynamic` and `pdot` against the sums that they are."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.ir.diagnostics import JaxprTypeError

X = np.arange(1.0, 9.0, dtype=np.float32)

FROM_SOURCE = """{{ lambda ; a:{t}[8] b:i32[]. let
    c:{t}[8] = shard_map[
      check_vma={vma}
      in_specs=({p}, P())
      jaxpr={{ lambda ; d:{t}[2]{v} e:i32[]. let
          f:{t}[2]{v} = pbroadcast_dynamic[axis_name={axis}] d e
        in (f,) }}
      mesh=Mesh({mesh})
      newly_manual_axes=frozenset({axes})
      out_specs=({p},)
    ] a b
  in (c,) }}"""
ONE = {"axis": "i", "mesh": "'i': 4, axis_types=(Auto,)", "axes": "{'i'}", "p": "P('i',)"}
TWO = {
    "axis": "('i', 'j')",
    "mesh": "'i': 2, 'j': 2, axis_types=(Auto, Auto)",
    "axes": "{'i', 'j'}",
    "p": "P(('i', 'j'),)",
}
CASES = [
    FROM_SOURCE.format(t="f32", vma=True, v="{V:i}", **ONE),
    FROM_SOURCE.format(t="f32", vma=False, v="", **ONE),
    FROM_SOURCE.format(t="f32", vma=True, v="{V:(i,j)}", **TWO),
]


def _wanted(x, source):
    return np.tile(x.reshape(4, 2)[source], 4)


@pytest.mark.parametrize("text", CASES)
def test_each_has_what_the_source_has(text):
    program = jt.parse(text)
    assert str(program) == text
    jt.typecheck_jaxpr(program)
    f = jt.jaxpr_as_fun(program)
    for source in np.arange(4, dtype=np.int32):
        for got in (jt.eval_jaxpr(program, [X, source]), jt.compile(program)(X, source)):
            np.testing.assert_array_equal(np.asarray(got[0]), _wanted(X, source))
        _, (tangent,) = jt.jvp(lambda x, s=source: f(x, s), (X,), (3 * X,))
        np.testing.assert_array_equal(tangent, 3 * _wanted(X, source))
        _, pull = jt.vjp(lambda x, s=source: f(x, s), X)
        (back,) = pull([X])
        wanted = np.zeros((4, 2))
        wanted[source] = X.reshape(4, 2).sum(0)
        np.testing.assert_array_equal(back, wanted.ravel())


@pytest.mark.parametrize("text", CASES)
def test_a_batch_of_sources(text):
    program = jt.parse(text)
    xs, sources = np.stack([X, 2 * X, 5 * X]), np.array([3, 0, 1], np.int32)
    (got,) = jt.vmap(jt.jaxpr_as_fun(program))(xs, sources)
    np.testing.assert_array_equal(
        got, np.stack([_wanted(*p) for p in zip(xs, sources, strict=True)])
    )


def test_flags_are_spread_too():
    text = FROM_SOURCE.format(t="bool", vma=True, v="{V:i}", **ONE)
    flags = np.array([1, 0, 0, 1, 1, 1, 0, 0], bool)
    program = jt.parse(text)
    for source in np.arange(4, dtype=np.int32):
        for got in (jt.eval_jaxpr(program, [flags, source]), jt.compile(program)(flags, source)):
            np.testing.assert_array_equal(np.asarray(got[0]), _wanted(flags, source))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("b:i32[]. let", "b:f32[]. let", "."),
        ("axis_name=i", "axis_name=k", "no axis is called k"),
    ],
)
def test_what_is_no_source_is_refused(old, new, message):
    with pytest.raises(JaxprTypeError, match=message):
        jt.typecheck_jaxpr(jt.parse(CASES[0].replace(old, new)))


@pytest.mark.skipif(
    not hasattr(jax._src.lax.parallel, "pbroadcast_dynamic_p"), reason="before JAX 0.12"
)
def test_the_text_is_that_of_jax():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))

    @jax.shard_map(mesh=mesh, in_specs=(jax.P("i"), jax.P()), out_specs=jax.P("i"))
    def f(x, source):
        return jax.lax.pbroadcast(x, "i", source)

    theirs = jax.make_jaxpr(f)(X, np.int32(0))
    program = jt.from_jax(theirs)
    assert "pbroadcast_dynamic" in str(theirs)
    assert str(program) == str(jt.parse(str(theirs))) == str(theirs)
    assert str(jt.to_jax(program)) == str(jt.to_jax(jt.parse(str(theirs)))) == str(theirs)


PDOT = """{ lambda ; a:f32[4,2,3] b:f32[4,3,5]. let
    c:f32[2,5] = xla_pmap[
      axis_name=i
      axis_size=4
      backend=None
      call_jaxpr={ lambda ; d:f32[2,3] e:f32[3,5]. let
          f:f32[2,5] = pdot[axis_name=('i',) pos_batch=((), ()) pos_contract=((1,), (0,)) precision=None] d e
        in (f,) }
      devices=None
      donated_invars=(False, False)
      global_axis_size=4
      in_axes=(0, 0)
      name=f
      out_axes=(None,)
    ] a b
  in (c,) }"""


def test_pdot_is_the_sum_of_products():
    program = jt.parse(PDOT)
    jt.typecheck_jaxpr(program)
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((4, 2, 3), (4, 3, 5)))
    wanted = np.einsum("kij,kjl->il", a, b)
    for got in (jt.eval_jaxpr(program, [a, b]), jt.compile(program)(a, b)):
        np.testing.assert_allclose(np.asarray(got[0]), wanted, rtol=1e-5, atol=1e-5)
    f = jt.jaxpr_as_fun(program)
    _, (tangent,) = jt.jvp(f, (a, b), (b.reshape(4, 3, 5)[:, :2, :3], b))
    moved = np.einsum("kij,kjl->il", b[:, :2, :3], b) + np.einsum("kij,kjl->il", a, b)
    np.testing.assert_allclose(tangent, moved, rtol=1e-5, atol=1e-5)
    out = lax.pdot(a[0], b[0], axis_name=(), pos_contract=((1,), (0,)), pos_batch=((), ()))
    np.testing.assert_allclose(out, a[0] @ b[0], rtol=1e-5)

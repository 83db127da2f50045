"""`pgather` against its definition: JAX dropped it, but older text has it."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import lax

RNG = np.random.default_rng(0)
N = 4
SRC = RNG.normal(size=(N, 3, 2)).astype(np.float32)
IDX = RNG.integers(0, N, size=(N, 5)).astype(np.int32)


def by_name(src, idx):
    return lax.pgather(src, idx, axes=("i",))


def named(f=by_name, in_axes=0):
    return jt.vmap(f, in_axes=in_axes, axis_name="i")


def test_along_a_name():
    """Every member gets the values of the members that it asks for."""
    out = named()(SRC, IDX)
    np.testing.assert_array_equal(out, SRC[IDX])
    out = named(in_axes=(0, None))(SRC, IDX[0])
    np.testing.assert_array_equal(out, np.stack([SRC[IDX[0]]] * N))


def test_along_a_position():
    np.testing.assert_array_equal(lax.pgather(SRC, IDX, axes=(0,)), SRC[IDX])
    idx = np.array([0, 4, 5], np.int32)  # of axes 2 and 1 together
    want = SRC.transpose(2, 1, 0).reshape(6, N)[idx]
    np.testing.assert_array_equal(lax.pgather(SRC, idx, axes=(2, 1)), want)


@pytest.mark.parametrize("axes, order", [(("i", 0), (0, 1, 2)), ((0, "i"), (1, 0, 2))])
def test_along_both(axes, order):
    """The last axis counts fastest."""
    idx = RNG.integers(0, 3 * N, size=(N, 5)).astype(np.int32)
    out = named(lambda s, i: lax.pgather(s, i, axes=axes))(SRC, idx)
    np.testing.assert_array_equal(out, SRC.transpose(order).reshape(3 * N, 2)[idx])


def test_what_is_outside_is_filled():
    out = lax.pgather(np.arange(3.0), np.array([2, 3, -1]), axes=(0,))
    np.testing.assert_array_equal(out, [2.0, np.nan, np.nan])


def test_derivatives():
    """It is linear in src; its transpose sends every cotangent back to where the value came from."""
    f = lambda src: named(in_axes=(0, 0))(src, IDX)
    tangent = RNG.normal(size=SRC.shape).astype(np.float32)
    np.testing.assert_array_equal(jt.jvp(f, (SRC,), (tangent,))[1], tangent[IDX])
    out, pullback = jt.vjp(f, SRC)
    ct = RNG.normal(size=out.shape).astype(np.float32)
    want = np.zeros_like(SRC)
    np.add.at(want, IDX, ct)
    np.testing.assert_allclose(pullback(ct)[0], want, rtol=1e-5)


TEXT = """{ lambda ; a:f32[8,2] b:i32[12]. let
    c:f32[12,2] = shard_map[
      check_vma=CHECK
      in_specs=(P('i',), P('i',))
      jaxpr={ lambda ; d:f32[2,2]V b:i32[3]V. let
          e:f32[3,2,2]V = pgather[axes=('i',)] d b
          f:f32[3,2]V = reduce_sum[axes=(1,) out_sharding=None] e
        in (f,) }
      mesh=Mesh('i': 4, axis_types=(Auto,))
      newly_manual_axes=frozenset({'i'})
      out_specs=(P('i',),)
    ] a b
  in (c,) }
"""


@pytest.mark.parametrize("checked", [False, True])
def test_on_devices(checked):
    """NumPy and XLA, value and gradient."""
    text = TEXT.replace("CHECK", str(checked)).replace("]V", "]{V:i}" if checked else "]")
    program = jt.parse(text)
    x = RNG.normal(size=(8, 2)).astype(np.float32)
    idx = RNG.integers(0, 4, 12).astype(np.int32)
    want = x.reshape(4, 2, 2)[idx].sum(1)
    np.testing.assert_allclose(jt.eval_jaxpr(program.jaxpr, [x, idx])[0], want, rtol=1e-6)
    np.testing.assert_allclose(jt.compile(program)(x, idx)[0], want, rtol=1e-6)
    f = jt.jaxpr_as_fun(program)
    ct = RNG.normal(size=want.shape).astype(np.float32)
    want_ct = np.zeros((4, 2, 2), np.float32)
    np.add.at(want_ct, idx, ct[:, None])
    got = jt.vjp(lambda x: f(x, idx), x)[1]([ct])[0]
    np.testing.assert_allclose(got, want_ct.reshape(8, 2), rtol=1e-5)


@pytest.mark.parametrize(
    "params, operands, message",
    [
        ("axes=('k',)", "a b", "no axis is called k"),
        ("axes=(2,)", "a b", "pgather axes 2 is out of range"),
        ("axes=(0,)", "a a", "idx must be integers"),
    ],
)
def test_rejections(params, operands, message):
    text = (
        f"{{ lambda ; a:f32[3,2] b:i32[4]. let c:f32[4,2] = pgather[{params}] {operands} in (c,) }}"
    )
    with pytest.raises(jt.JaxprTypeError) as e:
        jt.typecheck_jaxpr(jt.parse(text).jaxpr)
    assert message in str(e.value)

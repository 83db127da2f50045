"""Operations on vectors that only kernels hold, and JAX's own kernels with them, as its interpreter computes them."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import jaxprtool as jt

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("shift", [0, 1, 3, 5, -1])
@pytest.mark.parametrize("stride", [None, 0, 2])
def test_roll(shift, stride):
    params = "stride=None stride_axis=None" if stride is None else f"stride={stride} stride_axis=0"
    text = f"{{ lambda ; a:f32[3,4] b:i32[]. let\n    c:f32[3,4] = roll[axis=1 {params}] a b\n  in (c,) }}"
    program = jt.parse(text)
    assert str(program) == text
    (got,) = jt.eval_jaxpr(program, [X, np.int32(shift)])
    want = [np.roll(row, shift + i * (stride or 0)) for i, row in enumerate(X)]
    np.testing.assert_array_equal(got, want)
    (each,) = jt.eval_jaxpr(batched(program, [0, None]), [np.stack([X, -X]), np.int32(shift)])
    np.testing.assert_array_equal(np.reshape(each, (2, 3, 4)), [want, np.negative(want)])


def batched(program, in_axes):
    made = jt.vmap_jaxpr(program, 2, in_axes)
    return made[0] if isinstance(made, tuple) else made


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("repeat[axis=1 repeats=2]", np.tile(X, (1, 2))),
        ("repeat[axis=0 repeats=0]", X[:0]),
        ("reciprocal[approx=True]", 1 / (X + 1)),
        ("reciprocal[approx=False full_range=True]", 1 / (X + 1)),
        ("max_contiguous[values=(4,)]", X),
    ],
)
def test_others(text, want):
    out = f"f32[{','.join(map(str, want.shape))}]"
    program = jt.parse(f"{{ lambda ; a:f32[3,4]. let b:{out} = {text} a in (b,) }}")
    jt.typecheck_jaxpr(program.jaxpr)
    (got,) = jt.eval_jaxpr(program, [X + 1 if text.startswith("reciprocal") else X])
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "roll[axis=2 stride=None stride_axis=None] a b",
        "roll[axis=1 stride=1 stride_axis=None] a b",
        "roll[axis=1 stride=1 stride_axis=1] a b",
        "roll[axis=1 stride=None stride_axis=None] a 1.0:f32[]",
        "repeat[axis=2 repeats=1] a",
        "repeat[axis=0 repeats=-1] a",
        "reciprocal[approx=False] b",
    ],
)
def test_wrong_ones(text):
    with pytest.raises(jt.JaxprTypeError):
        jt.typecheck_jaxpr(
            jt.parse(f"{{ lambda ; a:f32[3,4] b:i32[]. let c:f32[3,4] = {text} in (c,) }}").jaxpr
        )


def test_kernels():
    tpu = pytest.importorskip("jax.experimental.pallas.tpu")

    def kernel(x, out):
        turned = tpu.roll(x[...], 2, 1)
        out[...] = turned + (pl.reciprocal(x[...] + 1) if hasattr(pl, "reciprocal") else 0)

    call = functools.partial(
        pl.pallas_call, kernel, out_shape=jax.ShapeDtypeStruct((3, 4), X.dtype)
    )
    closed = jax.make_jaxpr(call(interpret=True))(X)
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        jt.typecheck_jaxpr(program.jaxpr)
        (got,) = jt.eval_jaxpr(program, [X])
        want = jnp.roll(X, 2, 1) + (1 / (X + 1) if hasattr(pl, "reciprocal") else 0)
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert str(jt.to_jax(jt.from_jax(closed))) == str(closed)

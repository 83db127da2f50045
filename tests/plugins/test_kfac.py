"""The plug-in for kfac_jax's tags, which is built in."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt

TEXT = """{ lambda ; a:f32[3] w:f32[3] t:f32[3]. let
    b:f32[3] = mul a w
    c:f32[3] = layer_tag[
      has_scale=True
      meta=LayerMetaData(variant='scale', outputs_index=(0,), inputs_index=(1,), params_index=(2,), name='x')
    ] b a w
    d:f32[3] = loss_tag[
      meta=LossMetaData(loss_class=<class 'a.Loss'>, parameter_dependants=('mean',), parameter_independants=('targets',), argument_names=('targets', 'mean'))
    ] t c
  in (d,) }"""
A, W, T = (np.arange(3, dtype=np.float32) + i for i in (1, 2, 3))


def test_tags_are_identities():
    program = jt.parse(TEXT)
    jt.typecheck_jaxpr(program)
    for out in (jt.eval_jaxpr(program, [A, W, T]), jt.compile(program)(A, W, T)):
        np.testing.assert_array_equal(out[0], A * W)


def test_transformations():
    f = jt.jaxpr_as_fun(jt.parse(TEXT))
    _, (moved,) = jt.jvp(f, (A, W, T), (A + 1, W + 2, T))
    np.testing.assert_array_equal(moved, (A + 1) * W + A * (W + 2))
    cts = jt.vjp(lambda *xs: f(*xs)[0], A, W, T)[1](T)
    for got, want in zip(cts, (T * W, T * A, 0 * T), strict=True):
        np.testing.assert_array_equal(got, want)
    (out,) = jt.vmap(f, in_axes=(0, None, None))(np.stack([A, T]), W, T)
    np.testing.assert_array_equal(out, np.stack([A * W, T * W]))


def test_a_linear_program_with_tags_is_transposed():
    text = TEXT.replace("mul a w", "add a a").replace("] b a w", "] b w w")
    program, _ = jt.transpose_jaxpr(jt.parse(text), linear=[True, False, False])
    np.testing.assert_array_equal(jt.eval_jaxpr(program, [W, T, A])[0], 2 * A)


@pytest.mark.parametrize(
    "old, new",
    [
        ("outputs_index=(0,)", "outputs_index=(3,)"),
        ("outputs_index=(0,)", "outputs_index=()"),
        ("outputs_index", "outputs"),
        ("argument_names=('targets', 'mean')", "argument_names=('mean',)"),
        ("parameter_dependants=('mean',)", "parameter_dependants=('other',)"),
    ],
)
def test_misuse(old, new):
    with pytest.raises(jt.JaxprTypeError, match="_tag: "):
        jt.typecheck_jaxpr(jt.parse(TEXT.replace(old, new)))

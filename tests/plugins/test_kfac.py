"""The plug-in for kfac_jax's tags, which is built in."""

from __future__ import annotations

import re

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


EARLIER = """{ lambda ; a:f32[3,2] b:f32[2] c:f32[4,3] d:f32[4,2]. let
    e:f32[4,2] = dot_general[
      dimension_numbers=(([1], [0]), ([], []))
      preferred_element_type=float32
    ] c a
    f:f32[4,2] = dense_tag e c a b
    g:f32[4,2] = conv2d_tag[padding=SAME] f c a
    h:f32[4,2] = scale_and_shift_tag[has_scale=True has_shift=False] g f b
    i:f32[2] = generic_tag b
    j:f32[4,2] = NormalMeanNegativeLogProbLoss_tag[
      args_names=('targets', 'mean', 'variance')
    ] d h 0.5:f32[]
    _:f32[4,2] _:f32[4,2] = NormalMeanNegativeLogProbLoss_tag[variance=0.5] h d
    k:f32[4,2] l:f32[2] = NormalMeanVarianceNegativeLogProbLoss_tag[
      args_names=('mean', 'variance', 'targets')
    ] j i d
    _:f32[4,2] = CategoricalLogitsNegativeLogProbLoss_tag[
      args_names=('logits', 'weight')
    ] h 1.0:f32[]
    _:f32[4,2] = OneHotCategoricalLogitsNegativeLogProbLoss_tag[
      args_names=('weight', 'logits')
    ] 1.0:f32[] h
    _:f32[4,2] = MultiBernoulliNegativeLogProbLoss_tag[args_names=('logits',)] h
  in (k, l) }"""


def test_tags_of_earlier_releases():
    """kfac_jax 0.0.1 to 0.0.6: a primitive for each kind of layer and loss."""
    program = jt.parse(EARLIER)
    assert str(program) == EARLIER
    assert str(jt.check(program)) == "(f32[3,2], f32[2], f32[4,3], f32[4,2]) -> (f32[4,2], f32[2])"
    rng = np.random.default_rng(0)
    a, b, c, d = (rng.random(s, np.float32) for s in ((3, 2), (2,), (4, 3), (4, 2)))
    for found in (jt.eval_jaxpr(program, [a, b, c, d]), jt.compile(program)(a, b, c, d)):
        np.testing.assert_allclose(found[0], c @ a, rtol=1e-6)
        np.testing.assert_array_equal(found[1], b)
    f = jt.jaxpr_as_fun(program)
    np.testing.assert_allclose(jt.vjp(f, a, b, c, d)[1](d, b)[0], c.T @ d, rtol=1e-6)
    batched = jt.vmap(f, in_axes=(None, None, 0, 0))(a, b, np.stack([c, 2 * c]), np.stack([d, d]))
    np.testing.assert_allclose(batched[0], np.stack([c @ a, 2 * c @ a]), rtol=1e-6)
    np.testing.assert_allclose(jt.to_jax_function(program)(a, b, c, d)[0], c @ a, rtol=1e-6)
    untyped = re.sub(r"(?<= )([a-z_]):f32\[[\d,]*\](?=.* = )", r"\1", EARLIER)
    assert untyped != EARLIER
    assert str(jt.check(jt.parse(untyped))) == str(jt.check(program))


@pytest.mark.parametrize(
    "old, new",
    [
        ("dense_tag e c a b", "dense_tag"),
        ("args_names=('logits',)", "args_names=('logits', 'other')"),
        ("f:f32[4,2] = dense_tag", "f:f32[2] = dense_tag"),
    ],
)
def test_misuse_of_earlier_tags(old, new):
    with pytest.raises(jt.JaxprTypeError, match=r"_tag|f32\[2\]"):
        jt.typecheck_jaxpr(jt.parse(EARLIER.replace(old, new)))

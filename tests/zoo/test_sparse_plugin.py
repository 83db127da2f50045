"""The plugin in examples for the primitives of jax.experimental.sparse, beside JAX."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental import sparse

import jaxprtool as jt
from jaxprtool.driver.user_code.plugins import load_plugin
from tests.control_flow.oracle import compare

PLUGIN = Path(__file__).parent.parent.parent / "examples" / "sparse_primitives.py"
PLACES = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [2, 3], [5, 5]], np.int32)  # the last is padding


@pytest.fixture(autouse=True, scope="module")
def plugin():
    load_plugin(str(PLUGIN))


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def array(data, places=PLACES, shape=(3, 4)):
    return sparse.BCOO((data, places), shape=shape)


BATCH = np.stack([PLACES, PLACES[::-1]])
CASES = {
    "todense": (lambda d: array(d).todense(), draw(0, 6)),
    "todense-dense-axes": (lambda d: array(d, shape=(3, 4, 2)).todense(), draw(0, 6, 2)),
    "todense-batch": (lambda d: array(d, BATCH, (2, 3, 4)).todense(), draw(0, 2, 6)),
    "extract": (lambda m: sparse.bcoo_extract(array(draw(0, 6)), m).data, draw(1, 3, 4)),
    "extract-unique": (
        lambda m: sparse.bcoo_extract(array(draw(0, 6)), m, assume_unique=True).data,
        draw(1, 3, 4),
    ),
    "extract-dense-axes": (
        lambda m: sparse.bcoo_extract(array(draw(0, 6, 2), shape=(3, 4, 2)), m).data,
        draw(1, 3, 4, 2),
    ),
    "transpose": (lambda d: array(d).T.todense(), draw(0, 6)),
    "transpose-data": (lambda d: array(d).T.data, draw(0, 6)),
    "transpose-batch": (
        lambda d: array(d, BATCH, (2, 3, 4)).transpose((0, 2, 1)).todense(),
        draw(0, 2, 6),
    ),
    "matvec": (lambda d, x: array(d) @ x, draw(0, 6), draw(1, 4)),
    "matmat": (lambda d, x: array(d) @ x, draw(0, 6), draw(1, 4, 2)),
    "from-the-right": (lambda d, x: jax.numpy.asarray(x) @ array(d), draw(0, 6), draw(1, 2, 3)),
    "both-axes": (
        lambda d, x: sparse.bcoo_dot_general(
            array(d), x, dimension_numbers=(((0, 1), (1, 0)), ((), ()))
        ),
        draw(0, 6),
        draw(1, 4, 3),
    ),
    "batch-matmul": (
        lambda d, x: sparse.bcoo_dot_general(
            array(d, BATCH, (2, 3, 4)), x, dimension_numbers=(((2,), (1,)), ((0,), (0,)))
        ),
        draw(0, 2, 6),
        draw(1, 2, 4, 2),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_column(name):
    f, *args = CASES[name]
    # JAX's own extraction of repeated places has no transpose, and its batch rule fails.
    whole = name not in ("extract", "extract-dense-axes")
    program = compare(f, *args, reverse=whole, batch=whole)
    assert "bcoo_" in str(program)


def test_places_are_batched():
    def f(d, i, x):
        return array(d, i) @ x

    places = np.stack([PLACES, PLACES // 2])
    args = draw(0, 6), draw(1, 4)
    program = jt.from_jax(jax.make_jaxpr(f)(args[0], PLACES, args[1]))
    got = jt.vmap(jt.jaxpr_as_fun(program), in_axes=(None, 0, None))(args[0], places, args[1])
    want = [f(args[0], p, args[1]) for p in places]
    np.testing.assert_allclose(got[0], np.stack(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["todense", "transpose-data", "extract-unique", "matvec"])
def test_transposes_of_the_primitives_themselves(name):
    f, *args = CASES[name]
    program = jt.from_jax(jax.make_jaxpr(f)(*args))
    linear = [True, *[False] * (len(args) - 1)]
    backward, _ = jt.transpose_jaxpr(program, linear)
    out = f(*args)
    ct = draw(9, *out.shape)
    got = jt.eval_jaxpr(backward, [*args[1:], ct])
    want = jax.vjp(lambda x: f(x, *args[1:]), args[0])[1](ct)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5)


TEXT = """{ lambda ; a:f32[6] b:i32[6,2] c:f32[4]. let
    d:f32[3,4] = bcoo_todense[spinfo=SparseInfo(shape=(3, 4), indices_sorted=False, unique_indices=False)] a b
    e:f32[6] f:i32[6,2] = bcoo_transpose[
      permutation=(1, 0)
      spinfo=SparseInfo(shape=(3, 4), indices_sorted=False, unique_indices=False)
    ] a b
    g:f32[3] = bcoo_dot_general[
      dimension_numbers=(((1,), (0,)), ((), ()))
      lhs_spinfo=SparseInfo(shape=(3, 4), indices_sorted=False, unique_indices=False)
      preferred_element_type=float32
    ] a b c
    h:f32[6] = bcoo_extract[assume_unique=True] b d
  in (d, e, f, g, h) }"""


def test_from_text():
    data, x = draw(0, 6), draw(1, 4)
    program = jt.parse(TEXT)
    jt.typecheck_jaxpr(program.jaxpr)
    got = jt.eval_jaxpr(program, [data, PLACES, x])
    dense = np.asarray(array(data).todense())
    np.testing.assert_allclose(got[0], dense, rtol=1e-6)
    np.testing.assert_allclose(got[3], dense @ x, rtol=1e-5, atol=1e-6)
    assert got[4][-1] == 0  # padding


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("b:i32[6,2]", "b:f32[6,2]", "the places are integers"),
        ("b:i32[6,2]", "b:i32[5,2]", "is no array of shape"),
        ("a:f32[6] ", "a:f32[5] ", "is no array of shape"),
        ("permutation=(1, 0)", "permutation=(1, 1)", "mixes kinds of axes"),
        ("c:f32[4]", "c:f32[5]", "dot_general"),
    ],
)
def test_rejections(old, new, message):
    with pytest.raises(jt.JaxprTypeError, match=message):
        jt.typecheck_jaxpr(jt.parse(TEXT.replace(old, new)).jaxpr)

"""Values, sizes and derivatives of structural primitives that the laws do not reach."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import UsageError

NAN, INF = np.float32("nan"), np.float32("inf")


def _names(program):
    return [e.primitive.name for e in program.eqns]


def test_the_largest_element_is_nan_if_any_is():
    x = np.array([1, NAN, INF], np.float32)
    for op in (lax.reduce_max, lax.reduce_min):
        assert np.isnan(op(x, axes=(0,)))
    for op in (lax.cummax, lax.cummin):
        assert np.isnan(op(x, axis=0)).tolist() == [False, True, True]
        assert np.isnan(op(x, axis=0, reverse=True)).tolist() == [True, True, False]


@pytest.mark.parametrize("name", ["float8_e4m3b11fnuz", "float8_e8m0fnu"])
def test_cumlogsumexp_of_types_without_infinity(name):
    x = np.array([2, 0.5, 1, 1, 2]).astype(getattr(ml_dtypes, name))
    program = jt.make_jaxpr(lambda x: [lax.cumlogsumexp(x, axis=0, reverse=False)])(x)
    expected = np.logaddexp.accumulate(x.astype(np.float64)).astype(x.dtype)
    for f in (jt.jaxpr_as_fun(program), jt.compile(program)):
        assert np.asarray(f(x)[0]).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (8,), (3, 13)])
@pytest.mark.parametrize("reverse", [False, True])
def test_elements_that_tie_share_the_slope_as_in_jax(name, shape, reverse):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, shape).astype(np.float32)
    if x.size > 5:
        x.flat[-3] = NAN
    t = rng.normal(size=shape).astype(np.float32)
    axis = len(shape) - 1

    def ours(x):
        return getattr(lax, name)(x, axis=axis, reverse=reverse)

    def theirs(x):
        return getattr(jax.lax, name)(x, axis=axis, reverse=reverse)

    _, expected = jax.jvp(theirs, (x,), (t,))
    program = jt.make_jaxpr(lambda x, t: jt.jvp(ours, [x], [t]))(x, t)
    for f in (jt.jaxpr_as_fun(program), jt.compile(program)):
        np.testing.assert_allclose(f(x, t)[1], expected, rtol=1e-5, atol=1e-6)
    (ct,), (expected_ct,) = jt.vjp(ours, x)[1](t), jax.vjp(theirs, x)[1](t)
    np.testing.assert_allclose(ct, expected_ct, rtol=1e-5, atol=1e-6)


def test_no_elements_give_the_unit():
    x = np.zeros((0, 2), np.float32)
    assert lax.reduce_max(x, axes=(0,)).tolist() == [-INF, -INF]
    assert lax.reduce_min(x.astype(np.uint8), axes=(0,)).tolist() == [255, 255]
    assert lax.reduce_and(x.astype(np.int16), axes=(0,)).tolist() == [-1, -1]


def test_sums_keep_their_width():
    assert lax.reduce_sum(np.full(3, 100, np.int8), axes=(0,)) == np.int8(44)
    tiny = np.array([1] + [2.0**-24] * 4, np.float32)
    assert lax.reduce_sum(tiny, axes=(0,)).dtype == np.float32
    assert lax.cumsum(np.full(3, 100, np.uint8), axis=0).tolist() == [100, 200, 44]


def test_an_update_leaves_its_operand_alone():
    x = np.zeros(4, np.float32)
    out = lax.dynamic_update_slice(x, np.ones(2, np.float32), 1)
    assert out.tolist() == [0, 1, 1, 0]
    assert not x.any()


@pytest.mark.parametrize("size", [2, 50])
def test_mapped_starts_cost_the_same_for_any_batch(size):
    def f(x, i):
        return lax.dynamic_slice(x, i, slice_sizes=(3,))

    program = jt.make_jaxpr(jt.vmap(f, in_axes=(None, 0)))(
        np.arange(9.0), np.arange(size, dtype=np.int32)
    )
    assert _names(program) == ["broadcast_in_dim", "gather"]


def test_starts_of_whole_axes_are_not_mapped():
    def f(x, i, j):
        return lax.dynamic_slice(x, i, j, slice_sizes=(3, 1))

    starts = np.arange(2, dtype=np.int32)
    program = jt.make_jaxpr(jt.vmap(f, in_axes=(0, 0, None)))(
        np.zeros((2, 3, 4)), starts, np.int32(1)
    )
    assert _names(program) == ["dynamic_slice"]


def test_pullback_of_a_shared_operand_adds_the_examples():
    x, i = np.arange(5.0), np.array([0, 1, 4], np.int32)

    def f(x):
        take = jt.vmap(lambda j: lax.dynamic_slice(x, j, slice_sizes=(2,)))
        return take(i)

    (ct,) = jt.vjp(f, x)[1](np.ones((3, 2)))
    assert ct.tolist() == [1, 2, 1, 1, 1]


def test_unselected_elements_do_not_leak_into_mapped_slices():
    x = np.array([[NAN, 1, INF], [-0.0, NAN, 2]], np.float32)
    f = jt.vmap(lambda row, i: lax.dynamic_slice(row, i, slice_sizes=(1,)))
    out = f(x, np.array([1, 0], np.int32))
    assert out.tolist() == [[1.0], [-0.0]]
    assert np.signbit(out[1, 0])


@pytest.mark.parametrize("zeros", [(), (1,), (1, 3)])
def test_second_derivatives_of_products_are_right_at_zeros(zeros):
    import jax

    x = np.array([2.0, 3.0, 0.5, -1.0])
    x[list(zeros)] = 0

    def mine(x):
        weighted = lax.mul(lax.cumprod(x, axis=0), np.arange(1.0, 5.0))
        return lax.add(lax.reduce_prod(x, axes=(0,)), lax.reduce_sum(weighted, axes=(0,)))

    def theirs(x):
        products = [jax.numpy.prod(x[: i + 1]) * (i + 1.0) for i in range(4)]
        return jax.numpy.prod(x) + sum(products)

    with jax.enable_x64(True):
        expected = jax.hessian(theirs)(x)
    np.testing.assert_allclose(jt.hessian(mine)(x), expected, atol=1e-12)


def test_gradients_of_a_matrix_product_need_no_transpose():
    x, w = (ShapedArray(s, np.dtype("float32")) for s in ((4, 3), (3, 5)))

    def pull(x, w, ct):
        dot = lambda x, w: lax.dot_general(x, w, dimension_numbers=(((1,), (0,)), ((), ())))
        return jt.vjp(dot, x, w)[1](ct)

    program = jt.make_jaxpr(pull)(x, w, ShapedArray((4, 5), np.dtype("float32")))
    assert "transpose" not in _names(program)
    assert [str(a) for a in program.out_avals] == ["f32[4,3]", "f32[3,5]"]


def test_dimension_numbers_may_be_lists_as_jax_prints_them():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = lax.dot_general(x, x, dimension_numbers=(([1], [1]), ([], [])))
    assert out.tolist() == (x @ x.T).tolist()


def test_a_half_precision_product_rounds_once():
    import ml_dtypes

    x = np.full((1, 256), 1 + 2.0**-7, ml_dtypes.bfloat16)
    out = lax.dot_general(x, x, dimension_numbers=(((1,), (1,)), ((), ())))
    exact = np.float32((1 + 2.0**-7) ** 2 * 256)
    assert out[0, 0] == exact.astype(ml_dtypes.bfloat16)


def test_a_large_iota_takes_no_memory_before_it_is_run():
    program = jt.make_jaxpr(
        lambda: lax.iota(dtype=jt.ShapedArray((), "i32").dtype, shape=(10**12,), dimension=0)
    )()
    with pytest.raises(UsageError, match="more than"):
        jt.eval_jaxpr(program, [], max_bytes=10**6)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i: jt.vmap(lambda r, j: lax.dynamic_slice(r, j, slice_sizes=(2,)))(x, i),
        lambda x, i: jt.vmap(lambda r, j: lax.dynamic_update_slice(r, r[:2], j))(x, i),
        lambda x, i: jt.vmap(lambda j: lax.dynamic_slice(x, j, j, slice_sizes=(1, 2)))(i),
        lambda x, i: lax.reduce_max(x, axes=(1,)),
        lambda x, i: lax.expand_dims(lax.reduce_prod(x, axes=(1,)), dimensions=(0,)),
        lambda x, i: lax.concatenate(*lax.split(x, sizes=(1, 3), axis=1), dimension=1),
    ],
)
def test_jax_can_run_and_differentiate_what_is_exported(f):
    import jax
    from jax.extend.core import jaxpr_as_fun

    from jaxprtool.backends.jax.to_jax import to_jax

    x, i = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([0, 2, 9], np.int32)
    program = jt.make_jaxpr(f)(x, i)
    exported = jaxpr_as_fun(to_jax(program))
    run = lambda x: exported(x, i)[0]
    out, pullback = jax.vjp(run, x)
    np.testing.assert_allclose(out, jt.eval_jaxpr(program, [x, i])[0])
    expected = jt.vjp(lambda x: f(x, i), x)[1](np.asarray(out))
    np.testing.assert_allclose(pullback(out)[0], expected[0], rtol=1e-6)


def test_empty_of_a_class_of_numpys():
    """JAX keeps the class that it was given, and prints it."""
    closed = jax.make_jaxpr(lambda: jax.lax.empty((2, 3), np.float32))()
    assert "dtype=<class 'numpy.float32'>" in str(closed)
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        assert str(program) == str(closed)
        jt.typecheck_jaxpr(program)
        assert jt.eval_jaxpr(program, [])[0].shape == (2, 3)
        assert str(jt.to_jax(program)) == str(closed)

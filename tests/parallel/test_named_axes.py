"""vmap with a named axis: the collectives along it, against JAX's own."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.ir.walk import count_eqns

X = np.random.default_rng(0).normal(size=(4, 4, 8)).astype(np.float32)
SHIFT = [(0, 1), (1, 2), (2, 3), (3, 0)]


def both(ours, theirs, **axes):
    """Pairs of functions of one example: ours and JAX's."""
    return pytest.param(ours, theirs, axes)


CASES = {
    "psum": both(lambda x: lax.psum(x, axes=("i",)), lambda x: jax.lax.psum(x, "i")),
    "pmax": both(lambda x: lax.pmax(x, axes=("i",)), lambda x: jax.lax.pmax(x, "i")),
    "pmin": both(lambda x: lax.pmin(x, axes=("i",)), lambda x: jax.lax.pmin(x, "i"), in_axes=1),
    "psum of a constant": both(
        lambda x: x + lax.psum(lax.ones((8,), "float32"), axes=("i",)),
        lambda x: x + jax.lax.psum(jax.numpy.ones(8), "i"),
    ),
    "axis_index": both(
        lambda x: x * lax.convert_element_type(lax.axis_index(axis_name="i"), new_dtype="float32"),
        lambda x: x * jax.lax.axis_index("i").astype("float32"),
    ),
    "ppermute": both(
        lambda x: lax.ppermute(x, axis_name="i", perm=SHIFT),
        lambda x: jax.lax.ppermute(x, "i", SHIFT),
        in_axes=1,
    ),
    "all_gather": both(
        lambda x: lax.all_gather(x, axis_name="i", axis_size=4, all_gather_dimension=1),
        lambda x: jax.lax.all_gather(x, "i", axis=1),
        in_axes=1,
    ),
    "all_gather tiled": both(
        lambda x: lax.all_gather(x, axis_name="i", axis_size=4, tiled=True),
        lambda x: jax.lax.all_gather(x, "i", tiled=True),
    ),
    "all_to_all": both(
        lambda x: lax.all_to_all(x, axis_name="i", split_axis=1, concat_axis=0, tiled=True),
        lambda x: jax.lax.all_to_all(x, "i", 1, 0, tiled=True),
    ),
    "all_to_all in place": both(
        lambda x: lax.all_to_all(x, axis_name="i", split_axis=1, concat_axis=1, tiled=True),
        lambda x: jax.lax.all_to_all(x, "i", 1, 1, tiled=True),
        in_axes=1,
    ),
    "reduce_scatter": both(
        lambda x: lax.reduce_scatter(x, axis_name="i", axis_size=4, tiled=True),
        lambda x: jax.lax.psum_scatter(x, "i", tiled=True),
    ),
    "reduce_scatter of a dimension": both(
        lambda x: lax.reduce_scatter(x, axis_name="i", axis_size=4),
        lambda x: jax.lax.psum_scatter(x, "i"),
        in_axes=1,
    ),
}


@pytest.mark.parametrize("ours, theirs, axes", CASES.values(), ids=CASES)
def test_like_jax(ours, theirs, axes):
    f, g = (m.vmap(h, axis_name="i", **axes) for m, h in ((jt, ours), (jax, theirs)))
    np.testing.assert_allclose(f(X), g(X), rtol=2e-5, atol=2e-5, strict=True)
    program = jt.make_jaxpr(f)(X)
    jt.typecheck_jaxpr(program)
    np.testing.assert_allclose(jt.compile(program)(X)[0], g(X), rtol=2e-5, atol=2e-5)
    theirs_count = count_eqns(jt.from_jax(jax.make_jaxpr(g)(X)).jaxpr)
    assert count_eqns(program.jaxpr) <= theirs_count


def test_two_named_axes():
    def ours(x):
        return lax.psum(x, axes=("i", "j")) + lax.psum(x, axes=("j",)) * lax.psum(1.0, axes=("i",))

    def theirs(x):
        psum = jax.lax.psum
        return psum(x, ("i", "j")) + psum(x, "j") * psum(1.0, "i")

    f, g = (
        m.vmap(m.vmap(h, axis_name="j", in_axes=1), axis_name="i")
        for m, h in ((jt, ours), (jax, theirs))
    )
    np.testing.assert_allclose(f(X), g(X), rtol=2e-5, atol=2e-5)


def test_axes_counted_together():
    """The first name is the slowest, whichever vmap is the outer one."""
    for names in (("i", "j"), ("j", "i")):

        def ours(x, names=names):
            moved = lax.all_to_all(x, axis_name=names, split_axis=0, concat_axis=0, tiled=True)
            index = lax.axis_index(axis_name=names)
            return moved + lax.convert_element_type(index, new_dtype="float32")

        def theirs(x, names=names):
            moved = jax.lax.all_to_all(x, names, 0, 0, tiled=True)
            return moved + jax.lax.axis_index(names).astype("float32")

        x = X.reshape(4, 2, 16)
        f, g = (
            m.vmap(m.vmap(h, axis_name="j"), axis_name="i") for m, h in ((jt, ours), (jax, theirs))
        )
        np.testing.assert_allclose(f(x), g(x), rtol=2e-5)


def test_derivative_of_a_batch_statistic():
    """Batch normalisation: every example's gradient goes through the mean of all."""

    def loss(m, psum):
        def normed(x):
            mean = psum(x) / np.float32(4)
            return m.sin(x - mean) * psum(x * x)

        return normed

    ours = jt.vmap(loss(lax, lambda x: lax.psum(x, axes=("i",))), axis_name="i")
    theirs = jax.vmap(loss(jax.numpy, lambda x: jax.lax.psum(x, "i")), axis_name="i")
    x, ct = X[0], X[1]
    got = jt.vjp(lambda v: [ours(v)], x)[1]([ct])[0]
    want = jax.vjp(theirs, x)[1](ct)[0]
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


def test_inside_control_flow():
    """The names reach into the branches of a conditional, batched predicate or not."""

    def ours(x):
        total = lax.psum(x, axes=("i",))
        chosen = jt.cond(x[0] > 0, lambda v: v * lax.pmax(v, axes=("i",)), lambda v: v, x)
        return chosen + total

    def theirs(x):
        total = jax.lax.psum(x, "i")
        return jax.lax.cond(x[0] > 0, lambda v: v * jax.lax.pmax(v, "i"), lambda v: v, x) + total

    f, g = jt.vmap(ours, axis_name="i"), jax.vmap(theirs, axis_name="i")
    np.testing.assert_allclose(f(X[0]), g(X[0]), rtol=2e-5, atol=2e-5)


def test_size_of_an_axis_without_arguments():
    f = jt.vmap(lambda: lax.axis_index(axis_name="i"), axis_name="i", axis_size=3)
    np.testing.assert_array_equal(f(), [0, 1, 2])


def test_name_that_is_not_bound():
    with pytest.raises(jt.JaxprTypeError, match=r"no axis is called k here \(in scope: i\)"):
        jt.vmap(lambda x: lax.psum(x, axes=("k",)), axis_name="i")(X)
    with pytest.raises(jt.JaxprTypeError, match="no axis is called i here"):
        lax.psum(X, axes=("i",))
    with pytest.raises(jt.JaxprTypeError, match="no axis is called i here"):
        jt.make_jaxpr(lambda x: lax.all_gather(x, axis_name="i", axis_size=2))(X)


def test_collective_over_a_mapped_axis_and_another():
    def f(x):
        return lax.all_gather(x, axis_name=("i", "j"), axis_size=16)

    with pytest.raises(jt.MissingRuleError, match="all_gather"):
        jt.vmap(jt.vmap(f, axis_name="j"), axis_name="i")(X)


def test_the_same_text_for_other_axes_is_not_reused():
    """A jaxpr that was mapped without a name is mapped anew with one."""
    inner = jt.jit(lambda x: lax.sin(x))
    program = jt.make_jaxpr(
        jt.vmap(lambda x: inner(x) + lax.psum(inner(x), axes=("i",)), axis_name="i")
    )(X)
    plain = jt.vmap(inner)(X)
    np.testing.assert_allclose(
        jt.eval_jaxpr(program, [X])[0], plain + np.asarray(plain).sum(0), rtol=2e-5, atol=2e-5
    )

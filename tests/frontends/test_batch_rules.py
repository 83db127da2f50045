"""Primitives whose batching rule is not what batching their implementation gives: never batched through it in silence.

A live program, and one that `trace` makes, follow JAX's rule in the process that knows it. A text does not hold the rule, and
says so where it is asked for; what JAX's rule and the implementation agree on is a plain call, in text too.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.ir.walk import all_eqns
from tests.plugins.libraries import declared

X = np.array([0.2, -0.4, 0.9], np.float32)
Y = np.array([1.5, 0.5, -2.0], np.float32)
BATCH = np.stack([X, X + 1, -X])
OTHER = np.stack([Y, Y - 1, 2 * Y])

first = lambda x, *_: x
scalar = lambda x, *_: jax.core.ShapedArray((), x.dtype)
front = lambda x, d, n: jnp.broadcast_to(x, (n, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)


def over_batch(name, f, types):
    """A reduction that counts the batch in."""
    p = declared(name, f, types, batch=lambda xs, ds: (p.bind(*xs), None))
    return p


def choice():
    """x alone, and a choice for batches."""

    def batch(xs, ds):
        n = next(x.shape[d] for x, d in zip(xs, ds, strict=True) if d is not None)
        pred, x, y = (front(x, d, n) for x, d in zip(xs, ds, strict=True))
        return jax.vmap(lax.select)(pred > 0, x, y), 0

    return declared("choice_of_batches", lambda pred, x, y: x, lambda pred, x, y: x, batch=batch)


def doubled():
    """2 x, with a derivative; three times x for batches."""
    p = declared(
        "doubled_or_tripled",
        lambda x: 2 * x,
        first,
        jvp=lambda ps, ts: (p.bind(*ps), 2 * ts[0]),
        batch=lambda xs, ds: (3 * xs[0], ds[0]),
    )
    return p


def centred():
    """x without the mean of the whole batch, with two results."""

    def f(x):
        return [x - x.mean(), x.mean()]

    types = lambda x: [x, jax.core.ShapedArray((), x.dtype)]
    p = declared("centred", f, types, several=True, batch=lambda xs, ds: (f(xs[0]), [ds[0], None]))
    return p


def honest():
    """One whose rule says the same as its implementation, in other words."""
    return declared(
        "squared_sum",
        lambda x, y: (x * x + y).sum(),
        scalar,
        batch=lambda xs, ds: (
            sum(
                jnp.moveaxis(front(x, d, 3) ** k, 0, -1).sum(0)
                for x, d, k in zip(xs, ds, (2, 1), strict=True)
            ),
            0,
        ),
    )


total_p, most_p = over_batch("total", jnp.sum, scalar), over_batch("most", jnp.max, scalar)
choice_p, doubled_p, centred_p, honest_p = choice(), doubled(), centred(), honest()
several_p = declared("no_rule", lambda x: jnp.cos(x) * 2, first)

DIFFERENT = {
    "a sum over the batch": lambda x, y: x / total_p.bind(y * y),
    "a maximum over the batch": lambda x, y: x - most_p.bind(y),
    "a choice": lambda x, y: choice_p.bind(x, x * y, y),
    "another factor": lambda x, y: doubled_p.bind(jnp.sin(x)) * y,
    "two results": lambda x, y: centred_p.bind(x * y)[0] + centred_p.bind(y)[1],
    "in a loop": lambda x, y: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c - most_p.bind(y)), x),
    "in a jit": lambda x, y: jax.jit(lambda x: x * total_p.bind(x))(x) + y,
    "in a branch": lambda x, y: lax.cond(y.sum() > 9, lambda: x, lambda: x * most_p.bind(y)),
}
SAME = {
    "other words": lambda x, y: honest_p.bind(x, y) * x,
    "no rule": lambda x, y: several_p.bind(x) + y,
}
DIMS = [d for d in itertools.product((None, 0), repeat=2) if set(d) != {None}]


def batches(dims):
    return [x if d is None else b for x, b, d in zip((X, Y), (BATCH, OTHER), dims, strict=True)]


def agree(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("how", ["trace", "from_jax"])
@pytest.mark.parametrize("name", [*DIFFERENT, *(n for n in SAME if n != "no rule")])
def test_the_process_follows_jaxs_rule(name, how, dims):
    f = {**DIFFERENT, **SAME}[name]
    program = jt.trace(f, X, Y) if how == "trace" else jt.from_jax(jax.make_jaxpr(f)(X, Y))
    g = jt.jaxpr_as_fun(program)
    agree(g(X, Y)[0], jax.jit(f)(X, Y))
    given = batches(dims)
    agree(jt.vmap(g, dims)(*given)[0], jax.jit(jax.vmap(f, dims))(*given))


@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("name", DIFFERENT)
def test_a_text_is_right_or_says_why_not(name, dims):
    f = DIFFERENT[name]
    text = jt.format_jaxpr(jt.trace(f, X, Y), lossless=True)
    program = jt.parse(text)
    jt.typecheck_jaxpr(program)
    assert jt.format_jaxpr(program, lossless=True) == text
    g = jt.jaxpr_as_fun(program)
    agree(g(X, Y)[0], jax.jit(f)(X, Y))
    agree(jt.compile(program)(X, Y)[0], jax.jit(f)(X, Y))
    given = batches(dims)
    try:
        found = jt.vmap(g, dims)(*given)[0]
    except jt.UnsupportedError as e:
        assert "its rule is not in the text" in str(e)
    else:
        agree(found, jax.jit(jax.vmap(f, dims))(*given))


@pytest.mark.parametrize("name", DIFFERENT)
def test_derivatives_are_those_of_the_rules(name):
    f = DIFFERENT[name]
    if name != "another factor":
        pytest.skip("JAX has no derivative of the primitive")
    for program in (jt.trace(f, X, Y), jt.from_jax(jax.make_jaxpr(f)(X, Y))):
        g = jt.jaxpr_as_fun(program)
        ours = jt.grad(lambda x, y, g=g: g(x, y)[0].sum())
        theirs = jax.grad(lambda x, y: f(x, y).sum())
        agree(ours(X, Y), jax.jit(theirs)(X, Y))
        agree(jt.vmap(ours)(BATCH, OTHER), jax.jit(jax.vmap(theirs))(BATCH, OTHER))


@pytest.mark.parametrize("name", DIFFERENT)
def test_jax_is_given_the_rule_or_told_that_there_is_none(name):
    f = DIFFERENT[name]
    program = jt.trace(f, X, Y)
    wanted = jax.jit(jax.vmap(f))(BATCH, OTHER)
    live = jt.to_jax_function(program)
    agree(jax.jit(live)(X, Y), jax.jit(f)(X, Y))
    agree(jax.vmap(live)(BATCH, OTHER), wanted)
    read = jt.to_jax_function(jt.parse(jt.format_jaxpr(program, lossless=True)))
    agree(jax.jit(read)(X, Y), jax.jit(f)(X, Y))
    with pytest.raises(jt.UnsupportedError, match="is not in the text"):
        jax.vmap(read)(BATCH, OTHER)


def test_a_text_refuses_the_batch_of_a_derivative():
    program = jt.parse(jt.format_jaxpr(jt.trace(DIFFERENT["another factor"], X, Y), lossless=True))
    g = jt.jaxpr_as_fun(program)
    gradient = jt.grad(lambda x: g(x, Y)[0].sum())
    agree(gradient(X), 2 * np.cos(X) * Y)
    with pytest.raises(jt.UnsupportedError, match="doubled_or_tripled in another way"):
        jt.vmap(lambda x: g(x, Y)[0].sum())(BATCH)
    with pytest.raises(jt.UnsupportedError, match="doubled_or_tripled in another way"):
        jt.vmap(gradient)(BATCH)


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_parts_of_a_program_keep_the_rule(name):
    f = DIFFERENT[name]
    whole = jt.trace(f, X, Y)
    known, unknown, unks, _ = jt.partial_eval_jaxpr(whole.jaxpr, [False, True])
    first, rest = jt.jaxpr_as_fun(known), jt.jaxpr_as_fun(unknown)

    def in_parts(x, y):
        outs = first(x)
        n = sum(not u for u in unks)
        return [*outs[:n], *rest(*outs[n:], y)]

    agree(in_parts(X, Y)[0], jax.jit(f)(X, Y))
    agree(jt.vmap(in_parts)(BATCH, OTHER)[0], jax.jit(jax.vmap(f))(BATCH, OTHER))


@pytest.mark.parametrize("name", SAME)
def test_what_agrees_is_a_plain_call(name):
    f = SAME[name]
    program = jt.parse(jt.format_jaxpr(jt.trace(f, X, Y), lossless=True))
    assert "custom_vmap_call" not in {e.primitive.name for e in all_eqns(program.jaxpr)}
    if name != "no rule":
        g = jt.jaxpr_as_fun(program)
        agree(jt.vmap(g)(BATCH, OTHER)[0], jax.jit(jax.vmap(f))(BATCH, OTHER))

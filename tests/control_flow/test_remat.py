"""remat2 and its policies: derivatives are JAX's, and only what the policy saves is kept."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr
from jaxprtool.ir.walk import count_eqns
from tests.control_flow.oracle import close, compare, count_jax, traced

POLICIES = jax.checkpoint_policies
W = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def _body(w, x):
    h = jnp.tanh(checkpoint_name(x @ w, "a"))
    h = jax.jit(lambda h: jnp.sin(h @ w))(h)
    return h.sum() + x.sum()


# The policy, and how many residuals the derivative by both arguments has.
CASES = {
    "none": (None, 2),
    "nothing": (POLICIES.nothing_saveable, 2),
    "everything": (POLICIES.everything_saveable, 5),
    "dots": (POLICIES.dots_saveable, 4),
    "dots_without_batch": (POLICIES.dots_with_no_batch_dims_saveable, 4),
    "name": (POLICIES.save_only_these_names("a"), 3),
    "other_name": (POLICIES.save_only_these_names("b"), 2),
    "but_name": (POLICIES.save_any_names_but_these("a"), 2),
}


@pytest.mark.parametrize("policy, n_residuals", CASES.values(), ids=CASES)
def test_policies(policy, n_residuals):
    f = jax.checkpoint(_body, policy=policy)
    program = compare(f, W, X)
    assert linearize_jaxpr(program)[2] == n_residuals
    from_text = jt.parse(str(jax.make_jaxpr(f)(W, X)))
    assert linearize_jaxpr(from_text)[2] == n_residuals


@pytest.mark.parametrize("policy, _n", CASES.values(), ids=CASES)
def test_gradients_are_no_larger_than_jax(policy, _n):
    f = jax.checkpoint(_body, policy=policy)
    ours = grad_jaxpr(traced(f, W, X), (0, 1))
    jt.typecheck_jaxpr(ours)
    theirs = jax.make_jaxpr(jax.grad(f, argnums=(0, 1)))(W, X)
    assert count_eqns(ours.jaxpr) <= count_jax(theirs)
    close(jt.compile(ours)(W, X), jax.grad(f, argnums=(0, 1))(W, X))


def test_second_derivatives():
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())
    g = jt.jaxpr_as_fun(traced(f, X[0]))
    close(jt.hessian(lambda x: g(x)[0])(X[0]), jax.hessian(f)(X[0]))


def test_nested_in_scan_and_in_itself():
    inner = jax.checkpoint(lambda c, v: jnp.sin(c) * v)
    outer = jax.checkpoint(lambda c, v: (inner(inner(c, v), v), c))
    compare(lambda x: jax.lax.scan(outer, x[0], x), X)


def _layer(policy):
    """A step of a loop, rematerialised with a policy."""

    def step(c, v):
        h = jnp.sin(checkpoint_name(jnp.tanh(checkpoint_name(c @ W, "a") + v) @ W, "b"))
        return h, h.sum()

    return jax.checkpoint(step, policy=policy)


def _in_scan(policy):
    return lambda x: sum(map(jnp.sum, jax.lax.scan(_layer(policy), x[0], x)))


def _around_scan(policy):
    scan = jax.checkpoint(lambda x: jax.lax.scan(_layer(None), x[0], x), policy=policy)
    return lambda x: sum(map(jnp.sum, scan(x)))


def _in_branch(policy):
    f = jax.checkpoint(lambda x: jnp.sin(jnp.tanh(x @ W) @ W).sum(), policy=policy)
    return lambda x: jax.lax.cond(x[0, 0] < 0, f, lambda x: jnp.cos(x).sum(), x)


def _twice_in_scan(policy):
    def outer(c, x):
        return jax.lax.scan(_layer(policy), c, x)[0], None

    repeated = jax.checkpoint(outer)
    return lambda x: jax.lax.scan(lambda c, _: repeated(c, x), x[0], None, length=3)[0].sum()


LOOPS = {f.__name__: f for f in (_in_scan, _around_scan, _in_branch, _twice_in_scan)}
IN_LOOPS = {name: CASES[name][0] for name in ("none", "everything", "dots", "name", "but_name")}


@pytest.mark.parametrize("policy", IN_LOOPS.values(), ids=IN_LOOPS)
@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
def test_residuals_in_loops_and_branches_take_no_more_bytes_than_those_of_jax(make, policy):
    f = make(policy)
    program = traced(f, X)
    _, linear, n = linearize_jaxpr(program)
    pullback = jax.vjp(f, X)[1]
    theirs = sum(a.nbytes for a in jax.tree.leaves(pullback) if hasattr(a, "nbytes"))
    assert sum(a.nbytes for a in linear.in_avals[:n]) <= theirs
    gradient = grad_jaxpr(program, (0,))
    close(jt.eval_jaxpr(gradient, [X]), [jax.grad(f)(X)])
    assert count_eqns(gradient.jaxpr) <= count_jax(jax.make_jaxpr(jax.grad(f))(X))


def test_the_second_computation_is_behind_a_barrier():
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())
    assert "optimization_barrier" in str(jt.lower(grad_jaxpr(traced(f, X))))
    free = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum(), prevent_cse=False)
    assert "optimization_barrier" not in str(jt.lower(grad_jaxpr(traced(free, X))))


def test_checkpoint_of_ours():
    def f(x):
        return lax.sin(lax.sin(x)).sum()

    for policy in (None, "dots_saveable", "everything_saveable"):
        g = jt.checkpoint(f, policy)
        close(jt.grad(g)(X), jax.grad(lambda x: jnp.sin(jnp.sin(x)).sum())(X))
        program = jt.make_jaxpr(g)(X)
        assert str(jt.parse(str(program))) == str(program)


def test_checkpoint_refuses_unknown_names():
    with pytest.raises(jt.UsageError, match="no policy named 'dots'"):
        jt.checkpoint(lambda x: x, "dots")


def test_operands_that_do_not_fit():
    text = """{ lambda ; a:f32[2]. let
    b:f32[3] = remat2[
      differentiated=False
      jaxpr={ lambda ; c:f32[3]. let d:f32[3] = sin c in (d,) }
      policy=None
      prevent_cse=True
    ] a
  in (b,) }"""
    with pytest.raises(jt.JaxprTypeError, match=r"remat2: operand 0 is f32\[2\]"):
        jt.typecheck_jaxpr(jt.parse(text))

"""Transformations on top of one another, over loops within loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr
from jaxprtool.ir.walk import count_eqns
from tests.control_flow.oracle import close, count_jax, traced
from tests.programs.catalogue import quick_jit

X, W = np.linspace(-1, 1, 4, dtype=np.float32), np.array([0.5, -0.3], np.float32)


def halve(n, x):
    """A loop of unknown length whose count is all that the rest sees of it."""
    step = lambda c: (c[0] // 2, c[1] + 1)
    count = jax.lax.while_loop(lambda c: c[0] > 0, step, (n, jnp.int32(0)))[1]
    return x * count


def nested(w, x):
    """scan of cond of while: the loop's carry has no tangent, so reverse mode goes through."""

    def step(c, v):
        branches = (lambda c: jnp.sin(c) * w, lambda c: halve(jnp.int32(9), c), lambda c: c - w)
        c = jax.lax.switch(jnp.int32(jnp.sign(v)) + 1, branches, c)
        return c, c.sum() * v

    c, ys = jax.lax.scan(step, w, x)
    return (c * ys[0]).sum() + (ys**2).sum()


def doubled(w, x):
    """scan of scan, the inner over the state of the outer."""

    def outer(c, v):
        inner = lambda d, u: (jnp.tanh(d * u + v), d * v)
        d, ys = jax.lax.scan(inner, c.sum(), c)
        return c * jnp.cos(d) + ys, d

    c, ds = jax.lax.scan(outer, w, x)
    return (c**2).sum() + ds.sum()


def rematerialised(w, x):
    """scan of remat of cond."""

    @jax.checkpoint
    def step(c, v):
        c = jax.lax.cond(v > 0, lambda c: jnp.sin(c * w), lambda c: jnp.cos(c) + v, c)
        return c, c * v

    c, ys = jax.lax.scan(step, w, x)
    return (c * ys.sum(0)).sum()


def drifting(w, x):
    """fori_loop with a bound that is a value (a while) inside a scan, forward mode only."""
    inner = lambda c, v: jax.lax.fori_loop(0, jnp.int32(v * 2) + 2, lambda _, c: jnp.sin(c) * w, c)
    return jax.lax.scan(lambda c, v: (inner(c, v), None), w, x)[0].sum()


REVERSIBLE = [nested, doubled, rematerialised]
reversible = pytest.mark.parametrize("f", REVERSIBLE, ids=lambda f: f.__name__)
every = pytest.mark.parametrize("f", [*REVERSIBLE, drifting], ids=lambda f: f.__name__)


def ours(f):
    run = jt.jaxpr_as_fun(traced(f, W, X))
    return lambda *args: run(*args)[0]


@reversible
def test_grad(f):
    program = grad_jaxpr(traced(f, W, X), (0, 1))
    jt.typecheck_jaxpr(program)
    theirs = jax.grad(f, (0, 1))
    close(jt.eval_jaxpr(program, [W, X]), quick_jit(theirs)(W, X))
    assert count_eqns(program.jaxpr) <= count_jax(jax.make_jaxpr(theirs)(W, X))


@reversible
@pytest.mark.parametrize("axes", [(0, None), (None, 0)])
def test_vmap_of_grad(f, axes):
    args = [x if d is None else np.stack([x, -x, x / 2]) for x, d in zip((W, X), axes, strict=True)]
    theirs = jax.vmap(jax.grad(f, (0, 1)), axes)
    close(jt.vmap(jt.grad(ours(f), (0, 1)), axes)(*args), quick_jit(theirs)(*args))
    program, _ = jt.vmap_jaxpr(grad_jaxpr(traced(f, W, X), (0, 1)), 3, axes, 0)
    jt.typecheck_jaxpr(program)
    close(jt.eval_jaxpr(program, args), quick_jit(theirs)(*args))
    assert count_eqns(program.jaxpr) <= count_jax(jax.make_jaxpr(theirs)(*args))


@reversible
def test_grad_of_vmap(f):
    batch = np.stack([W, -W, W / 2])
    mine = jt.grad(lambda w: jt.vmap(ours(f), (0, None))(w, X).sum())
    theirs = jax.grad(lambda w: jax.vmap(f, (0, None))(w, X).sum())
    close(mine(batch), quick_jit(theirs)(batch))


@reversible
def test_hessian(f):
    mine, theirs = ours(f), quick_jit(jax.hessian(f))(W, X)
    close(jt.hessian(mine)(W, X), theirs, 2e-3)
    close(jt.jacrev(jt.grad(mine))(W, X), theirs, 2e-3)
    close(jt.jacrev(jt.jacfwd(mine))(W, X), theirs, 2e-3)


@reversible
def test_grad_of_grad_as_jaxprs(f):
    """The gradient of one part of the gradient, all by files' means."""
    by_w = traced(lambda w, x: jax.grad(f)(w, x).sum(), W, X)
    twice = grad_jaxpr(by_w, (0,))
    theirs = jax.grad(lambda w, x: jax.grad(f)(w, x).sum())
    close(jt.eval_jaxpr(twice, [W, X])[0], quick_jit(theirs)(W, X), 2e-3)


@every
def test_jvp_of_jvp(f):
    second = lambda jvp, f: jvp(lambda w: jvp(lambda w: f(w, X), (w,), (W,))[1], (W,), (1 - W,))
    close(second(jt.jvp, ours(f)), quick_jit(lambda: second(jax.jvp, f))(), 2e-3)


@every
def test_linearize(f):
    program = traced(f, W, X)
    primal, linear, n = linearize_jaxpr(program)
    outs = jt.eval_jaxpr(primal, [W, X])
    tangent = jt.eval_jaxpr(linear, [*outs[len(outs) - n :], 1 - W, X])
    close([outs[0], tangent[0]], quick_jit(lambda: jax.jvp(f, (W, X), (1 - W, X)))())

    def theirs(w, x, *ts):
        out, f_lin = jax.linearize(f, w, x)
        return out, f_lin(*ts)

    count = count_eqns(primal.jaxpr) + count_eqns(linear.jaxpr)
    assert count <= count_jax(jax.make_jaxpr(theirs)(W, X, W, X))


@every
def test_vmap_of_vmap(f):
    rows = np.stack([np.stack([W, -W]), np.stack([2 * W, W / 2]), np.stack([W, W])])
    mine = jt.vmap(jt.vmap(ours(f), (0, None)), (0, None))
    close(mine(rows, X), quick_jit(jax.vmap(jax.vmap(f, (0, None)), (0, None)))(rows, X))


@every
@pytest.mark.parametrize("unknown", [(True, False), (False, True)])
def test_partial_evaluation(f, unknown):
    """Of nested loops with one argument known; and of the gradient, where there is one."""
    programs = [traced(f, W, X)]
    if f in REVERSIBLE:
        programs.append(grad_jaxpr(programs[0], (0, 1)))
    for program in programs:
        known, rest, unks_out, n = jt.partial_eval_jaxpr(program, unknown, verify=True)
        first = jt.eval_jaxpr(known, [x for x, u in zip((W, X), unknown, strict=True) if not u])
        given = [x for x, u in zip((W, X), unknown, strict=True) if u]
        second = iter(jt.eval_jaxpr(rest, [*first[len(first) - n :], *given]))
        known_outs = iter(first)
        joined = [next(second) if u else next(known_outs) for u in unks_out]
        close(joined, jt.eval_jaxpr(program, [W, X]))


def test_known_part_of_a_nested_loop_leaves_it():
    """What depends on known arguments only is computed in the known part, in loops too."""

    def f(w, x):
        def outer(c, v):
            inner = lambda d, u: (d + jnp.exp(u) * v, None)
            d, _ = jax.lax.scan(inner, 0.0, x)  # known: x only
            return c * w + d, jnp.sin(v)

        return jax.lax.scan(outer, w, x)

    program = traced(f, W, X)
    known, rest, unks_out, n = jt.partial_eval_jaxpr(program, [True, False])
    assert "exp" in str(known) and "exp" not in str(rest) and "sin" not in str(rest)
    assert unks_out == [True, False]
    first = jt.eval_jaxpr(known, [X])
    (c,) = jt.eval_jaxpr(rest, [*first[len(first) - n :], W])
    close([c, first[0]], jax.tree.leaves(quick_jit(f)(W, X)))


@reversible
def test_jit_inside_everything(f):
    inner = jt.jit(ours(f))
    outer = jt.jit(jt.vmap(jt.grad(inner), (0, None)))
    rows = np.stack([W, -W])
    theirs = quick_jit(jax.vmap(jax.grad(jax.jit(f)), (0, None)))(rows, X)
    close(np.asarray(outer(rows, X)), theirs)

"""What the examples compute is so: against closed forms, other methods, and exhaustive search."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
import scipy.stats

import jaxprtool as jt
from tests.programs.catalogue import EXAMPLES, case_of, close, draw, load, wide

# -- the Kalman filter -----------------------------------------------------------------------------


def series_covariance(a, c, q, r, steps):
    """The covariance of all observations of a linear model whose first state is one step after N(0, 1)."""
    n = len(a)
    states = np.zeros((steps, steps, n, n))
    spread = np.eye(n)
    for i in range(steps):
        spread = a @ spread @ a.T + np.diag(q)
        states[i, i] = spread
        for j in range(i + 1, steps):
            states[j, i] = a @ states[j - 1, i]
            states[i, j] = states[j, i].T
    seen = np.einsum("pn,ijnm,qm->ipjq", c, states, c)
    return seen.reshape(steps * len(c), -1) + np.kron(np.eye(steps), np.diag(r))


def test_kalman_is_the_density_of_the_series():
    case = case_of("kalman")
    dynamics, log_q, log_r, observation, ys = case.args
    spread = series_covariance(dynamics, observation, np.exp(log_q), np.exp(log_r), len(ys))
    want = scipy.stats.multivariate_normal(cov=spread).logpdf(ys.ravel())
    close(case.run(*case.args)[0], want, 1e-9)


def test_kalman_hessian():
    """By all parameters at one time, against JAX's, and against itself transposed."""
    case = case_of("kalman")
    *params, ys = case.args
    theta, shapes = np.concatenate([p.ravel() for p in params]), [p.shape for p in params]
    ends = np.cumsum([p.size for p in params])[:-1]

    def f(theta):
        parts = jnp.split(theta, ends)
        return case.f(*[x.reshape(s) for x, s in zip(parts, shapes, strict=True)], ys)[0]

    with case.precision():
        run = jt.jaxpr_as_fun(jt.from_jax(jax.make_jaxpr(f)(theta)))
    hessian = jt.hessian(lambda x: run(x)[0])(theta)
    close(hessian, hessian.T, 1e-9)
    (want,) = case.jax(jax.hessian(f), theta)
    close(hessian, want, 1e-7)


# -- the differential equation -----------------------------------------------------------------------


def test_ode_solves_the_equation():
    case = case_of("ode")
    (x, v), mu = case.args

    def field(_, y):
        return [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]]

    want = scipy.integrate.solve_ivp(field, (0, 2), (x, v), rtol=1e-10, atol=1e-10).y[:, -1]
    close(case.run(*case.args)[0], want, 1e-4)


def test_ode_rows_end_on_their_own():
    """Under vmap a row takes the steps that it takes alone."""
    f = jt.jaxpr_as_fun(case_of("ode").program)
    y0, mu = np.array([[2.0, 0.0], [0.1, 0.0], [1.0, -3.0]]), np.float64(3.0)
    alone = [f(y, mu) for y in y0]
    ends, tried = jt.vmap(f, in_axes=(0, None))(y0, mu)
    np.testing.assert_array_equal(tried, [n for _, n in alone])
    assert len(set(map(int, tried))) == 3
    close(ends, np.stack([y for y, _ in alone]), 1e-12)
    program = jt.make_jaxpr(jt.vmap(f, in_axes=(0, None)))(y0, mu)
    np.testing.assert_array_equal(jt.compile(program)(y0, mu)[1], tried)


def test_ode_sensitivity_to_the_start():
    case = case_of("ode")
    h = 1e-6
    y0, mu = case.args
    jacobian = jt.jacfwd(lambda y: case.run(y, mu)[0])(y0)
    for j, unit in enumerate(np.eye(2)):
        slope = (case.run(y0 + h * unit, mu)[0] - case.run(y0 - h * unit, mu)[0]) / (2 * h)
        close(jacobian[:, j], slope, 1e-4)


# -- Newton's method, and derivatives of what solvers find ---------------------------------------------


def test_newton_through_the_steps_and_implicitly():
    steps, implicit = case_of("newton"), case_of("root")
    e, m = steps.args
    (x,) = steps.run(e, m)
    close(x - e * np.sin(x), m, 1e-12)
    want = np.array([np.sin(x), 1.0]) / (1 - e * np.cos(x))
    through = [jt.jvp(steps.run, (e, m), ts)[1][0] for ts in (wide(1, 0), wide(0, 1))]
    pulled = jt.grad(lambda *xs: implicit.run(*xs)[0], (0, 1))(e, m)
    close(np.array(through), want, 1e-9)
    close(np.array(pulled), want, 1e-9)


def test_second_derivatives_of_a_root():
    case = case_of("root")
    f = lambda e: case.run(e, case.args[1])[0]
    (want,) = case.jax(jax.hessian(lambda e: case.f(e, case.args[1])[0]), case.args[0])
    close(jt.hessian(f)(case.args[0]), want, 1e-8)
    close(jt.grad(jt.grad(f))(case.args[0]), want, 1e-8)


def test_ridge_is_a_solve():
    case = case_of("ridge")
    features, targets, log_penalty = case.args
    matrix = features.T @ features + np.exp(log_penalty) * np.eye(3)
    w = np.linalg.solve(matrix, features.T @ targets)
    close(case.run(*case.args)[0], w, 1e-9)
    by_penalty = jt.jacrev(lambda p: case.run(features, targets, p)[0])(log_penalty)
    close(by_penalty, -np.exp(log_penalty) * np.linalg.solve(matrix, w), 1e-8)


# -- beam search and k-means ---------------------------------------------------------------------------


def test_beam_search_of_two_words_is_exhaustive():
    """With as many beams as words nothing is lost in the first step of two."""
    module = load("beam_search")
    params = {"embedding": draw(0, 7, 4), "recurrent": draw(1, 4, 4), "output": draw(2, 4, 7)}
    leaves, tree = jax.tree.flatten(params)

    def f(*leaves):
        return module["search"](jax.tree.unflatten(tree, leaves), beams=7, length=2)

    program = jt.from_jax(jax.make_jaxpr(f)(*leaves))
    sentences, scores = jt.eval_jaxpr(program, leaves)

    def score(sentence):
        h, token, total = np.zeros(4, np.float32), module["BEGIN"], 0.0
        for word in sentence:
            h = np.tanh(params["embedding"][token] + h @ params["recurrent"])
            logits = h @ params["output"]
            total += logits[word] - np.log(np.exp(logits).sum())
            token = word
            if word == module["END"]:
                break
        return total

    end = module["END"]
    every = [s for s in itertools.product(range(7), repeat=2) if s[0] != end or s[1] == end]
    best = sorted(every, key=score, reverse=True)[:7]
    assert [tuple(map(int, s)) for s in sentences] == best
    close(scores, np.array([score(s) for s in best], np.float32), 1e-5)


def test_kmeans_finds_the_clusters():
    centres = np.array([[0, 0], [10, 0], [0, 10]], np.float32)
    points = (centres[:, None] + draw(0, 3, 10, 2)).swapaxes(0, 1).reshape(30, 2)
    program = jt.parse((EXAMPLES / "kmeans.jaxpr").read_text())
    found, clusters, distance = jt.eval_jaxpr(program, [points])
    np.testing.assert_array_equal(clusters, np.arange(30) % 3)
    close(found, points.reshape(10, 3, 2).mean(0), 1e-5)
    assert distance < 1

"""Training with our own gradients is training with JAX's, step by step."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from tests.programs.catalogue import EXAMPLES, close, load


def jax_training(loss, params, batch, steps, rate):
    """(parameters after each step, losses) of gradient descent in JAX."""
    step = jax.jit(jax.value_and_grad(loss))
    history, losses = [], []
    for _ in range(steps):
        value, grads = step(params, *batch)
        params = jax.tree.map(lambda w, g: w - np.float32(rate) * g, params, grads)
        history.append(params)
        losses.append(float(value))
    return history, losses


@pytest.fixture(scope="module")
def task():
    gru = load("gru")
    params, batch = gru["init"](1, 3, 8, 3), gru["echo"](0, 8, 4, 3)
    return gru, params, batch, jax_training(gru["loss"], params, batch, 12, 0.5)


def test_gru_on_numpy(task):
    gru, params, batch, (history, losses) = task
    trained, ours = gru["train"](params, *batch, steps=12, rate=0.5)
    close(np.array(ours), np.array(losses), 1e-4)
    assert ours[-1] < 0.8 * ours[0] and ours == sorted(ours, reverse=True)
    for name, w in history[-1].items():
        close(trained[name], w, 2e-4)


def test_gru_compiled_from_text(task):
    """The gradient as a file: every step's parameters are JAX's."""
    gru, params, batch, (history, losses) = task
    leaves, tree = jax.tree.flatten(params)
    traced = jax.make_jaxpr(gru["loss"])(params, *batch)
    program = jt.parse(jt.format_jaxpr(jt.from_jax(traced), lossless=True))
    gradient = jt.compile(jt.make_jaxpr(_value_and_grad(program, len(leaves)))(*leaves, *batch))
    for want, value in zip(history, losses, strict=True):
        got, *grads = gradient(*leaves, *batch)
        leaves = [w - np.float32(0.5) * np.asarray(g) for w, g in zip(leaves, grads, strict=True)]
        np.testing.assert_allclose(got, value, rtol=1e-4)
        for w, v in zip(leaves, jax.tree.leaves(want), strict=True):
            close(w, v, 2e-4)
    assert tree == jax.tree.structure(history[-1])


def _value_and_grad(program, n):
    f = jt.jaxpr_as_fun(program)
    return jt.value_and_grad(lambda *args: f(*args)[0], range(n))


def test_mlp_on_numpy():
    loss = load("mlp")["loss"]
    rng = np.random.default_rng(0)
    program = jt.parse((EXAMPLES / "mlp.jaxpr").read_text())
    shapes = [a.shape for a in program.in_avals[:4]]
    leaves = [rng.normal(size=s).astype(np.float32) / 2 for s in shapes]
    batch = rng.normal(size=(5, 4)).astype(np.float32), np.array([0, 2, 9, 1, 0], np.int32)
    names = ["b1", "b2", "w1", "w2"]
    history, losses = jax_training(loss, dict(zip(names, leaves, strict=True)), batch, 5, 0.3)
    gradient = _value_and_grad(program, 4)
    for want, value in zip(history, losses, strict=True):
        got, grads = gradient(*leaves, *batch)
        leaves = [w - np.float32(0.3) * g for w, g in zip(leaves, grads, strict=True)]
        np.testing.assert_allclose(got, value, rtol=1e-4)
        for w, name in zip(leaves, names, strict=True):
            close(w, want[name], 2e-4)

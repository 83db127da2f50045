"""`blame` names a `where` if, and only if, a guard of its input, where(c, f(where(c, x, 1)), 0), rids the gradient of its NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt

A = np.array([[1, 2, -1], [0.5, 1, 2], [-1, 0.3, 1]], np.float32)
X = np.array([[1, 0.5, 2], [0, 0, 0], [0.7, 1.2, 0.4]], np.float32)
M = np.array([True, False, True])
SAFE = np.array([1, 2, 0.5], np.float32)

INNER: dict[str, Callable[[Any], Any]] = {
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "x log x": lambda x: x * jnp.log(x),
    "x ** 0.3": lambda x: x**0.3,
    "x / norm": lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True),
    "layer norm": lambda x: (x - x.mean(-1, keepdims=True)) / jnp.std(x, axis=-1, keepdims=True),
    "logsumexp": lambda x: x + jax.nn.logsumexp(jnp.log(x), -1, keepdims=True),
    "softmax": lambda x: jax.nn.softmax(jnp.where(x > 0, x, -jnp.inf), -1),
}
OUTER: dict[str, Callable[[Any], Any]] = {
    "y": lambda y: y,
    "y @ A": lambda y: y @ A,
    "(A @ y.T).T": lambda y: (A @ y.T).T,
    "y reversed @ A @ A": lambda y: y[:, ::-1] @ A @ A,
    "convolve": lambda y: jax.vmap(lambda r: jnp.convolve(r, SAFE, "same"))(y),
    "conv": lambda y: lax.conv_general_dilated(y[:, None], A[:, None], (1,), "SAME").sum(1),
    "tanh(y @ A) @ A": lambda y: jnp.tanh(y @ A) @ A,
    "y times its sum": lambda y: jnp.einsum("ij,ik->ij", y, y),
    "y @ y.T @ y": lambda y: y @ y.T @ y,
    "batches": lambda y: jnp.einsum("ij,ijk->ik", y, np.stack([A, A, A])),
}
Rows = Callable[[Any, Any], Any]
CONTEXTS: dict[str, Callable[[Rows], Rows]] = {
    "plain": lambda f: f,
    "jit": jax.jit,
    "scan": lambda f: (
        lambda x, m: lax.scan(
            lambda c, v: (c + f(v[0][None], v[1][None]), None), jnp.float32(0), (x, m)
        )[0]
    ),
    "vmap": lambda f: lambda x, m: jax.vmap(lambda a, b: f(a[None], b[None]))(x, m).sum(),
}


def _gradient(inner: str, outer: str, context: str, *, guard: bool) -> Rows:
    def loss(x: Any, m: Any) -> Any:
        safe = jnp.where(m[:, None], x, SAFE) if guard else x
        return (jnp.where(m[:, None], OUTER[outer](INNER[inner](safe)), 0.0) ** 2).sum()

    return jax.grad(CONTEXTS[context](loss))


def _is_named(f: Rows, m: Any, *, text: bool) -> bool:
    if not text:
        return jt.blame(jt.trace(f, X, m), X, m).unguarded is not None
    made = jax.make_jaxpr(f)(X, m)
    args = [np.asarray(x) for x in (*made.consts, X, m)]
    return jt.blame(jt.parse(str(made)), *args).unguarded is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_a_where_is_named_where_its_guard_helps(inner: str, outer: str) -> None:
    context = [*CONTEXTS][([*INNER].index(inner) + [*OUTER].index(outer)) % len(CONTEXTS)]
    for mask in (M, M | True):
        gradient = _gradient(inner, outer, context, guard=False)
        guarded = _gradient(inner, outer, context, guard=True)
        is_bad = [bool(np.isnan(jax.jit(f)(X, mask)).any()) for f in (gradient, guarded)]
        for text in (False, context != "jit"):  # the text of a call has no constants
            named = _is_named(gradient, mask, text=text)
            assert named == (is_bad == [True, False]), (context, mask, text)


SYSTEM = np.array([[2, 0.3, 0.1], [0.2, 3, 0.4], [0.1, 0.5, 2.5]], np.float32)
SECOND = np.array([0, 1, 0], np.float32)
LOWER = np.tril(np.ones((3, 3), bool))
SPREAD: dict[str, Callable[[Any], Any]] = {
    "diag in a solve": lambda r: jnp.linalg.solve(SYSTEM + jnp.diag(r), SECOND).sum(),
    "diag in an inverse": lambda r: jnp.linalg.inv(SYSTEM + jnp.diag(r))[1, 1],
    "diag in a product": lambda r: (jnp.diag(r) @ SECOND).sum(),
    "diag in a determinant": lambda r: jnp.linalg.slogdet(SYSTEM + jnp.diag(r))[1],
    "tril": lambda r: (jnp.tril(r[:, None] * SYSTEM) @ SECOND).sum(),
    "where": lambda r: (jnp.where(LOWER, r[:, None] * SYSTEM, 0.0) @ SECOND).sum(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inner", ["log", "sqrt", "x log x", "x ** 0.3", "x / norm"])
@pytest.mark.parametrize("spread", SPREAD)
def test_a_where_that_takes_each_element_somewhere_is_no_guard(spread: str, inner: str) -> None:
    """Each element of `r` is on the diagonal of `diag(r)`, or in the lower half of a matrix: the 0s that are put elsewhere harm none."""
    for r in (np.array([0, 1, 2], np.float32), np.zeros(3, np.float32)):
        gradient = jax.grad(lambda r: SPREAD[spread](INNER[inner](r)))
        assert jt.blame(jt.trace(gradient, r), r).unguarded is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inner", ["log", "sqrt", "x log x", "x ** 0.3"])
def test_a_where_that_takes_an_element_nowhere_is_one(inner: str) -> None:
    """Of a value that is spread over a matrix, of which the `where` takes no row where it is bad."""

    def loss(r: Any) -> Any:
        rows = INNER[inner](r)[:, None] * SYSTEM
        return (jnp.where((r > 0)[:, None] & LOWER, rows, 0.0) @ SECOND).sum()

    r = np.array([1, 0, 2], np.float32)
    assert jt.blame(jt.trace(jax.grad(loss), r), r).unguarded is not None

"""Laws of `blame` on gradients of `where(c, f(x), 0)`: the `where` is named if its untaken side makes the NaN, and only then."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt

X = np.array([1.5, 0.0, 2.0], np.float32)

# At 0 the derivative of each makes a NaN, by a coefficient of its own or by one that meets the 0 of the cotangent.
INNER: dict[str, Callable[[Any], Any]] = {
    "log": jnp.log,
    "x ** x": lambda x: jnp.power(x, x),
    "x log x": lambda x: x * jnp.log(x),
    "arctan2": lambda x: jnp.arctan2(x, x * 0),
    "exp(-1 / x)": lambda x: jnp.exp(-1 / x),
    "lgamma": lax.lgamma,
    "logaddexp": lambda x: jnp.logaddexp(jnp.log(x), jnp.log(x)),
}
Choice = Callable[[Callable[[Any], Any], Any], Any]
CONTEXTS: dict[str, Callable[[Choice, Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "plain": lambda where, f: lambda x: where(f, x).sum(),
    "jit of f": lambda where, f: lambda x: where(jax.jit(f), x).sum(),
    "scan": lambda where, f: (
        lambda x: lax.scan(lambda c, v: (c + where(f, v), None), jnp.float32(0), x)[0]
    ),
    "remat": lambda where, f: lambda x: jax.checkpoint(lambda x: where(f, x).sum())(x),
    "later": lambda where, f: lambda x: (where(lambda x: f(x) * 2 + 1, x) * 3).sum(),
    "cond": lambda where, f: (
        lambda x: lax.cond(x.sum() > 0, lambda x: where(f, x).sum(), lambda x: x.sum(), x)
    ),
}


def _where(compare: Any) -> Choice:
    return lambda f, x: jnp.where(compare(x, 0), f(x), 0.0)


def _blamed(f: Any, args: Any, *, text: bool = False) -> Any:
    program = jt.parse(str(jax.make_jaxpr(f)(*args))) if text else jt.trace(f, *args)
    return jt.blame(program, *args)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("inner", INNER)
def test_a_where_is_named_whose_untaken_side_makes_the_nan(inner: str, context: str) -> None:
    f = jax.grad(CONTEXTS[context](_where(operator.gt), INNER[inner]))
    assert np.isnan(jax.jit(f)(X)).any()
    for text in (False, True):
        found = _blamed(f, [X], text=text)
        assert found.unguarded is not None, str(found)
        assert found.unguarded.place.eqn.primitive.name == "select_n"


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("inner", INNER)
def test_no_where_is_named_that_takes_the_side_of_the_nan(inner: str, context: str) -> None:
    """The 0 that the NaN meets is no cotangent that a `where` has put there: it is a value of the function, exp(-1 / 0)."""
    f = jax.grad(CONTEXTS[context](_where(operator.ge), INNER[inner]))
    for text in (False, True):
        found = _blamed(f, [X], text=text)
        assert found.found and found.unguarded is None, str(found)


W, D = np.array([1.0, 2.0, 3.0], np.float32), np.array([1.0, np.nan, 2.0], np.float32)
M = np.array([True, False, True])


def test_a_where_after_a_nan_of_the_data_is_named() -> None:
    """The derivative by the weights multiplies the cotangent, 0 there, by the data."""
    masked = jax.grad(lambda w, m, d: jnp.where(m, w * d, 0.0).sum())
    asked = jax.grad(lambda w, d: jnp.where(jnp.isfinite(d), w * d, 0.0).sum())
    for f, args in ((masked, (W, M, D)), (asked, (W, D))):
        assert np.isnan(jax.jit(f)(*args)).any()
        for text in (False, True):
            found = _blamed(f, args, text=text)
            assert found.unguarded is not None and found.unguarded.kept, str(found)


@pytest.mark.parametrize(
    "f",
    [
        lambda w, m, d: jnp.where(m, w, 0.0) * d,
        lambda w, m, d: jnp.where(m, w, 0.0) * jnp.log(-w),
        jax.grad(lambda w, m, d: (jnp.sqrt(w - 1) * jnp.sin(w - w)).sum()),
        jax.grad(lambda w, m, d: (jnp.where(w > 1, w, 0.0) * jnp.log(w - 2)).sum()),
        jax.grad(lambda w, m, d: (jnp.where(m, w / 0.5, 0.0) ** 2 / jnp.sum(w - 2)).sum()),
        jax.grad(lambda w, m, d: jnp.log(-jnp.sum(jax.nn.relu(w - 1.5) * w))),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_another_choice_beside_a_zero_and_a_nan_is_not_named(f: Any, text: bool) -> None:
    """Those of the text have neither names nor lines that say which of two choices is the transpose of the other."""
    found = _blamed(f, (W, M, D), text=text)
    assert found.found and found.unguarded is None, str(found)

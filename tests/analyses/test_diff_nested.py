"""diff of programs of JAX with control flow, calls and rules of derivatives: what is inside is compared where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt

X = np.ones(3, np.float32)
F = Callable[[Any], Any]


def scanned(f: F) -> F:
    return lambda x: jax.lax.scan(lambda c, y: (f(c) * y, c), x, jnp.ones((4, 3), x.dtype))[0]


def looped(f: F) -> F:
    return lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: f(c) + 1, x)


def branched(f: F) -> F:
    return lambda x: jax.lax.switch(jnp.int32(x[0]), [jnp.exp, lambda y: f(y) + 1, jnp.log], x)


def called(f: F) -> F:
    return lambda x: jax.jit(lambda y: f(y) * 2)(x)


def remade(f: F) -> F:
    return jax.checkpoint(lambda y: f(y) * 2)


def with_jvp(f: F) -> F:
    @jax.custom_jvp
    def g(x: Any) -> Any:
        return f(x) * 2

    g.defjvp(lambda xs, ts: (g(*xs), ts[0]))
    return g


def with_vjp(f: F) -> F:
    @jax.custom_vjp
    def g(x: Any) -> Any:
        return f(x) * 2

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * x,))
    return g


HOLDERS = [scanned, looped, branched, called, remade, with_jvp, with_vjp]


@pytest.mark.parametrize("outer", HOLDERS, ids=lambda h: h.__name__)
@pytest.mark.parametrize("inner", HOLDERS, ids=lambda h: h.__name__)
def test_a_change_inside_is_one_with_the_way_to_it(outer, inner) -> None:
    a, b = (jt.trace(outer(inner(f)), X) for f in (jnp.sin, jnp.cos))
    assert jt.diff(a, jt.trace(outer(inner(jnp.sin)), X)).equal
    found, back = jt.diff(a, b), jt.diff(b, a)
    assert found.summary == "1 changed: 1 sin to cos"
    assert back.summary == "1 changed: 1 cos to sin"
    (change,) = found.json()["changes"]
    assert len(change["a"]["path"]) == len(change["b"]["path"]) == 2
    assert change["a"]["line"] and "test_diff_nested.py" in change["a"]["source"]["file"]
    assert [x[0] for x in found.lines[2:] if x[0] in "+-"] == ["-", "+"]


def test_another_number_of_branches() -> None:
    two = lambda x: jax.lax.switch(jnp.int32(x[0]), [jnp.exp, jnp.log], x)
    three = lambda x: jax.lax.switch(jnp.int32(x[0]), [jnp.exp, jnp.log, jnp.sin], x)
    a, b = jt.trace(two, X), jt.trace(three, X)
    found, back = jt.diff(a, b), jt.diff(b, a)
    assert not found.equal and "1 added: 1 sin" in found.summary
    assert not back.equal and "1 removed: 1 sin" in back.summary
    (added,) = [c["b"] for c in found.json()["changes"] if c["kind"] == "added"]
    assert [(step["primitive"], step["branch"]) for step in added["path"]] == [("cond", 2)]


def test_a_carry_of_another_type() -> None:
    a, b = (jt.trace(scanned(jnp.sin), x) for x in (X, X.astype(np.float16)))
    found = jt.diff(a, b)
    assert not found.equal and "f32 to f16" in found.summary
    assert not jt.diff(a, b, ignore=["shapes", "names", "weak", "order"]).equal


def test_another_size_is_equal_but_for_shapes() -> None:
    a, b = (jt.trace(scanned(lambda x: jnp.sin(x).sum() + x), x) for x in (X, X))
    assert jt.diff(a, b).equal
    of = lambda n: jt.trace(lambda x: jnp.sin(x).reshape(1, n) @ jnp.ones((n, 2)), np.ones(n))
    assert not jt.diff(of(3), of(5)).equal and jt.diff(of(3), of(5), ignore=["shapes"]).equal


def test_a_jaxpr_that_is_used_twice_is_shown_once() -> None:
    def of(f: F) -> F:
        g = jax.jit(lambda x: f(x) * 2)
        return lambda x: g(g(x))

    found = jt.diff(jt.trace(of(jnp.sin), X), jt.trace(of(jnp.cos), X))
    assert found.summary == "1 changed: 1 sin to cos"

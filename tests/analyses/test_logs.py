"""Many equations and many steps are looked at together: what is said of them is the same as if each were looked at alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses import logs
from jaxprtool.analyses.blaming import flow
from jaxprtool.driver.blame import blame
from jaxprtool.driver.places import with_places
from jaxprtool.driver.run import run
from jaxprtool.ir.jaxpr import ClosedJaxpr
from tests.analyses.faults import planted, spots
from tests.analyses.planting import REAL, real_program

STEPS = 60
XS = np.linspace(-1, 1, STEPS).astype(np.float32)


def some_steps(x: Any) -> Any:
    """A NaN in some steps of a loop, which it does not leave."""
    return jax.lax.scan(lambda c, x: (c + 1, (jnp.log(x), jnp.sin(x))), np.float32(0), x)


def carried(x: Any) -> Any:
    return jax.lax.scan(lambda c, x: (c * 0.5 + jnp.sqrt(x), c), np.float32(0), -x)


def grows(x: Any) -> Any:
    """More and more elements are bad."""

    def body(c: Any, i: Any) -> Any:
        return jnp.where(jnp.arange(STEPS) < i, jnp.log(-1 - c * c), c * 0.9), c.sum()

    return jax.lax.scan(body, x, jnp.arange(STEPS))


def branches(x: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        y = jax.lax.cond(x > 0.3, lambda c: jnp.log(-c * c - 1), lambda c: jnp.sin(c), c + x)
        return jnp.where(x > 0.7, c, y), jax.jit(lambda y: jnp.maximum(y, 0))(y)

    return jax.lax.scan(body, np.float32(1), x)


def nested(x: Any) -> Any:
    def outer(c: Any, x: Any) -> Any:
        inner, ys = jax.lax.scan(lambda k, u: (k * 0.5 + jnp.sqrt(u), k > 0), c, x + XS[:8])
        return jnp.nan_to_num(inner), (ys, inner)

    return jax.lax.scan(outer, np.float32(1), x)


def counted(x: Any) -> Any:
    def body(state: Any) -> Any:
        i, c = state
        return i + 1, jnp.where(i % 7 == 3, jnp.float32(jnp.nan), jnp.cos(c) + x[i])

    return jax.lax.while_loop(lambda s: s[0] < STEPS - 1, body, (0, jnp.float32(0)))


def ends(x: Any) -> Any:
    """The end of the loop depends on the bad value."""
    grow = lambda c: jnp.where(c > 40, jnp.inf, c * 1.1 + 0.1)
    return jax.lax.while_loop(lambda c: c < 1e9, grow, x.sum() * 0 + 1)


def switches(x: Any) -> Any:
    """The carry changes its place from step to step."""
    return jax.lax.scan(lambda c, x: ((c[1], c[0] * x), c[0]), (jnp.log(x[0]), x[1]), x)


LOOPS: list[Callable[..., Any]] = [
    some_steps, carried, grows, branches, nested, counted, ends, switches
]  # fmt: skip


def document(program: ClosedJaxpr, args: list[Any]) -> Any:
    return blame(program, args, step_limit=2_000).json()


def alone(monkeypatch: pytest.MonkeyPatch, program: ClosedJaxpr, args: list[Any]) -> Any:
    """The answer where each step and each equation is looked at alone, as soon as it has run."""
    with monkeypatch.context() as m:
        m.setattr(flow, "FEW", 1 << 60)
        m.setattr(flow, "_MANY", 1 << 60)
        m.setattr(logs, "_LOGS", 0)
        return document(program, args)


@pytest.mark.parametrize("f", LOOPS)
@pytest.mark.parametrize("kept", [2_000, 7])
def test_loops(f: Callable[..., Any], kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = jt.trace(f, XS)
    expected = alone(monkeypatch, program, [XS])
    assert expected["found"]
    monkeypatch.setattr(logs, "_LOGS", kept)
    assert document(program, [XS]) == expected


@pytest.mark.parametrize("f", LOOPS)
def test_large_values(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where little is kept, each result is looked at as soon as it is there."""
    program = jt.trace(f, XS)
    expected = alone(monkeypatch, program, [XS])
    monkeypatch.setattr(logs, "_BYTES", 100)
    assert document(program, [XS]) == expected


@pytest.mark.parametrize("name", random.Random(0).sample(sorted(REAL), 8))
def test_real_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, args = real_program(name)
    program = with_places(program, name)
    for where in spots(name, program, args, 1):
        faulty = planted(program, where)
        assert document(faulty, args) == alone(monkeypatch, faulty, args)


def test_little_is_kept_of_a_long_program() -> None:
    """What no equation reads any more is let go."""
    alive: list[int] = []

    class Looking(logs.Logging):
        def look(self, root: logs.Log) -> None:
            root.forget()
            alive.append(sum(r is not None for r in root.results))

    def f(x: Any) -> Any:
        for _ in range(200):
            x = jnp.sin(x) + x
        return x

    x = np.ones(100_000, np.float32)
    run(jt.trace(f, x), [x], observer=Looking())
    assert len(alive) > 10 and max(alive) < 30

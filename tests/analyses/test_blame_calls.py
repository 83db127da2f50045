"""`blame` of programs and loops that call functions: it runs a program without the calls, and its answers are about the one with them."""

from __future__ import annotations

import json
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.blaming import unfolded
from jaxprtool.analyses.blaming.bad_values import Sought
from jaxprtool.driver.places import with_places
from jaxprtool.interpreters.dce import draws_anew
from jaxprtool.ir.walk import count_eqns


@jax.jit
def _inner(x):
    return jnp.log(x) * 0.5


@jax.jit
def _outer(x, y):
    return jnp.where(y > 0.5, _inner(x), y), _inner(y + 1)


@jax.custom_jvp
def _own(x):
    return jnp.sqrt(x)


_own.defjvp(lambda p, t: (_own(*p), t[0]))


def _calls(x):
    def body(c, t):
        a, b = _outer(c - t * 0.1, c)
        return jnp.clip(a, -1, 1) + b, jnp.flip(c).sum()

    return jax.lax.scan(body, x, jnp.arange(12.0))


def _branches(x):
    def body(i, c):
        return jax.lax.cond(c.sum() > 2, lambda c: _inner(c - 1), lambda c: _own(c) + 0.3, c)

    return jax.lax.fori_loop(0, 9, body, x)


def _nested(x):
    def row(c, t):
        return jax.lax.scan(lambda d, s: (_own(d - s), _outer(d, d)[0]), c, jnp.ones(3) * t)

    return jax.lax.scan(row, x, jnp.linspace(0, 2, 5))


def _masked(x):
    def body(c, t):
        return jnp.nan_to_num(jnp.where(t > 2, jnp.log(-c), c)), jnp.argmax(_inner(c - 1))

    return jax.lax.scan(body, x, jnp.arange(5.0))


@pytest.mark.parametrize("f", [_calls, _branches, _nested, _masked])
@pytest.mark.parametrize("above", [None, 1.5])
def test_the_answer_is_that_of_the_program_with_its_calls(f, above, monkeypatch):
    program = jt.trace(f, np.array([0.4, 0.9, 1.3], np.float32))
    args = [np.array([0.4, 0.9, 1.3], np.float32)]
    flat = unfolded.unfolded(with_places(program), Sought(above=above))
    assert flat.ways
    found = jt.blame(program, *args, above=above).json()
    monkeypatch.setattr(unfolded, "_MOST", -1)
    other = jt.trace(f, *args)
    assert not unfolded.unfolded(with_places(other), Sought(above=above)).ways
    want = jt.blame(other, *args, above=above).json()
    assert found["found"]
    assert json.dumps(found) == json.dumps(want)


def _blamed(program, args):
    """The answer, or what the program fails with: some have loops without an end, or matrices that LAPACK does not take."""
    try:
        return jt.blame(program, *args, above=1.0, step_limit=100).json()
    except (jt.UsageError, jt.UnsupportedError) as e:
        return str(e)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_have_the_same_answer(seed, monkeypatch):
    while any(draws_anew(e) for e in jt.random_program(seed, size=15)[0].eqns):
        seed += 20  # it would have another answer each time
    program, args = jt.random_program(seed, size=15)
    found = _blamed(program, args)
    monkeypatch.setattr(unfolded, "_MOST", -1)
    again, _ = jt.random_program(seed, size=15)
    assert found == _blamed(again, args)


def test_a_body_that_calls_one_that_calls_another_twice_does_not_grow_without_end():
    def doubled(g, n):
        return g if n == 0 else doubled(jax.jit(lambda y, g=g: g(g(y))), n - 1)

    g = doubled(jax.jit(lambda y: jnp.sin(y) * 2), 9)
    program = jt.trace(lambda x: jax.lax.scan(lambda c, _: (g(c), None), x, None, length=3), 0.5)
    flat = unfolded.unfolded(with_places(program), Sought())
    assert flat.ways
    assert count_eqns(flat.program.jaxpr) < 10 * count_eqns(program.jaxpr) + 200


def test_equations_in_the_place_of_calls_are_not_many_more_than_those_of_the_program():
    """They are kept while the program runs; those of a function are shared by all that call it."""

    def chain(name, results, line):
        names = ["a", *[f"{name}{i}" for i in range(results)]]
        lines = [f"    {v}:f32[2] = {line} {u}" for u, v in pairwise(names)]
        return "\n".join(["{ lambda ; a:f32[2]. let", *lines, f"  in ({names[-1]},) }}"])

    calls = 2_000
    text = f"let f = {chain('y', 40, 'sin')} in\n{chain('z', calls, 'jit[name=f jaxpr=f]')}"
    program = with_places(jt.parse(text))
    flat = unfolded.unfolded(program, Sought())
    assert flat.ways
    assert len(flat.program.eqns) < 2 * calls + 6_000
    assert not jt.blame(program, np.ones(2, np.float32)).found

"""blame tells apart which of two origins a bad element is from, wherever elements are moved, chosen and dropped."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.blaming import double_where

N = 6


def moved(rng, x, good):
    """One random operation that moves, chooses or drops elements of x, a vector of N; `good` is put in their place."""
    k, mask = rng.randrange(N), jnp.array([rng.random() < 0.5 for _ in range(N)])
    which = jnp.array([rng.randrange(N) for _ in range(N)])
    other = jnp.roll(x, k)
    return rng.choice(
        [
            lambda: jnp.where(mask, x, other),
            lambda: jnp.where(mask, x, good),
            lambda: x[which],
            lambda: x[::-1],
            lambda: jnp.concatenate([x[k:], jnp.full(k, good)]),
            lambda: jnp.stack([x, other])[rng.randrange(2)],
            lambda: x.reshape(2, 3).T.reshape(N),
            lambda: jnp.pad(x, (1, 0))[:N] if k % 2 else jax.lax.dynamic_slice(other, (0,), (N,)),
            lambda: x.at[k].set(good),
            lambda: jax.lax.dynamic_update_slice(x, other[:2], (k // 2,)),
            lambda: jnp.concatenate(jnp.split(x, 2)[::-1]),
            lambda: jnp.split(jnp.concatenate([x, other]), [k, k + N])[1],
            lambda: jax.lax.sort((which, x), num_keys=1)[1],
            lambda: jax.jit(lambda x: jnp.where(mask, x, jnp.roll(x, 1)))(x),
        ]
    )()


def two_origins(seed, *, in_loop, numbers):
    """A program that makes infinities by log and by div, and moves them; with numbers, of 1 and 2 in their places."""

    def f(x):
        rng = random.Random(seed)
        first, second = rng.sample(range(N), 2)
        at = jnp.arange(N)
        if numbers:
            a = jnp.where((at == first) & (x == 0), 1, 0)
            b = jnp.where((at == second) & (x == 0), 2, 0)
        else:
            a = jnp.log(jnp.where(at == first, x, 1.0))
            b = 1 / jnp.where(at == second, x, 1.0)
        x = jnp.where(at == first, a, b)
        good = 0 if numbers else 3.0
        steps = rng.randrange(1, 6)
        if in_loop:
            state = rng.getstate()

            def body(x, _):
                rng.setstate(state)
                for _ in range(steps):
                    x = moved(rng, x, good)
                return x, x[0]

            x, _ = jax.lax.scan(body, x, None, length=5)
        else:
            for _ in range(steps):
                x = moved(rng, x, good)
        return x[:3], x[3:]

    return f


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("in_loop", [False, True])
def test_each_element_has_its_origin(seed, in_loop):
    x = np.zeros(N, np.float32)
    found = jt.blame(two_origins(seed, in_loop=in_loop, numbers=False), x)
    numbers = jax.jit(two_origins(seed, in_loop=in_loop, numbers=True))(x)
    for output, right in zip(found.outputs, numbers, strict=True):
        begin = [p.eqn.primitive.name for p in output.chain[:1]]
        if 1 in right and 2 in right:
            assert output.reached == "reaching" and begin[0] in ("log", "div")
        elif 1 in right or 2 in right:
            assert output.reached == "reaching" and begin == ["log" if 1 in right else "div"]
        else:
            assert output.reached in ("masked", None)


def test_what_is_dropped_while_another_goes_on_is_masked():
    x = np.array([0, 1, 2], np.float32)
    found = jt.blame(lambda x: jnp.where(x > 0, jnp.log(x), 1 / x), x)
    assert found.first is not None and found.first.eqn.primitive.name == "log"
    assert [p.eqn.primitive.name for p in found.masked_by] == ["select_n"] and len(found.chain) == 1
    assert [p.eqn.primitive.name for p in found.outputs[0].chain] == ["div", "select_n"]
    assert "reaching, from div at" in str(found)


def test_what_an_operation_makes_elsewhere_begins_there():
    """1 / -inf is 0: the infinity of the logarithm ends in the division that makes another one."""
    found = jt.blame(lambda x: 1 / jnp.log(x), np.array([0, 1, 2], np.float32))
    assert [p.eqn.primitive.name for p in found.outputs[0].chain] == ["div"]
    assert [p.eqn.primitive.name for p in found.masked_by] == ["div"]


def test_results_of_one_equation_have_their_own_origins():
    def f(x):
        a, b = jnp.log(x[:2]), jnp.sqrt(x[2:])
        first, second, third = jnp.split(jnp.concatenate([a, b, x]), [2, 4])
        key, value = jax.lax.sort((x, jnp.concatenate([b, a])), num_keys=1)
        return first, second, third, key, value[:2], value[2:]

    found = jt.blame(f, np.float32([-4, -3, -2, -1]))
    begins = [o.chain[0].eqn.primitive.name if o.chain else None for o in found.outputs]
    assert begins == ["log", "sqrt", None, None, "sqrt", "log"]
    assert all(o.reached == "reaching" for o in found.outputs if o.chain)


def test_steps_of_a_loop_that_choose_otherwise():
    """In step 7 alone the other origin is taken."""

    def body(c, i):
        a, b = jnp.log(c), 1 / c
        return c, jnp.where(i == 7, a, b)

    found = jt.blame(
        lambda x: jax.lax.scan(body, x, jnp.arange(20))[1][7:8], np.zeros(2, np.float32)
    )
    assert found.outputs[0].reached == "reaching"
    names = {p.eqn.primitive.name for p in found.outputs[0].chain}
    assert "log" in names or "div" in names


def test_a_long_loop_with_two_origins_is_followed_to_its_end():
    def body(c, i):
        return jnp.where(i % 2 == 0, jnp.roll(c, 1), c + 0 * jnp.log(c)), None

    x = np.array([np.inf, -1, 2, 3], np.float32)
    found = jt.blame(lambda x: jax.lax.scan(body, x, jnp.arange(3000))[0], x)
    assert found.outputs[0].reached == "reaching"


def test_looking_for_the_choice_takes_time_in_proportion(monkeypatch):
    """What comes before each equation of a chain is looked at once, not again for each."""
    counts = []
    for n in (50, 200):

        def f(a, w, n=n):
            a = jnp.where(w > 2, 1.0, jnp.log(a))
            b = jnp.sqrt(w - 2)
            for _ in range(n):
                a, b = jnp.where(w > 0.5, a, b) + 1.0, b * a
            return b

        looked = [0]
        of = double_where.resolved

        def counted(level, x, looked=looked, of=of):
            looked[0] += 1
            return of(level, x)

        with monkeypatch.context() as patch:
            patch.setattr(double_where, "resolved", counted)
            assert jt.blame(f, np.zeros(2, np.float32), np.zeros(2, np.float32)).found
        counts.append(looked[0])
    assert counts[0] > 50 and counts[1] < 6 * counts[0]


def test_an_infinity_of_an_argument_is_one_where_it_makes_a_nan_at_once():
    """0 times an infinity: what the argument holds is an infinity, and the NaN begins in the product."""
    found = jt.blame(lambda x, y: x * y, np.zeros(2, np.float32), np.float32([1, np.inf]))
    of = [(a.kind, a.source and a.source.kind) for a in found.appearances]
    assert found.kind == "inf" and of == [("inf", "argument"), ("nan", None)], str(found)

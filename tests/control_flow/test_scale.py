"""Long loops: they run in constant memory where nothing is stacked, on NumPy and compiled."""

from __future__ import annotations

import tracemalloc

import jax
import numpy as np
import pytest

import jaxprtool as jt
from tests.control_flow.oracle import close, traced

X = np.linspace(0, 1, 256, dtype=np.float32)


def _scan(n):
    return lambda x: jax.lax.scan(lambda c, _: (c * 0.5 + x, None), x, None, length=n)[0]


def _while(n):
    def loop(x):
        state = jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5), (0, x))
        return state[1]

    return loop


def _fori_with_a_reference(n):
    def loop(x):
        r = jax.new_ref(x)

        def step(i, c):
            r[i % 256] = c
            return c * 0.5

        jax.lax.fori_loop(0, n, step, np.float32(1))
        return r[...]

    return loop


LOOPS = {
    "scan": (_scan, 100_000),
    "while": (_while, 100_000),
    "reference": (_fori_with_a_reference, 10_000),
}


def _peak(program):
    """The results of a program, and the most bytes held while it runs."""
    tracemalloc.start()
    try:
        out = jt.eval_jaxpr(program, [X])
        return out, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("loop, n", LOOPS.values(), ids=LOOPS)
def test_memory_does_not_grow_with_the_steps(loop, n):
    few, many = traced(loop(100), X), traced(loop(n), X)
    _peak(few)  # imports
    out, bytes_of_many = _peak(many)
    assert bytes_of_many <= _peak(few)[1] + 128 * X.nbytes
    close(out, [jax.jit(loop(n))(X)])


def test_the_memory_check_can_fail():
    def stacking(n):
        return lambda x: jax.lax.scan(lambda c, _: (c * 0.5, c), x, None, length=n)

    assert _peak(traced(stacking(1000), X))[1] >= 1000 * X.nbytes


def test_compiled_loops_take_no_more_memory_than_those_of_jax():
    def stacking(x):
        return jax.lax.scan(lambda c, v: (c * v, c), x, jax.numpy.outer(x, x))

    ours = jt.compile(traced(stacking, X)).memory_analysis().temporaries
    theirs = jax.jit(stacking).lower(X).compile().memory_analysis().temp_size_in_bytes
    assert ours <= theirs

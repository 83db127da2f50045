"""Ordered output and callbacks: in the order of JAX, on NumPy and under XLA."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

import jaxprtool as jt
from jaxprtool.interpreters.columns.ordering import is_ordered
from tests.control_flow.oracle import traced

X = np.float32(1)
say = functools.partial(jax.debug.print, ordered=True)


def _everywhere(x):
    """Output before, in and between loops and branches, also in conditions and functions."""
    say("start {}", x)
    x = lax.fori_loop(0, 3, lambda i, c: (say("for {} {}", i, c), c * 2)[1], x)
    x, _ = lax.scan(lambda c, a: (c + a, say("scan {}", a)), x, jnp.arange(3.0), reverse=True)
    x = lax.cond(x > 0, lambda v: (say("yes {}", v), v + 1)[1], lambda v: v, x)
    x = lax.switch(1, [lambda v: v, jax.jit(lambda v: (say("jit {}", v), v)[1])], x)
    x = lax.while_loop(lambda s: (say("is {} < 40?", s), s < 40)[1], lambda s: s * 1.5, x)
    x = jax.jit(lambda v: (say("end {}", v), v)[1])(x)
    say("{} at last", x)
    return x


def _loops(x):
    """Loops around a condition with output and a body with output, twice the same function."""
    inner = jax.jit(lambda v: (say("inner {}", v), v - 1)[1])

    def body(state):
        i, v = state
        say("body {}", i)
        v = lax.while_loop(lambda s: (say("cond {}", s), s > i)[1], inner, v)
        return i + 1, inner(v) + 4

    return lax.while_loop(lambda s: s[0] < 3, body, (0, x))[1]


@pytest.mark.parametrize("f", [_everywhere, _loops])
def test_lines_come_in_the_order_of_jax(f, capfd):
    closed = jax.make_jaxpr(f)(X)
    program = jt.parse(str(closed))
    result = jax.jit(f)(X)
    jax.effects_barrier()
    want = capfd.readouterr().out
    assert want.count("\n") > 10
    compiled = jt.compile(program)
    for run in (lambda x: jt.eval_jaxpr(program, [x]), compiled):
        np.testing.assert_allclose(run(X)[0], result)
        assert capfd.readouterr().out == want


def test_output_in_functions_nested_deeper_than_xla_takes(capfd):
    f = lambda x: x
    for i in range(70):
        f = jax.jit(lambda x, i=i, f=f: (say("{} in", i), f(x + 1), say("{} out", i))[1])
    program = jt.parse(str(jax.make_jaxpr(f)(X)))
    jt.compile(program)(X)[0].block_until_ready()
    lines = [f"{i} in" for i in range(69, -1, -1)] + [f"{i} out" for i in range(70)]
    assert capfd.readouterr().out.splitlines() == lines


def test_callbacks_come_in_the_order_of_jax():
    calls = []

    def note(what, i, c):
        calls.append((what, int(i), float(c)))

    def double(i, c):
        note("double", i, c)
        return np.float32(2 * c)

    def f(x):
        def body(i, c):
            jax.debug.callback(functools.partial(note, "debug"), i, c, ordered=True)
            c = io_callback(double, jax.ShapeDtypeStruct((), np.float32), i, c, ordered=True)
            io_callback(functools.partial(note, "none"), None, i, c, ordered=True)
            return c

        return lax.fori_loop(0, 3, body, x)

    program = traced(f, X)
    jax.jit(f)(X).block_until_ready()
    jax.effects_barrier()
    assert len(calls) == 9  # JAX orders those of debug.callback and of io_callback apart
    want = [[c for c in calls if (c[0] == "debug") == debug] for debug in (True, False)]
    for run in (lambda x: jt.eval_jaxpr(program, [x]), jt.compile(program)):
        calls.clear()
        assert float(run(X)[0]) == 8
        assert [[c for c in calls if (c[0] == "debug") == debug] for debug in (True, False)] == want
        assert calls == sorted(calls, key=lambda c: c[1])


@pytest.mark.parametrize(
    "effect", ["Debug", "OrderedDebug", "DebugEffect.PRINT", "DebugEffect.ORDERED_PRINT"]
)
def test_an_effect_says_whether_the_order_is_kept(effect):
    f = lambda x: (jax.debug.callback(print, x, ordered="ORDERED" in effect.upper()), x)[1]
    closed = jax.make_jaxpr(f)(X)
    now = str(closed.eqns[0].params["effect"])
    for program in (jt.from_jax(closed), jt.parse(str(closed).replace(now, effect))):
        assert is_ordered(program) == ("ORDERED" in effect.upper())


def test_order_on_several_devices_is_refused():
    """As JAX refuses it."""
    mesh = jax.sharding.AbstractMesh((2,), ("i",))
    spec = jax.sharding.PartitionSpec("i")
    f = jax.shard_map(lambda x: (say("{}", x), x)[1], mesh=mesh, in_specs=spec, out_specs=spec)
    program = jt.from_jax(jax.make_jaxpr(f)(np.arange(4.0, dtype=np.float32)))
    with pytest.raises(jt.UnsupportedError, match=r"ordered output .* on 2 devices"):
        jt.lower(program)

"""while with a batched condition, step limits, messages about carries, Ctrl-C."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.interpreters.evaluation.limits import limited_steps, running_loops, steps, where
from jaxprtool.ir.walk import count_eqns
from tests.control_flow.oracle import close, compare, count_jax, traced

X, Y = np.array([1.0, 2, 30], np.float32), np.array([10.0, 20, 5], np.float32)


def _grow(x, y):
    def body(c):
        return c[0] * 1.5 + 0.1, c[1] + 1, jnp.sin(c[2]) + c[0]

    start = (x, jnp.int32(0), jnp.ones((2,), np.float32) * x)
    return jax.lax.while_loop(lambda c: c[0] < y, body, start)


AXES = [(0, 0), (0, None), (None, 0)]


@pytest.mark.parametrize("axes", AXES)
def test_batched_condition(axes):
    args = [v if a == 0 else v[1] for v, a in zip((X, Y), axes, strict=True)]
    f = jax.vmap(_grow, axes)
    compare(f, *args, reverse=False)
    ours, _ = jt.vmap_jaxpr(traced(_grow, X[0], Y[0]), 3, axes)
    jt.typecheck_jaxpr(ours)
    assert count_eqns(ours.jaxpr) == count_jax(jax.make_jaxpr(f)(*args))
    close(jt.eval_jaxpr(ours, args), f(*args))
    close(jt.compile(ours)(*args), f(*args))


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("outer", AXES)
def test_twice_batched_condition(axes, outer):
    args = [v if a == 0 else v[1] for v, a in zip((X, Y), axes, strict=True)]
    program = traced(jax.vmap(_grow, axes), *args)
    batched = [v if a is None else np.stack([v, v + 1]) for v, a in zip(args, outer, strict=True)]
    f = jax.vmap(jax.vmap(_grow, axes), outer)
    ours, _ = jt.vmap_jaxpr(program, 2, outer)
    jt.typecheck_jaxpr(ours)
    assert count_eqns(ours.jaxpr) <= count_jax(jax.make_jaxpr(f)(*batched))
    close(jt.eval_jaxpr(ours, batched), f(*batched))
    close(jt.compile(ours)(*batched), f(*batched))


def test_keys_in_the_carry():
    def f(data, n):
        def loop(key, n):
            step = lambda c: (jax.random.split(c[0])[0], c[1] + 1)
            return jax.lax.while_loop(lambda c: c[1] < n, step, (key, jnp.int32(0)))[0]

        return jax.random.key_data(jax.vmap(loop)(jax.random.wrap_key_data(data), n))

    data, n = np.arange(6, dtype=np.uint32).reshape(3, 2), np.array([1, 2, 5], np.int32)
    program = traced(f, data, n)
    close(jt.eval_jaxpr(program, [data, n]), f(data, n))
    close(jt.compile(program)(data, n), f(data, n))


LOOP = """{ lambda ; a:i32[]. let
    b:i32[] = while[
      body_jaxpr={ lambda ; c:i32[]. let d:BODY in (d,) }
      body_nconsts=0
      cond_jaxpr={ lambda ; c:i32[]. let d:bool[] = ge c 0:i32[] in (d,) }
      cond_nconsts=COUNT
    ] a
  in (b,) }"""


def _loop(body="i32[] = add c 1:i32[]", count="0"):
    return jt.parse(LOOP.replace("BODY", body).replace("COUNT", count))


@pytest.mark.parametrize(
    "program, message",
    [
        (
            _loop("f32[] = sin 1.0:f32[]"),
            r"part 0 of the carry (c) is i32[] before a step, and f32[]",
        ),
        (_loop(count="-1"), "cond_nconsts=-1 is no number of operands"),
        (_loop(count="2"), "cond_nconsts=2 and body_nconsts=0, and there is 1 operand"),
    ],
)
def test_ill_typed_loops(program, message):
    with pytest.raises(jt.JaxprTypeError, match=re.escape(message)):
        jt.typecheck_jaxpr(program)


def test_condition_with_axes_that_the_carry_lacks():
    text = LOOP.replace("BODY", "i32[] = add c 1:i32[]").replace("COUNT", "0")
    text = text.replace("d:bool[] = ge c 0:i32[]", "d:bool[2] = broadcast_in_dim True:bool[]")
    with pytest.raises(jt.JaxprTypeError, match="does not start with these axes"):
        jt.typecheck_jaxpr(jt.parse(text))


def test_step_limit():
    with limited_steps(1000), pytest.raises(jt.UsageError, match="while has taken 1,000 steps"):
        jt.eval_jaxpr(_loop(), [np.int32(0)])
    assert running_loops() == []


def test_step_limit_of_scan():
    program = traced(lambda x: jax.lax.scan(lambda c, v: (c + v, None), 0.0, x)[0], X)
    with limited_steps(3):
        close(jt.eval_jaxpr(program, [X]), [X.sum()])
    with limited_steps(2), pytest.raises(jt.UsageError, match="this one takes 3"):
        jt.eval_jaxpr(program, [X])


def test_where_says_which_step():
    assert where() == ""
    for _ in steps("scan", 3):
        for j in steps("while", None):
            if j == 4:
                break
            told = where()
    assert told == "in step 3 of 3 of scan, step 4 of while"
    assert where() == ""


def _counting(inner):
    """A loop that counts, beside a number that `inner` changes or looks at."""

    def f(x):
        body = lambda c: (inner(*c), jnp.sin(c[1]))
        return jax.lax.while_loop(lambda c: c[0] < 3, body, (jnp.int32(0), x))

    return f


def _ignoring(i, y):
    return jax.lax.while_loop(lambda k: k <= i, lambda k: (jnp.cos(y), k + 1)[1], i)


def _printing(i, y):
    jax.debug.print("{}", y)
    return i + 1


@pytest.mark.parametrize("inner", [_ignoring, _printing])
def test_known_part_of_equations_with_unknown_operands(inner):
    f, x = _counting(inner), np.float32(0.5)
    known, unknown, unks_out, n_res = jt.partial_eval_jaxpr(traced(f, x), [True], verify=True)
    assert unks_out == [False, True]
    first = jt.eval_jaxpr(known, [])
    second = jt.eval_jaxpr(unknown, [*first[len(first) - n_res :], x])
    close([first[0], second[0]], f(x))


def test_constants_that_nobody_reads_are_left_out():
    f = lambda x: jax.lax.while_loop(
        lambda k: (jnp.sin(x), k < 3)[1], lambda k: (jnp.cos(x), k + 1)[1], jnp.int32(0)
    )
    program = jt.jvp_jaxpr(traced(f, np.float32(1)))[0]
    (loop,) = program.jaxpr.eqns
    assert len(loop.inputs) == 1 and count_eqns(program.jaxpr) == 3
    close(jt.eval_jaxpr(program, [np.float32(1), np.float32(1)])[0], f(1.0))

"""Plain calls, linear_call, barriers, a choice by platform, custom derivatives' odd corners."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from tests.control_flow.oracle import close, compare, traced

X = np.arange(3, dtype=np.float32) + 0.5


def test_linear_call_has_its_own_transpose():
    def f(x):
        times, back = (lambda r, v: v * r), (lambda r, ct: ct * r * 3.0)
        return jax.custom_derivatives.linear_call(times, back, 2.0, x) + x

    program = compare(f, X, batch=False)
    close(jt.vmap(jt.jaxpr_as_fun(program))(np.stack([X, X])), [np.stack([3 * X, 3 * X])])
    again = jt.from_jax(jt.to_jax(program))
    close(jt.vjp(jt.jaxpr_as_fun(again), X)[1](X), [7 * X])


def test_linear_call_read_from_text_is_transposed_itself():
    def f(x):
        return jax.custom_derivatives.linear_call(lambda r, v: v * r, lambda r, ct: ct, 2.0, x)

    program = jt.parse(str(jax.make_jaxpr(f)(X)))
    close(jt.vjp(jt.jaxpr_as_fun(program), X)[1](X), [2 * X])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jax.lax.optimization_barrier((x, jnp.sin(x))),
        lambda x: jax.lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos),
        lambda x: jax.lax.platform_dependent(x, cuda=jnp.cos, default=jnp.tanh),
        jax.named_call(lambda x: jnp.sin(x), name="f"),
    ],
)
def test_wrapped_functions(f):
    compare(f, X)


CALL = """{ lambda ; a:f32[3]. let
    b:f32[3] = NAME[call_jaxpr={ lambda ; c:f32[3]. let d:f32[3] = sin c in (d,) }] a
  in (b,) }"""


@pytest.mark.parametrize("name", ["closed_call", "core_call", "call"])
def test_plain_calls(name):
    program = jt.parse(CALL.replace("NAME", name))
    jt.typecheck_jaxpr(program)
    f = jt.jaxpr_as_fun(program)
    close(f(X), [np.sin(X)])
    close(jt.compile(program)(X), [np.sin(X)])
    close(jt.vjp(f, X)[1](X), [np.cos(X) * X])
    close(jt.vmap(f)(np.stack([X, X])), [np.stack([np.sin(X)] * 2)])


def test_no_branch_for_our_platform():
    text = "{ lambda ; . let a:i32[] = platform_index[platforms=(('cuda',),)]  in (a,) }"
    with pytest.raises(jt.JaxprTypeError, match="for cpu"):
        jt.eval_jaxpr(jt.parse(text), [])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _scaled(n, x, y):
    return n * x * y


_scaled.defvjp(
    lambda n, x, y: (_scaled(n, x, y), (x, y)), lambda n, r, g: (5 * n * g * r[1], g * r[0])
)


def test_custom_vjp_with_nondiff_argnums_and_a_zero_tangent():
    compare(lambda x: _scaled(3.0, x, 2 * x), X, forward=False)
    compare(lambda x: _scaled(3.0, x, jnp.ones(3, np.float32)), X, forward=False)


def test_custom_lin_keeps_its_rule_and_says_when_it_has_none():
    _, linear = jax.linearize(lambda x: _scaled(3.0, x, jnp.ones(3, np.float32)), X)
    program = traced(linear, X)
    transposed, _ = jt.transpose_jaxpr(program, [True])
    close(jt.eval_jaxpr(transposed, [X]), [15 * X])
    from_text = jt.parse(str(jax.make_jaxpr(linear)(X)))
    jt.typecheck_jaxpr(from_text)
    with pytest.raises(jt.UnsupportedError, match=r"backward rule .* is not in the text") as error:
        jt.transpose_jaxpr(from_text, [True])
    assert "trace the function anew" in error.value.diagnostics[0].help

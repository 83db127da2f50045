"""Rules of numerics and of conversions find a pattern in every way in which it is written, and across what only moves elements."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.fix import fixed
from jaxprtool.driver.lint import lint
from jaxprtool.ir.walk import all_eqns

X = np.array([0.5, -1.0, 2.0], np.float32)
exp, log = jnp.exp, jnp.log

FOUND = {
    "log-of-sigmoid": [
        lambda x: log(jax.nn.sigmoid(x)),
        lambda x: log(1 / (1 + exp(-x))),
        lambda x: log(1 / (exp(-x) + 1)),
        lambda x: log(1 / (exp(-x) - (-1.0))),
        lambda x: log(exp(x) / (1 + exp(x))),
        lambda x: log(exp(x) * (1 / (1 + exp(x)))),
        lambda x: log(jnp.reciprocal(1 + exp(-x))),
        lambda x: log((1 + exp(-x)) ** -1),
        lambda x: log(0.5 * (1 + jnp.tanh(x / 2))),
        lambda x: log((jnp.tanh(x / 2) + 1) / 2),
        lambda x: log((1 / (1 + exp(-x[None]))).T[:2]),
        lambda x: log(1 - jax.nn.sigmoid(x)),
        lambda x: log(1 - 1 / (1 + exp(-x))),
        lambda x: jnp.log1p(-jax.nn.sigmoid(x)),
        lambda x: jnp.log1p(-1.0 * (1 / (1 + exp(-x)))),
    ],
    "log-of-softmax": [
        lambda x: log(jax.nn.softmax(x)),
        lambda x: log(exp(x) / jnp.sum(exp(x))),
        lambda x: log(exp(x) * (1 / jnp.sum(exp(x)))),
        lambda x: log((exp(x) / jnp.sum(exp(x)))[None].T),
        lambda x: log(exp(x) * jnp.sum(exp(x)) ** -1),
    ],
    "exp-without-max": [
        lambda x: exp(x) / exp(x).sum(),
        lambda x: exp(x) * (1 / exp(x).sum()),
        lambda x: log(exp(x).sum()),
        lambda x: log(exp(x)[None].sum(0).sum()),
        lambda x: log(exp(x) + exp(2 * x)),
        lambda x: log(jnp.cumsum(exp(x))),
        lambda x: log(exp(x) @ jnp.ones((3, 2))),
        lambda x: log(jnp.ones((2, 3)) @ exp(x)),
    ],
    "log-of-one-plus": [
        lambda x: log(1 + x),
        lambda x: log(x + 1),
        lambda x: log(x - (-1.0)),
        lambda x: log(1 - x),
        lambda x: log((1 + x)[None].T),
    ],
}
PAIRS = [(code, i) for code, functions in FOUND.items() for i in range(len(functions))]

QUIET = [
    jax.nn.log_softmax,
    jax.nn.softmax,
    jax.nn.log_sigmoid,
    jax.nn.softplus,
    lambda x: jnp.logaddexp(x, 2 * x),
    lambda x: log(x + 2 * x),
    lambda x: log(2 / (x * x + 3)),
    lambda x: exp(x) / (2 + exp(x)),
    lambda x: log(exp(x) * 0.5),
    lambda x: jnp.log1p(-x * x),
    lambda x: 0.5 * (1 + jnp.tanh(x)),
    lambda x: log(2 - jax.nn.sigmoid(x)),
]


def codes(f, *args):
    return [
        c.code for c in lint({"": jt.trace(f, *args)}, select=("numerics", "conversions")).findings
    ]


@pytest.mark.parametrize(("code", "i"), PAIRS, ids=[f"{code}-{i}" for code, i in PAIRS])
def test_what_is_written_out_is_found_once(code, i):
    assert codes(FOUND[code][i], X).count(code) == 1
    assert codes(jax.jit(FOUND[code][i]), X).count(code) == 1


@pytest.mark.parametrize("i", range(len(QUIET)))
def test_what_only_looks_like_it_is_not(i):
    assert codes(QUIET[i], X) == []


MOVES = {
    "nothing": lambda x: x,
    "reshape": lambda x: x.reshape(3, 2),
    "transpose": lambda x: x.T,
    "broadcast": lambda x: jnp.broadcast_to(x, (4, 2, 3)),
    "expanded and squeezed": lambda x: jax.lax.squeeze(x[None], (0,)),
    "slice": lambda x: x[:1],
    "rev": lambda x: x[::-1],
    "dynamic_slice": lambda x: jax.lax.dynamic_slice(x, (0, 1), (2, 1)),
    "gather": lambda x: x[jnp.array([0, 1, 1])],
    "copy": lambda x: jnp.copy(x),
    "two": lambda x: x.T.reshape(6),
    "five": lambda x: jnp.broadcast_to(x.T[::-1].reshape(6)[1:], (2, 5)),
    "with indices": lambda x: x[jnp.array([0, 9, -1])].T[:, jnp.array([2, 1])].reshape(6),
    "call": jax.jit(lambda x: x.T),
}
MENDED = {*MOVES} - {"call"}


@pytest.mark.parametrize("move", MOVES)
def test_conversions_there_and_back_are_found_across_what_moves_elements(move):
    def f(x):
        return jnp.sin(MOVES[move](x.astype(jnp.float32)).astype(jnp.bfloat16))

    def narrow(x):
        return jnp.sin(MOVES[move](x.astype(jnp.bfloat16)).astype(jnp.float32))

    x = jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3)
    assert codes(f, x) == ["converted-back"]
    assert codes(narrow, x.astype(jnp.float32)) == []
    program = jt.trace(f, x)
    found = lint({"": program}, select=("conversions",))
    (made,) = fixed({"": program}, found).programs.values()
    (want,), (have,) = jt.run(program, x), jt.run(made, x)
    assert np.asarray(want).tobytes() == np.asarray(have).tobytes()
    if move in MENDED:
        assert "f32" not in {e.out_binders[0].aval.dtype.short for e in all_eqns(made.jaxpr)}


READ_ELSEWHERE = {
    "converted": lambda wide: (wide, wide),
    "moved once": lambda wide: (wide.T, wide.T),
    "moved twice": lambda wide: (wide.T[::-1], wide),
}


@pytest.mark.parametrize("form", READ_ELSEWHERE)
def test_what_is_told_of_a_wide_value_that_is_read_elsewhere_is_mended(form):
    """What a fix cannot take away, since the wide value is needed, is not told; the rest is, and `--fix` mends it."""

    def f(x):
        back, other = READ_ELSEWHERE[form](x.astype(jnp.float32))
        return back.astype(jnp.bfloat16), other

    def needed(x):
        moved = x.astype(jnp.float32).T
        return moved[::-1].astype(jnp.bfloat16), moved

    x = jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3)
    program = jt.trace(f, x)
    found = lint({"": program}, select=("conversions",))
    assert [one.fix for one in found.programs[0].findings] == ["simplify,dce"]
    (made,) = fixed({"": program}, found).programs.values()
    assert not lint({"": made}, select=("conversions",)).programs[0].findings
    assert codes(needed, x) == []


def test_a_conversion_back_in_another_jaxpr_has_no_fix():
    x = jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3)
    program = jt.trace(lambda x: jax.jit(lambda y: y.T)(x.astype(jnp.float32)).astype(x.dtype), x)
    (finding,) = lint({"": program}, select=("conversions",)).programs[0].findings
    assert finding.fix == ""

"""Passes and functions with rules of their own: what is made after a pass is by these rules, or a warning says that they are lost."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.partial_eval import partial_eval
from jaxprtool.interpreters.linearize import grad_jaxpr
from jaxprtool.passes.own_rules import LostRuleWarning
from jaxprtool.passes.registry import all_passes

PASSES = [p.name for p in all_passes() if p.name not in ("cast", "specialise")]
PASSES += ["cast f32->bf16", "specialise n=3"]
X, Y = np.array([0.3, 0.7, -0.2], "f"), np.array([1.1, 0.4, 0.9], "f")


def _functions():
    import jax
    import jax.numpy as jnp

    @jax.custom_jvp
    def f(x, y):
        return jnp.sin(x) * y

    @f.defjvp
    def _(primals, tangents):
        return f(*primals), 2 * tangents[0] * primals[1] + tangents[1] * primals[0] ** 2

    @jax.custom_vjp
    def g(x, y):
        return jnp.cos(x) * y

    g.defvjp(lambda x, y: (g(x, y), (x, y * y)), lambda res, ct: (ct * res[1], ct * res[0]))

    one = jax.custom_jvp(jnp.tanh)
    one.defjvp(lambda primals, tangents: (one(*primals), 3 * tangents[0]))

    def in_loops(x, y):
        a = jax.lax.fori_loop(0, 3, lambda _, c: f(c, y), x)
        return a.sum() + jax.lax.scan(lambda c, _: (g(c, y), None), x, None, length=3)[0].sum()

    def in_calls(x, y):
        a = jax.lax.cond(x[0] > 0, lambda: jax.jit(f)(x, y), lambda: jax.checkpoint(g)(x, y))
        return a.sum() + f(f(x, y), y).sum() + (f(x, y) * f(x * 2, y)).sum()

    return {
        "plain": lambda x, y: f(x, y).sum() + g(x, y).sum(),
        "loops": in_loops,
        "calls": in_calls,
        "one argument": lambda x, y: (jax.jit(one)(x) * one(y)).sum() * jnp.sin(y[0]),
        "a literal": lambda x, y: (jax.nn.softplus(x) * f(y, 2.0)).sum(),
    }


def _opt(program, name):
    """The program after a pass, and whether a warning says that a rule is lost."""
    if name == "specialise n=3":
        program = jt.parse(jt.format_jaxpr(program, lossless=True).replace("[3]", "[n]"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        made = jt.opt(program, passes=name)
    return made, any(issubclass(w.category, LostRuleWarning) for w in found)


def _rounding(name):
    """A relative error, far below what the rules and the bodies differ by."""
    return 2e-2 if "bf16" in name else 1e-5


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("which", ["plain", "loops", "calls", "a literal"])
def test_derivatives_are_by_the_rules_or_a_warning_says_so(which, name):
    function = _functions()[which]
    program = jt.trace(function, X, Y)
    before = jt.eval_jaxpr(grad_jaxpr(program, (0, 1)), [X, Y])
    made, warned = _opt(program, name)
    after = jt.eval_jaxpr(grad_jaxpr(made, (0, 1)), [X, Y])
    rtol = _rounding(name)
    same = all(np.allclose(a, b, rtol=rtol) for a, b in zip(before, after, strict=True))
    assert same is not warned


@pytest.mark.parametrize("known", [0, 1])
@pytest.mark.parametrize("which", ["plain", "loops", "calls", "one argument", "a literal"])
def test_derivatives_of_what_is_not_known_are_by_the_rules_or_a_warning_says_so(which, known):
    function = _functions()[which]
    program, args = jt.trace(function, X, Y), [X, Y]
    (before,) = jt.eval_jaxpr(grad_jaxpr(program, (1 - known,)), args)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        parts = partial_eval(program, [known])
    warned = any(issubclass(w.category, LostRuleWarning) for w in found)
    held = jt.eval_jaxpr(parts["known"], [args[known]])
    unknown = parts["unknown"]
    (after,) = jt.eval_jaxpr(grad_jaxpr(unknown, (len(held),)), [*held, args[1 - known]])
    assert np.allclose(before, after, rtol=1e-5) is not warned
    assert not warned or which in ("plain", "loops", "calls")


def _batched_by_seven():
    import jax.numpy as jnp
    from jax.custom_batching import custom_vmap

    @custom_vmap
    def h(x):
        return jnp.sin(x)

    @h.def_vmap
    def _(axis_size, in_batched, x):
        return x * 7, True

    return h


# the last pass goes through a text, which holds no batching rule
@pytest.mark.parametrize("name", PASSES[:-1])
def test_batches_are_by_the_rule_or_a_warning_says_so(name):
    import jax

    h = _batched_by_seven()
    made, warned = _opt(jt.trace(lambda x: h(x) + jax.jit(h)(x * 2), X), name)
    xs = np.stack([X, Y])
    (ys,) = jt.eval_jaxpr(jt.vmap_jaxpr(made, 2, [0])[0], [xs])
    assert np.allclose(ys, xs * 21, rtol=_rounding(name)) is not warned


def test_batches_of_what_is_not_known_are_by_the_rule():
    h = _batched_by_seven()
    unknown = partial_eval(jt.trace(lambda x, y: h(x) * y, X, Y), [1])["unknown"]
    (ys,) = jt.eval_jaxpr(jt.vmap_jaxpr(unknown, 2, [None, 0])[0], [Y, np.stack([X, Y])])
    np.testing.assert_allclose(ys, np.stack([X, Y]) * 7 * Y, rtol=1e-5)


def test_a_function_without_rules_is_inlined_without_a_warning():
    import jax
    import jax.numpy as jnp

    made, warned = _opt(jt.trace(lambda x: jax.jit(jnp.sin)(x), X), "inline")
    assert not warned
    assert [eqn.primitive.name for eqn in made.eqns] == ["sin"]


def test_a_warning_names_the_functions_that_were_inlined():
    program = jt.trace(_functions()["calls"], X, Y)
    with pytest.warns(LostRuleWarning, match=r"inline: f will be differentiated as written out"):
        jt.opt(program, passes="inline name=f")

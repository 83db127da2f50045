"""Custom rules inside a `shard_map` or `pmap`: rules are traced where they find the axes, and with types that vary as JAX's do.

Each rule differs from the derivative of its function, so that what is made without it is seen.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec

import jaxprtool as jt
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr
from tests.releases import SERIES

P = PartitionSpec
SPLIT = P("i")
X = np.linspace(-1, 2, 6, dtype="f").reshape(2, 3)


def _sharded(f, tracked, out_specs=SPLIT):
    mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
    return jax.shard_map(f, mesh=mesh, in_specs=SPLIT, out_specs=out_specs, check_vma=tracked)


def _unit(a):
    return a / jnp.sqrt(lax.psum((a * a).sum(), "i"))


def _unit_by_jvp():
    unit = jax.custom_jvp(_unit)

    @unit.defjvp
    def _(primals, tangents):
        (a,), (t,) = primals, tangents
        y = unit(a)
        return y, 3 * (t - y * lax.psum((y * t).sum(), "i"))

    return unit


def _total_by_vjp(tracked):
    total = jax.custom_vjp(lambda a: lax.psum(a * a, "i"))

    def backward(a, ct):
        return (3 * a * (lax.pcast(ct, "i", to="varying") if tracked else ct),)

    total.defvjp(lambda a: (total(a), a), backward)
    return total


def _of_two(tracked):
    """Functions of two arguments: JAX gives their rules zeros, or takes a rule to give none."""
    by_jvp = jax.custom_jvp(lambda x, y: jnp.sin(x) * y)
    by_jvp.defjvp(lambda xs, ts: (by_jvp(*xs), 3 * ts[0] * xs[1] + ts[1] * xs[0]))
    by_vjp = jax.custom_vjp(lambda x, y: jnp.sin(x) * y)
    by_vjp.defvjp(lambda x, y: (by_vjp(x, y), y), lambda y, ct: (3 * ct * y, None))
    fixed = np.ones((2, 3), np.float32)
    vary = (lambda c: lax.pcast(c, "i", to="varying")) if tracked else lambda c: c
    return {
        "jvp of two, of which one moves": lambda a: by_jvp(a, vary(jnp.asarray(fixed))),
        "jvp of two": lambda a: by_jvp(a, jnp.cos(a)),
        "vjp of two, one without a cotangent": lambda a: by_vjp(a, jnp.cos(a)),
    }


def _in_loop(f):
    return lambda a: lax.fori_loop(0, 2, lambda _, c: f(c) + a, a)


def _functions(tracked):
    unit, total = _unit_by_jvp(), _total_by_vjp(tracked)
    found = {
        "jvp": _sharded(unit, tracked),
        "jvp in a jit": _sharded(lambda a: jax.jit(unit)(a) + jnp.sin(a), tracked),
        "jvp in a loop": _sharded(_in_loop(unit), tracked),
        "jvp in a checkpoint": _sharded(jax.checkpoint(lambda a: unit(unit(a))), tracked),
        "jvp of JAX's": _sharded(lambda a: jax.nn.relu(a) + jax.nn.softplus(a), tracked),
        "vjp": _sharded(total, tracked, P()),
        "vjp after another": _sharded(lambda a: total(jnp.tanh(a) + unit(a)), tracked, P()),
    }
    found |= {name: _sharded(f, tracked) for name, f in _of_two(tracked).items()}
    if not tracked:
        found["jvp in a pmap"] = lambda x: jax.pmap(unit, axis_name="i")(x[None])
        found["vjp in a pmap"] = lambda x: jax.pmap(total, axis_name="i")(x[None])
    return found


CASES = [(t, name) for t in (False, True) for name in _functions(t)]


def _loss(tracked, name):
    f = _functions(tracked)[name]
    return lambda x: jnp.sum(jnp.sin(f(x)))


@functools.cache
def _case(tracked, name):
    """Our program, and JAX's gradient."""
    f = _loss(tracked, name)
    return jt.from_jax(jax.make_jaxpr(f)(X)), np.asarray(jax.grad(f)(X))


@pytest.mark.parametrize(("tracked", "name"), CASES)
def test_gradients_follow_the_rule(tracked, name):
    program, expected = _case(tracked, name)
    jt.check(program)
    (found,) = jt.eval_jaxpr(grad_jaxpr(program, (0,)), [X])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("tracked", "name"), CASES)
def test_a_file_keeps_the_rule(tracked, name):
    program, expected = _case(tracked, name)
    read = jt.parse(jt.format_jaxpr(program, lossless=True))
    (found,) = jt.eval_jaxpr(grad_jaxpr(read, (0,)), [X])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("tracked", "name"), CASES)
def test_jax_follows_the_rule_of_a_program(tracked, name):
    program, expected = _case(tracked, name)
    f = jt.to_jax_function(program)
    np.testing.assert_allclose(jax.grad(lambda x: f(x)[0])(X), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("tracked", "name"), CASES)
def test_jax_transposes_the_linear_part_by_the_rule(tracked, name):
    if name == "jvp in a loop" and SERIES < (0, 9):
        pytest.skip(
            "JAX 0.8 transposes no scan in a shard_map whose constants are linear, its own neither"
        )
    program, expected = _case(tracked, name)
    forward, linear, _ = linearize_jaxpr(program)
    f, residuals = jt.to_jax_function(linear), jt.eval_jaxpr(forward, [X])[1:]
    (found,) = jax.linear_transpose(lambda t: f(*residuals, t)[0], X)(np.float32(1))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("tracked", "name"), [c for c in CASES if "vjp" not in c[1]])
def test_tangents_follow_the_rule(tracked, name):
    program, _ = _case(tracked, name)
    _, expected = jax.jvp(_loss(tracked, name), (X,), (X[::-1].copy(),))
    made, _ = jt.jvp_jaxpr(program, [True])
    found = jt.eval_jaxpr(made, [X, X[::-1]])[1]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    forward, linear, n = linearize_jaxpr(program)
    residuals = jt.eval_jaxpr(forward, [X])[1:]
    assert len(residuals) == n
    np.testing.assert_allclose(jt.eval_jaxpr(linear, [*residuals, X[::-1]])[0], expected, rtol=1e-4)


def test_a_rule_whose_operands_no_example_has_its_own_of():
    """NumPy runs a `shard_map` as a batch over its axes, in which a replicated operand is not batched."""
    same = jax.custom_vjp(lambda a: a)
    same.defvjp(lambda a: (a, None), lambda _, ct: (lax.psum(ct, "i"),))

    def f(x, w):
        mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
        mapped = jax.shard_map(
            lambda a, w: lax.psum(jnp.tanh(same(a) @ w), "i"),
            mesh=mesh,
            in_specs=(P(), P("i")),
            out_specs=P(),
            check_vma=False,
        )
        return mapped(x, w)

    w = X.T.copy()
    program = jt.from_jax(jax.make_jaxpr(f)(X, w))
    np.testing.assert_allclose(jt.eval_jaxpr(program, [X, w])[0], f(X, w), rtol=1e-5)


def _batched_otherwise(tracked):
    """A function whose batching rule gives twice what the function does, in a mesh and in a pmap."""
    f = jax.custom_batching.custom_vmap(lambda a: jnp.sin(a) * lax.psum(a, "i"))
    f.def_vmap(lambda n, flags, a: (2 * jnp.sin(a) * lax.psum(a, "i"), flags[0]))
    found = {
        "of a function": _sharded(f, tracked),
        "of a function in a loop": _sharded(_in_loop(f), tracked),
        "of one that calls it": _sharded(lambda a: jax.jit(f)(a) + jax.checkpoint(f)(a), tracked),
        "of a derivative": lambda x: jax.jvp(_sharded(f, tracked), (x,), (x * 2,))[1],
    }
    if not tracked:
        found["in a pmap"] = lambda x: jax.pmap(f, axis_name="i")(x[None])[0]
    return found


@pytest.mark.parametrize(
    ("tracked", "name"), [(t, name) for t in (False, True) for name in _batched_otherwise(t)]
)
def test_batches_follow_the_rule(tracked, name):
    f, batch = _batched_otherwise(tracked)[name], np.stack([X, X[::-1], X + 1])
    batched, _ = jt.vmap_jaxpr(jt.from_jax(jax.make_jaxpr(f)(X)), 3, [0], 0)
    jt.check(batched)
    expected = jax.jit(jax.vmap(f))(batch)
    np.testing.assert_allclose(jt.eval_jaxpr(batched, [batch])[0], expected, rtol=1e-5)
    (again,) = jt.to_jax_function(batched)(batch)
    np.testing.assert_allclose(again, expected, rtol=1e-5)

"""Policies of `jax.checkpoint` around everything that has a body: what JAX saves is saved, and no more bytes than it keeps."""

from __future__ import annotations

import re
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters.partial_eval import Offloadable
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec

import jaxprtool as jt
from jaxprtool.core.policies import PolicyWarning
from jaxprtool.interpreters.linearize import grad_jaxpr, linearize_jaxpr
from jaxprtool.ir.walk import all_eqns, count_eqns
from jaxprtool.syntax.print import format_jaxpr
from tests.control_flow.oracle import close, count_jax, traced

P = jax.checkpoint_policies
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
W = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)


def _batched_dots_or_a(prim, *_, **params):
    return prim.name == "dot_general" or params.get("name") == "a"


POLICIES = {
    "everything": P.everything_saveable,
    "nothing": P.nothing_saveable,
    "dots": P.dots_saveable,
    "dots_without_batch": P.dots_with_no_batch_dims_saveable,
    "names": P.save_only_these_names("a"),
    "but_names": P.save_any_names_but_these("a"),
    "anything_but": P.save_anything_except_these_names("a"),
    "both": P.save_from_both_policies(P.dots_saveable, P.save_only_these_names("b")),
    "offload_dots": P.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "offload_names": P.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"],
        names_which_can_be_offloaded=["b"],
        offload_src="device",
        offload_dst="pinned_host",
    ),
    "own": _batched_dots_or_a,
}
OFFLOADS = ("offload_dots", "offload_names")


def _step(w, c, v):
    h = jnp.sin(checkpoint_name(jnp.tanh(checkpoint_name(c @ w, "a") + v) @ w, "b"))
    return h, h.sum()


def _scan(w, x):
    return sum(map(jnp.sum, jax.lax.scan(partial(_step, w), x[0], x)))


def _branch(w, x):
    return jax.lax.cond(x[0, 0] < 0, lambda x: _step(w, x, x)[1], lambda x: jnp.cos(x @ w).sum(), x)


def _with_invariants(w, x):
    """One of the products is the same in all steps."""
    mixed = jnp.tanh(w)
    return jax.lax.scan(lambda c, v: (jnp.sin(c @ (mixed @ w)) * v, None), x[0], x)[0].sum()


def _sharded(w, x):
    def body(w, x):
        return jax.lax.psum(_scan(w, x), "i")

    mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
    return jax.shard_map(body, mesh=mesh, in_specs=(Spec(), Spec("i")), out_specs=Spec())(w, x)


BODIES = {
    "plain": lambda w, x: _step(w, x[0], x[1])[1],
    "scan": _scan,
    "cond": _branch,
    "jit": lambda w, x: jax.jit(_step)(w, x, x)[1],
    "nested": lambda w, x: jax.checkpoint(_step)(w, jnp.sin(x), x)[1],
    "scan_of_cond": lambda w, x: jax.lax.scan(
        lambda c, v: (c * _branch(w, x * v[0]), None), 1.0, x
    )[0],
    "scan_of_scan": lambda w, x: jax.lax.scan(lambda c, v: (c * _scan(w, x * v), None), 1.0, x)[0],
    "scan_with_invariants": _with_invariants,
    "shard_map": _sharded,
}


@cache
def _gradients(body):
    return jax.grad(BODIES[body], (0, 1))(W, X)


def _nbytes(linear, n):
    return sum(a.nbytes for a in linear.in_avals[:n])


def _bytes_of_jax(f):
    leaves = jax.tree.leaves(jax.vjp(f, W, X)[1])
    return sum(a.nbytes for a in leaves if hasattr(a, "nbytes"))


def _dots(closed):
    return sum(e.primitive.name == "dot_general" for e in all_eqns(closed.jaxpr))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("body", BODIES)
def test_derivatives_are_those_of_jax_and_no_larger(body, policy):
    f = jax.checkpoint(BODIES[body], policy=POLICIES[policy])
    program = traced(f, W, X)
    _, linear, n = linearize_jaxpr(program)
    gradient = grad_jaxpr(program, (0, 1))
    jt.typecheck_jaxpr(gradient)
    close(jt.eval_jaxpr(gradient, [W, X]), _gradients(body))
    assert count_eqns(gradient.jaxpr) <= count_jax(jax.make_jaxpr(jax.grad(f, (0, 1)))(W, X))
    assert _nbytes(linear, n) <= _bytes_of_jax(f)


@pytest.mark.parametrize("policy", ["dots", "both", "own"])
@pytest.mark.parametrize("body", BODIES)
def test_what_is_saved_is_not_computed_again(body, policy):
    def dots(f):
        return _dots(grad_jaxpr(traced(f, W, X), (0, 1), with_value=True))

    again = dots(jax.checkpoint(BODIES[body]))
    saved = dots(jax.checkpoint(BODIES[body], policy=POLICIES[policy]))
    assert saved < again
    assert body == "nested" or saved <= dots(BODIES[body])


def _own_offloads(prim, *_, **params):
    if params.get("name") == "b":
        return Offloadable(src="device", dst="pinned_host")
    return prim.name == "tanh"


@pytest.mark.parametrize("policy", [*OFFLOADS, "own"])
@pytest.mark.parametrize("body", ["plain", "scan", "jit", "nested", "scan_of_scan", "shard_map"])
def test_offloaded_values_wait_in_the_memory_of_the_host(body, policy):
    f = jax.checkpoint(BODIES[body], policy={**POLICIES, "own": _own_offloads}[policy])
    program = traced(f, W, X)
    known, linear, n = linearize_jaxpr(program)
    waiting = [str(a) for a in linear.in_avals[:n] if a.memory]
    theirs = str(jax.make_jaxpr(jax.grad(f, (0, 1)))(W, X))
    assert waiting and all("<host>" in a for a in waiting)
    gradient = grad_jaxpr(program, (0, 1))
    moves = [e for e in all_eqns(gradient.jaxpr) if e.primitive.name == "device_put"]
    assert len(moves) == 2 * len(waiting) == theirs.count("device_put[")
    compiled = jt.compile(gradient)(W, X)
    close([np.asarray(g) for g in compiled], _gradients(body))
    again = jt.parse(format_jaxpr(known, lossless=True))
    jt.typecheck_jaxpr(again)
    assert sum(a.memory == "host" for a in again.out_avals) == len(waiting)


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != "own"])
def test_policies_are_kept_in_files(policy):
    program = traced(jax.checkpoint(_scan, policy=POLICIES[policy]), W, X)
    text = format_jaxpr(program, lossless=True)
    again = jt.parse(text)
    assert format_jaxpr(again, lossless=True) == text
    assert str(linearize_jaxpr(again)[1]) == str(linearize_jaxpr(program)[1])


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != "own"])
def test_policies_go_back_to_jax(policy):
    f = jax.checkpoint(_scan, policy=POLICIES[policy])
    text = format_jaxpr(traced(f, W, X), lossless=True)
    run = jaxpr_as_fun(jt.to_jax(jt.parse(text)))
    theirs = jax.make_jaxpr(jax.grad(f, (0, 1)))(W, X)
    again = jax.make_jaxpr(jax.grad(lambda *args: run(*args)[0], (0, 1)))(W, X)
    assert count_jax(again) == count_jax(theirs)


def _with_printed(policy):
    """The text of `_scan` under a policy of which a function's print is all that is known."""
    text = str(jax.make_jaxpr(jax.checkpoint(_scan, policy=P.nothing_saveable))(W, X))
    return re.sub(r"policy=<[^>]*>", f"policy=<function {policy} at 0x7f0>", text)


@pytest.mark.parametrize(
    ("printed", "policy"),
    [
        ("dots_saveable", "dots"),
        ("dot_with_no_batch_dims", "dots_without_batch"),  # to 0.3
        ("dot_with_no_batch_dims_saveable", "dots_without_batch"),  # to 0.5
        ("save_anything_except_these_names.<locals>.policy", "everything"),
    ],
)
def test_functions_that_are_policies_or_were(printed, policy):
    program, theirs = (
        jt.parse(_with_printed(printed)),
        jax.checkpoint(_scan, policy=POLICIES[policy]),
    )
    assert linearize_jaxpr(program)[2] == linearize_jaxpr(traced(theirs, W, X))[2]
    run = jaxpr_as_fun(jt.to_jax(program))
    again = jax.make_jaxpr(jax.grad(lambda *args: run(*args)[0], (0, 1)))(W, X)
    assert count_jax(again) == count_jax(jax.make_jaxpr(jax.grad(theirs, (0, 1)))(W, X))


def test_what_a_policy_saves_changes_no_result_where_the_text_does_not_tell():
    program = jt.parse(_with_printed("save_only_these_names.<locals>.policy"))
    with pytest.warns(PolicyWarning, match="is not in the text"):
        run = jt.to_jax_function(program)
    got, want = jax.grad(lambda w: run(w, X)[0])(W), jax.grad(_scan)(W, X)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_policy_of_ones_own_is_asked_in_process_and_missed_in_a_file():
    program = traced(jax.checkpoint(_scan, policy=_batched_dots_or_a), W, X)
    from_file = jt.parse(format_jaxpr(program, lossless=True))
    with pytest.warns(PolicyWarning, match="_batched_dots_or_a .* is not in the text"):
        without = linearize_jaxpr(from_file)
    assert linearize_jaxpr(program)[2] > without[2]


@pytest.mark.parametrize("policy", ["both", "offload_names"])
def test_text_of_jax_has_only_the_name_of_a_closure(policy):
    f = jax.checkpoint(_scan, policy=POLICIES[policy])
    with pytest.warns(PolicyWarning, match="is not in the text"):
        linearize_jaxpr(jt.parse(str(jax.make_jaxpr(f)(W, X))))


def test_a_closure_that_holds_a_function_of_ones_own_is_asked():
    both = P.save_from_both_policies(P.nothing_saveable, lambda prim, *_, **__: prim.name == "sin")
    program = traced(jax.checkpoint(_scan, policy=both), W, X)
    nothing = traced(jax.checkpoint(_scan), W, X)
    assert linearize_jaxpr(program)[2] > linearize_jaxpr(nothing)[2]


@pytest.mark.parametrize(
    "policy, message",
    [
        (lambda *_, **__: 1 / 0, "fails on .*: division by zero"),
        (lambda *_, **__: "yes", "fails on .*: Value returned by a remat policy"),
        (
            P.save_from_both_policies(POLICIES["offload_dots"], lambda *_, **__: False),
            "should be a boolean",
        ),
    ],
)
def test_a_policy_that_fails(policy, message):
    program = traced(jax.checkpoint(_scan, policy=policy), W, X)
    with pytest.raises(jt.UsageError, match=message):
        linearize_jaxpr(program)


def test_values_of_loops_and_branches_that_need_no_saving_stay_whole():
    """A loop whose operands are all unknown, a branch with an unknown index, a loop of unknown length."""

    def f(w, x):
        y = jax.lax.while_loop(lambda y: y.sum() < 10.0, lambda y: y + jnp.exp(y @ w), x)
        z = jax.lax.cond(y[0, 0] < 0, lambda y: jnp.sin(y @ w), lambda y: y, y)
        return jax.lax.fori_loop(0, 3, lambda i, z: jnp.sin(z @ w), z).sum()

    program = traced(jax.checkpoint(f, policy=P.dots_saveable), W, X)
    ours = jt.jaxpr_as_fun(program)
    tangents = np.ones_like(W), np.ones_like(X)
    close(jt.jvp(ours, (W, X), tangents)[1], [jax.jvp(f, (W, X), tangents)[1]])
    close(jt.linearize(ours, W, X)[1](*tangents), [jax.jvp(f, (W, X), tangents)[1]])

"""Memories of arrays: what `device_put` to a memory space or a sharding says of its result's type."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

import jaxprtool as jt

X = np.arange(3, dtype=np.float32)
HOST, DEVICE = jax.memory.Space.Host, jax.memory.Space.Device


def _there_and_back(there, back):
    return lambda x: jnp.sin(jax.device_put(jax.device_put(x * 2, there), back))


def _kind(name):
    return SingleDeviceSharding(jax.devices()[0], memory_kind=name)


@pytest.mark.parametrize(
    "there, back",
    [(HOST, DEVICE), (_kind("pinned_host"), _kind("device"))],
    ids=["space", "sharding"],
)
def test_the_types_are_those_of_jax(there, back):
    f = _there_and_back(there, back)
    closed = jax.make_jaxpr(f)(X)
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        jt.typecheck_jaxpr(program)
        assert str(program) == str(closed)
        moved = [e.out_binders[0].aval for e in program.eqns if e.primitive.name == "device_put"]
        assert [str(a) for a in moved] == ["f32<host>[3]", "f32[3]"]
        np.testing.assert_allclose(jt.eval_jaxpr(program, [X])[0], np.sin(2 * X), rtol=1e-6)


def test_a_sharding_without_a_memory_changes_none():
    closed = jax.make_jaxpr(lambda x: jax.device_put(x, SingleDeviceSharding(jax.devices()[0])))(X)
    program = jt.from_jax(closed)
    jt.typecheck_jaxpr(program)
    assert str(program.out_avals[0]) == "f32[3]"


def test_a_declared_type_of_another_memory_is_an_error():
    text = str(jax.make_jaxpr(_there_and_back(HOST, DEVICE))(X)).replace("f32<host>[3]", "f32[3]")
    with pytest.raises(
        jt.JaxprTypeError, match=r"device_put gives f32<host>\[3\], and c is declared"
    ):
        jt.typecheck_jaxpr(jt.parse(text))


def test_transformations_keep_the_memories():
    program = jt.from_jax(jax.make_jaxpr(_there_and_back(HOST, DEVICE))(X))
    f = jt.jaxpr_as_fun(program)
    gradient = jt.make_jaxpr(jt.grad(lambda x: f(x)[0] @ x))(X)
    jt.typecheck_jaxpr(gradient)
    moved = [e.out_binders[0].aval for e in gradient.eqns if e.primitive.name == "device_put"]
    assert [a.memory for a in moved] == ["host", "", "host", ""]  # JAX's grad fails on this one
    found = jt.compile(gradient)(X)[0]
    expected = np.sin(2 * X) + 2 * np.cos(2 * X) * X
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)
    mapped, _ = jt.vmap_jaxpr(program, 2, [0])
    theirs = jax.make_jaxpr(jax.vmap(_there_and_back(HOST, DEVICE)))(np.stack([X, X]))
    assert str(mapped) == str(theirs)


def test_programs_with_memories_go_back_to_jax():
    closed = jax.make_jaxpr(_there_and_back(HOST, DEVICE))(X)
    again = jt.to_jax(jt.parse(str(closed)))
    assert str(again) == str(closed)
    np.testing.assert_allclose(jax.jit(jax.extend.core.jaxpr_as_fun(again))(X)[0], np.sin(2 * X))


ON_THE_HOST = {
    "sin": jnp.sin,
    "sum": lambda h: jax.lax.reduce_sum_p.bind(h, axes=(0,), out_sharding=None),
    "broadcast": lambda h: jax.lax.broadcast_in_dim(h, (2, 3), (1,)),
    "with a literal": lambda h: h + 1.0,
    "reshape": lambda h: jax.lax.reshape(h, (3, 1)),
    "comparison": lambda h: jax.lax.select_n(h < h, h, h),
    "convert": lambda h: jax.lax.convert_element_type(h, "int32"),
    "concatenate": lambda h: jax.lax.concatenate([h, h], 0),
    "jit": lambda h: jax.jit(jnp.negative)(h),
    "dot": lambda h: h @ h,
    "slice": lambda h: jax.lax.dynamic_slice(h, (1,), (2,)),
    "update": lambda h: jax.lax.dynamic_update_slice(h, h[:1], (1,)),
    "cumsum": lambda h: jax.lax.cumsum(h, axis=0),
    "sort": lambda h: jax.lax.sort(h),
    "pad": lambda h: jax.lax.pad(h, np.float32(0), [(1, 1, 0)]),
    "rank 0": lambda h: jnp.sin(jax.lax.reduce_sum_p.bind(h, axes=(0,), out_sharding=None)),
    "scan": lambda h: jax.lax.scan(lambda c, v: (c, v), 0.0, jnp.stack([h, h]) * 2)[1],
}


@pytest.mark.parametrize("f", ON_THE_HOST.values(), ids=ON_THE_HOST)
def test_results_are_in_the_memory_of_the_operands(f):
    closed = jax.make_jaxpr(lambda x: f(jax.device_put(x, HOST)))(X)
    for program in (jt.from_jax(closed), jt.parse(str(closed))):
        jt.typecheck_jaxpr(program)
        assert str(program) == str(closed)
    again = jt.make_jaxpr(jt.jaxpr_as_fun(jt.from_jax(closed)))(X)  # types as our rules give them
    assert [str(a) for a in again.out_avals] == [
        v.aval.str_short(True) for v in closed.jaxpr.outvars
    ]


def test_operands_in_different_memories():
    with pytest.raises(ValueError, match="memory_space of all inputs passed to `mul`"):
        jax.make_jaxpr(lambda x: jax.device_put(x, HOST) * x)(X)
    text = "{ lambda ; a:f32<host>[3] b:f32[3]. let c:f32[3] = mul a b in (c,) }"
    message = (
        r"mul needs operands in one memory, got f32<host>\[3\] and f32\[3\] \[operand-memories\]"
    )
    with pytest.raises(jt.JaxprTypeError, match=message):
        jt.typecheck_jaxpr(jt.parse(text))

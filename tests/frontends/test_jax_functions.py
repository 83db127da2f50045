"""Functions written with JAX under our transformations, and functions where a program is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.ir.diagnostics import UsageError
from tests.releases import SERIES

X = np.arange(3.0, dtype=np.float32) + 0.5

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: jnp.sum(jnp.sin(x) ** 2),
    "indexed update": lambda x: jnp.sum(x.at[1].set(2.0) * x),
    "method": lambda x: x.astype(jnp.float32).sum(),
    "where": lambda x: jnp.sum(jnp.where(x > 1, x**2, 0)),
    "custom rule": lambda x: jax.nn.relu(x - 1).sum(),
    "scan": lambda x: lax.scan(lambda c, a: (c * a, c + a), 1.0, x)[0],
    "branch": lambda x: lax.cond(x[0] > 0, lambda: x.sum(), lambda: (x * x).sum()),
    "contraction": lambda x: jnp.dot(x, jnp.ones((3, 3))) @ x,
    "jit": jax.jit(lambda x: jnp.sum(jnp.exp(x))),
    "keys": lambda x: jnp.sum(x * jax.random.normal(jax.random.key(0), (3,))),
    "derivative of its own": lambda x: jnp.sum(jax.grad(lambda y: jnp.sum(jnp.sin(y * x)))(x)),
    "vmap of its own": lambda x: jax.vmap(jnp.sin)(x).sum(),
    "operators of ours first": lambda x: jnp.sum(jnp.cos((x * x)[None].T * x)),
}


def same(ours: Any, theirs: Any) -> None:
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)
        assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transformations_are_those_of_jax(name: str) -> None:
    f, batch = FUNCTIONS[name], np.stack([X, X + 1])
    same(jt.value_and_grad(f)(X), jax.value_and_grad(f)(X))
    same(jt.jvp(f, (X,), (X,)), jax.jvp(f, (X,), (X,)))
    same(jt.jit(f)(X), jax.jit(f)(X))
    same(jt.vmap(f)(batch), jax.vmap(f)(batch))
    same(jt.linearize(f, X)[1](X), jax.linearize(f, X)[1](X))


def test_second_derivatives() -> None:
    same(jt.hessian(FUNCTIONS["where"])(X), jax.hessian(FUNCTIONS["where"])(X))
    nested = jt.grad(lambda x: jt.vmap(FUNCTIONS["custom rule"])(x).sum())
    batch = np.stack([X, X])
    same(nested(batch), np.asarray(batch > 1, np.float32))


def test_pytrees() -> None:
    def loss(params: Any, y: Any) -> Any:
        return jnp.sum(jnp.tanh(params["w"] * y) + params["b"][0] * params["b"][1])

    params = {"w": X, "b": (X, np.float32(2))}
    same(
        jt.value_and_grad(loss, argnums=(0, 1))(params, X),
        jax.value_and_grad(loss, argnums=(0, 1))(params, X),
    )
    same(
        jt.vjp(lambda x: {"a": jnp.sin(x)}, X)[1]({"a": X}),
        jax.vjp(lambda x: {"a": jnp.sin(x)}, X)[1]({"a": X}),
    )


def test_make_jaxpr_gives_the_program_that_trace_gives() -> None:
    assert jt.diff(jt.make_jaxpr(FUNCTIONS["where"])(X), jt.trace(FUNCTIONS["where"], X)).equal


def test_errors_of_the_function_are_those_that_jax_raises() -> None:
    with pytest.raises(TypeError, match="contracting dimensions"):
        jt.grad(lambda x: jnp.dot(x, jnp.ones(4)))(X)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jt.grad(lambda x: x[1] if jnp.sin(x[0]) > 0 else x[0])(X)
    with pytest.raises(AttributeError, match="sined"):
        jt.grad(lambda x: x.sined())(X)


def test_a_tracer_that_is_no_argument_is_named_as_the_reason() -> None:
    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return jnp.sin(x[0] * y)

        return jt.grad(inner)(x[1])

    with pytest.raises(UsageError, match="inner is written with JAX and closes over"):
        jt.grad(outer)(X)


OF_PROGRAMS: dict[str, Callable[..., Any]] = {
    "eval_jaxpr": lambda p: jt.eval_jaxpr(p, [X]),
    "format_jaxpr": jt.format_jaxpr,
    "jaxpr_as_fun": lambda p: jt.jaxpr_as_fun(p)(X),
    "jvp_jaxpr": lambda p: jt.jvp_jaxpr(p, [True])[0],
    "partial_eval_jaxpr": lambda p: jt.partial_eval_jaxpr(p, [True])[0],
    "rewrite": lambda p: jt.rewrite(p, lambda eqn: None),
    "to_jax": jt.to_jax,
    "transpose_jaxpr": lambda p: jt.transpose_jaxpr(p, [True])[0],
    "typecheck_jaxpr": jt.typecheck_jaxpr,
    "vmap_jaxpr": lambda p: jt.vmap_jaxpr(p, 3, [0])[0],
    "with_consts": lambda p: jt.with_consts(p, {}),
}


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_functions_of_a_program_take_jaxprs_of_jax(name: str) -> None:
    def double(x: Any) -> Any:
        return 2.0 * x

    live, call = jax.make_jaxpr(double)(X), OF_PROGRAMS[name]
    assert str(call(live)) == str(call(jt.from_jax(live)))


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_functions_of_a_program_say_how_to_get_one(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} takes a program, and this is a function") as e:
        OF_PROGRAMS[name](jnp.sin)
    assert "jaxprtool.trace(f, *arguments)" in e.value.diagnostics[0].help
    with pytest.raises(UsageError, match="neither a program nor a function: int"):
        OF_PROGRAMS[name](3)


# -- which arguments -----------------------------------------------------------------------------------

ARGNUMS = [0, 1, -1, -2, (0,), (0, 1), [1, 0], (-1, 0)]


@pytest.mark.parametrize("argnums", ARGNUMS, ids=str)
@pytest.mark.parametrize("name", ["jacfwd", "jacrev", "hessian"])
def test_derivatives_by_chosen_arguments_have_the_form_of_jax(name, argnums):
    def f(x, y, xp, reduce_sum):
        return {"a": xp.sin(x) * y["k"], "b": reduce_sum(x * x * x) * y["k"] * y["k"]}

    x, y = np.array([1.0, 2.0, 3.0]), {"k": np.float64(2)}
    with jax.enable_x64(True):
        theirs = getattr(jax, name)(lambda x, y: f(x, y, jnp, jnp.sum), tuple(argnums) if isinstance(argnums, list) else argnums)  # fmt: skip
        wanted = theirs(x, y)
    ours = getattr(jt, name)(
        lambda x, y: f(x, y, jt.lax, lambda z: jt.lax.reduce_sum(z, axes=(0,))), argnums
    )
    found = ours(x, y)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("argnums", [2, -3, (0, 2), "x", (0, None), 0.5])
@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian"])
def test_arguments_that_are_not_there_are_refused(name, argnums):
    with pytest.raises(jt.UsageError, match="argnums"):
        getattr(jt, name)(lambda x, y: jt.lax.mul(x, y), argnums)(1.0, 2.0)


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (jt.jvp_jaxpr, "jvp_jaxpr"),
        (jt.partial_eval_jaxpr, "partial_eval_jaxpr"),
        (jt.transpose_jaxpr, "transpose_jaxpr"),
    ],
)
@pytest.mark.parametrize("flags", [[], [True], [True] * 3])
def test_flags_are_as_many_as_arguments(transform, name, flags):
    program = jt.parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = add a b in (c,) }")
    with pytest.raises(jt.UsageError, match=f"{name}: {len(flags)} flags? for 2 arguments"):
        transform(program, flags)


# -- named axes ----------------------------------------------------------------------------------------

OF_AXES: dict[str, Callable[[Any], Any]] = {
    "mean": lambda z: z - lax.pmean(z, "i"),
    "index": lambda z: z * lax.axis_index("i"),
    "size": lambda z: z / lax.psum(1, "i"),
    "two axes": lambda z: jax.vmap(lambda y: lax.psum(y, ("i", "j")), axis_name="j")(z) + z,
    "gathered": lambda z: lax.all_gather(z, "i").sum(0) * z,
    "permuted": lambda z: lax.ppermute(z, "i", [(0, 1), (1, 0)]),
}


@pytest.mark.parametrize("name", OF_AXES)
def test_functions_of_named_axes(name):
    """JAX finds the axes that our vmap names."""
    if name == "permuted" and SERIES < (0, 9):
        pytest.xfail("JAX 0.8 evaluates `ppermute` under its own vmap alone")
    f, x = OF_AXES[name], np.stack([X, X**2])
    same(jt.vmap(f, axis_name="i")(x), jax.vmap(f, axis_name="i")(x))
    total = lambda lib: lambda x: (lib.vmap(f, axis_name="i")(x * x)[0, 1] * 1.0) ** 2
    same(jt.grad(total(jt))(x), jax.grad(total(jax))(x))


def test_an_axis_that_nobody_names_is_not_found():
    with pytest.raises(NameError, match="unbound axis name"):
        jt.vmap(OF_AXES["index"], axis_name="k")(np.stack([X, X]))

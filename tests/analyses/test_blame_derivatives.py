"""blame names the guard that a derivative needs, a double `where`, and the equation that was differentiated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.grad import grad
from tests.analyses.test_blame import ask


def guarded(f: Any) -> Any:
    return lambda x: jnp.sum(jnp.where(x > 0, f(jnp.where(x > 0, x, 1.0)), 0.0))


def unguarded(f: Any) -> Any:
    return lambda x: jnp.sum(jnp.where(x > 0, f(x), 0.0))


ZERO = np.array([1.0, 0.0], np.float32)
INNER = {"log": jnp.log, "sqrt": jnp.sqrt, "reciprocal": lambda x: 1 / x, "pow": lambda x: x**0.5}
GRADIENTS = {"jax": jax.grad, "jaxprtool": jt.grad, "jit": lambda f: jax.jit(jax.grad(f))}


@pytest.mark.parametrize("how", GRADIENTS)
@pytest.mark.parametrize("name", INNER)
def test_a_double_where_is_named(name: str, how: str) -> None:
    f = GRADIENTS[how]
    found = ask(f(unguarded(INNER[name])), ZERO, nan=True)
    assert found.found and found.unguarded is not None, str(found)
    assert found.unguarded.place.eqn.primitive.name == "select_n"
    assert "needs its input guarded as well" in str(found)
    assert not ask(f(guarded(INNER[name])), ZERO, nan=True).found


@pytest.mark.parametrize("name", INNER)
def test_a_double_where_is_named_in_a_batch_of_gradients(name: str) -> None:
    """What `vmap` of `grad` writes: the choice is gone, and the zero of its transpose is broadcast once more."""
    made = jt.from_jax(jax.make_jaxpr(unguarded(INNER[name]))(ZERO))
    batched = jt.vmap_jaxpr(grad(made), 2, [0])[0]
    found = jt.blame(jt.parse(str(jt.optimize(batched, passes="dce"))), np.stack([ZERO + 1, ZERO]))
    assert found.unguarded is not None and not found.unguarded.kept, str(found)
    assert found.unguarded.place.eqn.primitive.name == "select_n"


@pytest.mark.parametrize("choose", [jnp.where, jax.lax.select])
@pytest.mark.parametrize("name", INNER)
def test_a_double_where_is_named_in_a_text_of_lines_without_names(name: str, choose: Any) -> None:
    """Lines of Python beside the equations do not say which ones a derivative has made; `select` has one of its own."""
    f = INNER[name]
    made = jax.make_jaxpr(jax.grad(lambda x: choose(x > 0, f(x), jnp.zeros_like(x)).sum()))(ZERO)
    texts = [str(made), made.pretty_print(source_info=True)]
    for program in (jt.optimize(jt.parse(text), passes="dce") for text in texts):
        found = jt.blame(program, ZERO, nan=True)
        assert found.unguarded is not None and not found.unguarded.kept, str(found)
        assert not found.unguarded.certain
        assert found.unguarded.place.eqn.primitive.name == "select_n"


def test_the_original_of_a_derivative_is_named() -> None:
    found = ask(jax.grad(unguarded(jnp.log)), ZERO, nan=True)
    assert found.first.eqn.primitive.name == "div"
    assert found.original.eqn.primitive.name == "log"
    assert found.original.source == found.first.source


def test_the_original_is_named_without_lines_of_python() -> None:
    """What a library jits has no lines, and what JAX prints has no names either."""
    found = ask(jax.grad(jnp.linalg.norm), np.zeros(3, np.float32))
    assert found.first.eqn.primitive.name == "div" and found.first.source is None
    assert found.original.eqn.primitive.name == "sqrt" and "  derived from" in str(found)
    for derivative in (jax.grad, jax.hessian):
        f = derivative(lambda x: jnp.sqrt(x).sum())
        made = jax.make_jaxpr(f)(np.zeros(2, np.float32))
        for text in (str(made), made.pretty_print(source_info=True)):
            found = jt.blame(jt.parse(text), np.zeros(2, np.float32))
            assert found.original is not None and found.original.eqn.primitive.name == "sqrt"
            assert "if the program is a derivative, derived from" in str(found)
            assert found.json()["original"]["certain"] is False
    forward = jt.parse(str(jax.make_jaxpr(lambda x: x / jnp.sqrt(x))(np.float32(0))))
    assert jt.blame(forward, np.float32(0)).original is None


@pytest.mark.parametrize(("power", "derivatives"), [(0.3, 1), (0.3, 2), (1.5, 2), (2.5, 3)])
@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev])
def test_the_original_of_a_power_in_a_plain_text(
    power: float, derivatives: int, derivative: Any
) -> None:
    """Its exponent is a value that the derivative computes."""
    f = lambda x: jnp.sum(x**power)
    for _ in range(derivatives):
        f = derivative(f)
    text = str(jax.make_jaxpr(f)(np.zeros(2, np.float32)))
    found = jt.blame(jt.parse(text), np.zeros(2, np.float32))
    assert found.first is not None and found.first.eqn.primitive.name == "pow"
    assert found.original is not None and found.original.eqn.primitive.name == "pow"
    assert found.original.eqn is not found.first.eqn


def test_another_zero_is_no_double_where() -> None:
    found = ask(jax.grad(lambda x: jnp.sqrt(x) * 0), np.float32(0), nan=True)
    assert found.found and found.unguarded is None


def _adam(step: Any) -> Any:
    """The gradient through a step that divides by the root of squared gradients, some of which are 0 as a mask says."""

    def inner(w: Any) -> Any:
        return jnp.mean(jnp.where(w > 0, w, 0.0) ** 2)

    def outer(w: Any) -> Any:
        g = jax.grad(inner)(w)
        return jnp.sum(step(w, g) * jnp.arange(1.0, 3.0))

    return jax.grad(outer)


@pytest.mark.parametrize(
    "step",
    [
        lambda w, g: w - 0.1 * g / (jnp.sqrt(g**2) + 1e-8),
        lambda w, g: w - 0.1 * jnp.sqrt(0.001 * g**2),
        lambda w, g: w - 0.1 * g * jnp.sqrt(jnp.square(g)),
    ],
)
def test_a_mask_before_the_operation_is_no_double_where(step: Any) -> None:
    args = np.array([1.0, -1.0], np.float32)
    for kinds in ({"nan": True}, {}):
        found = jt.blame(_adam(step), args, **kinds)
        assert found.found and found.unguarded is None, str(found)


def _beside(x: Any, w: Any, m: Any) -> Any:
    other = jnp.where(m, w, 2.0)
    return jnp.sum(other) + jnp.sum(jnp.where(m, jnp.log(x), 0.0))


def _after(x: Any, w: Any, m: Any) -> Any:
    x = jnp.where(w > 5, w, x)
    return jnp.sum(jnp.where(m, jnp.sqrt(x * w), 0.0))


def _inside(x: Any, w: Any, m: Any) -> Any:
    y = jnp.where(m, jnp.sqrt(x), 0.0)
    return jnp.sum(jnp.where(m, jnp.exp(y), w))


@pytest.mark.parametrize("loss", [_beside, _after, _inside])
@pytest.mark.parametrize("form", [jax.grad, lambda f: jax.jit(jax.grad(f))])
def test_of_several_choices_that_is_named_whose_case_the_operation_is_in(
    loss: Any, form: Any
) -> None:
    x, w = np.array([1.0, 0.0], np.float32), np.array([1.0, 2.0], np.float32)
    found = jt.blame(form(loss), x, w, x > 0, nan=True)
    assert found.unguarded is not None, str(found)
    line = {"_beside": "jnp.log(x)", "_after": "jnp.sqrt(x * w)", "_inside": "jnp.sqrt(x)"}
    source = found.unguarded.place.eqn
    eqns = [source, *(s.eqn for s in reversed(found.unguarded.place.path))]
    frame = next(e.origin.frame for e in eqns if e.origin is not None and e.origin.frame)
    text = Path(__file__).read_text().splitlines()[frame.line - 1]
    assert line[loss.__name__] in text, (text, str(found))

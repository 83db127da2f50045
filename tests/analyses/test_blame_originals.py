"""blame: which equation of the original a bad one of a derivative comes from, where many have one place in Python.

What a library jits has the place of the call: the sums and the quotients of `jnp.std` as well as its root.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.analyses.blaming import derived
from jaxprtool.analyses.blaming.derived import original_of
from jaxprtool.analyses.levels import all_levels
from jaxprtool.analyses.places import Place
from jaxprtool.driver.grad import grad

ROWS = np.array([[0.1, -0.4, 0.9, 1.3], [2, 2, 2, 2], [0.5, 0.2, -1, 0.3]], np.float32)
ZERO_ROW = ROWS * np.array([[1], [0], [1]], np.float32)
TWICE = np.diag([1, 1, 3]).astype(np.float32)


def eigenvectors(x: Any) -> Any:
    w, v = jnp.linalg.eigh(x)
    return jnp.sum(v[:, 0] ** 4) + w[1]


def singular_vectors(x: Any) -> Any:
    u, s, _ = jnp.linalg.svd(x, full_matrices=False)
    return jnp.sum(u[:, 0] ** 3) + s[1]


# what is differentiated, where, and the original: its primitive and the type of its first result
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], np.ndarray, str, str]] = {
    "corrcoef": (lambda x: jnp.sum(jnp.corrcoef(x) ** 2), ROWS, "sqrt", "f32[3]"),
    "std": (lambda x: jnp.sum(jnp.std(x, axis=1)), ROWS, "sqrt", "f32[3]"),
    "norm": (lambda x: jnp.sum(jnp.linalg.norm(x, axis=1)), ZERO_ROW, "sqrt", "f32[3]"),
    "eigh": (eigenvectors, TWICE, "eigh", "f32[3,3]"),
    "svd": (singular_vectors, TWICE, "svd", "f32[3]"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_original_is_the_one_whose_values_the_derivative_reads(name: str) -> None:
    """By JAX's rules, which are not always ours, and by ours."""
    f, x, primitive, type_ = FUNCTIONS[name]
    for gradient in (jax.grad(f), jax.value_and_grad(f)):
        found = jt.blame(gradient, x)
        assert found.original is not None and found.json()["original"]["certain"], str(found)
        assert found.original.eqn.primitive.name == primitive, str(found)
        assert str(found.original.eqn.out_binders[0].aval) == type_, str(found)
    found = jt.blame(grad(jt.from_jax(jax.make_jaxpr(f)(x)), [0]), x)
    assert found.original is not None and found.original.eqn.primitive.name == primitive, str(found)
    assert str(found.original.eqn.out_binders[0].aval) == type_, str(found)


def test_of_two_powers_in_one_place_the_original_is_the_one_that_is_bad() -> None:
    """The sum of cubes is 0, and its root has no derivative there; the cubes have one."""
    f: Callable[[Any], Any] = lambda x: jnp.sum(jnp.linalg.norm(x, ord=3, axis=1))
    found = jt.blame(jax.value_and_grad(f), ZERO_ROW)
    assert found.first is not None and found.first.eqn.primitive.name == "pow"
    assert found.original is not None
    assert str(found.original.eqn.out_binders[0].aval) == "f32[3]", str(found)


@pytest.mark.parametrize("f", [jnp.linalg.inv, lambda x: jnp.linalg.solve(x, TWICE)])
def test_the_second_of_two_solves_in_one_place_is_derived_from_none(f: Any) -> None:
    """Both have the factors as an operand, as the derivative of the first one has."""
    found = jt.blame(jax.grad(lambda x: jnp.sum(f(x))), np.ones((3, 3), np.float32))
    assert found.first is not None and found.first.eqn.primitive.name == "triangular_solve"
    assert found.original is None, str(found)


def test_a_division_after_a_root_in_one_place_is_derived_from_none() -> None:
    """`corrcoef` divides by the roots of the variances: 0 / 0 begins in the program itself."""
    f = jax.jit(lambda x: jnp.sum(x / jnp.sqrt(x) / jnp.sqrt(x)))
    found = jt.blame(jax.grad(lambda x: f(x)), np.zeros(3, np.float32))
    assert found.first is not None and found.first.eqn.primitive.name == "div"
    first = [str(v) for v in found.first.eqn.inputs]
    assert found.original is None or "0.5:f32[]" in first, str(found)


def test_what_a_checkpoint_computes_again_is_derived_from_what_is_computed_before() -> None:
    """Also where one place in Python has several roots."""
    f: Callable[[Any], Any] = lambda x: jnp.std(x) + jnp.std(x * 2)
    found = jt.blame(jax.grad(jax.checkpoint(f)), np.ones(3, np.float32))
    assert found.original is not None and found.original.eqn.primitive.name == "sqrt"
    names = found.original.eqn.origin and found.original.eqn.origin.names
    assert not any("transpose" in name for name in names or ()), str(found)


def test_what_a_derivative_reads_many_times_is_compared_once(monkeypatch) -> None:
    """Each step of a scan by doubling reads the one before it several times."""
    compared = list[Any]()
    alike = derived._Parts._reads_alike
    monkeypatch.setattr(
        derived._Parts, "_reads_alike", lambda *args: (compared.append(args), alike(*args))[1]
    )
    x = np.linspace(0.5, 1.5, 1 << 14).astype(np.float32)
    f = jt.from_jax(jax.make_jaxpr(lambda x: jnp.sum(jax.lax.cumlogsumexp(x)))(x))
    program = grad(f, [0])
    for eqn, level in [*all_levels(program)][::8]:
        compared.clear()
        original_of(Place(eqn, level.path()), program)
        assert len(compared) < 1_000

"""gradcheck of what solves linear equations: the operands of a solver belong together, and none of them changes alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from tests.analyses.test_gradcheck import wrong_sine


def blamed(f: Any, *args: Any) -> set[str]:
    found = jt.gradcheck(f, *args)
    assert found.passed == (not found.blame), str(found)
    return {f.place.eqn.primitive.name for f in found.blame}


def system(n: int, condition: float) -> tuple[Any, Any]:
    random = np.random.default_rng(n)
    one, other = (np.linalg.qr(random.standard_normal((n, n)))[0] for _ in range(2))
    a = one * np.geomspace(1, 1 / condition, n) @ other
    return a.astype(np.float32), random.standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("f", [jnp.linalg.solve, lambda a, b: jnp.linalg.inv(a) @ b])
@pytest.mark.parametrize(("n", "condition"), [(4, 3e6), (6, 1e6)])
def test_an_ill_conditioned_system_accuses_nothing(f: Any, n: int, condition: float) -> None:
    a, b = system(n, condition)
    assert blamed(lambda a, b: f(a, b).sum(), a, b) == set()


def test_the_gradient_of_a_solution_beside_a_wrong_rule_is_right() -> None:
    """In the gradient a call takes the factors of the matrix besides the matrix."""
    a, b = system(5, 20)
    gradient = jax.grad(lambda a, b: jnp.linalg.solve(a, b) @ b, (0, 1))
    assert blamed(lambda a, b: [*map(wrong_sine, gradient(a, b))], a, b) == {"custom_jvp_call"}


def test_a_solution_in_a_loop_is_right_where_another_step_tells_nothing() -> None:
    """In one step of the gradient of a Kalman filter the solver has no known differences, in the next it takes factors that are held."""
    random = np.random.default_rng(0)
    zs, h = (random.standard_normal((2, 2)).astype(np.float32) * 0.3 for _ in range(2))
    f = np.eye(2, dtype=np.float32) * 0.9 + h * 0.1

    def loss(f: Any) -> Any:
        def step(carry: Any, z: Any) -> Any:
            x, p = f @ carry[0], f @ carry[1] @ f.T + 0.1 * jnp.eye(2)
            gain = jnp.linalg.solve(h @ p @ h.T + 0.2 * jnp.eye(2), h @ p).T
            y = z - h @ x
            return (x + gain @ y, (jnp.eye(2) - gain @ h) @ p), y @ y

        return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), zs)[1].sum()

    assert blamed(lambda f: wrong_sine(jax.grad(loss)(f)), f) == {"custom_jvp_call"}


@pytest.mark.parametrize("wrong", ["solve", "transpose_solve"])
def test_a_wrong_solver_is_accused(wrong: str) -> None:
    a, b = system(4, 5)

    def f(a: Any, b: Any) -> Any:
        factors = {"solve": 1.0, "transpose_solve": 1.0, wrong: 1.1}
        inverse = jnp.linalg.inv(lax.stop_gradient(a))
        return lax.custom_linear_solve(
            lambda x: a @ x,
            b,
            lambda _, b: factors["solve"] * (inverse @ b),
            lambda _, b: factors["transpose_solve"] * (inverse.T @ b),
        )

    assert blamed(f, a, b) == {"custom_linear_solve"}

"""Sample operands of CustomRoot."""

from __future__ import annotations

from typing import Any

from jaxprtool import ops as lax
from tests.rules.example import Example, arg
from tests.rules.examples_control_flow import body


def _newton(a: Any, guess: Any) -> Any:
    """One step towards the square root of a."""
    return lax.div(lax.add(lax.mul(guess, guess), a), lax.mul(guess, 2.0))


def _in_jax(a: Any, guess: Any, *rest: Any, **params: Any) -> Any:
    from jax import lax

    return [lax.div(lax.add(lax.mul(guess, guess), a), lax.mul(guess, 2.0))]


EXAMPLES = [
    Example(
        lax.custom_root,
        (arg("f64[3]", "positive"), arg("f64[3]", "positive"), arg("f64[3]")),
        {"solve_jaxpr": body(_newton, "f64[3]", "f64[3]"), "has_aux": False},
        label="newton",
        jax=_in_jax,
    ),
]

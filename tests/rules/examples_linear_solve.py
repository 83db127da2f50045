"""Sample operands of custom_linear_solve, from solvers of JAX's."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

import jaxprtool as jt
from jaxprtool import ops as lax
from tests.rules.example import Example, arg


def _explicit(matvec: Any, b: Any) -> Any:
    return jax.numpy.linalg.inv(jax.jacobian(matvec)(b)) @ b


def _solver(has_aux: bool, matvec: Any, b: Any) -> Any:
    x = _explicit(matvec, b)
    return (x, (b * 2).sum()) if has_aux else x


def _solve(symmetric: bool, has_aux: bool, a: Any, b: Any) -> Any:
    solver = functools.partial(_solver, has_aux)
    return jax.lax.custom_linear_solve(
        lambda x: a @ x,
        b,
        solve=solver,
        transpose_solve=None if symmetric else solver,
        symmetric=symmetric,
        has_aux=has_aux,
    )


def _diagonal(a: Any, b: Any) -> Any:
    """By a multiple of the identity, which needs no constants."""
    return jax.lax.custom_linear_solve(
        lambda x: 2.0 * x, b, solve=lambda matvec, y: y / 2.0, symmetric=True
    )


def _example(
    label: str, *, symmetric: bool = False, has_aux: bool = False, f: Any = None
) -> Example:
    f = f or functools.partial(_solve, symmetric, has_aux)
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]])
    with jax.enable_x64(True):
        program = jt.from_jax(jax.make_jaxpr(f)(matrix, np.ones(2))).jaxpr
    (equation,), (a, _) = program.eqns, program.in_binders

    def op(matrix: Any, b: Any, **params: Any) -> Any:
        return lax.linear_solve(*[matrix if x is a else b for x in equation.inputs], **params)

    return Example(
        op,
        (arg("f64[2,2]", values=matrix), arg("f64[2]")),
        dict(equation.params),
        smooth=not has_aux,  # further values have no tangent
        label=label,
        jax=lambda a, b, **_: f(a, b),
        of=lax.linear_solve,
    )


EXAMPLES = [
    _example("dense"),
    _example("symmetric", symmetric=True),
    _example("aux", has_aux=True),
    _example("diagonal", f=_diagonal),
]

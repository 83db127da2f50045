"""Small checked programs compiled by XLA give what NumPy gives: shapes, types, and values where both are finite.

Where both verbs take a program. Left out of the comparison of values: random bits of XLA's own generators, and what
is undefined (`_ANY_VALUE`), as well as types whose rounding differs by more than neighbouring values.
"""

from __future__ import annotations

import random
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np

import jaxprtool as jt
from jaxprtool.backends.arrays import generate
from jaxprtool.driver.run import run
from jaxprtool.driver.values import open_binders
from jaxprtool.ir.walk import all_eqns
from tests.fuzz.equations import draw_program
from tests.fuzz.target import Failure, Target
from tests.fuzz.targets.checked_programs import Case, accepted, is_small, show
from tests.fuzz.wrapping import wrapped

SMALL = 1 << 16  # bytes of what is evaluated
_TRIES = 20

# XLA says nothing of the bits, or of the order or sign of what a decomposition gives; iterations differ in rounding.
_ANY_VALUE = frozenset(
    [
        "rng_uniform",
        "rng_bit_generator",
        "random_bits",
        "random_gamma_grad",
        "eig",
        "eigh",
        "svd",
        "schur",
        "hessenberg",
        "householder_product",
        "geqrf",
        "geqp3",
        "qr",
        "lu",
        "lu_solve",
        "tridiagonal",
        "tridiagonal_solve",
        "cholesky",
        "triangular_solve",
        "custom_linear_solve",
        "approx_top_k",
        "regularized_incomplete_beta",
        "igamma",
        "igammac",
        "igamma_grad_a",
        "lgamma",
        "digamma",
        "polygamma",
        "zeta",
        "bessel_i0e",
        "bessel_i1e",
        "empty",
        "cholesky_update",
        "symmetric_product",
    ]
)
_TOLERANCE = {
    8: 1e-7,
    4: 1e-3,
    2: 5e-2,
    1: 0.5,
}  # of an element of so many bytes, relative to the largest


def draw(rng: random.Random) -> Case:
    """A program that `check` accepts, where one is found among a few."""
    program = draw_program(rng)
    for _ in range(_TRIES):
        if accepted(program):
            break
        program = draw_program(rng)
    return Case(wrapped(rng, program) if rng.random() < 0.3 else program, rng.randrange(1 << 30))


def check(case: Case) -> None:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        _check(case.program)


def _check(program: Any) -> None:
    if not accepted(program):
        return
    binders = open_binders(program)
    if not all(is_small(v.aval) for v in binders):
        return
    try:
        args = [generate("random", 0, i, v.aval) for i, v in enumerate(binders)]
        expected = run(program, args, max_bytes=SMALL, step_limit=100)
        got = run(program, args, jit=True, max_bytes=1 << 24)
    except jt.JaxprToolError:
        return
    defined = not any(_is_free(e) for e in all_eqns(program.jaxpr))
    for i, (x, y) in enumerate(zip(expected, got, strict=True)):
        _same_type(i, x, y)
        if defined:
            _same_values(i, x, y)


def _is_free(eqn: Any) -> bool:
    """Whether any value is right: of random bits, or where promises on indices are not kept by random ones."""
    promised = ("unique_indices", "indices_are_sorted")
    return eqn.primitive.name in _ANY_VALUE or any(eqn.params.get(p) is True for p in promised)


def _same_type(i: int, x: Any, y: Any) -> None:
    if x.shape != y.shape or str(x.dtype) != str(y.dtype):
        raise Failure(f"result {i}: {x.dtype}{x.shape} on NumPy, {y.dtype}{y.shape} on XLA")


def _same_values(i: int, x: Any, y: Any) -> None:
    """Raise `Failure` where finite values differ by more than rounding; integers differ as finite values do."""
    if isinstance(x, jt.KeyArray):
        x, y = x.data, y.data
    x, y = np.asarray(x), np.asarray(y)
    if x.size == 0 or x.dtype == jt.float0:
        return
    if x.dtype.kind == "V" and not np.isnan(np.array(np.nan).astype(x.dtype).astype(float)):
        return  # a type without NaN: outside of its domain an operation gives any number
    wide = complex if x.dtype.kind == "c" else np.float64
    size = x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1)
    a, b = x.astype(wide), y.astype(wide)
    both = np.isfinite(a) & np.isfinite(b)
    if not both.any():
        return
    error = np.abs(a - b)[both].max()
    scale = max(np.abs(a[both]).max(), 1.0)
    if error > _TOLERANCE[size] * scale:
        raise Failure(f"result {i}: NumPy and XLA differ by {error}:\n{x}\n{y}")


TARGET = Target("compiled-programs", draw, check, show)

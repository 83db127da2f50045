"""Complex numbers on NumPy: branch cuts, accuracy, shapes; and XLA's sine and cosine."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax

UNARY = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tan",
    "tanh",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "abs",
    "square",
    "sqrt",
    "rsqrt",
    "sign",
    "logistic",
]
BINARY = ("mul", "div", "pow", "atan2")
INF, NAN = np.inf, np.nan


def _run(name, *values):
    operation = getattr(lax, name)
    return jt.eval_jaxpr(jt.make_jaxpr(lambda *xs: operation(*xs))(*values), list(values))[0]


@pytest.mark.parametrize(
    ("name", "z", "expected"),
    [
        ("sqrt", complex(-1, -0.0), 1j),
        ("sqrt", complex(-4, 0), 2j),
        ("acosh", complex(0.5, -0.0), 1.0471975511965979j),
        ("log", complex(-1, -0.0), -1j * np.pi),
        ("exp", complex(INF, -0.0), INF),
        ("log1p", 1e-4j, 5e-9 + 1e-4j),
        ("log1p", -5e-9 + 1e-4j, 1.25e-17 + 1e-4j),
        ("exp", 710 + 0.75j, 1.6346e308 + 1.5228e308j),
    ],
)
def test_values(name, z, expected):
    out = _run(name, np.array(z))
    assert out.dtype == np.complex128
    parts = np.array([out.real, out.imag])
    assert parts == pytest.approx([np.real(expected), np.imag(expected)], rel=1e-2)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 8.0])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_c64_is_c128_rounded(name, scale):
    rng = np.random.default_rng(0)
    n = 1 if name in UNARY else 2
    values = [scale * (rng.normal(size=500) + 1j * rng.normal(size=500)) for _ in range(n)]
    narrow = [v.astype(np.complex64) for v in values]
    out, exact = _run(name, *narrow), _run(name, *[v.astype(np.complex128) for v in narrow])
    assert out.dtype == (np.float32 if name == "abs" else np.complex64)
    # `atan2` is the logarithm of a number near 1, and others turn by an angle of up to some dozens.
    least = 1.0 if name == "atan2" else 0.0
    error = np.abs(out - exact) / np.maximum(np.abs(exact), least)
    assert error.max() < 2e-5


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_shapes(name):
    n = 1 if name in UNARY else 2
    full = _run(name, *[np.full((2, 3), 0.5 + 0.25j)] * n)
    assert full.shape == (2, 3)
    scalar = _run(name, *[np.array(0.5 + 0.25j)] * n)
    assert scalar.shape == ()
    assert scalar == pytest.approx(full[0, 0], rel=1e-12)
    assert _run(name, *[np.zeros((0, 2), np.complex64)] * n).shape == (0, 2)
    if n == 2:
        mixed = _run(name, np.full((2, 3), 0.5 + 0.25j), np.array(0.5 + 0.25j))
        np.testing.assert_allclose(mixed, full, rtol=1e-12)


def test_powers_of_integers():
    z, n = np.array([1 + 2j, 0, 3j], np.complex64), np.array([2, 0, -1], np.int32)
    assert _run("pow", z, n) == pytest.approx([-3 + 4j, 1, -1j / 3], rel=1e-6)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_compiled_sine_and_cosine_are_those_of_jax(name):
    parts = [0.0, -0.0, 1.0, -2.5, INF, -INF, NAN, 3e20]
    x = np.empty(len(parts) ** 2, np.complex64)
    x.real, x.imag = np.repeat(parts, len(parts)), np.tile(parts, len(parts))
    operation = getattr(lax, name)
    (out,) = jt.compile(jt.make_jaxpr(lambda x: operation(x))(x))(x)
    expected = np.asarray(jax.jit(getattr(jax.lax, name))(x))
    for part in (np.real, np.imag):
        a, b = part(out), part(expected)
        np.testing.assert_array_equal(a, b)
        zero = b == 0
        np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))


@pytest.mark.parametrize("direction", [1, 1j, 0.6 - 0.8j])
@pytest.mark.parametrize("name", [*[n for n in UNARY if n != "sign"], "conj", "real", "imag"])
def test_derivatives_are_limits_of_differences(name, direction):
    """Along any direction of the plane, whether or not a function is holomorphic.

    The derivative of `sign` is zero, as in JAX to 0.11, although z / |z| turns.
    """
    z, h = np.array([0.3 + 0.4j, -0.7 + 0.2j, 0.5 - 0.6j]), 1e-6
    z = (
        np.abs(z.real) + 1j * z.imag if name == "acosh" else z
    )  # that of JAX has the other sign on the left
    op = getattr(jt.lax, name)
    f = (lambda x: op(x, input_dtype=np.dtype(complex))) if name == "conj" else op
    tangent = jt.jvp(f, (z,), (np.full_like(z, direction),))[1]
    expected = (f(z + h * direction) - f(z - h * direction)) / (2 * h)
    np.testing.assert_allclose(tangent, expected, rtol=1e-7, atol=1e-8)

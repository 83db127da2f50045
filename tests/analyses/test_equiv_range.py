"""equiv says where only the range or the rounding of the types tells two programs apart."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprtool as jt


def answer(f, g, x):
    with jax.enable_x64(True):
        return jt.equiv(jt.trace(f, x), jt.trace(g, x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("f", "g"),
    [
        (lambda x: jnp.sqrt(x * x), abs),  # underflows, and overflows
        (lambda x: x * 1e-30 * 1e30, lambda x: x),  # underflows
    ],
)
def test_what_differs_by_range_alone(f, g, dtype):
    found = answer(f, g, dtype(1))
    wide = "f64" if dtype == np.float32 else "long double"
    assert found.refuted and found.same_in == wide, str(found)
    assert f"in {wide} both give the same there" in str(found)
    assert found.json()["counterexample"]["same_in"] == wide


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (jnp.sin, jnp.cos),
        (lambda x: x, lambda x: jnp.where(x > 1e30, 0 * x, x)),
        (lambda x: x * 1.001, lambda x: x),
        (lambda x: jnp.where(jnp.isnan(x), 0.0, x), lambda x: x),
    ],
)
def test_what_differs_in_any_type(f, g):
    found = answer(f, g, np.float32(1))
    assert found.refuted and not found.same_in and "both give the same" not in str(found)
    assert found.json()["counterexample"]["same_in"] is None


def test_what_differs_in_integers_has_no_wider_type():
    found = answer(lambda x: x * 2 // 2, lambda x: x, np.int32(1))
    assert found.refuted and not found.same_in


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_narrow_types(dtype):
    x = np.ones(4, getattr(jnp, dtype))
    found = answer(lambda x: x + x, lambda x: x, x)
    assert found.refuted and not found.same_in and not found.samples.tried, str(found)
    assert not answer(lambda x: x * x * x, lambda x: x * (x * x), x).refuted
    assert not answer(lambda x: x / 3, lambda x: x * (1 / 3), x).refuted
    assert not answer(lambda x: jnp.sin(x) / jnp.cos(x), jnp.tan, x).refuted


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types_that_overflow(dtype):
    found = answer(abs, lambda x: jnp.sqrt(x * x), np.ones(4, getattr(jnp, dtype)))
    assert found.refuted and found.same_in == "f64", str(found)

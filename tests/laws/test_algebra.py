"""The algebraic laws of rows (`algebra`) hold exactly on NumPy, for ordinary values and the extreme
ones of each type.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.core.primitive import vocabulary
from jaxprtool.interpreters.columns.monoids import algebra_rules
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.diagnostics import JaxprToolError
from jaxprtool.ir.dtypes import find_dtype

PRIMITIVES = sorted(p.name for p in vocabulary().values() if algebra_rules.find(p) is not None)
DTYPES = ["f32", "f64", "bf16", "f16", "c64", "c128", "i8", "i32", "i64", "u8", "u32", "bool"]
SIZES = (1, 3, 64)
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38, 65504.0, 2.0**24]


def operands(dtype: np.dtype, n: int, seed: int, *, special: bool) -> list[np.ndarray]:
    rng, found = np.random.default_rng(seed), []
    for _ in range(3):
        if dtype.kind in "iub":
            bits = rng.integers(0, 256, (n, dtype.itemsize), np.uint8)
            x = bits.reshape(-1).view(dtype if dtype.kind != "b" else np.uint8)
            found.append(x > 127 if dtype.kind == "b" else x)
            continue
        parts = [rng.choice(SPECIAL, n) if special else rng.normal(size=n) for _ in range(2)]
        x = parts[0] + 1j * parts[1] if dtype.kind == "c" else parts[0]
        found.append(x.astype(dtype))
    return found


def same(x: np.ndarray, y: np.ndarray) -> bool:
    if x.dtype.kind == "c":
        return same(x.real, y.real) and same(x.imag, y.imag)
    if x.dtype.kind in "iub":
        return bool((x == y).all())
    x, y = x.astype(np.float64), y.astype(np.float64)
    return bool((((x == y) & (np.signbit(x) == np.signbit(y))) | ((x != x) & (y != y))).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_laws_hold_to_the_last_bit(name, dtype):
    p, of = vocabulary()[name], find_dtype(dtype)
    laws = algebra_rules[p](of)
    aval = ShapedArray((2,), of)
    try:
        jt.make_jaxpr(lambda x, y: jt.bind(p, x, y, **p.defaults))(aval, aval)
    except JaxprToolError:
        pytest.skip("no operands of this type")

    def f(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(jt.bind(p, x, y, **p.defaults))

    numpy_dtype = np.dtype(getattr(ml_dtypes, of.name, None) or of.name)
    with np.errstate(all="ignore"):
        for seed in range(20):
            for n in SIZES:
                x, y, z = operands(numpy_dtype, n, seed, special=seed % 2 == 1)
                if laws.commutative:
                    assert same(f(x, y), f(y, x))
                if laws.associative:
                    assert same(f(f(x, y), z), f(x, f(y, z)))


def test_products_of_complex_numbers_are_in_order():
    p = vocabulary()["mul"]
    assert algebra_rules[p](find_dtype("c64")) == (False, False, True)
    assert algebra_rules[p](find_dtype("f32")) == (True, False, True)
    assert algebra_rules[vocabulary()["add"]](find_dtype("c64")).commutative

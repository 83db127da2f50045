"""Functions that part at few values: halves, equal arguments, powers of two, the numbers that are written in them, the ends of a type."""

from __future__ import annotations

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprtool as jt
from jaxprtool.ir.dtypes import dtype_of

F, I, U, V = np.float32(0), np.int32(0), np.uint8(0), np.zeros(5, np.float32)
S = jax.ShapeDtypeStruct((3,), np.float16)
B = jax.ShapeDtypeStruct((2,), jnp.bfloat16)


TYPES = [
    "bool",
    "i2",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
    "f8_e3m4",
    "f8_e4m3",
    "f8_e4m3b11fnuz",
    "f8_e4m3fn",
    "f8_e4m3fnuz",
    "f8_e5m2",
    "f8_e5m2fnuz",
    "f8_e8m0fnu",
    "f6_e2m3fn",
    "f6_e3m2fn",
    "f4_e2m1fn",
]


def mid(x, y):
    return lax.shift_right_arithmetic(x + y, 1)


PAIRS = {
    # halves
    "round, floor": (jnp.round, lambda x: jnp.floor(x + 0.5), (F,)),
    "round, away": (jnp.round, lax.round, (F,)),
    "round, truncated": (jnp.round, lambda x: jnp.trunc(x + 0.5 * jnp.sign(x)), (V,)),
    "round, f16": (jnp.round, lax.round, (S,)),
    "round, bf16": (jnp.round, lambda x: jnp.floor(x + jnp.bfloat16(0.5)), (B,)),
    "half open": (lambda x: x - jnp.floor(x) < 0.5, lambda x: x - jnp.floor(x) <= 0.5, (F,)),
    # whole numbers
    "ceil": (jnp.ceil, lambda x: jnp.floor(x) + 1, (F,)),
    # equal arguments
    "equal scalars": (lambda x, y: x < y, lambda x, y: x <= y, (F, F)),
    "equal integers": (lambda x, y: x > y, lambda x, y: x >= y, (I, I)),
    "equal arrays": (lambda x, y: (x == y).all(), lambda x, y: (x == y).all() & False, (V, V)),
    "three equal": (
        lambda x, y, z: (x == y) & (y == z),
        lambda x, y, z: (x == y) & (y != y),
        (F, F, F),
    ),
    # numbers that are written
    "threshold": (lambda x: x > 3.25, lambda x: x >= 3.25, (F,)),
    "threshold of an array": (lambda x: x > 47.125, lambda x: x >= 47.125, (V,)),
    "threshold in a loop": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + (x > 7.75), 0),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + (x >= 7.75), 0),
        (F,),
    ),
    "whole threshold": (lambda x: x > 1234, lambda x: x >= 1234, (I,)),
    "one integer": (lambda x: x == 77777, lambda x: x != x, (I,)),
    "one number, f16": (lambda x: x == jnp.float16(0.3), lambda x: x != x, (S,)),
    # the ends of a type
    "overflow of a sum": (mid, lambda x, y: x + lax.shift_right_arithmetic(y - x, 1), (I, I)),
    "abs of the least": (jnp.abs, lambda x: jnp.maximum(x, -x) & 0x7FFFFFFF, (I,)),
    "odd": (lambda x: x % 2 == 1, lambda x: lax.rem(x, 2) == 1, (I,)),
    "power of two": (lambda x: (x & (x - 1)) == 0, lambda x: x <= 1, (I,)),
    "wide shift": (
        lambda x: lax.shift_left(U + 1, x),
        lambda x: lax.shift_left(U + 1, x & 7),
        (U,),
    ),
    "i32 of f32": (
        lambda x: x.astype(jnp.int32).astype(jnp.float32),
        lambda x: jnp.where(jnp.isnan(x), 0, jnp.trunc(x)),
        (F,),
    ),
    # what absorbs
    "one more": (lambda x: x + 1 > x, lambda x: jnp.abs(x) < jnp.inf, (F,)),
    "denormal": (lambda x: x > 0, lambda x: x >= 1.1754944e-38, (F,)),
    "sign of zero": (lambda x: jnp.signbit(x), lambda x: x < 0, (F,)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_functions_that_part_at_few_values_are_refuted(name):
    f, g, args = PAIRS[name]
    found = jt.equiv(jt.trace(f, *args), jt.trace(g, *args))
    assert found.refuted, str(found)
    assert found.sample is not None
    one, other = (jax.tree.leaves(jax.jit(h)(*found.sample.args)) for h in (f, g))
    if name != "denormal":  # XLA takes them for 0
        assert any(
            not np.array_equal(x, y, equal_nan=True) for x, y in zip(one, other, strict=True)
        )


def of(f, g, x, **how):
    """`equiv` of functions of an argument that is called x."""
    return jt.equiv(*(jt.trace(lambda x, h=h: h(x), x) for h in (f, g)), **how)


@pytest.mark.parametrize(
    ("f", "g", "domain"),
    [
        (jnp.round, lambda x: jnp.floor(x + 0.5), "x in [-3, 3]"),
        (jnp.round, lambda x: jnp.floor(x + 0.5), "x in (-inf, inf)"),
        (lambda x: x > 0.3, lambda x: x >= 0.3, "x in [0, 1]"),
        (lambda x: x > 0, lambda x: x >= 1.1754944e-38, "x in [0, 1]"),
        (lambda x: x + 1 > x, lambda x: x == x, "x in [0, inf)"),
        (lambda x: x < 2.5, lambda x: x == x, "x in [1, 2.5]"),
    ],
)
def test_samples_of_a_domain_hold_them_too(f, g, domain):
    found = of(f, g, F, domain=[domain])
    assert found.refuted, str(found)


@pytest.mark.parametrize(
    ("f", "g", "args", "domain"),
    [
        (lambda x: x > 3.25, lambda x: x >= 3.25, F, "x in (3.25, 9]"),
        (jnp.round, lambda x: jnp.floor(x + 0.5), F, "x in {1, 2, 0.25}"),
        (lambda x: x >= 0, lambda x: x == x, I, "x in [0, 100]"),
        (lambda x: x >= 0, lambda x: ~jnp.signbit(x) | (x == 0), F, "x in [0, inf)"),
    ],
)
def test_no_sample_is_outside_of_its_domain(f, g, args, domain):
    found = of(f, g, args, domain=[domain], samples=300)
    assert not found.refuted, str(found)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_sample_is_of_its_type_and_in_its_domain_and_warns_of_nothing(dtype):
    from jaxprtool.backends.samples import ORDINARY, Domain, contains, draw, member

    aval = jt.parse(f"{{ lambda ; a:{dtype}[3]. let in (a,) }}").in_avals[0]
    domains = [None]
    if aval.dtype.kind in "fiu":
        domains += [Domain(0, 3), Domain(low=1, open_low=True), Domain(members=(1.0, 300.0))]
        domains += [Domain(-2, 1, True, True), Domain(-1e9, 1e9), Domain(-math.inf, math.inf)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in range(ORDINARY + 60):
            for domain in domains:
                if domain is not None and member(domain, aval) is None:
                    continue
                x = draw(aval, domain, kind, 0, kind, (0.5, 3, 1e300, -7))
                assert x.shape == (3,) and dtype_of(x.dtype) is aval.dtype
                assert contains(domain, x), (kind, domain, x)


@pytest.mark.parametrize(
    ("x", "values", "inside"),
    [
        (np.int8(1), "[500, 600]", False),
        (np.int8(1), "(1, inf)", True),
        (np.uint8(1), "[-5, -1]", False),
        (np.int32(1), "(0, 1)", False),
        (np.int32(1), "{0.5, 300}", True),
        (np.int8(1), "{0.5, 300}", False),
        (np.float16(1), "[1, 1.0001]", True),
        (np.float16(1), "(1, 1.0001)", False),
        (np.float32(1), "[0.7, 0.7]", True),
        (np.float32(1), "{0.1, 0.7}", True),
        (np.float32(1), "(0, 1e-300)", False),
        (np.float64(1), "[1e308, inf)", True),
        (np.float64(1), "(-inf, -1e308]", True),
        (np.int64(1), "[-9e18, 9e18]", True),
        (np.uint64(1), "[1e19, inf)", True),
    ],
)
def test_a_domain_without_a_number_of_the_type_is_refused(x, values, inside):
    with jax.enable_x64(True):
        a, b = (jt.trace(lambda x, f=f: f(x, x), x) for f in (jnp.less_equal, jnp.greater_equal))
    how = {"domain": [f"x in {values}"], "samples": 200}
    if inside:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not jt.equiv(a, b, **how).refuted
    else:
        with pytest.raises(jt.UsageError, match="holds no number of the type"):
            jt.equiv(a, b, **how)

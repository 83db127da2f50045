"""Changes of width: JAX's values, on NumPy and with XLA."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.extend.core import primitives

import jaxprtool as jt
from jaxprtool.interpreters.columns.determined import is_determined

TYPES = ["uint4", "int8", "uint16", "bfloat16", "float32", "float8_e4m3fn"]


def _bits(name):
    return 4 if name == "uint4" else 8 * np.dtype(getattr(ml_dtypes, name, name)).itemsize


@pytest.mark.parametrize("old", TYPES)
@pytest.mark.parametrize("new", TYPES)
def test_bitcast(old, new):
    source, target = (np.dtype(getattr(ml_dtypes, n, n)) for n in (old, new))
    parts = _bits(new) // _bits(old)
    shape = (2, 3, parts) if parts > 1 else (2, 3)
    x = np.random.default_rng(0).integers(0, 15, shape).astype(source)

    def f(x):
        return jax.lax.bitcast_convert_type(x, target)

    expected = np.asarray(jax.jit(f)(x))
    program = jt.parse(str(jax.make_jaxpr(f)(x)))
    for out in (jt.eval_jaxpr(program, [x]), jt.compile(program)(x)):
        actual = np.asarray(out[0])
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_batched_bitcast_to_a_wider_type(axis):
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    rows = np.moveaxis(x, -1, axis) if axis != 2 else x
    f = jt.vmap(lambda v: jt.lax.bitcast_convert_type(v, new_dtype=np.dtype("u2")), in_axes=axis)
    if rows.shape[axis] == 0 or np.delete(rows.shape, axis)[-1] != 2:
        with pytest.raises(jt.JaxprTypeError, match="the last axis has to hold"):
            f(rows)
    pairs = np.stack([x[0, :2], x[1, :2]]).reshape(2, 2, 2, 2)[..., 0, :]
    moved = np.moveaxis(pairs, 0, axis)
    out = f(moved)
    np.testing.assert_array_equal(out, pairs.copy().view(np.uint16)[..., 0])


BYTE_FLOATS = [
    "float8_e3m4",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


def _all_pairs(name):
    """Each number of a type of a byte, NaN too, with each."""
    numbers = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))
    return np.repeat(numbers, 256), np.tile(numbers, 256)


def test_total_order_of_bytes():
    """JAX's, for numbers without a sign, and those whose NaN has the bits of -0, too."""
    pairs = [_all_pairs(name) for name in BYTE_FLOATS]
    names = ("eq_to", "le_to", "lt_to")
    in_jax = [getattr(primitives, f"{name}_p").bind for name in names]
    expected = jax.jit(lambda pairs: [[f(*p) for f in in_jax] for p in pairs])(pairs)
    for pair, results in zip(pairs, expected, strict=True):
        for name, result in zip(names, results, strict=True):
            np.testing.assert_array_equal(getattr(jt.lax, name)(*pair), result)


@pytest.mark.parametrize(("kind", "bits"), [("i", 4), ("u", 4), ("i", 2), ("u", 2)])
def test_mulhi_of_less_than_a_byte(kind, bits):
    least = -(1 << bits - 1) if kind == "i" else 0
    numbers = np.arange(least, least + (1 << bits))
    x, y = np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))
    dtype = getattr(ml_dtypes, f"{'u' * (kind == 'u')}int{bits}")
    program = jt.make_jaxpr(lambda a, b: [jt.lax.mulhi(a, b)])(x.astype(dtype), y.astype(dtype))
    for f in (jt.jaxpr_as_fun(program), jt.compile(program)):
        out = np.asarray(f(x.astype(dtype), y.astype(dtype))[0])
        assert out.dtype == dtype
        np.testing.assert_array_equal(out.astype(int), (x * y) >> bits)


@pytest.mark.parametrize("name", BYTE_FLOATS)
def test_nextafter_of_bytes(name):
    """By the order of all numbers; XLA's own is NaN, or far off, where there is no -0, or no sign."""
    x, y = _all_pairs(name)
    a, b = (v.astype(np.float64) for v in (x, y))
    numbers = np.unique(a[~np.isnan(a)])
    undefined = np.isnan(a) | np.isnan(b)
    place = np.searchsorted(numbers, np.where(undefined, 0, a))
    place += np.where(a < b, 1, 0) - np.where(b < a, 1, 0)
    expected = np.where(undefined, np.nan, numbers[np.clip(place, 0, len(numbers) - 1)])
    program = jt.make_jaxpr(lambda x, y: [jt.lax.nextafter(x, y)])(x, y)
    for f in (jt.jaxpr_as_fun(program), jt.compile(program)):
        np.testing.assert_array_equal(np.asarray(f(x, y)[0]).astype(np.float64), expected)


def test_bits_of_constants_are_not_compared_where_xla_folds_them_wrongly():
    """JAX itself gives other bits when XLA knows the operand: ours are those of the operation that runs."""
    x = np.float32(1.5)
    as_it_runs = [0, 0, 0, 0, 0, 12, 15, 3]
    assert jax.lax.bitcast_convert_type(x, jnp.uint4).tolist() == as_it_runs
    text = "{{ lambda ; . let a:{} = bitcast_convert_type[new_dtype={}] 1.5:f32[] in (a,) }}"
    narrow, bytes_ = (jt.parse(text.format(*x)) for x in (("u4[8]", "uint4"), ("u8[4]", "uint8")))
    assert np.asarray(jt.run(narrow)[0]).tolist() == as_it_runs
    assert not is_determined(narrow) and is_determined(bytes_) is True


@pytest.mark.parametrize("shape", [(3,), (1,)])
def test_derivative_of_nextafter(shape):
    """That of the first operand, stretched to the result: the step to the next number is too small to count."""
    x, y, t = np.ones(shape), np.array([2.0, 0.0, 1.0]), np.full(shape, 5.0)
    outs, ts = jt.jvp(lambda x, y: [jt.lax.nextafter(x, y)], (x, y), (t, y))
    np.testing.assert_array_equal(outs[0], np.nextafter(x, y))
    np.testing.assert_array_equal(ts[0], [5.0] * 3)
    cts = jt.vjp(lambda x, y: [jt.lax.nextafter(x, y)], x, y)[1]([np.array([1.0, 2.0, 3.0])])
    np.testing.assert_array_equal(cts[0], [1.0, 2.0, 3.0] if shape == (3,) else [6.0])
    np.testing.assert_array_equal(cts[1], np.zeros(3))

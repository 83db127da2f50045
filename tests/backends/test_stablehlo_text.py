"""Types and constants in StableHLO: XLA reads back exactly what NumPy holds."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.backends.xla.compile import compile_stablehlo
from jaxprtool.ir.avals import AbstractToken, OpaqueType, ShapedArray, SymbolicDim
from jaxprtool.ir.diagnostics import UnsupportedError
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.stablehlo.module import StableHLO
from jaxprtool.stablehlo.text import attribute, dense, mlir_type, scalar_text

FLOATS = ["f16", "bf16", "f32", "f64", "f8_e3m4", "f8_e4m3", "f8_e4m3b11fnuz", "f8_e4m3fn"]
FLOATS += ["f8_e4m3fnuz", "f8_e5m2", "f8_e5m2fnuz"]
INTS = ["i4", "u4", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
NUMBERS = [0.0, -0.0, 1.0, -2.5, 0.1, 1e-5, 3.0, math.inf, -math.inf, math.nan]


def aval(text):
    name, _, dims = text.rstrip("]").partition("[")
    return ShapedArray(tuple(int(d) for d in dims.split(",") if d), name)


def through_xla(constants):
    """The arrays that XLA makes of [(attribute text, type)]."""
    lines = [
        f"    %{i} = stablehlo.constant {text} : {mlir_type(a)}"
        for i, (text, a) in enumerate(constants)
    ]
    names = ", ".join(f"%{i}" for i in range(len(constants)))
    types = ", ".join(mlir_type(a) for _, a in constants)
    body = "\n".join(lines)
    text = f"module @m {{\n  func.func public @main() -> ({types}) {{\n{body}\n    return {names} : {types}\n  }}\n}}\n"
    outs = compile_stablehlo(StableHLO(text, [], [a for _, a in constants]))()
    return [np.asarray(x) for x in outs]


def assert_identical(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    number = np.asarray(got).astype(np.float64 if got.dtype.kind not in "c" else got.dtype)
    expected = np.asarray(want).astype(number.dtype)
    np.testing.assert_array_equal(number, expected)
    if number.dtype.kind == "f":
        finite = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(number[finite]), np.signbit(expected[finite]))


@pytest.mark.parametrize("name", FLOATS)
def test_float_scalars(name):
    dtype, kind = find_dtype(name), ShapedArray((), name)
    texts = [(f"dense<{scalar_text(x, dtype)}>", kind) for x in NUMBERS]
    for got, x in zip(through_xla(texts), NUMBERS, strict=True):
        assert_identical(got, np.asarray(x).astype(np_dtype(dtype)))


@pytest.mark.parametrize("name", INTS)
def test_integer_scalars_wrap(name):
    dtype, kind = find_dtype(name), ShapedArray((), name)
    low = 0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))
    values = {
        0: 0,
        3: 3,
        low: low,
        low + (1 << dtype.bits): low,
        low - 1: low - 1 + (1 << dtype.bits),
    }
    outs = through_xla([(f"dense<{scalar_text(x, dtype)}>", kind) for x in values])
    assert [int(x) for x in outs] == list(values.values())


def test_complex_and_bool_scalars():
    z = complex(math.inf, -0.5)
    c64, c128, boolean = (ShapedArray((), n) for n in ("c64", "c128", "bool"))
    texts = [(f"dense<{scalar_text(z, a.dtype)}>", a) for a in (c64, c128)]
    texts += [(f"dense<{scalar_text(x, boolean.dtype)}>", boolean) for x in (True, 0)]
    a, b, t, f = through_xla(texts)
    assert a.dtype == np.complex64 and b.dtype == np.complex128 and a == z and b == z
    assert t and not f and t.dtype == bool


def test_values_beyond_the_range_of_a_type_are_infinite():
    f32, f16 = ShapedArray((), "f32"), ShapedArray((), "f16")
    texts = [(f"dense<{scalar_text(x, a.dtype)}>", a) for a in (f32, f16) for x in (1e300, -1e300)]
    assert [float(x) for x in through_xla(texts)] == [math.inf, -math.inf, math.inf, -math.inf]


@pytest.mark.parametrize("n", [1, 3, 101, 1000])
@pytest.mark.parametrize("name", [*FLOATS, *INTS, "bool", "c64", "c128"])
def test_arrays(name, n):
    dtype = np_dtype(find_dtype(name))
    rng = np.random.default_rng(n)
    x = rng.integers(0, 7, size=(n, 2)).astype(dtype)
    if x.dtype.kind in "fc":
        x[0, 0] = math.nan
    kind = ShapedArray(x.shape, name)
    (got,) = through_xla([(dense(x, kind), kind)])
    assert_identical(got, x)


def test_arrays_of_other_layouts_and_kinds():
    x = np.arange(400, dtype=np.float32).reshape(20, 20)
    kind, doubles = aval("f32[20,20]"), x.astype(np.float64)
    texts = [(dense(y, kind), kind) for y in (x.T, doubles, x[::-1], x.tolist())]
    for got, want in zip(through_xla(texts), (x.T, x, x[::-1], x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_empty_arrays():
    kind = aval("f32[0,3]")
    (got,) = through_xla([(dense(np.zeros((0, 3), np.float32), kind), kind)])
    assert got.shape == (0, 3)


def test_nested_lists_with_special_values():
    kind = aval("bf16[2]")
    (got,) = through_xla([(dense([math.inf, 0.1], kind), kind)])
    assert_identical(got, np.array([math.inf, 0.1]).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (aval("f32[]"), "tensor<f32>"),
        (aval("bool[2,3]"), "tensor<2x3xi1>"),
        (aval("u8[0]"), "tensor<0xui8>"),
        (aval("c128[2]"), "tensor<2xcomplex<f64>>"),
        (aval("i4[2]"), "tensor<2xi4>"),
        (ShapedArray((3,), "float0"), "tensor<3xi1>"),
        (ShapedArray((3,), "key<fry>"), "tensor<3x2xui32>"),
        (AbstractToken(), "!stablehlo.token"),
    ],
)
def test_types(kind, text):
    assert mlir_type(kind) == text


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ShapedArray((SymbolicDim("n"),), "f32"), "symbolic-shape"),
        (OpaqueType("MemRef<any>{f32[3]}"), "no-stablehlo-type"),
    ],
)
def test_types_that_cannot_be_lowered(kind, code):
    with pytest.raises(UnsupportedError) as error:
        mlir_type(kind)
    assert error.value.diagnostics[0].code == code


def test_attributes():
    values = [True, False, 3, (0, 1), (), [2], "#x<y>"]
    assert [attribute(v) for v in values] == [
        "true",
        "false",
        "3 : i64",
        "array<i64: 0, 1>",
        "array<i64>",
        "array<i64: 2>",
        "#x<y>",
    ]

"""Literals of JAX 0.7.0 and 0.7.1, which are printed as NumPy prints scalars of their types."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxprtool as jt
from jaxprtool.analyses.identity.canonical import element_of
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import DType, find_dtype
from jaxprtool.syntax.releases.earlier_types import number_of_numpy

NARROW = [
    name
    for name in vars(ml_dtypes)
    if name.startswith(("bfloat", "float")) and hasattr(find_dtype(name), "bits")
]
# Of 0.7.1 and 0.9.0: `lambda x, h, e, c: (x * 0.1, h * 2, e * 0.1, c * (0.1 + 2j))`.
OF_0_7 = """{ lambda ; a:f32[2] b:bf16[2] c:f8_e4m3fn[2] d:c64[2]. let
    e:f32[2] = mul a 0.1:f32[]
    f:bf16[2] = mul b 2:bf16[]
    g:f8_e4m3fn[2] = mul c 0.101562:f8_e4m3fn[]
    h:c64[2] = mul d (0.1+2j):c64[]
  in (e, f, g, h) }"""
OF_0_9 = """{ lambda ; a:f32[2] b:bf16[2] c:f8_e4m3fn[2] d:c64[2]. let
    e:f32[2] = mul a 0.10000000149011612:f32[]
    f:bf16[2] = mul b 2.0:bf16[]
    g:f8_e4m3fn[2] = mul c 0.1015625:f8_e4m3fn[]
    h:c64[2] = mul d (0.10000000149011612+2j):c64[]
  in (e, f, g, h) }"""


def of_type(name: str) -> ShapedArray:
    dtype = find_dtype(name)
    assert isinstance(dtype, DType)
    return ShapedArray((), dtype)


@pytest.mark.parametrize(("name", "bits"), [("float32", np.uint32), ("float16", np.uint16)])
@given(st.data())
def test_a_number_is_printed_as_by_numpy(name: str, bits: type, data: st.DataObject) -> None:
    word = data.draw(st.integers(0, np.iinfo(bits).max))
    x = np.array(word, bits).view(name)[()]
    # From there on NumPy 2.4 prints an exponent, which NumPy 2.2 does not.
    if np.isfinite(x) and abs(x) < (1e6 if name == "float32" else 1e3):
        assert number_of_numpy(float(x), of_type(name)) == str(x)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_a_little_less_than_its_text_has_an_exponent(sign: int) -> None:
    x = np.float32(sign * 1e-4)
    assert number_of_numpy(float(x), of_type("float32")) == str(x)


# Where NumPy 2.2 and 2.4 agree: the latter prints 1e+06j, and 1e-04j.
_PARTS = st.floats(2**-9, 2**16, width=32) | st.sampled_from([0.0, -0.0, math.inf, 0.1])


@given(_PARTS, _PARTS, st.sampled_from([1, -1]))
def test_a_complex_number_is_printed_as_by_numpy(re: float, im: float, sign: int) -> None:
    z = complex(sign * re, im)
    assert number_of_numpy(z, of_type("complex64")) == str(np.complex64(z))


@pytest.mark.parametrize("name", NARROW)
def test_a_narrow_number_is_printed_as_by_its_type_and_read_as_itself(name: str) -> None:
    kind = getattr(ml_dtypes, name)
    bits = min(find_dtype(name).bits, 16)
    words = np.arange(2**bits, dtype=np.uint16 if bits == 16 else np.uint8)
    for x in words.view(kind):
        value = float(x)
        if not math.isfinite(value):
            continue
        text = number_of_numpy(value, of_type(name))
        assert text == str(x)
        assert element_of(float(text), find_dtype(name)) == value


@pytest.mark.parametrize("text", [OF_0_7, OF_0_9], ids=["0.7", "0.9"])
def test_a_text_is_printed_back(text: str) -> None:
    assert str(jt.parse(text)).strip() == text


def test_each_is_written_for_the_other_and_is_the_same_program() -> None:
    then, now = jt.parse(OF_0_7), jt.parse(OF_0_9)
    assert jt.format_jaxpr(now, dialect="jax-0.7.1").strip() == OF_0_7
    assert jt.hash(then) == jt.hash(now)
    assert jt.diff(then, now).equal


@pytest.mark.parametrize(("name", "x"), [("float32", 1e39), ("float16", -1e6)])
def test_a_number_beyond_its_type_is_infinite(name: str, x: float) -> None:
    """JAX prints none; people write some."""
    assert number_of_numpy(x, of_type(name)) == f"{math.copysign(math.inf, x)}"

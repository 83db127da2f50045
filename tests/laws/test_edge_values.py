"""NumPy against JAX where numbers end: zeros of both signs, infinities, NaN, the largest and the smallest of each type.

Subnormal numbers are left out: XLA takes them for zeros.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import BOOL, DType, find_dtype
from tests.laws.oracle import EXAMPLES, by_structure, on_jax

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e-4, -1e-4, 3.0, -3.0, 2.0]
TOLERANCE = {64: 1e-9, 32: 1e-4, 16: 3e-2}
OTHERWISE = {
    "lgamma": "XLA has 4.8e-7 for 0",
    "cumsum": "XLA adds in another order, which shows in infinities",
    "cumprod": "likewise",
    "cumlogsumexp": "likewise",
}

COMPLEX_PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e-4, 3e20, -3e20]


def _huge(args: Any, _theirs: Any) -> Any:
    """Return where an operand has a finite real or imaginary part above 1e10 in size."""
    parts = np.array([p for x in args for p in (x.real, x.imag)])
    return (np.isfinite(parts) & (np.abs(parts) > 1e10)).any(0)


def _on_a_cut(args: Any, theirs: Any) -> Any:
    """Where y / x is real up to rounding, and parts are not zeros; and where x^2 + y^2 is 0 or infinite."""
    with np.errstate(all="ignore"):
        real = np.abs(np.sin(theirs.real)) < 1e-6
        pole = np.isin(args[0] / args[1], [1j, -1j])
    return pole | (real & ((args[0].imag != 0) | (args[1].imag != 0)))


# Where complex numbers may differ from JAX's: why, and a function of operands and JAX's results that says where.
COMPLEX_OTHERWISE = {
    "mul": ("a fused multiply and add does not overflow, or does not cancel", _huge),
    "integer_pow": ("likewise", _huge),
    "pow": ("the angle is some 1e20 radians", _huge),
    "atan2": ("rounding decides on which side of a branch cut the quotient is", _on_a_cut),
    "sinh": (
        "XLA subtracts exponentials that are nearly equal",
        lambda args, _: np.abs(args[0].real) < 1e-3,
    ),
}

SCALES = {"atan2": 1.0}  # a logarithm of numbers near 1
TOTAL_ORDER = {"eq_to", "le_to", "lt_to"}  # XLA compiles them for reals only
BY_PAIRS = {"cummax", "cummin"}  # of complex NaN and numbers XLA, which joins pairs, keeps others

SERIES = {
    "igamma",
    "igammac",
    "igamma_grad_a",
    "random_gamma_grad",
    "digamma",
    "polygamma",
    "zeta",
}  # slow to compile


def _values(dtype: DType) -> Any:
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        bits = dtype.bits - (dtype.kind == "i")
        low, high = (-(1 << bits) if dtype.kind == "i" else 0), (1 << bits) - 1
        chosen = sorted({low, low + 1, high, *(n for n in (0, 1, -1, 2, 3, 7) if low <= n <= high)})
        return np.array(chosen).astype(np_dtype(dtype))
    if dtype.kind == "c":
        found = np.empty(len(COMPLEX_PARTS) ** 2, np_dtype(dtype))
        found.real = np.repeat(COMPLEX_PARTS, len(COMPLEX_PARTS))
        found.imag = np.tile(COMPLEX_PARTS, len(COMPLEX_PARTS))
        return found
    info = ml_dtypes.finfo(np_dtype(dtype))
    ends = [float(info.max), float(info.min), float(info.tiny)]
    with np.errstate(all="ignore"):
        return np.array([*FLOATS, *ends]).astype(np_dtype(dtype))


def _inputs(dtype: DType, n: int) -> list[Any]:
    """Every value, or every pair of values."""
    v = _values(dtype)
    return [v] if n == 1 else [np.repeat(v, len(v)), np.tile(v, len(v))]


def _programs(dtype: DType) -> list[tuple[Any, Any, list[Any]]]:
    """The examples of one or two operands that take vectors of a type to a vector: (example, program, inputs)."""
    found, seen = [], set()
    for example in by_structure(EXAMPLES):
        n, name = len(example.args), example.primitive.name
        key = name, n, str(example.params)
        special = example.of is not None or example.jax is not None or example.label
        special = special or (dtype.kind == "c" and name in TOTAL_ORDER | BY_PAIRS)
        if n not in (1, 2) or special or key in seen or name in OTHERWISE or name in SERIES:
            continue
        seen.add(key)
        args = _inputs(dtype, n)
        aval = ShapedArray(args[0].shape, dtype)
        try:
            program = jt.make_jaxpr(lambda *xs, e=example: e.op(*xs, **e.params))(*[aval] * n)
        except jt.JaxprToolError:
            continue
        if [a.shape for a in program.out_avals] == [aval.shape]:
            found.append((example, program, args))
    return found


def _complex_differ(mine: Any, theirs: Any, dtype: DType, scale: float) -> Any:
    """`_differ` of the parts, where rounding errors may be as large as those of the other part, or of `scale`."""
    epsilon = float(np.finfo(mine.dtype).eps)
    parts = np.array([theirs.real, theirs.imag], np.float64)
    size = np.abs(np.where(np.isfinite(parts), parts, 0)).max(0)
    rounding = 16 * epsilon * np.maximum(size, scale)
    wrong = np.zeros(mine.shape, bool)
    for a, b in ((mine.real, theirs.real), (mine.imag, theirs.imag)):
        with np.errstate(all="ignore"):
            rounded = (np.abs(a - b) <= rounding) & (a != b)
        wrong |= _differ(a, b, dtype.real) & ~rounded
    return wrong


def _differ(mine: Any, theirs: Any, dtype: DType, scale: float = 0.0) -> Any:
    """Where two arrays are not the same number, zeros of different signs included."""
    if dtype.kind == "c":
        return _complex_differ(mine, theirs, dtype, scale)
    if dtype.kind != "f":
        return mine != theirs
    a, b = mine.astype(np.float64), theirs.astype(np.float64)
    tolerance = TOLERANCE.get(dtype.bits, 0.3)
    with np.errstate(all="ignore"):
        tiny = float(ml_dtypes.finfo(np_dtype(dtype)).tiny)
        same = np.isclose(a, b, rtol=tolerance, atol=tiny, equal_nan=True)
    signs = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b)) & dtype.has_signed_zero
    return ~same | signs


@pytest.mark.parametrize("name", ["f32", "f64", "c64", "c128", "bf16", "i8", "u4", "i2", "bool"])
def test_numpy_equals_jax_at_the_ends(name):
    dtype = find_dtype(name)
    assert dtype is not None
    programs = _programs(dtype)
    assert len(programs) >= 8
    with jax.enable_x64(True):
        functions = [jaxpr_as_fun(jt.to_jax(p)) for _, p, _ in programs]
        outs = on_jax(
            lambda args: [f(*xs)[0] for f, xs in zip(functions, args, strict=True)],
            [args for _, _, args in programs],
        )
    wrong = []
    for (example, program, args), theirs in zip(programs, outs, strict=True):
        mine, theirs = jt.eval_jaxpr(program, args)[0], np.asarray(theirs)
        assert mine.dtype == theirs.dtype
        name = example.primitive.name
        differ = _differ(mine, theirs, program.out_avals[0].dtype, SCALES.get(name, 0.0))
        if dtype.kind == "c" and name in COMPLEX_OTHERWISE:
            _, where = COMPLEX_OTHERWISE[name]
            differ &= ~where(args, theirs)
        for i in np.flatnonzero(differ)[:4]:
            at = ", ".join(str(x[i]) for x in args)
            wrong.append(f"{example.id} at {at}: {mine[i]}, in JAX {theirs[i]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["f32", "f64", "bf16"])
def test_a_broadcast_operand_gives_what_a_full_one_does(name):
    """NumPy computes some powers by another method where the exponent is a scalar."""
    dtype = find_dtype(name)
    assert dtype is not None
    wrong = []
    for example, program, args in _programs(dtype):
        for v in _values(dtype) if len(args) == 2 else ():
            x, full = args[0], np.full_like(args[1], v)
            one = jt.eval_jaxpr(program, [x, np.broadcast_to(v, full.shape)])[0]
            each = jt.eval_jaxpr(program, [x, full])[0]
            for i in np.flatnonzero(_differ(one, each, program.out_avals[0].dtype))[:1]:
                wrong.append(f"{example.id} at {x[i]}, {v}: {one[i]}, of a full array {each[i]}")
    assert not wrong, "\n".join(wrong)


PLACES = np.array([2, 0, 2, 0, 2])
REDUCTIONS: dict[str, Any] = {
    "sum": lambda x: lax.reduce_sum(x, (0,)),
    "sum of one element": lambda x: lax.reduce_sum(x[:1], (0,)),
    "max": lambda x: lax.reduce_max(x, (0,)),
    "min": lambda x: lax.reduce_min(x, (0,)),
    "psum": lambda x: lax.psum(x, 0),
    "pmax": lambda x: lax.pmax(x, 0),
    "pmin": lambda x: lax.pmin(x, 0),
    "cumsum": lambda x: lax.cumsum(x, 0),
    "cummax": lambda x: lax.cummax(x, 1),
    "cummin": lambda x: lax.cummin(x, 0, reverse=True),
    "reduce from 0": lambda x: lax.reduce(x, x[0, 0] * 0, lax.add, (0,)),
    "reduce from -0": lambda x: lax.reduce(x, np.array(-0.0, x.dtype), lax.add, (0,)),
    "reduce with max": lambda x: lax.reduce(x, np.array(-np.inf, x.dtype), lax.max, (0, 1)),
    "window": lambda x: lax.reduce_window(
        x, np.array(-np.inf, x.dtype), lax.max, (2, 2), (1, 1), "SAME"
    ),
    "window min": lambda x: lax.reduce_window(
        x, np.array(np.inf, x.dtype), lax.min, (3, 1), (1, 1), "SAME"
    ),
    "window sum": lambda x: lax.reduce_window(
        x, np.array(0, x.dtype), lax.add, (2, 2), (1, 1), "SAME"
    ),
    "scatter add": lambda x: (-jnp.zeros((3, x.shape[1]), x.dtype)).at[PLACES].add(x),
    "scatter max": lambda x: (-jnp.zeros((3, x.shape[1]), x.dtype)).at[PLACES].max(x),
    "scatter min": lambda x: jnp.zeros((3, x.shape[1]), x.dtype).at[PLACES].min(x),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_give_zeros_the_sign_that_jax_gives_them(name, dtype):
    """Zeros of different signs are told apart by 1 / x."""
    f, rng = REDUCTIONS[name], np.random.default_rng(0)
    with jax.enable_x64(True):
        for numbers in ([-0.0], [0.0, -0.0], [0.0, -0.0, 1.0], [0.0, -0.0, -1.0]):
            x = jnp.asarray(rng.choice(np.array(numbers), (5, 7))).astype(dtype)
            theirs = np.asarray(jax.jit(f)(x))
            mine = jt.eval_jaxpr(jt.from_jax(jax.make_jaxpr(f)(x)), [x])[0]
            np.testing.assert_array_equal(mine.astype(float), theirs.astype(float))
            np.testing.assert_array_equal(np.signbit(mine), np.signbit(theirs), str(numbers))


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64"])
@pytest.mark.parametrize("f", [lax.psum, lax.pmax, lax.pmin])
def test_reductions_along_positions_that_are_empty(f, dtype):
    x = np.zeros((2, 0, 3), dtype)
    theirs = np.asarray(f(x, 1))
    mine = jt.eval_jaxpr(jt.trace(lambda x: f(x, 1), x), [x])[0]
    assert mine.dtype == theirs.dtype
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("f", [lax.psum, lax.pmax, lax.pmin])
def test_reductions_along_positions_are_computed_inside_of_a_trace(f):
    """A program that is evaluated while another is traced is no part of that."""
    x = np.array([[1, 5], [3, 2]], np.float32)
    program = jt.trace(lambda x: f(x, 1), x)
    made = jt.trace(lambda y: y + jt.eval_jaxpr(program, [x])[0], np.ones(2, np.float32))
    assert [e.primitive.name for e in made.eqns] == ["add"]
    np.testing.assert_array_equal(jt.eval_jaxpr(made, [np.ones(2, np.float32)])[0], f(x, 1) + 1)


NARROW = (
    "i2",
    "u2",
    "i4",
    "u4",
    "i8",
    "f4_e2m1fn",
    "f6_e2m3fn",
    "f8_e4m3fn",
    "f8_e8m0fnu",
    "f8_e3m4",
    "f8_e5m2",
    "bf16",
    "f32",
)


def test_conversions_between_narrow_types():
    """Of numbers from 0 to 3, which all of them but those of two bits hold."""
    values = np.array([0, 1, 1])
    for old in NARROW:
        x = values.astype(np_dtype(find_dtype(old)))
        for new in NARROW:
            dtype = find_dtype(new)
            program = jt.make_jaxpr(lambda x, t=dtype: jt.lax.convert_element_type(x, new_dtype=t))(
                x
            )
            (out,) = jt.eval_jaxpr(program, [x])
            assert out.dtype == np_dtype(dtype)
            zero = np.nan if new == "f8_e8m0fnu" else 0
            first = 1 if old == "f8_e8m0fnu" else zero
            got = out.astype(np.float32)
            assert got[1:].tolist() == [1, 1], (old, new)
            if old != "f8_e8m0fnu":
                np.testing.assert_array_equal(got[0], first)


@pytest.mark.parametrize("name", ["f8_e8m0fnu", "f8_e4m3fn", "f8_e5m2", "f6_e3m2fn", "f4_e2m1fn"])
def test_booleans_of_narrow_floats(name):
    """All values but zeros are true, NaN too; f8_e8m0fnu has no zero."""
    dtype = find_dtype(name)
    program = jt.make_jaxpr(lambda x: jt.lax.convert_element_type(x, new_dtype=BOOL))(
        ShapedArray((1 << dtype.bits,), dtype)
    )
    x = np.arange(1 << dtype.bits, dtype=np.uint8).view(np_dtype(dtype))
    (out,) = jt.eval_jaxpr(program, [x])
    np.testing.assert_array_equal(out, x.astype(np.float64) != 0)


@pytest.mark.parametrize("name", ["i4", "i8", "u8", "i32", "i64", "f32", "bf16"])
def test_conversions_of_four_bits(name):
    """Of all 16 values of f4_e2m1fn; XLA takes the largest, which is none, for an infinity where it makes integers."""
    dtype = find_dtype(name)
    program = jt.make_jaxpr(lambda x: jt.lax.convert_element_type(x, new_dtype=dtype))(
        ShapedArray((16,), find_dtype("f4_e2m1fn"))
    )
    x = np.arange(16, dtype=np.uint8).view(np_dtype(find_dtype("f4_e2m1fn")))
    mine = jt.eval_jaxpr(program, [x])[0].astype(np.float64)
    exact = x.astype(np.float64)
    if dtype.is_integer:
        exact = np.trunc(np.maximum(exact, 0) if dtype.kind == "u" else exact)
    np.testing.assert_array_equal(mine, exact)
    with jax.enable_x64(True):
        theirs = np.asarray(jax.jit(jaxpr_as_fun(jt.to_jax(program)))(x)[0]).astype(np.float64)
    differ = theirs != mine
    assert set(np.abs(x.astype(np.float64)[differ])) <= ({6.0} if dtype.is_integer else set())

"""Every element type: the type rules take what JAX takes, and NumPy and XLA give what JAX gives.

One example of each primitive, with its first operand's element type replaced wherever it occurs. The types of all
are compared in each run; the values of a few types only, unless JAXPRTOOL_ALL is set, because compilation takes
minutes for all of them. Where XLA's arithmetic in a narrow type makes JAX's value wrong, a table says so and why:
there NumPy has to give the value of f64, rounded, and JAX has to be wrong, so that no entry outlives its reason.
"""

from __future__ import annotations

import dataclasses
import functools
import os

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import jaxprtool as jt
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.backends.xla.compile import compile_jaxpr
from jaxprtool.ir.dtypes import FLOAT64, find_dtype
from jaxprtool.makers.indexing import update_jaxpr_of
from tests.laws.oracle import (
    EXAMPLES,
    OneProgram,
    assert_close,
    aval_of,
    by_structure,
    called,
    in_jax,
    inputs,
    law,
    on_jax,
    on_xla,
    ours,
    out_avals,
)
from tests.rules.example import Arg
from tests.rules.examples_scatter import SCALARS

ALL = bool(os.environ.get("JAXPRTOOL_ALL"))
NAMES = (
    "bool i2 i4 i8 i16 i32 i64 u2 u4 u8 u16 u32 u64 bf16 f16 f32 f64 c64 c128 f4_e2m1fn f8_e3m4 "
    "f8_e4m3 f8_e4m3b11fnuz f8_e4m3fn f8_e4m3fnuz f8_e5m2 f8_e5m2fnuz f8_e8m0fnu"
)
DTYPES = [find_dtype(name) for name in NAMES.split()]
NARROW = [find_dtype(name) for name in ("i4", "u2", "f8_e4m3fn")]

# Primitives whose compilation takes seconds for each type.
SLOW = {"igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "regularized_incomplete_beta"}

# Primitives whose values are random; `test_draws_are_uniform` tests them.
STATEFUL = {"rng_uniform"}

# Operations whose types are announced by a param or are those of a generator's state, which JAX does not check,
# or whose reference in JAX is not the primitive.
APART = {
    *("pure_callback", "io_callback", "psum", "random_seed", "custom_linear_solve"),
    # whose oracles are several operations
    *("atomic_rmw", "atomic_cas"),
    *("rng_bit_generator", "empty_ref", "Ldexp", "Frexp", "polynomial"),
}

# JAX's type rule takes these kinds, and it fails to lower them: infinity is no integer, complex
# numbers no order. `select_and_gather_add` is made for derivatives, and so for floating types.
REFUSED = {
    "cumlogsumexp": "iu",
    "argmax": "c",
    "argmin": "c",
    "select_and_gather_add": "biuc",
    "rng_uniform": "bc",
    "addupdate": "b",
}

# XLA's CPU backend aborts the process when JAX compiles these.
ABORTS = {
    "concatenate": {"i2", "u2"},
    "repeat": {"i2", "u2"},
    "roll": {"i2", "u2"},
    "stack": {"i2", "u2"},
    "tile": {"i2", "u2"},
}

# Where JAX's value is not that of the mathematics, with the reason. An entry that is not needed fails.
# XLA makes these of many operations, each rounded to 4 bits, or to 8 with a largest number that is small (15.5
# in f8_e3m4, 30 in f8_e4m3b11fnuz): intermediate results are far off, or NaN.
ROUNDED = {
    "asin": {"f4_e2m1fn"},
    "acosh": {"f4_e2m1fn"},
    "atanh": {"f4_e2m1fn"},
    "logistic": {"f4_e2m1fn"},
    "triangular_solve": {"f4_e2m1fn"},
    "igamma": {"f4_e2m1fn"},
    "igammac": {"f8_e3m4"},
    "igamma_grad_a": {"f4_e2m1fn", "f8_e3m4", "f8_e4m3b11fnuz"},
    "random_gamma_grad": {"f8_e3m4"},
    "regularized_incomplete_beta": {"f8_e3m4"},
}
WRONG_IN_JAX = {
    # starts at -inf, which is NaN
    "cumlogsumexp": {n for n in NAMES.split() if n.startswith("f8") and n.endswith(("fn", "fnuz"))},
    "sort": {"i2", "u2"},  # XLA's result is in no order
    "mulhi": {"u4"},  # XLA takes the wrong bits
    "nextafter": {"f8_e8m0fnu"},  # XLA takes the first bit, which is of the exponent, for a sign
    **ROUNDED,
}
# XLA's zeros and ones, and the starts of its reductions, are NaN in f8_e8m0fnu, which has no zero.
NO_ZERO = {
    *("reduce_sum", "cumsum", "cummax", "cummin", "cumlogsumexp", "reduce_max", "reduce_min"),
    *("argmin", "exp2", "asin", "logistic", "triangular_solve", "ragged_dot_general"),
    *("igamma", "igammac", "random_gamma_grad", "regularized_incomplete_beta"),
    *("reduce_window_sum", "reduce_window_max", "reduce_window_min", "select_and_scatter_add"),
}


def _dtype_name(example):
    return example.label.rpartition("/")[2]


def _is_wrong_in_jax(example):
    name, dtype = example.primitive.name, _dtype_name(example)
    return dtype in WRONG_IN_JAX.get(name, ()) or (dtype == "f8_e8m0fnu" and name in NO_ZERO)


def _aborts(example):
    return _dtype_name(example) in ABORTS.get(example.primitive.name, ())


# -- examples of one element type ------------------------------------------------------------------


def _own_dtype(example):
    """The element type that is replaced: that of the operands which are not selectors or places."""
    first = 1 if example.primitive.name in ("select_n", "clamp") else 0
    return example.args[first].aval.dtype


def _domain(a, dtype):
    if dtype.is_integer and dtype.bits < 8 and a.domain != "small":
        return f"{dtype.bits} bits"
    if dtype.name == "float8_e8m0fnu":
        return "positive"
    return "normal" if a.domain == "any" and dtype.is_inexact else a.domain


def _of_dtype(example, dtype):
    """The example with another element type; as a function, because some have none of that type."""
    own, name = _own_dtype(example), example.primitive.name
    args = tuple(
        Arg(a.aval.update(dtype=dtype), _domain(a, dtype), a.values) if a.aval.dtype is own else a
        for a in example.args
    )
    params = {k: dtype if v is own else v for k, v in example.params.items()}
    if params.get("update_jaxpr") is not None:
        params["update_jaxpr"] = update_jaxpr_of(SCALARS[name], dtype)
    label = f"{example.id}/{dtype}"
    return dataclasses.replace(example, args=args, params=params, label=label)


def _has_own_types(example):
    """Whether the types of an example are those of its operands, and not those of a jaxpr."""
    params = example.primitive.params.values()
    of_jaxpr = any(p.kind.holds_jaxprs for p in params) and "scatter" not in str(example.primitive)
    # group sizes and places have types of their own, which operands of that type would change
    has_places = example.primitive.name in ("ragged_dot_general", "get", "swap", "addupdate")
    if has_places and example.args[0].aval.dtype.is_integer:
        return False
    return example.args and not of_jaxpr and example.primitive.name not in APART


def _one_each(examples):
    """For each primitive its first example with random operands, or with any."""
    found = {}
    for e in sorted(examples, key=lambda e: any(a.values is not None for a in e.args)):
        found.setdefault(e.primitive, e)
    return list(found.values())


SUITABLE = [e for e in by_structure(EXAMPLES) if _has_own_types(e)]
SAMPLE = SUITABLE if ALL else _one_each(SUITABLE)


# -- types -------------------------------------------------------------------------------------------


def _our_types(example, dtype):
    try:
        return [str(a) for a in out_avals(_of_dtype(example, dtype))]
    except (jt.JaxprTypeError, jt.UsageError):
        return None


def _jax_types(example, dtype):
    if dtype.kind in REFUSED.get(example.primitive.name, ""):
        return None
    try:
        e = _of_dtype(example, dtype)
        specs = [jax.ShapeDtypeStruct(a.aval.shape, np_dtype(a.aval.dtype)) for a in e.args]
        return [str(aval_of(x)) for x in jax.eval_shape(in_jax(e), *specs)]
    except Exception:  # JAX rejects with errors of every kind
        return None


@law(SAMPLE)
def test_types_are_those_of_jax(example):
    for dtype in DTYPES:
        found, expected = _our_types(example, dtype), _jax_types(example, dtype)
        assert found == expected, f"{dtype}: {found} is not {expected}"


# -- values ------------------------------------------------------------------------------------------


def _valued():
    found = []
    for example in _one_each(SUITABLE):
        name = example.primitive.name
        if name in STATEFUL or (name in SLOW and not ALL):
            continue
        for dtype in DTYPES if ALL else NARROW:
            if _our_types(example, dtype) is not None:
                found.append(_of_dtype(example, dtype))
    return found


with jax.enable_x64(True):
    VALUED = _valued()
COMPARED = [e for e in VALUED if not _aborts(e)]


IN_JAX = OneProgram(COMPARED, called(in_jax), on_jax)
ON_XLA = OneProgram(COMPARED, called(ours), on_xla)


def _in_jax(example):
    try:
        return IN_JAX[example]
    except Exception:  # JAX cannot compile it
        return None


@law(COMPARED)
def test_values_are_those_of_jax(example):
    """NumPy's and XLA's, where JAX has one; where it has none, NumPy has one or says why not.

    Where JAX's is wrong, NumPy's is that of f64, rounded, and XLA's is one of the two: it has JAX's faults where
    it has the operation from the same library of XLA (CHLO).
    """
    expected = _in_jax(example)
    try:
        found = ours(example)(*inputs(example))
    except jt.UnsupportedError:
        assert expected is None
        return
    assert [aval_of(x) for x in found] == out_avals(example)
    if _is_wrong_in_jax(example):
        _check_where_wrong(example, found, expected)
    elif expected is not None:
        _check_equal("NumPy against JAX", example, found, expected)
        _check_equal("XLA against JAX", example, ON_XLA[example], expected)


def _check_equal(what, example, found, expected):
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y, what=f"{what}, {example.label}")


def _are_equal(example, found, expected):
    try:
        _check_equal("", example, found, expected)
    except AssertionError:
        return False
    return True


def _check_where_wrong(example, found, in_jax):
    right = _mathematics(example)
    _check_equal("NumPy against f64, rounded", example, found, right)
    assert not _are_equal(example, found, in_jax), "JAX is right here: it is no exception"
    if not _are_equal(example, ON_XLA[example], right):
        _check_equal("XLA against JAX", example, ON_XLA[example], in_jax)


# Operations that are other functions for each type: of u4, and of f8_e8m0fnu, where JAX's are wrong.
OF_THE_TYPE = {
    "mulhi": lambda x, y: [(x * y) >> 4],
    "nextafter": lambda x, y: [x * 2.0 ** np.sign(y - x)],
}


def _mathematics(example):
    """The values of the operation on the same numbers in f64 (integers: 8 bits), rounded to the element type.

    They are computed on NumPy: that they are JAX's in f64 is what the law says of that type.
    """
    own = find_dtype(_dtype_name(example))
    wide = FLOAT64 if own.kind == "f" else find_dtype(f"{own.kind}8")
    in_wide = _of_dtype(example, wide)
    args = [
        x.astype(np_dtype(a.aval.dtype)) for x, a in zip(inputs(example), in_wide.args, strict=True)
    ]
    run = OF_THE_TYPE.get(example.primitive.name) or ours(in_wide)
    outs = [np.asarray(x) for x in run(*args)]
    if own.name == "float8_e8m0fnu":  # whose least number is the nearest to zero
        outs = [np.where(x == 0, 2.0**-127, x) if x.dtype.kind == "f" else x for x in outs]
    with np.errstate(all="ignore"):
        types = [np_dtype(a.dtype) for a in out_avals(example)]
        return [x.astype(t) for x, t in zip(outs, types, strict=True)]


def test_jax_has_most_values():
    """The law above is not vacuous: JAX lowers most operations of the narrow types."""
    refused = [e.label for e in COMPARED if _in_jax(e) is None]
    assert len(refused) <= len(COMPARED) / 5, refused


# -- random numbers --------------------------------------------------------------------------------

DRAWS = 4096
DRAWN = [d for d in DTYPES if d.kind in "iuf"] if ALL else [FLOAT64, *NARROW]


def _draws(dtype):
    """Bounds, and functions of them that draw: on NumPy, on XLA, and in JAX where it does not abort."""
    low, high = np.asarray((-2, 1) if dtype.kind == "i" else (0, 3)).astype(np_dtype(dtype))
    if dtype.kind == "f":
        low, high = np.asarray((1, 4)).astype(np_dtype(dtype))
    run = functools.partial(jt.lax.rng_uniform, shape=(DRAWS,))
    program = jt.make_jaxpr(lambda a, b: [run(a, b)])(low, high)
    found = {"NumPy": lambda a, b: [run(a, b)], "XLA": compile_jaxpr(program)}
    if dtype.bits >= (16 if dtype.kind == "f" else 32):
        found["JAX"] = jax.jit(jaxpr_as_fun(jt.to_jax(program)))
    return low, high, found


def _distance(found, expected):
    """Return the Kolmogorov-Smirnov distance of two samples: the largest difference of their
    distribution functions.
    """
    at = np.union1d(found, expected)
    parts = [np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (found, expected)]
    return np.abs(parts[0] - parts[1]).max()


@pytest.mark.parametrize("dtype", DRAWN, ids=str)
def test_draws_are_uniform(dtype):
    """Each call's are new: NumPy's, XLA's, and JAX's, which keep the state of a generator."""
    low, high, functions = _draws(dtype)
    even = float(low) + (float(high) - float(low)) * (np.arange(DRAWS) + 0.5) / DRAWS
    even = (np.floor(even) if dtype.is_integer else even).astype(low.dtype)
    for where, f in functions.items():
        first, second = (np.asarray(f(low, high)[0]) for _ in range(2))
        assert first.dtype == low.dtype and first.shape == (DRAWS,), where
        assert (first != second).any(), where
        # more distant by chance once in 10**9 times
        assert _distance(first.astype(float), even.astype(float)) < 3.3 / DRAWS**0.5, where

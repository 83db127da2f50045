"""Params as people write them: lists for tuples, NumPy's numbers and element types, in Python and in a text."""

from __future__ import annotations

import contextlib
import warnings

import ml_dtypes
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import lax
from jaxprtool.ir.dtypes import DType
from jaxprtool.ir.frozen import FrozenList
from tests.invoke import invoke
from tests.laws.oracle import EXAMPLES, by_primitive, law
from tests.rules.example import make_inputs

_PARAMS = {
    (e.primitive.name, name, repr(value)): (e.primitive.params[name].kind, value)
    for e in EXAMPLES
    for name, value in e.params.items()
    if name in e.primitive.params
    and not e.primitive.params[name].kind.unchecked
    and str(e.primitive.params[name].kind) not in ("Options", "Platforms")  # of any values
}


def lists(value, make=list):
    return make([lists(x, make) for x in value]) if type(value) is tuple else value


def numpys(value):
    if type(value) is tuple:
        return tuple(map(numpys, value))
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return np.int64(value)
    if type(value) is DType and value.kind in "biufc" and hasattr(ml_dtypes, value.name):
        return getattr(ml_dtypes, value.name)
    return np.dtype(value.name) if type(value) is DType and value.short in "f32 i32 bool" else value


def spelled(value):
    """A value with the types of what is in it."""
    return type(value).__name__, [*map(spelled, value)] if type(value) is tuple else value


@pytest.mark.parametrize(
    "other", [lists, numpys, lambda v: lists(numpys(v))], ids=["lists", "NumPy", "both"]
)
def test_what_python_code_gives_is_a_value_of_its_kind(other):
    changed = 0
    for kind, value in _PARAMS.values():
        given = other(value)
        if kind.fits(value) and spelled(value) != spelled(given):
            assert spelled(kind.given(given)) == spelled(value), (kind, value)
            changed += 1
    assert changed > 100


def test_a_list_in_a_text_is_a_tuple():
    changed = 0
    for kind, value in _PARAMS.values():
        if type(value) is tuple and kind.fits(value):
            read = kind.read(lists(value, FrozenList))
            assert spelled(read) == spelled(value), (kind, value)
            changed += 1
    assert changed > 100


X = np.arange(12, dtype=np.float32).reshape(3, 4)
FUNCTIONS = {
    "reduce_sum": (lax.reduce_sum, {"axes": [np.int64(0)]}, {"axes": (0,)}),
    "argmax": (
        lax.argmax,
        {"axes": [1], "index_dtype": np.int32},
        {"axes": (1,), "index_dtype": jt.parse("{ lambda ; a:i32[]. let in () }").in_avals[0].dtype},
    ),
    "transpose": (lax.transpose, {"permutation": np.argsort([1, 0]).tolist()}, {"permutation": (1, 0)}),
    "dot_general": (
        lambda x, **how: lax.dot_general(x, x, **how),
        {"dimension_numbers": (([np.int32(0)], [0]), ([], []))},
        {"dimension_numbers": (((0,), (0,)), ((), ()))},
    ),
    "pad": (
        lambda x, **how: lax.pad(x, np.float32(0), **how),
        {"padding_config": [[0, 1, 0], [np.int64(1), 0, 0]]},
        {"padding_config": ((0, 1, 0), (1, 0, 0))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_traced_function_has_the_jaxpr_of_plain_params(name):
    f, given, plain = FUNCTIONS[name]
    program, wanted = (jt.make_jaxpr(lambda x, how=how: f(x, **how))(X) for how in (given, plain))
    text = jt.format_jaxpr(wanted, lossless=True)
    assert jt.format_jaxpr(program, lossless=True) == text
    for how in ({}, {"jit": True}, {"through": "jax"}):
        np.testing.assert_array_equal(
            np.asarray(jt.run(program, X, **how)[0]), jt.run(wanted, X)[0]
        )
    np.testing.assert_array_equal(np.asarray(f(X, **given)), np.asarray(f(X, **plain)))


@pytest.mark.parametrize(
    "dtype", [np.int32, "int32", np.dtype("int32"), int, "i32", ml_dtypes.bfloat16]
)
def test_element_types_are_named_as_numpy_has_them(dtype):
    program = jt.make_jaxpr(lambda x: lax.convert_element_type(x, new_dtype=dtype))(X)
    wanted = np.dtype(dtype) if dtype != "i32" else np.dtype(np.int32)
    assert jt.run(program, X)[0].dtype == wanted
    assert jt.hash(jt.parse(str(program))) == jt.hash(program)


def test_what_is_no_value_is_refused_as_before():
    for how in ({"new_dtype": "flot32"}, {"new_dtype": [np.int32]}, {"new_dtype": 3}):
        with pytest.raises(jt.JaxprTypeError, match="element type"):
            jt.make_jaxpr(lambda x, how=how: lax.convert_element_type(x, **how))(X)
    with pytest.raises(jt.JaxprTypeError, match="has to be a tuple of integers"):
        lax.reduce_sum(X, axes=[0.5])


ODD = (None, "x", -1, 3.5, 10**30, (0, 0), [[1]], {}, True, np.int32, np.zeros(3), object(), b"q")


@law([examples[0] for examples in by_primitive(EXAMPLES).values()])
def test_what_is_of_no_kind_is_refused_or_taken(example):
    """A param of a wrong kind raises a JaxprToolError or is accepted, in traced and in evaluated
    functions.
    """
    values = make_inputs(example)
    for name in example.params:
        for odd in ODD:
            params = {**example.params, name: odd}
            for f in (example.op, jt.make_jaxpr(lambda *xs, p=params: example.op(*xs, **p))):
                how = params if f is example.op else {}
                with contextlib.suppress(jt.JaxprToolError), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    f(*values, **how)


TEXT = """{ lambda ; a:f32[3,4]. let
    b:f32[4] = reduce_sum[axes=[0] out_sharding=None] a
    c:f32[4,3] = transpose[permutation=[1, 0]] a
    d:f32[3] = dot_general[dimension_numbers=(([0], [0]), ([], []))] b c
    e:f32[2,3] = broadcast_in_dim[broadcast_dimensions=[1]] d
    f:f32[3,3] = pad[padding_config=[[0, 1, 0], (0, 0, 0)]] e 0.0:f32[]
  in (f,) }
"""


@pytest.mark.parametrize("line", ["run --args ones", "run --jit --args ones", "run --through jax --args ones", "vjp", "vmap --axis-size 2", "lower"])  # fmt: skip
def test_verbs_take_a_text_with_lists(line):
    plain = TEXT.replace("[0] out", "(0,) out").replace("[1, 0]", "(1, 0)").replace("[1]", "(1,)")
    plain = plain.replace("[[0, 1, 0], (0, 0, 0)]", "((0, 1, 0), (0, 0, 0))")
    done, wanted = invoke(line, TEXT), invoke(line, plain)
    assert (done.status, done.error) == (0, "")
    assert done.output == wanted.output

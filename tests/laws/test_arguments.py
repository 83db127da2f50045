"""Arguments of any Python type: a program takes them, or raises a `JaxprToolError` that says why
not.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import jaxprtool as jt

TYPES = (
    *("f32[]", "f32[3]", "bf16[3]", "bool[]", "i32[2,2]", "u8[]", "i4[3]", "c64[]", "f8_e4m3fn[3]"),
    *("float0[2]", "key<fry>[]", "key<rbg>[2]", "Tok", "Ref{f32[3]}", "AbstractFuture{f32[3]}"),
    *("Odd[anything]", "f32[n]", "f32[3]{V:i}", "f32<host>[3]", "f32[0,3]"),
)
VALUES: dict[str, Any] = {
    "None": None,
    "a text": "1.0",
    "bytes": b"\0\0",
    "an object": object(),
    "a class": float,
    "a function": len,
    "a fraction": Fraction(1, 3),
    "a dict": {"a": 1.0},
    "a set": {1, 2, 3},
    "a generator": (x for x in range(3)),
    "a ragged list": [1, [2, 3]],
    "a list of texts": ["a", "b", "c"],
    "a deep list": [[[[[1.0]]]]],
    "a number": 1.5,
    "a large integer": 2**70,
    "a negative integer": -1,
    "a complex number": 1j,
    "nan": float("nan"),
    "a truth value": True,
    "numbers": [1.0, 2.0, 3.0],
    "an array": np.ones(3, np.float32),
    "an array of another type": np.ones(3),
    "an array of objects": np.array([1, "a", None], object),
    "an array of texts": np.array(["a", "b"]),
    "a structured array": np.zeros(3, [("a", "f4")]),
    "an array of dates": np.zeros(3, "M8[s]"),
    "a masked array": np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),
    "an array in another byte order": np.ones(3, ">f4"),
    "an array of small floats": np.ones(3, ml_dtypes.bfloat16),
    "an array of JAX": jax.numpy.ones(3),
    "a key of JAX": jax.random.key(0),
    "raw words of a key": jax.random.PRNGKey(0),
    "a variable": jt.Var(jt.ShapedArray((3,), "float32"), "a"),
    "a type": jt.ShapedArray((3,), "float32"),
    "float0": np.zeros(2, jt.float0),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("type_", TYPES)
def test_an_argument_is_taken_or_refused_with_a_message(type_: str, name: str) -> None:
    program = jt.parse(f"{{ lambda ; a:{type_}. let  in (a,) }}")
    of_constant = jt.parse(f"{{ lambda a:{type_}; . let  in (a,) }}")
    for call in (
        lambda x: jt.eval_jaxpr(program, [x]),
        lambda x: jt.jaxpr_as_fun(program)(x),
        lambda x: jt.eval_jaxpr(jt.with_consts(of_constant, {"a": x}), []),
    ):
        try:
            call(VALUES[name])
        except jt.JaxprToolError as error:
            assert error.diagnostics


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("type_", ["f32[3]", "key<fry>[]", "bool[]", "i4[3]"])
def test_a_compiled_program_too(type_: str, name: str) -> None:
    compiled = _COMPILED.setdefault(
        type_, jt.compile(jt.parse(f"{{ lambda ; a:{type_}. let  in (a,) }}"))
    )
    try:
        compiled(VALUES[name])
    except jt.JaxprToolError as error:
        assert error.diagnostics


_COMPILED: dict[str, Any] = {}


# What a value becomes while nothing is traced, and what it becomes beside a traced argument, as a constant of that program.
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(
    "type_", ["bool[]", "i32[2,2]", "f32[3]", "bf16[3]", "c64[]", "key<fry>[]"]
)
def test_a_value_beside_a_tracer_is_taken_as_evaluation_takes_it(type_: str, name: str) -> None:
    program = jt.parse(f"{{ lambda ; a:{type_} b:f32[3]. let c:f32[3] = sin b in (a, c) }}")
    x, value = np.ones(3, np.float32), VALUES[name]
    for call in (
        lambda: jt.jvp(lambda b: jt.eval_jaxpr(program, [value, b]), (x,), (x,))[0][0],
        lambda: jt.eval_jaxpr(jt.make_jaxpr(lambda b: jt.jaxpr_as_fun(program)(value, b))(x), [x])[
            0
        ],
    ):
        wanted = _value_or_message(lambda: jt.eval_jaxpr(program, [value, x])[0])
        assert _value_or_message(call) == wanted


def _value_or_message(call: Callable[[], Any]) -> str:
    try:
        found = call()
    except jt.JaxprToolError as error:
        return error.diagnostics[0].message
    return f"{getattr(found, 'dtype', None)} {found}"


def test_a_traced_argument_of_another_type_is_named() -> None:
    program = jt.parse("{ lambda ; a:bool[] b:f32[3]. let c:f32[3] = sin b in (a, c) }")
    x = np.ones(3, np.float32)
    with pytest.raises(
        jt.UsageError, match=r"argument 1 \(b\) has type f32\[\], and f32\[3\] is needed"
    ):
        jt.jvp(lambda b: jt.eval_jaxpr(program, [True, b]), (x[0],), (x[0],))

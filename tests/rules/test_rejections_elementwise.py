"""What elementwise primitives reject: types that do not fit, bad params, nonlinear transposes."""

from __future__ import annotations

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.ir.diagnostics import JaxprTypeError
from tests.rules.example import arg

# primitive, operands, params, code, a part of the message
REJECTED = [
    (lax.sin, ["i32[3]"], {}, "operand-dtype", "sin does not take i32[3]"),
    (lax.sin, ["bool[]"], {}, "operand-dtype", "floating or complex"),
    (lax.neg, ["bool[2]"], {}, "operand-dtype", "neg does not take bool[2]"),
    (lax.abs, ["u8[2]"], {}, "operand-dtype", "abs does not take u8[2]"),
    (lax.square, ["bool[2]"], {}, "operand-dtype", "square"),
    (lax.floor, ["c64[2]"], {}, "operand-dtype", "floating"),
    (lax.cbrt, ["c64[2]"], {}, "operand-dtype", "cbrt"),
    (lax.is_finite, ["i32[]"], {}, "operand-dtype", "is_finite"),
    (lax.erf_inv, ["c64[2]"], {}, "operand-dtype", "erf_inv"),
    (lax.real, ["f32[2]"], {}, "operand-dtype", "complex"),
    (lax.round, ["i32[2]"], {"rounding_method": 0}, "operand-dtype", "round"),
    (
        lax.round,
        ["f32[2]"],
        {"rounding_method": 2},
        "param-value",
        "rounding_method is 2, and has to be AWAY_FROM_ZERO (0) or TO_NEAREST_EVEN (1)",
    ),
    (lax.integer_pow, ["i32[2]"], {"y": -1}, "param-value", "y=-1"),
    (lax.integer_pow, ["f32[2]"], {"y": 0.5}, "param-value", "y is 0.5"),
    (lax.integer_pow, ["bool[2]"], {"y": 2}, "operand-dtype", "integer_pow"),
    (lax.add, ["f32[3]", "i32[3]"], {}, "operand-types", "add of f32[3] and i32[3]"),
    (lax.add, ["f32[3]", "f32[4]"], {}, "operand-shapes", "add of f32[3], f32[4]"),
    (lax.add, ["f32[3]", "f32[1,3]"], {}, "operand-shapes", "f32[1,3]"),
    (lax.add, ["bool[3]", "bool[3]"], {}, "operand-dtype", "bool[3]"),
    (lax.mul, ["f32[3]", "f64[3]"], {}, "operand-types", "mul of f32[3] and f64[3]"),
    (lax.mul, ["bool[3]", "bool[3]"], {}, "operand-dtype", "mul"),
    (lax.mul, ["f32[2,3]", "f32[3,2]"], {}, "operand-shapes", "mul"),
    (lax.rem, ["c64[3]", "c64[3]"], {}, "operand-dtype", "rem"),
    (lax.pow, ["i32[3]", "i32[3]"], {}, "operand-dtype", "pow"),
    (lax.pow, ["f32[3]", "f64[3]"], {}, "operand-types", "pow"),
    (lax.pow, ["f32[3]", "bool[3]"], {}, "operand-dtype", "pow"),
    (lax.add_any, ["f32[3]", "f32[]"], {}, "operand-types", "add_any"),
    (lax.complex, ["bf16[3]", "bf16[3]"], {}, "operand-dtype", "f32 or f64"),
    (lax.complex, ["f32[3]", "f64[3]"], {}, "operand-types", "complex"),
    (lax.lt, ["c64[3]", "c64[3]"], {}, "operand-dtype", "lt"),
    (lax.eq, ["f32[3]", "i32[3]"], {}, "operand-types", "eq"),
    (lax.and_, ["f32[3]", "f32[3]"], {}, "operand-dtype", "and does not take f32[3]"),
    (lax.not_, ["f32[3]"], {}, "operand-dtype", "not"),
    (lax.shift_left, ["bool[3]", "bool[3]"], {}, "operand-dtype", "shift_left"),
    (lax.shift_left, ["i32[3]", "u32[3]"], {}, "operand-types", "shift_left"),
    (lax.convert_element_type, ["f32[3]"], {"new_dtype": "f99"}, "param-value", "f99"),
    (lax.convert_element_type, ["f32[3]"], {"new_dtype": "float0"}, "param-value", "float0"),
    (lax.convert_element_type, ["float0[3]"], {"new_dtype": "f32"}, "operand-dtype", "float0[3]"),
    (lax.select_n, ["bool[3]"], {}, "operand-count", "at least one case"),
    (lax.select_n, ["bool[3]", *["f32[3]"] * 3], {}, "operand-count", "3 are given"),
    (lax.select_n, ["f32[3]", "f32[3]", "f32[3]"], {}, "operand-dtype", "select_n"),
    (lax.select_n, ["bool[3]", "f32[3]", "f32[]"], {}, "operand-types", "one type"),
    (lax.select_n, ["bool[3]", "f32[3]", "i32[3]"], {}, "operand-types", "one type"),
    (lax.select_n, ["bool[2]", "f32[3]", "f32[3]"], {}, "operand-shapes", "bool[2]"),
    (lax.clamp, ["f32[2]", "f32[3]", "f32[]"], {}, "operand-shapes", "min f32[2]"),
    (lax.clamp, ["f32[]", "f32[3]", "f32[3,1]"], {}, "operand-shapes", "max f32[3,1]"),
    (lax.clamp, ["i32[]", "f32[3]", "f32[]"], {}, "operand-types", "clamp"),
]


@pytest.mark.parametrize(("op", "types", "params", "code", "part"), REJECTED)
def test_rejected(op, types, params, code, part):
    avals = [arg(t).aval for t in types]
    with pytest.raises(JaxprTypeError) as caught:
        abstract_eval(op.primitive, avals, {**op.primitive.defaults, **params})
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code == code
    assert part in diagnostic.message


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["f32[3]", "f32[]"], "f32[3]"),
        (["f32[]", "f32[2,3]"], "f32[2,3]"),
        (["f32[2,1]", "f32[1,3]"], "f32[2,3]"),
        (["f32[0,1]", "f32[1,4]"], "f32[0,4]"),
        (["f32[1]", "f32[1]"], "f32[1]"),
    ],
)
def test_shapes_that_stretch(types, expected):
    avals = [arg(t).aval for t in types]
    assert abstract_eval(lax.mul.primitive, avals, lax.mul.primitive.defaults) == [
        arg(expected).aval
    ]


NONLINEAR = [
    (lambda x: lax.sin(x), "sin"),
    (lambda x: lax.mul(x, x), "mul"),
    (lambda x: lax.div(1.0, x), "div"),
    (lambda x: lax.max(x, 0.0), "max"),
    (lambda x: lax.select_n(lax.lt(x, 0.0), x, x), "select_n"),
    (lambda x: lax.integer_pow(x, y=2), "integer_pow"),
]


@pytest.mark.parametrize(("f", "name"), NONLINEAR)
def test_transpose_names_the_nonlinear_primitive(f, name):
    program = jt.make_jaxpr(f)(np.ones(3, np.float32))
    with pytest.raises(JaxprTypeError, match=f"{name} is not linear") as caught:
        jt.transpose_jaxpr(program, [True])
    assert caught.value.diagnostics[0].code == "not-linear"

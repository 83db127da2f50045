"""What windows, convolutions and contractions by groups refuse: each param, and each operand type."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.ir.diagnostics import JaxprToolError, JaxprTypeError
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.params import Record, Word
from tests.rules.example import arg

F32 = find_dtype("f32")


def _window(dimensions=(2,), strides=(1,), padding=((0, 0),), base=(1,), inner=(1,), **params):
    return {
        "window_dimensions": dimensions,
        "window_strides": strides,
        "padding": padding,
        "base_dilation": base,
        "window_dilation": inner,
        **params,
    }


def _scatter(**params):
    found = _window(**params)
    del found["base_dilation"], found["window_dilation"]
    return found


def _conv(lhs=(0, 1, 2), rhs=(0, 1, 2), out=(0, 1, 2), **params):
    numbers = Record("ConvDimensionNumbers", lhs_spec=lhs, rhs_spec=rhs, out_spec=out)
    return {
        "window_strides": (1,),
        "padding": ((0, 0),),
        "lhs_dilation": (1,),
        "rhs_dilation": (1,),
        "dimension_numbers": numbers,
        **params,
    }


def _ragged(dot=(((1,), (1,)), ((), ())), ragged=(0,), groups=(0,), **params):
    record = Record(
        "RaggedDotDimensionNumbers",
        dot_dimension_numbers=dot,
        lhs_ragged_dimensions=ragged,
        rhs_group_dimensions=groups,
    )
    return {"ragged_dot_dimension_numbers": record, **params}


def reducer(text: str):
    """A reducer from its text."""
    return jt.parse(text)


ADD = "{ lambda ; a:f32[] b:f32[]. let c:f32[] = add a b in (c,) }"
GE = "{ lambda ; a:f32[] b:f32[]. let c:bool[] = ge a b in (c,) }"
ONE = "{ lambda ; a:f32[]. let  in (a,) }"

SUM, GATHER, SCATTER = (
    lax.reduce_window_sum,
    lax.select_and_gather_add,
    lax.select_and_scatter_add,
)
I8 = "i8[1,1,1]"
CONV, RAGGED = lax.conv_general_dilated, lax.ragged_dot_general
X, W = "f32[1,2,5]", "f32[3,2,2]"
ROWS = ["f32[4,3]", "f32[2,3,5]", "i32[2]"]

# primitive, operands, params, code, a part of the message
REJECTED = [
    (SUM, ["bool[4]"], _window(), "operand-types", "bool[4]"),
    (SUM, ["f32[4]"], _window((2, 2)), "dimension-count", "window_dimensions (2, 2)"),
    (SUM, ["f32[4]"], _window((0,)), "bad-size", "window_dimensions (0,)"),
    (SUM, ["f32[4]"], _window(strides=(0,)), "bad-size", "window_strides (0,)"),
    (SUM, ["f32[4]"], _window(strides=()), "dimension-count", "window_strides ()"),
    (SUM, ["f32[4]"], _window(base=(0,)), "bad-size", "base_dilation (0,)"),
    (SUM, ["f32[4]"], _window(inner=(0, 1)), "dimension-count", "window_dilation (0, 1)"),
    (SUM, ["f32[4]"], _window(inner=()), "dimension-count", "window_dilation ()"),
    (SUM, ["f32[4]"], _window(base=()), "dimension-count", "base_dilation ()"),
    (SUM, ["f32[4]"], _window(padding=()), "dimension-count", "padding ()"),
    (GATHER, ["f32[4]", "f32[4]"], _window(select_prim=Word("gt")), "bad-param", "ge or le"),
    (GATHER, ["f32[4]", "f32[5]"], _window(select_prim=Word("ge")), "operand-shapes", "f32[5]"),
    (GATHER, ["f64[4]", "f32[4]"], _window(select_prim=Word("ge")), "operand-types", "f64[4]"),
    (GATHER, ["i32[4]", "i32[4]"], _window(select_prim=Word("ge")), "operand-types", "floating"),
    (SCATTER, ["f32[3]", "f32[4]"], _scatter(select_prim=Word("lt")), "bad-param", "lt"),
    (SCATTER, ["f32[4]", "f32[4]"], _scatter(select_prim=Word("le")), "operand-shapes", "[3]"),
    (SCATTER, ["f64[3]", "f32[4]"], _scatter(select_prim=Word("le")), "operand-types", "f64[3]"),
    (CONV, [X, "f32[3,2]"], _conv(), "operand-shapes", "one rank"),
    (CONV, [X, "f64[3,2,2]"], _conv(), "operand-types", "f64[3,2,2]"),
    (CONV, [X, W], _conv(lhs=(0, 1, 1)), "bad-permutation", "lhs_spec (0, 1, 1)"),
    (CONV, [X, W], _conv(rhs=(0, 1)), "bad-permutation", "rhs_spec (0, 1)"),
    (CONV, [X, W], _conv(out=(1, 2, 3)), "bad-permutation", "out_spec (1, 2, 3)"),
    (CONV, [X, W], _conv(window_strides=()), "dimension-count", "window_strides"),
    (CONV, [X, W], _conv(window_strides=(0,)), "bad-size", "window_strides (0,)"),
    (CONV, [X, W], _conv(lhs_dilation=(0,)), "bad-size", "lhs_dilation (0,)"),
    (CONV, [X, W], _conv(rhs_dilation=(1, 1)), "dimension-count", "rhs_dilation (1, 1)"),
    (CONV, [X, W], _conv(padding=()), "dimension-count", "padding ()"),
    (CONV, [X, W], _conv(padding=((-4, -2),)), "negative-size", "((-4, -2),)"),
    (CONV, [X, W], _conv(feature_group_count=0), "group-count", "feature_group_count 0"),
    (CONV, [X, W], _conv(feature_group_count=2), "group-count", "feature_group_count 2"),
    (CONV, [X, "f32[3,1,2]"], _conv(), "group-count", "2 features of lhs"),
    (CONV, [X, W], _conv(batch_group_count=-1), "group-count", "batch_group_count -1"),
    (CONV, [X, W], _conv(batch_group_count=3), "group-count", "the batch of 1"),
    (
        CONV,
        ["f32[2,4,5]", "f32[4,2,2]"],
        _conv(feature_group_count=2, batch_group_count=2),
        "group-count",
        "cannot both",
    ),
    (CONV, [X, W], _conv(preferred_element_type=find_dtype("bf16")), "operand-types", "bf16"),
    (CONV, [X, W], _conv(preferred_element_type=find_dtype("i32")), "operand-types", "i32"),
    (CONV, [I8, I8], _conv(preferred_element_type=find_dtype("u32")), "operand-types", "u32"),
    (CONV, [I8, I8], _conv(preferred_element_type=find_dtype("c64")), "operand-types", "c64"),
    (RAGGED, ROWS, _ragged(ragged=(0, 1)), "dimension-count", "(0, 1)"),
    (RAGGED, ROWS, _ragged(ragged=(2,)), "axis-range", "2 is out of range"),
    (RAGGED, ROWS, _ragged(groups=()), "dimension-count", "rhs_group_dimensions ()"),
    (RAGGED, ROWS, _ragged(groups=(1,)), "axis-twice", "twice"),
    (RAGGED, ROWS, _ragged(groups=(3,)), "axis-range", "3 is out of range"),
    (RAGGED, [*ROWS[:2], "i32[3]"], _ragged(), "dot-sizes", "i32[3]"),
    (RAGGED, [*ROWS[:2], "f32[2]"], _ragged(), "operand-types", "f32[2]"),
    (RAGGED, [*ROWS[:2], "i32[]"], _ragged(), "operand-types", "i32[]"),
    (RAGGED, [*ROWS[:2], "i32[7,2]"], _ragged(), "operand-shapes", "shape [2]"),
    (RAGGED, ROWS, _ragged(group_offset=1), "bad-param", "group_offset 1"),
    (RAGGED, ROWS, _ragged((((0,), (1,)), ((), ())), (1,)), "dot-sizes", "differ in size"),
    (lax.reduce_xor, ["f32[3]"], {"axes": (0,)}, "operand-types", "f32[3]"),
    (lax.reduce_xor, ["i32[3]"], {"axes": (1,)}, "axis-range", "i32[3]"),
    (lax.cumlogsumexp, ["i32[3]"], {"axis": 0}, "operand-types", "i32[3]"),
    (lax.cumlogsumexp, ["f32[3]"], {"axis": 1}, "axis-range", "f32[3]"),
    (
        lax.reduce_precision,
        ["i32[3]"],
        {"exponent_bits": 5, "mantissa_bits": 3},
        "operand-types",
        "i32[3]",
    ),
    (
        lax.reduce_precision,
        ["f32[3]"],
        {"exponent_bits": 0, "mantissa_bits": 3},
        "param-value",
        "exponent_bits 0",
    ),
    (
        lax.reduce_precision,
        ["f32[3]"],
        {"exponent_bits": 5, "mantissa_bits": -1},
        "param-value",
        "mantissa_bits -1",
    ),
]

REDUCE_WINDOW, REDUCE = lax.reduce_window, lax.reduce
PAIR = ["f32[4]", "f32[]"]

REJECTED_REDUCERS = [
    (REDUCE, ["f32[4]"], {"dimensions": (0,)}, ADD, "operand-types", "initial values"),
    (REDUCE, ["f32[4]", "f32[1]"], {"dimensions": (0,)}, ADD, "operand-types", "f32[1]"),
    (REDUCE, ["f32[4]", "f64[]"], {"dimensions": (0,)}, ADD, "operand-types", "f64[]"),
    (REDUCE, PAIR, {"dimensions": (1,)}, ADD, "axis-range", "dimensions: axis 1"),
    (REDUCE, PAIR, {"dimensions": (0, 0)}, ADD, "axis-twice", "twice"),
    (REDUCE, PAIR, {"dimensions": (0,)}, ONE, "reducer-type", "takes (f32[])"),
    (REDUCE, PAIR, {"dimensions": (0,)}, GE, "reducer-type", "gives (bool[])"),
    (REDUCE_WINDOW, PAIR, _window(), GE, "reducer-type", "gives (bool[])"),
    (REDUCE_WINDOW, PAIR, _window((2, 2)), ADD, "dimension-count", "(2, 2)"),
    (REDUCE_WINDOW, ["f32[4]", "f32[2]"], _window(), ADD, "operand-types", "f32[2]"),
    (
        REDUCE_WINDOW,
        ["f32[4]", "f32[5]", "f32[]", "f32[]"],
        _window(),
        ADD,
        "operand-shapes",
        "one shape",
    ),
]


def _check(op, operands, params, code, message):
    fields = {**op.primitive.defaults, **params}
    with pytest.raises(JaxprTypeError) as caught:
        abstract_eval(op.primitive, [arg(t).aval for t in operands], fields)
    (found,) = caught.value.diagnostics
    assert (found.code, op.primitive.name in found.message) == (code, True)
    assert message in found.message


@pytest.mark.parametrize(("op", "operands", "params", "code", "message"), REJECTED)
def test_rejected(op, operands, params, code, message):
    _check(op, operands, params, code, message)


@pytest.mark.parametrize(
    ("op", "operands", "params", "jaxpr", "code", "message"), REJECTED_REDUCERS
)
def test_rejected_reducer(op, operands, params, jaxpr, code, message):
    _check(op, operands, {**params, "jaxpr": reducer(jaxpr)}, code, message)


@pytest.mark.parametrize("param", ["select_jaxpr", "scatter_jaxpr"])
def test_rejected_selection(param):
    jaxprs = {"select_jaxpr": reducer(GE), "scatter_jaxpr": reducer(ADD), param: reducer(ONE)}
    operands = ["f32[4]", "f32[3]", "f32[]"]
    _check(lax.select_and_scatter, operands, {**_scatter(), **jaxprs}, "reducer-type", param)


def test_rejected_initial_value_of_selection():
    jaxprs = {"select_jaxpr": reducer(GE), "scatter_jaxpr": reducer(ADD)}
    operands = ["f32[4]", "f32[3]", "f64[]"]
    _check(lax.select_and_scatter, operands, {**_scatter(), **jaxprs}, "operand-types", "f64[]")


def test_no_transpose_of_dilated_windows():
    params = _window(inner=(2,), select_prim=Word("ge"))
    x = arg("f32[4]").aval
    program = jt.make_jaxpr(lambda t, x: GATHER(t, x, **params))(x, x)
    with pytest.raises(JaxprToolError, match=r"window_dilation \(2,\)"):
        jt.transpose_jaxpr(program, [True, False])


def test_no_derivative_by_initial_values():
    params = {"dimensions": (0,), "jaxpr": reducer(ADD)}
    with pytest.raises(JaxprToolError, match="no derivative by its initial values"):
        jt.make_jaxpr(lambda x, i, t: jt.jvp(lambda i: REDUCE(x, i, **params), (i,), (t,)))(
            arg("f32[4]").aval, arg("f32[]").aval, arg("f32[]").aval
        )

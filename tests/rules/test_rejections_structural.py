"""What the structural primitives refuse: each param that can be wrong, and each operand type."""

from __future__ import annotations

import pytest

from jaxprtool import ops as lax
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.ir.diagnostics import JaxprTypeError
from jaxprtool.ir.dtypes import find_dtype
from tests.rules.example import arg

F32, I32 = find_dtype("f32"), find_dtype("i32")


def _dot(contract, batch=((), ()), **params):
    return {"dimension_numbers": (contract, batch), **params}


# primitive, operands, params, code, a part of the message
REJECTED = [
    (lax.broadcast_in_dim, ["f32[3]"], {"shape": (3,)}, "dimension-count", "one axis for each"),
    (
        lax.broadcast_in_dim,
        ["f32[3]"],
        {"shape": (3, 2), "broadcast_dimensions": (2,)},
        "axis-range",
        "2 is out of range",
    ),
    (
        lax.broadcast_in_dim,
        ["f32[2,2]"],
        {"shape": (2, 2), "broadcast_dimensions": (0, 0)},
        "axis-twice",
        "twice",
    ),
    (
        lax.broadcast_in_dim,
        ["f32[2]"],
        {"shape": (3,), "broadcast_dimensions": (0,)},
        "broadcast-size",
        "size 2 goes to one of size 3",
    ),
    (lax.broadcast_in_dim, ["f32[]"], {"shape": (-1,)}, "negative-size", "negative"),
    (lax.reshape, ["f32[2,3]"], {"new_sizes": (5,)}, "reshape-size", "5 elements"),
    (lax.reshape, ["f32[2,3]"], {"new_sizes": (-2, -3)}, "negative-size", "(-2, -3)"),
    (
        lax.reshape,
        ["f32[2,3]"],
        {"new_sizes": (6,), "dimensions": (0, 0)},
        "permutation",
        "no permutation",
    ),
    (lax.squeeze, ["f32[2,1]"], {"dimensions": (0,)}, "squeeze-size", "does not have size 1"),
    (lax.squeeze, ["f32[2,1]"], {"dimensions": (-1,)}, "axis-range", "-1 is out of range"),
    (lax.squeeze, ["f32[1]"], {"dimensions": (0, 0)}, "axis-twice", "twice"),
    (lax.expand_dims, ["f32[2]"], {"dimensions": (2,)}, "axis-range", "rank 2"),
    (lax.transpose, ["f32[2,3]"], {"permutation": (0, 2)}, "permutation", "f32[2,3]"),
    (lax.transpose, ["f32[2,3]"], {"permutation": (1,)}, "permutation", "(1,)"),
    (lax.rev, ["f32[2]"], {"dimensions": (1,)}, "axis-range", "f32[2]"),
    (lax.rev, ["f32[2]"], {"dimensions": (0, 0)}, "axis-twice", "twice"),
    (
        lax.iota,
        [],
        {"dtype": find_dtype("bool"), "shape": (2,), "dimension": 0},
        "operand-types",
        "bool",
    ),
    (lax.iota, [], {"dtype": I32, "shape": (2,), "dimension": 1}, "axis-range", "(2,)"),
    (lax.iota, [], {"dtype": I32, "shape": (-2,), "dimension": 0}, "negative-size", "(-2,)"),
    (lax.concatenate, [], {"dimension": 0}, "operand-count", "at least one"),
    (lax.concatenate, ["f32[]"], {"dimension": 0}, "axis-range", "f32[]"),
    (
        lax.concatenate,
        ["f32[2,3]", "f32[2,4]"],
        {"dimension": 0},
        "operand-shapes",
        "f32[2,3] and f32[2,4]",
    ),
    (lax.concatenate, ["f32[2]", "f64[2]"], {"dimension": 0}, "operand-types", "f32[2] and f64[2]"),
    (lax.split, ["f32[4]"], {"sizes": (2, 1), "axis": 0}, "split-sizes", "add up to 3"),
    (lax.split, ["f32[4]"], {"sizes": (5, -1), "axis": 0}, "negative-size", "negative"),
    (lax.split, ["f32[4]"], {"sizes": (4,), "axis": 1}, "axis-range", "f32[4]"),
    (lax.stack, [], {"axis": 0}, "operand-count", "at least one"),
    (lax.stack, ["f32[2]", "f32[3]"], {"axis": 0}, "operand-shapes", "f32[2] and f32[3]"),
    (lax.stack, ["f32[2]", "i32[2]"], {"axis": 0}, "operand-types", "i32[2]"),
    (lax.stack, ["f32[2]"], {"axis": 2}, "axis-range", "2 is out of range"),
    (lax.unstack, ["f32[]"], {"axis": 0}, "axis-range", "f32[]"),
    (
        lax.pad,
        ["f32[2]", "f32[1]"],
        {"padding_config": ((0, 0, 0),)},
        "operand-shapes",
        "rank 0",
    ),
    (lax.pad, ["f32[2]", "f64[]"], {"padding_config": ((0, 0, 0),)}, "operand-types", "f64[]"),
    (lax.pad, ["f32[2]", "f32[]"], {"padding_config": ()}, "dimension-count", "one entry"),
    (
        lax.pad,
        ["f32[2]", "f32[]"],
        {"padding_config": ((0, 0, -1),)},
        "negative-size",
        "interior padding -1",
    ),
    (
        lax.pad,
        ["f32[2]", "f32[]"],
        {"padding_config": ((-2, -1, 0),)},
        "negative-size",
        "more off axis 0",
    ),
    (
        lax.slice,
        ["f32[4]"],
        {"start_indices": (3,), "limit_indices": (2,)},
        "slice-range",
        "start_indices[0]=3 and limit_indices[0]=2",
    ),
    (
        lax.slice,
        ["f32[4]"],
        {"start_indices": (0,), "limit_indices": (5,)},
        "slice-range",
        "not within f32[4]",
    ),
    (
        lax.slice,
        ["f32[4]"],
        {"start_indices": (0, 0), "limit_indices": (1,)},
        "dimension-count",
        "f32[4]",
    ),
    (
        lax.slice,
        ["f32[4]"],
        {"start_indices": (0,), "limit_indices": (4,), "strides": (0,)},
        "slice-stride",
        "strides[0]=0",
    ),
    (lax.dynamic_slice, ["f32[4]"], {"slice_sizes": (2,)}, "operand-count", "needs 1 start"),
    (
        lax.dynamic_slice,
        ["f32[4]", "i32[]"],
        {"slice_sizes": (5,)},
        "slice-range",
        "slice_sizes (5,) do not fit in f32[4]",
    ),
    (
        lax.dynamic_slice,
        ["f32[4]", "i32[]"],
        {"slice_sizes": (-1,)},
        "negative-size",
        "(-1,)",
    ),
    (
        lax.dynamic_slice,
        ["f32[4]", "i32[1]"],
        {"slice_sizes": (2,)},
        "operand-shapes",
        "rank 0",
    ),
    (
        lax.dynamic_slice,
        ["f32[4]", "f32[]"],
        {"slice_sizes": (2,)},
        "operand-types",
        "integer",
    ),
    (
        lax.dynamic_slice,
        ["f32[4,4]", "i32[]", "i64[]"],
        {"slice_sizes": (2, 2)},
        "operand-types",
        "i32[], i64[]",
    ),
    (
        lax.dynamic_update_slice,
        ["f32[4]", "f32[5]", "i32[]"],
        {},
        "slice-range",
        "f32[5] into f32[4]",
    ),
    (
        lax.dynamic_update_slice,
        ["f32[4]", "f32[1,1]", "i32[]"],
        {},
        "slice-range",
        "f32[1,1] into",
    ),
    (lax.dynamic_update_slice, ["f32[4]", "f64[2]", "i32[]"], {}, "operand-types", "f64[2]"),
    (lax.dynamic_update_slice, ["f32[4]", "f32[2]"], {}, "operand-count", "needs 1 start"),
    (lax.reduce_sum, ["f32[3,4]"], {"axes": (2,)}, "axis-range", "axis 2 is out of range for f32"),
    (lax.reduce_sum, ["f32[3,4]"], {"axes": (0, 0)}, "axis-twice", "twice"),
    (lax.reduce_sum, ["bool[3]"], {"axes": (0,)}, "operand-types", "bool[3]"),
    (lax.reduce_prod, ["bool[3]"], {"axes": (0,)}, "operand-types", "bool[3]"),
    (lax.reduce_max, ["f32[3]"], {"axes": (-1,)}, "axis-range", "-1"),
    (lax.reduce_min, ["f32[]"], {"axes": (0,)}, "axis-range", "f32[]"),
    (lax.reduce_and, ["f32[3]"], {"axes": (0,)}, "operand-types", "booleans and integers"),
    (lax.reduce_or, ["bool[3]"], {"axes": (1,)}, "axis-range", "bool[3]"),
    (
        lax.argmax,
        ["f32[3]"],
        {"axes": (0, 0), "index_dtype": I32},
        "dimension-count",
        "one axis",
    ),
    (lax.argmax, ["f32[3]"], {"axes": (1,), "index_dtype": I32}, "axis-range", "f32[3]"),
    (lax.argmin, ["f32[3]"], {"axes": (0,), "index_dtype": F32}, "operand-types", "index_dtype"),
    (lax.argmin, ["c64[3]"], {"axes": (0,), "index_dtype": I32}, "operand-types", "c64[3]"),
    (lax.argmax, ["f32[0]"], {"axes": (0,), "index_dtype": I32}, "empty-axis", "no elements"),
    (lax.cumsum, ["f32[3]"], {"axis": 1}, "axis-range", "f32[3]"),
    (lax.cumprod, ["bool[3]"], {"axis": 0}, "operand-types", "numbers"),
    (lax.cummax, ["f32[]"], {"axis": 0}, "axis-range", "f32[]"),
    (lax.cummin, ["f32[3]"], {"axis": -1}, "axis-range", "-1"),
    (
        lax.dot_general,
        ["f32[2,3]", "f32[4,5]"],
        _dot(((1,), (0,))),
        "dot-sizes",
        "contracting axes (1,) of f32[2,3] and (0,) of f32[4,5]",
    ),
    (
        lax.dot_general,
        ["f32[2,3]", "f32[4,3]"],
        _dot(((1,), (1,)), ((0,), (0,))),
        "dot-sizes",
        "batch axes",
    ),
    (
        lax.dot_general,
        ["f32[2,3]", "f32[3]"],
        _dot(((2,), (0,))),
        "axis-range",
        "lhs: axis 2 is out of range",
    ),
    (
        lax.dot_general,
        ["f32[2,3]", "f32[3]"],
        _dot(((1,), (1,))),
        "axis-range",
        "rhs: axis 1 is out of range",
    ),
    (
        lax.dot_general,
        ["f32[3,3]", "f32[3,3]"],
        _dot(((1,), (1,)), ((1,), (0,))),
        "axis-twice",
        "lhs",
    ),
    (
        lax.dot_general,
        ["f32[3,3]", "f32[3,3]"],
        _dot(((0, 1), (1,))),
        "dot-sizes",
        "differ in size",
    ),
    (
        lax.dot_general,
        ["i32[2,3]", "i32[3,2]"],
        _dot(((1,), (0,)), preferred_element_type=find_dtype("i8")),
        "operand-types",
        "preferred_element_type i8 is narrower",
    ),
]


@pytest.mark.parametrize(
    ("op", "operands", "params", "code", "part"),
    REJECTED,
    ids=[f"{r[0].primitive}-{i}" for i, r in enumerate(REJECTED)],
)
def test_rejected(op, operands, params, code, part):
    with pytest.raises(JaxprTypeError) as error:
        abstract_eval(
            op.primitive, [arg(a).aval for a in operands], {**op.primitive.defaults, **params}
        )
    diagnostic = error.value.diagnostics[0]
    assert diagnostic.code == code
    assert part in diagnostic.message
    assert op.primitive.name in diagnostic.message


@pytest.mark.parametrize(
    ("op", "operands", "params"),
    [
        (lax.reduce_max, ["f32[3]"], {"axes": (0,)}),
        (lax.cumprod, ["f32[3]"], {"axis": 0, "reverse": False}),
        (lax.argmax, ["f32[3]"], {"axes": (0,), "index_dtype": I32}),
    ],
)
def test_not_transposable(op, operands, params):
    import jaxprtool as jt

    program = jt.make_jaxpr(lambda *xs: op(*xs, **params))(*[arg(a).aval for a in operands])
    with pytest.raises(JaxprTypeError, match=f"{op.primitive} is not linear"):
        jt.transpose_jaxpr(program, [True])


def test_a_start_index_is_not_linear():
    import jaxprtool as jt

    program = jt.make_jaxpr(lambda x, i: lax.dynamic_slice(x, i, slice_sizes=(2,)))(
        arg("f32[4]").aval, arg("i32[]").aval
    )
    with pytest.raises(JaxprTypeError, match="a start index depends on them"):
        jt.transpose_jaxpr(program, [True, True])


def test_a_product_of_linear_operands_is_not_linear():
    import jaxprtool as jt

    program = jt.make_jaxpr(lambda x, y: lax.dot_general(x, y, **_dot(((0,), (0,)))))(
        arg("f32[3]").aval, arg("f32[3]").aval
    )
    with pytest.raises(JaxprTypeError, match="both operands depend on them"):
        jt.transpose_jaxpr(program, [True, True])


def test_precision_that_no_cpu_has():
    import jaxprtool as jt
    from jaxprtool.interpreters.lower import lower_jaxpr
    from jaxprtool.ir.diagnostics import UnsupportedError
    from jaxprtool.ir.params import Word

    params = _dot(((0,), (0,)), precision=Word("DotAlgorithmPreset.TF32_TF32_F32"))
    program = jt.make_jaxpr(lambda x, y: lax.dot_general(x, y, **params))(
        arg("f32[3]").aval, arg("f32[3]").aval
    )
    with pytest.raises(UnsupportedError, match="TF32_TF32_F32 does not exist on a CPU"):
        lower_jaxpr(program)

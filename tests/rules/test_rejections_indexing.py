"""What gather, the scatters, sorting and tile refuse: each param that can be wrong, and each operand type."""

from __future__ import annotations

import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.interpreters.check import abstract_eval
from jaxprtool.ir.diagnostics import JaxprTypeError, UnsupportedError
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.params import Word
from jaxprtool.makers.indexing import update_jaxpr_of
from tests.rules.example import arg

X, INDICES = "f32[4,3]", "i32[2,1]"
ROWS = ((1,), (0,), (0,))
BATCHED = ((), (1,), (1,), (0,), (0,))
F32, F64 = find_dtype("f32"), find_dtype("f64")

# operand, indices, dimension numbers, slice sizes, further params, code, a part of the message
GATHERS = [
    (X, "f32[2,1]", ROWS, (1, 3), {}, "operand-types", "integer type, got f32[2,1]"),
    (X, "i32[]", ROWS, (1, 3), {}, "operand-shapes", "rank 1 or more"),
    (X, INDICES, ((2,), (0,), (0,)), (1, 3), {}, "dimension-numbers", "offset_dims (2,)"),
    (X, INDICES, ((1, 1), (), (0,)), (1, 3), {}, "dimension-numbers", "twice"),
    (X, INDICES, ((2, 1), (), (0,)), (1, 3), {}, "dimension-numbers", "ascending"),
    (X, INDICES, ((1,), (2,), (0,)), (1, 3), {}, "dimension-numbers", "collapsed_slice_dims (2,)"),
    (X, INDICES, ((1,), (0,), (5,)), (1, 3), {}, "dimension-numbers", "start_index_map (5,)"),
    (X, INDICES, ((1,), (0,), (0, 1)), (1, 3), {}, "dimension-numbers", "index vector"),
    (X, INDICES, ((), (0,), (0,)), (1, 3), {}, "dimension-numbers", "account for the axes"),
    (X, "i32[4,1]", ((), (0,), (0,), (0,), (0,)), (1, 1), {}, "dimension-numbers", "batching"),
    (X, INDICES, BATCHED, (1, 1), {}, "dimension-numbers", "differ in size"),
    (X, INDICES, ((), (1,), (1,), (0,), ()), (1, 1), {}, "dimension-numbers", "in number"),
    (X, "i32[4,1]", ((), (1,), (1,), (0,), (1,)), (1, 1), {}, "dimension-numbers", "out of range"),
    (X, "i32[4,1]", BATCHED, (2, 1), {}, "slice-sizes", "operand_batching_dims (0,)"),
    (X, INDICES, ROWS, (1,), {}, "dimension-count", "slice_sizes (1,)"),
    (X, INDICES, ROWS, (1, 4), {}, "slice-range", "slice_sizes (1, 4)"),
    (X, INDICES, ROWS, (2, 3), {}, "slice-sizes", "collapsed_slice_dims (0,)"),
    (
        X,
        INDICES,
        ROWS,
        (1, 3),
        {"mode": Word("WRAP")},
        "index-mode",
        "gather: mode is WRAP, and has to be CLIP",
    ),
    (X, INDICES, ROWS, (1, 3), {"fill_value": "no"}, "fill-value", "fill_value no"),
    (X, INDICES, ROWS, (1, 3), {"fill_value": 10**400}, "fill-value", "larger than all floats"),
]


@pytest.mark.parametrize(("x", "indices", "numbers", "sizes", "more", "code", "part"), GATHERS)
def test_gather_rejects(x, indices, numbers, sizes, more, code, part):
    params = {
        **lax.gather.primitive.defaults,
        "dimension_numbers": lax.GatherDimensionNumbers(*numbers),
        "slice_sizes": sizes,
        **more,
    }
    _rejects(lax.gather, [x, indices], params, code, part)


# indices, updates, dimension numbers, further params, code, a part of the message
SCATTERS = [
    ("f32[2,1]", "f32[2,3]", ROWS, {}, "operand-types", "integer type"),
    (INDICES, "f64[2,3]", ROWS, {}, "operand-types", "f64[2,3]"),
    (INDICES, "f32[2]", ROWS, {}, "operand-shapes", "updates of rank 2"),
    (INDICES, "f32[3,3]", ROWS, {}, "operand-shapes", "f32[3,3]"),
    (INDICES, "f32[2,4]", ROWS, {}, "slice-range", "f32[2,4] into f32[4,3]"),
    (INDICES, "f32[2,3]", ((7,), (0,), (0,)), {}, "dimension-numbers", "update_window_dims (7,)"),
    (INDICES, "f32[2,3]", ((1,), (9,), (0,)), {}, "dimension-numbers", "inserted_window_dims"),
    (INDICES, "f32[2,3]", ((1,), (0,), (9,)), {}, "dimension-numbers", "scatter_dims_to_operand"),
    (INDICES, "f32[2]", BATCHED, {}, "dimension-numbers", "differ in size"),
    (
        INDICES,
        "f32[2,3]",
        ROWS,
        {"mode": Word("M.NEAREST")},
        "index-mode",
        "mode is M.NEAREST, and has to be CLIP",
    ),
    (INDICES, "f32[2,3]", ROWS, {"update_jaxpr": 3}, "bad-param", "not a jaxpr"),
    (
        INDICES,
        "f32[2,3]",
        ROWS,
        {"update_jaxpr": update_jaxpr_of(lax.add, F64)},
        "reducer-type",
        "f64[]",
    ),
    (
        INDICES,
        "f32[2,3]",
        ROWS,
        {"update_jaxpr": update_jaxpr_of(lax.add, F32), "update_consts": (1.0,)},
        "reducer-constants",
        "update_consts is (1.0,), and the constants of update_jaxpr are ()",
    ),
]


@pytest.mark.parametrize("op", [lax.scatter, lax.scatter_add, lax.scatter_max])
@pytest.mark.parametrize(("indices", "updates", "numbers", "more", "code", "part"), SCATTERS)
def test_scatter_rejects(op, indices, updates, numbers, more, code, part):
    params = {
        **op.primitive.defaults,
        "dimension_numbers": lax.ScatterDimensionNumbers(*numbers),
        **more,
    }
    _rejects(op, [X, indices, updates], params, code, part)


def test_numbers_of_another_kind_are_rejected():
    numbers = lax.ScatterDimensionNumbers(*ROWS)
    params = {**lax.gather.primitive.defaults, "dimension_numbers": numbers, "slice_sizes": (1, 3)}
    _rejects(lax.gather, [X, INDICES], params, "dimension-numbers", "no GatherDimensionNumbers")


APPROX = {
    "k": 2,
    "reduction_dimension": 0,
    "recall_target": 0.9,
    "is_max_k": True,
    "reduction_input_size_override": -1,
    "aggregate_to_topk": True,
}

OTHERS = [
    (lax.sort, [], {"dimension": 0}, "operand-count", "at least one"),
    (lax.sort, ["f32[3]", "f32[4]"], {"dimension": 0}, "operand-shapes", "f32[4]"),
    (lax.sort, ["f32[3]"], {"dimension": 1}, "axis-range", "dimension 1"),
    (lax.sort, ["f32[]"], {"dimension": 0}, "axis-range", "f32[]"),
    (lax.sort, ["f32[3]"], {"dimension": 0, "num_keys": 2}, "key-count", "num_keys 2"),
    (lax.sort, ["f32[3]"], {"dimension": 0, "num_keys": 0}, "key-count", "num_keys 0"),
    (lax.top_k, ["c64[3]"], {"k": 1, "axis": 0}, "operand-types", "c64[3]"),
    (lax.top_k, ["f32[3]"], {"k": 4, "axis": 0}, "top-k-size", "k 4"),
    (lax.top_k, ["f32[3]"], {"k": -1, "axis": 0}, "top-k-size", "k -1"),
    (lax.top_k, ["f32[3]"], {"k": 1, "axis": 1}, "axis-range", "axis 1"),
    (lax.approx_top_k, ["i32[3]"], APPROX, "operand-types", "i32[3]"),
    (lax.approx_top_k, ["f32[3]"], {**APPROX, "k": 0}, "top-k-size", "k 0"),
    (
        lax.approx_top_k,
        ["f32[3]"],
        {**APPROX, "reduction_dimension": -2},
        "axis-range",
        "reduction_dimension",
    ),
    (
        lax.approx_top_k,
        ["f32[3]"],
        {**APPROX, "recall_target": 1.5},
        "recall-target",
        "1.5",
    ),
    (
        lax.approx_top_k,
        ["f32[3]"],
        {**APPROX, "aggregate_to_topk": False, "reduction_input_size_override": 2},
        "size-override",
        "override 2",
    ),
    (lax.tile, ["f32[3]"], {"reps": (2, 2)}, "dimension-count", "reps (2, 2)"),
    (lax.tile, ["f32[3]"], {"reps": (-1,)}, "negative-size", "reps (-1,)"),
]


@pytest.mark.parametrize(("op", "types", "params", "code", "part"), OTHERS)
def test_others_reject(op, types, params, code, part):
    _rejects(op, types, {**op.primitive.defaults, **params}, code, part)


def _rejects(op, types, params, code, part):
    with pytest.raises(JaxprTypeError) as e:
        abstract_eval(op.primitive, [arg(t).aval for t in types], params)
    diagnostic = e.value.diagnostics[0]
    assert diagnostic.code == code
    assert part in diagnostic.message
    assert op.primitive.name in diagnostic.message


# -- derivatives that do not exist, here or in JAX ---------------------------------------------------


def _program(op, unique, update_jaxpr=None):
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    return lambda x, i, u: op(
        x, i, u, dimension_numbers=numbers, unique_indices=unique, update_jaxpr=update_jaxpr
    )


def _arguments():
    import numpy as np

    return np.ones(4), np.zeros((2, 1), np.int32), np.ones(2)


def test_no_derivative_of_a_product_with_overlapping_updates():
    x, i, u = _arguments()
    f = _program(lax.scatter_mul, False)
    with pytest.raises(UnsupportedError, match="unique_indices"):
        jt.jvp(lambda u: f(x, i, u), (u,), (u,))
    _, tangent = jt.jvp(lambda x: f(x, i, u), (x,), (x,))
    assert tangent.tolist() == [1.0] * 4


def test_no_derivative_of_a_scatter_that_applies_a_jaxpr():
    x, i, u = _arguments()
    f = _program(lax.scatter, False, update_jaxpr_of(lax.mul, F64))
    with pytest.raises(UnsupportedError, match="update_jaxpr"):
        jt.jvp(lambda x: f(x, i, u), (x,), (x,))


def test_no_transpose_of_overlapping_replacements():
    x, i, u = _arguments()
    program = jt.make_jaxpr(lambda x, u: _program(lax.scatter, False)(x, i, u))(x, u)
    with pytest.raises(UnsupportedError, match="unique_indices"):
        jt.interpreters.transpose.transpose_jaxpr(program, [True, True])

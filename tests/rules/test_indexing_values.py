"""Values that the laws do not reach: modes, ties, orders, generic updates, and what vmap makes of slices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool import ops as lax
from jaxprtool.interpreters.stage import stage
from jaxprtool.ir.avals import ShapedArray
from jaxprtool.ir.dtypes import find_dtype
from jaxprtool.ir.params import Word
from jaxprtool.makers.indexing import update_jaxpr_of

POINTS = ((), (0,), (0,))


def _mode(name):
    return Word(f"GatherScatterMode.{name}")


def _gathered(x, i, mode, fill_value=None):
    return lax.gather(
        x,
        i,
        dimension_numbers=lax.GatherDimensionNumbers(*POINTS),
        slice_sizes=(1,),
        mode=mode,
        fill_value=fill_value,
    )


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (_mode("CLIP"), [10, 12, 10]),
        (_mode("FILL_OR_DROP"), [10, 99, 99]),
        (_mode("PROMISE_IN_BOUNDS"), [10, 12, 10]),
        ("clip", [10, 12, 10]),
        ("fill", [10, 99, 99]),
        (1, [10, 99, 99]),
    ],
)
def test_modes_of_gather(mode, expected):
    x, i = np.array([10, 11, 12], np.int32), np.array([[0], [7], [-1]], np.int32)
    assert _gathered(x, i, mode, 99).tolist() == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64", "int64"])
def test_indices_that_do_not_fit(dtype):
    """The largest index of each type is out of bounds, not wrapped around."""
    x = np.arange(3.0)
    i = np.array([[np.iinfo(dtype).max]], dtype)
    assert _gathered(x, i, "clip").tolist() == [2.0]
    assert np.isnan(_gathered(x, i, "fill")).all()


@pytest.mark.parametrize(
    ("dtype", "filled"),
    [("float32", np.nan), ("int8", -128), ("uint16", 65535), ("bool", True)],
)
def test_what_fills_by_default(dtype, filled):
    out = _gathered(np.zeros(2, dtype), np.array([[5]], np.int32), "fill")
    np.testing.assert_array_equal(out, np.array([filled], dtype))


def test_a_window_that_sticks_out_is_dropped_whole():
    numbers = lax.ScatterDimensionNumbers((1,), (), (0,))
    i, u = np.array([[4], [1], [-1]], np.int32), np.ones((3, 2))
    out = lax.scatter(np.zeros(5), i, u, dimension_numbers=numbers)
    assert out.tolist() == [0, 1, 1, 0, 0]
    clipped = lax.scatter(np.zeros(5), i, u, dimension_numbers=numbers, mode=_mode("CLIP"))
    assert clipped.tolist() == [1, 1, 1, 1, 1]


def test_of_overlapping_replacements_the_last_counts():
    numbers = lax.ScatterDimensionNumbers(*POINTS)
    i = np.zeros((3, 1), np.int32)
    out = lax.scatter(np.zeros(2), i, np.array([1.0, 2.0, 3.0]), dimension_numbers=numbers)
    assert out.tolist() == [3.0, 0.0]


def test_scatter_applies_a_jaxpr_in_order():
    """old, update -> 10 * old + update, where elements are hit up to three times."""
    scalar = ShapedArray((), find_dtype("i64"))
    digits = stage(lambda x, y: [lax.add(lax.mul(x, 10), y)], [scalar, scalar])
    i = np.array([[0], [1], [0], [0], [3], [9]], np.int32)
    u = np.arange(1, 7)
    numbers = lax.ScatterDimensionNumbers(*POINTS)
    f = lambda x, u: lax.scatter(x, i, u, dimension_numbers=numbers, update_jaxpr=digits)
    assert f(np.zeros(4, np.int64), u).tolist() == [134, 2, 0, 5]
    program = jt.make_jaxpr(f)(np.zeros(4, np.int64), u)
    compiled = jt.compile(program)(np.zeros(4, np.int64), u)
    assert np.asarray(compiled[0]).tolist() == [134, 2, 0, 5]


def test_a_scatter_is_told_its_operation():
    """Without update_jaxpr, as a program may be written by hand, the name says what to do."""
    numbers = lax.ScatterDimensionNumbers(*POINTS)
    i, u = np.array([[1], [1]], np.int32), np.array([2.0, 3.0])
    f = lambda x: lax.scatter_mul(x, i, u, dimension_numbers=numbers)
    program = jt.make_jaxpr(f)(np.ones(3))
    assert np.asarray(jt.compile(program)(np.ones(3))[0]).tolist() == f(np.ones(3)).tolist()
    told = update_jaxpr_of(lax.mul, find_dtype("f64"))
    assert told is update_jaxpr_of(lax.mul, find_dtype("f64"))


# -- sorting -----------------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_order_of_floats(dtype):
    """-0 and 0 are equal to sort, which keeps their order, and differ for top_k; NaN is largest."""
    x = np.array([0.0, -0.0, NAN, INF, 1.0, -INF, -0.0], dtype)
    places = np.arange(7, dtype=np.int32)
    _, order = lax.sort(x, places, dimension=0)
    assert order.tolist() == [5, 0, 1, 6, 4, 3, 2]
    _, best = lax.top_k(x, k=7, axis=0)
    assert best.tolist() == [2, 3, 4, 0, 1, 6, 5]


@pytest.mark.parametrize("is_max_k", [True, False])
def test_approximate_order_of_floats_without_a_sign(is_max_k):
    x = np.array([2, 0.5, 4, 1], ml_dtypes.float8_e8m0fnu)
    values, places = lax.approx_top_k(
        x,
        k=4,
        reduction_dimension=0,
        recall_target=0.95,
        is_max_k=is_max_k,
        reduction_input_size_override=-1,
        aggregate_to_topk=True,
    )
    assert values.tolist() == sorted([2, 0.5, 4, 1], reverse=is_max_k)
    assert places.tolist() == ([2, 0, 3, 1] if is_max_k else [1, 3, 0, 2])


@pytest.mark.parametrize("dtype", ["uint32", "uint64", "int64", "int8", "bool"])
def test_order_of_integers(dtype):
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = np.array([high, low, 1, high, 0], dtype)
    _, order = lax.sort(x, np.arange(5), dimension=0)
    assert order.tolist() == np.argsort(x, kind="stable").tolist()
    values, places = lax.top_k(x, k=2, axis=0)
    assert values.tolist() == [high, high]
    assert places.tolist() == ([0, 2] if dtype == "bool" else [0, 3])


def test_order_of_complex_numbers():
    x = np.array([complex(1, NAN), complex(NAN, 0), 1 + 2j, 1 - 2j, -1 + 9j])
    (out,) = lax.sort(x, dimension=0)
    assert out[:3].tolist() == [-1 + 9j, 1 - 2j, 1 + 2j]
    assert np.isnan(out[3].imag) and np.isnan(out[4].real)


# -- vmap of slices ----------------------------------------------------------------------------------


def _names(program):
    return [e.primitive.name for e in program.jaxpr.eqns]


def test_vmap_of_a_dynamic_slice_is_a_gather():
    x, i = np.arange(12.0).reshape(3, 4), np.array([0, 9], np.int32)
    f = lambda i: lax.dynamic_slice(x, i, 0, slice_sizes=(1, 4))
    program = jt.make_jaxpr(jt.vmap(f))(i)
    assert _names(program) == ["broadcast_in_dim", "gather"]
    assert jt.vmap(f)(i).tolist() == [[x[0].tolist()], [x[2].tolist()]]


def test_vmap_of_a_dynamic_update_slice_is_a_scatter():
    x, i, u = np.zeros((2, 4)), np.array([0, 9], np.int32), np.ones((2, 2))
    program = jt.make_jaxpr(jt.vmap(lax.dynamic_update_slice))(x, u, i)
    assert _names(program) == ["broadcast_in_dim", "scatter"]
    out = jt.vmap(lax.dynamic_update_slice)(x, u, i)
    assert out.tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("dtype", "fill", "expected"),
    [
        ("i8", float("nan"), 0),
        ("i8", float("inf"), 0),
        ("i8", 999, -25),
        ("u8", -1, 255),
        ("u8", 1.7, 1),
        ("bool", float("nan"), True),
    ],
)
def test_what_fills_is_converted_as_numpy_does_it(dtype, fill, expected):
    """On NumPy and on XLA; a gather of rank 0 is filled too."""
    table = np.ones(3, np.dtype("bool" if dtype == "bool" else find_dtype(dtype).name))
    for index in ([9], [[9], [8]]):
        program = jt.make_jaxpr(lambda x, i: _gathered(x, i, _mode("FILL_OR_DROP"), fill))(
            table, np.array(index)
        )
        for out in (
            jt.eval_jaxpr(program, [table, np.array(index)])[0],
            np.asarray(jt.compile(program)(table, np.array(index))[0]),
        ):
            assert out.dtype == table.dtype and (out == expected).all()


IDENTITY = "{ lambda ; c:f32[] d:f32[]. let  in (d,) }"


@pytest.mark.parametrize("unique", [True, False])
def test_an_update_jaxpr_that_gives_back_the_update_says_nothing(unique):
    """As each `scatter` to JAX 0.4.13 has one."""
    text = """\
{{ lambda ; a:f32[4] i:i32[2,1] u:f32[2]. let
    b:f32[4] = scatter[
      dimension_numbers=ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
      indices_are_sorted=False
      mode=GatherScatterMode.FILL_OR_DROP
      unique_indices={}
      update_consts=()
      update_jaxpr={}
    ] a i u
  in (b,) }}"""
    old, new = (
        jt.jaxpr_as_fun(jt.parse(text.format(unique, combine))) for combine in (IDENTITY, "None")
    )
    (eqn,) = jt.parse(text.format(unique, IDENTITY)).eqns
    assert eqn.params["update_jaxpr"] is None  # and so JAX takes it
    a, i, u = np.arange(4, dtype=np.float32), np.array([[2], [0]], np.int32), np.float32([7, 8])
    results = []
    for f in (old, new):
        values, tangents = jt.jvp(f, [a, i, u], [a, np.zeros((2, 1), jt.float0), 2 * u])
        _, back = jt.vjp(f, a, i, u)
        da, _, du = back(np.float32([1, 2, 3, 4]))
        results.append([*values, *tangents, da, du])
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("op", [lax.scatter_min, lax.scatter_max])
def test_the_derivative_of_an_extremum_counts_what_is_clipped(op):
    """Index 9 is clipped to 3, which is written twice: the derivative is that of the update that wins."""
    x, updates = np.array([5.0, 5.0, 5.0, 5.0]), np.array([4.0, 6.0, 7.0, 3.0])
    at = np.array([[0], [3], [9], [9]], np.int32)
    scalar = lax.min if op is lax.scatter_min else lax.max

    def f(x, updates):
        return [
            op(
                x,
                at,
                updates,
                dimension_numbers=lax.ScatterDimensionNumbers(*POINTS),
                mode=_mode("CLIP"),
                unique_indices=False,
                indices_are_sorted=False,
                update_jaxpr=update_jaxpr_of(scalar, find_dtype("f64")),
                update_consts=(),
            )
        ]

    moves = np.array([1.0, 2.0, 4.0, 8.0]), np.array([16.0, 32.0, 64.0, 128.0])
    (out,), (moved,) = jt.jvp(f, (x, updates), moves)
    high, low = (f(x + e * moves[0], updates + e * moves[1])[0] for e in (1e-6, -1e-6))
    np.testing.assert_allclose(moved, (high - low) / 2e-6, rtol=1e-8)
    (_, back) = jt.vjp(f, x, updates)[1]([np.ones_like(out)])
    winner = 3 if op is lax.scatter_min else 2
    assert back.tolist() == [float(op is lax.scatter_min), *[float(k == winner) for k in (1, 2, 3)]]

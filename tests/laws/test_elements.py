"""The column `elements` of rows: which elements of the operands the elements of results are, and in
which order.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.backends.numpy_eval import np_dtype
from jaxprtool.driver.run import run
from jaxprtool.interpreters.columns.flow import elements_facts
from jaxprtool.interpreters.columns.ranges import range_rules
from jaxprtool.ir.avals import ShapedArray
from tests.laws.oracle import EXAMPLES, by_primitive, inputs, ours
from tests.rules.example import Example

GROUPS = by_primitive([e for e in EXAMPLES if e.of is None])
MOVING = [p for p in GROUPS if elements_facts[p] != "computed"]
RANGED = [p for p in GROUPS if range_rules.find(p) is not None]
MOST = 12  # examples of a primitive


def are_numbers(example: Example) -> bool:
    return all(type(a.aval) is ShapedArray and a.aval.dtype.kind in "biufc" for a in example.args)


def results(example: Example, args: Any) -> list[Any]:
    return results_of(ours(example), args, [a.aval for a in example.args])


def results_of(f: Any, args: Any, avals: Any = None) -> list[Any]:
    program = jt.make_jaxpr(f)(*(args if avals is None else avals))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [np.asarray(x) for x in run(program, args)]


def numbers(x: Any) -> list[complex]:
    found = np.asarray(x).ravel().astype(np.complex128)
    return [v for v in found.tolist() if v == v]


def test_there_are_some():
    assert len(MOVING) > 20 and len(RANGED) > 15
    assert {elements_facts[p] for p in MOVING} == {*elements_facts.values[1:]}


@pytest.mark.parametrize("primitive", MOVING, ids=str)
def test_elements_are_those_of_the_operand(primitive):
    """Kept: in their order, once or repeated. Permuted: all of them. Chosen: no others. Converted: as many, in their order.

    Placed: none but those of the operands. Ordered: all of the operand in the place of the result.
    """
    elements = elements_facts[primitive]
    for example in [e for e in GROUPS[primitive] if are_numbers(e)][:MOST]:
        args = inputs(example)
        for k, out in enumerate(results(example, args)):
            before = np.asarray(args[k if elements in ("kept", "ordered") else 0])
            given, found = numbers(before), numbers(out)
            if elements == "placed":
                assert {*found} <= {n for x in args for n in numbers(x)}, example
                continue
            if elements == "converted":
                assert out.size == before.size
                continue
            fill = example.params.get("fill_value")
            out_of_bounds = set() if elements != "chosen" or fill is None else {complex(fill)}
            assert {*found} <= {*given} | out_of_bounds, example
            if elements in ("permuted", "ordered"):
                assert sorted(found, key=repr) == sorted(given, key=repr)
            elif example.params.get("dimensions") is not None and str(primitive) == "reshape":
                assert sorted(found, key=repr) == sorted(
                    given, key=repr
                )  # a transposition of early releases
            elif elements == "kept" and out.size == before.size:
                assert found == given, example
            elif elements == "kept" and out.size:
                assert {*found} == {*given}, example


@pytest.mark.parametrize("primitive", RANGED, ids=str)
@pytest.mark.parametrize("scale", [1.0, 0.0, 1e3, -1e3])
def test_results_lie_in_the_range(primitive, scale):
    for example in [e for e in GROUPS[primitive] if are_numbers(e)][:MOST]:
        if any(a.aval.dtype.kind != "f" for a in example.args):
            continue
        plain = [
            np.nan_to_num(np.asarray(x).astype(np.float64), posinf=0, neginf=0)
            for x in inputs(example)
        ]
        args = [
            (np.clip(x, -9, 9) * scale).astype(np_dtype(a.aval.dtype))
            for x, a in zip(plain, example.args, strict=True)
        ]
        found = range_rules[primitive](example.params)
        for out in results(example, args):
            kept = out.astype(np.float64)
            kept = kept[np.isfinite(kept)]
            slack = 1e-2 if out.dtype.itemsize < 4 else 1e-6
            assert np.all(kept >= found.low - slack) and np.all(kept <= found.high + slack), example
            if scale == 1.0 and found.is_away_from_zero:
                assert np.all(kept != 0), example


@pytest.mark.parametrize(
    "primitive", [p for p in MOVING if elements_facts[p] in ("placed", "ordered")], ids=str
)
def test_numbers_of_another_type_are_moved_in_the_same_way(primitive):
    """Integers in the place of the floats say which element lies where; with what is ordered they are ordered as further operands."""
    ordered = elements_facts[primitive] == "ordered"
    for example in [e for e in GROUPS[primitive] if are_numbers(e)][:MOST]:
        args = [np.asarray(x) for x in inputs(example)]
        floats = [i for i, x in enumerate(args) if x.dtype.kind == "f"]
        moved = [x for x in args if x.dtype.kind == "f"]
        sizes = np.cumsum([0, *[x.size for x in moved]])
        places = [
            np.arange(n, n + x.size, dtype=np.int32).reshape(x.shape)
            for n, x in zip(sizes, moved, strict=False)
        ]
        if not floats or example.params.get("fill_value") is not None:
            continue
        numbered = [*args, *places] if ordered else [*args]
        for i, x in zip(floats, places, strict=True) if not ordered else ():
            numbered[i] = x
        op = ours(example)
        outs = results_of(op, args)
        where = results_of(op, numbered)
        where = where[len(args) :] if ordered else where
        outs = [outs[i] for i in floats] if ordered else outs
        values = np.concatenate([x.ravel() for x in moved])
        for out, at in zip(outs, where, strict=True):
            assert np.array_equal(values[at], out, equal_nan=True), example

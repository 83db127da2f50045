"""A fixed sample of JAX's own cases, each cell against the golden file of all of them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import jaxprtool as jt
from tests.conformance import report
from tests.conformance.columns import (
    CANNOT,
    COLUMNS,
    FAILED,
    PASSED,
    REFUSED,
    run_case,
    run_harness,
)
from tests.conformance.compare import Rounding, compare
from tests.conformance.harnesses import harness_names, programs, sample
from tests.releases import IS_ORACLE, SERIES, only_oracle

SAMPLE = sample()
GOLDEN = report.read_golden()
SIN = harness_names("^sin_shape_float32")[0]


# What other releases of JAX compute otherwise than 0.10, of which the golden file is.
CHANGED = {
    "acosh_shape_float16_20_20_": "the derivative is a NaN elsewhere",
    "exp2_shape_float16_20_20_": "XLA rounds otherwise",
}
if SERIES < (0, 9):
    CHANGED |= dict.fromkeys(harness_names("^reduce_sum"), "JAX's own case lacks a param")


def told(name, outcomes):
    """Their letters; beside another JAX than that of the golden file what it cannot do, or computes otherwise, counts as passed.

    So does what passes and the JAX of the golden file cannot do.
    """
    letters = "".join(o.result for o in outcomes)
    if IS_ORACLE:
        return letters
    excused = CANNOT + (FAILED if name in CHANGED else "")
    pairs = zip(letters, GOLDEN[name], strict=True)
    return "".join(g if x in excused or x + g == PASSED + CANNOT else x for x, g in pairs)


@pytest.mark.parametrize("primitive", list(SAMPLE))
def test_sample(primitive):
    for name in SAMPLE[primitive]:
        outcomes = run_harness(name)
        why = "\n".join(f"{o.column}: {o.why}" for o in outcomes if o.result != PASSED)
        assert told(name, outcomes) == GOLDEN[name], f"{name}\n{why}"


def test_sample_has_every_primitive():
    assert len(SAMPLE) > 125
    assert 200 < sum(map(len, SAMPLE.values())) < 500


@only_oracle
def test_golden_file_is_as_written():
    assert report.text(GOLDEN) == report.GOLDEN.read_text()


def test_a_cell_that_passed_and_fails_is_worse():
    assert report.worse({SIN: GOLDEN[SIN]}) == []
    (line,) = report.worse({SIN: GOLDEN[SIN][:-1] + FAILED})
    assert line == f"{SIN}: {list(COLUMNS)[-1]}: {PASSED} -> {FAILED}"


def _letters_of(text_of):
    (case,) = programs(SIN)
    found = run_case(dataclasses.replace(case, text=text_of(case.text)))
    return dict(zip(COLUMNS, (letter for letter, _ in found), strict=True))


def test_another_program_fails_in_every_column_that_runs_it():
    letters = _letters_of(lambda text: text.replace("sin", "cos"))
    runs = ("eval", "xla", "jvp", "vjp", "vmap")
    assert letters == {c: FAILED if c in runs else PASSED for c in COLUMNS}


def test_an_ill_typed_program_is_refused():
    letters = _letters_of(lambda text: text.replace("sin", "erf_inverse"))
    assert letters["check"] == letters["eval"] == REFUSED


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.float32([1.0, 2.0]), np.float32([1.0, 2.0001])),
        (np.float32([1.0, 2.0]), np.float64([1.0, 2.0])),
        (np.float32([1.0, np.nan]), np.float32([1.0, 2.0])),
        (np.int32([1, 2]), np.int32([1, 3])),
        (np.int32([1, 2]), np.int32([[1, 2]])),
        (np.complex64([1j]), np.complex64([-1j])),
        (jt.KeyArray("fry", [0, 1]), jt.KeyArray("fry", [0, 2])),
        (jt.KeyArray("rbg", [0, 1, 2, 3]), jt.KeyArray("urbg", [0, 1, 2, 3])),
    ],
)
def test_different_results(actual, expected):
    rounding = Rounding("sin", [], False)
    compare([expected], [expected], rounding)
    with pytest.raises(AssertionError):
        compare([actual], [expected], rounding)


def test_missing_results():
    with pytest.raises(AssertionError, match="1 results, and JAX has 0"):
        compare([1.0], [], Rounding("sin", [], False))


def test_no_harness_of_a_name_is_a_usage_error():
    command = [sys.executable, "-m", "tests.conformance", "--only", "no such harness"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no harness matches 'no such harness'" in done.stderr

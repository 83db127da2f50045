"""A fixed sample of JAX's own cases, each cell against the golden file of all of them."""

from __future__ import annotations

import pytest

from tests.conformance import report
from tests.conformance.columns import COLUMNS, FAILED, PASSED, run_harness
from tests.conformance.harnesses import harness_names, sample

SAMPLE = sample()
GOLDEN = report.read_golden()


@pytest.mark.parametrize("primitive", list(SAMPLE))
def test_sample(primitive: str) -> None:
    for name in SAMPLE[primitive]:
        outcomes = run_harness(name)
        told = "\n".join(f"{o.column}: {o.why}" for o in outcomes if o.result != PASSED)
        assert "".join(o.result for o in outcomes) == GOLDEN[name], f"{name}\n{told}"


def test_sample_has_every_primitive() -> None:
    assert len(SAMPLE) > 125
    assert 200 < sum(map(len, SAMPLE.values())) < 500


def test_golden_file_is_as_written() -> None:
    assert report.text(GOLDEN) == report.GOLDEN.read_text()


def test_a_cell_that_passed_and_fails_is_worse() -> None:
    name = harness_names("^sin_")[0]
    assert report.worse({name: GOLDEN[name]}) == []
    (line,) = report.worse({name: GOLDEN[name][:-1] + FAILED})
    assert line == f"{name}: {list(COLUMNS)[-1]}: {PASSED} -> {FAILED}"

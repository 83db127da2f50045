"""Measured stages: intervals that hold what they say, a test that finds what is slower and nothing else, fair turns."""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxprtool as jt
from jaxprtool.analyses.profiling.bench import Bench, Series, Subject, changes, from_json
from jaxprtool.analyses.profiling.samples import median_of, ratio_of
from jaxprtool.backends.significance import p_greater
from jaxprtool.core.clock import Clock
from jaxprtool.driver import bench as driver
from tests.analyses.planting import real_program
from tests.invoke import invoke

SIN = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """How long is measured does not depend on the machine: each look at the clock is a hundredth of a second later."""
    ticks = itertools.count()
    monkeypatch.setattr(driver, "perf_counter", lambda: next(ticks) / 100)


# -- statistics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [*range(1, 40), 100, 199, 200])
def test_the_interval_of_a_median_is_the_narrowest_of_its_level(n):
    """Its confidence is the sum of binomial probabilities, and the next narrower one has less than 0.95."""
    ordered = [float(i) for i in range(n)]
    e = median_of(random.Random(n).sample(ordered, n))
    assert e.value == median(ordered) and e.low + e.high == n - 1
    inside = stats.binom(n, 0.5)

    def confidence(low):  # that from `low` + 1 to n - `low` - 1 samples are below the median
        return inside.cdf(n - low - 1) - inside.cdf(low)

    low = int(e.low)
    assert e.confidence == pytest.approx(max(confidence(low), 0), abs=1e-12)
    if n >= 6:
        assert e.confidence >= 0.95
        assert 2 * (low + 1) >= n - 1 or confidence(low + 1) < 0.95
    else:
        assert (low, e.confidence) == (0, pytest.approx(1 - 2.0 ** (1 - n)))


DRAWS = {
    "normal": lambda r: r.gauss(10, 1),
    "skewed": lambda r: r.lognormvariate(0, 1),
    "two peaks": lambda r: r.gauss(1, 0.01) if r.random() < 0.6 else r.gauss(3, 0.01),
}


@pytest.mark.parametrize("n", [6, 20, 60])
@pytest.mark.parametrize("kind", DRAWS)
def test_the_interval_of_a_median_holds_it(kind, n):
    r = random.Random(f"{kind} {n}")
    draw = DRAWS[kind]
    true = median(draw(r) for _ in range(40_001))
    held = sum(e.low <= true <= e.high for e in (median_of([draw(r) for _ in range(n)]) for _ in range(1000)))  # fmt: skip
    assert held >= 930


@pytest.mark.parametrize(("m", "n"), [(2, 3), (5, 4), (12, 9), (30, 60)])
def test_the_interval_of_a_ratio_holds_it(m, n):
    """As often as it says, for samples that are 1.7 times as long, and the bounds swap with the samples."""
    r = random.Random(m * n)
    held, said = 0, 0.0
    for _ in range(800):
        new = [1.7 * r.lognormvariate(0, 0.4) for _ in range(m)]
        old = [r.lognormvariate(0, 0.4) for _ in range(n)]
        e, back = ratio_of(new, old), ratio_of(old, new)
        held, said = held + (e.low <= 1.7 <= e.high), e.confidence
        assert e.low <= e.value <= e.high
        assert (back.low, back.high) == pytest.approx((1 / e.high, 1 / e.low))
    assert held / 800 >= said - 0.03


# -- comparison ---------------------------------------------------------------------------------------


def measured(r, factor=1.0, n=30, stages=("lower", "compile", "steady")):
    series = [
        Series("xla", s, [factor * r.lognormvariate(math.log(1e-3), 0.05) for _ in range(n)])
        for s in stages
    ]
    return Bench([Subject("f", ["f32[3]"], series)])


def verdicts(new, old, tolerance=0.05):
    return [c.verdict for c in changes(new, old, tolerance, p_greater)]


@pytest.mark.parametrize(("factor", "verdict"), [(1.5, "slower"), (0.6, "faster")])
def test_what_is_slower_or_faster_is_found(factor, verdict):
    r = random.Random(1)
    for _ in range(20):
        assert verdicts(measured(r, factor), measured(r)) == [verdict] * 3


def test_within_the_tolerance_nothing_is_found():
    r = random.Random(2)
    assert {v for _ in range(50) for v in verdicts(measured(r, 1.04), measured(r))} == {"no change"}


def test_of_equal_ones_few_are_found():
    """At a tolerance of 0 the level is that of the test: 5 % for all stages together, on each side."""
    r = random.Random(3)
    found = [verdicts(measured(r), measured(r), tolerance=0.0) for _ in range(400)]
    assert sum("slower" in v for v in found) <= 400 * 0.08
    assert sum("slower" in v for v in found) > 0


def test_a_few_samples_cannot_tell():
    r = random.Random(4)
    assert verdicts(measured(r, 2.0, n=3), measured(r, n=3)) == ["too few"] * 3
    assert verdicts(measured(r, 2.0, n=6), measured(r, n=6)) == ["slower"] * 3


def test_a_document_is_read_back():
    found = jt.bench([jt.parse(SIN), jt.parse(SIN.replace("sin", "cos"))], np.ones(3, np.float32), seconds=0.1)  # fmt: skip
    read = from_json(json.loads(json.dumps(found.json())), "x.json")
    for a, b in zip(found.subjects, read.subjects, strict=True):
        assert (a.name, a.arguments) == (b.name, b.arguments)
        assert [(s.key, s.times) for s in a.series] == [(s.key, s.times) for s in b.series]


def broken():
    """Documents that are not what `bench --json` prints: one thing after the other replaced by something else."""
    good = jt.bench(jt.parse(SIN), np.ones(3, np.float32), seconds=0, backends=("numpy",)).json()
    for replaced in (None, 3, "x", [], {}, [None], [[]], [{}], -1, 1e400, 10**400, True):
        for path in (
            ["schema"],
            ["kind"],
            ["programs"],
            ["programs", 0],
            ["programs", 0, "arguments"],
            ["programs", 0, "stages"],
            ["programs", 0, "stages", 0],
            ["programs", 0, "stages", 0, "backend"],
            ["programs", 0, "stages", 0, "stage"],
            ["programs", 0, "stages", 0, "times"],
            ["programs", 0, "stages", 0, "times", 0],
        ):
            bad = copy.deepcopy(good)
            inner = bad
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = replaced
            yield bad
        yield replaced


def test_a_document_that_is_another_one_is_refused_or_compared(tmp_path):
    """With status 0, 1 or 2, and never with a fault of ours."""
    (tmp_path / "p.jaxpr").write_text(SIN)
    for bad in broken():
        try:
            old = from_json(bad, "x.json")
            changes(old, old, 0.05, p_greater)
        except jt.UsageError as e:
            assert e.diagnostics[0].code in ("bad-bench", "bench-mismatch")
    for text in ("", "{", "[" * 100_000, '{"schema": 1e999}', "\ufeff{}", "nan"):
        (tmp_path / "old.json").write_text(text)
        done = invoke(f"bench --seconds 0 --backends numpy --compare {tmp_path}/old.json {tmp_path}/p.jaxpr")  # fmt: skip
        assert done.status == 2 and "[bad-bench]" in done.error, done.error


def test_the_status_says_what_is_slower(tmp_path):
    """Against samples of a nanosecond everything is slower, against those of an hour faster."""
    path, old = tmp_path / "p.jaxpr", tmp_path / "old.json"
    path.write_text(SIN)
    document = json.loads(invoke(f"bench --json --backends numpy --seconds 0.2 {path}").output)
    for time, status in ((1e-9, 1), (3600.0, 0)):
        for stage in document["programs"][0]["stages"]:
            stage["times"] = [time] * 30
        old.write_text(json.dumps(document))
        line = f"bench --backends numpy --seconds 0.5 --compare {old} {path}"
        done, plain = invoke(f"{line} --json"), invoke(line)
        found = json.loads(done.output)["compare"]
        assert (done.status, plain.status, found["slower"]) == (status, status, bool(status))
        assert {s["verdict"] for s in found["stages"]} == {"slower" if status else "faster"}
        assert found["missing"] == []
        assert ("slower by more than 5 %" in plain.output) and plain.output.count("steady") == 1


def test_a_stage_that_is_not_measured_any_more_is_named(tmp_path):
    path, old = tmp_path / "p.jaxpr", tmp_path / "old.json"
    path.write_text(SIN)
    old.write_text(invoke(f"bench --json --seconds 0 {path}").output)
    done = invoke(f"bench --quiet --backends numpy --seconds 0 --compare {old} {path}")
    assert done.status == 0
    for stage in ("lower", "compile", "first", "steady"):
        assert f"{path}: xla {stage} was measured before, and is not now\n" in done.output


# -- what is sampled ----------------------------------------------------------------------------------


def test_programs_are_sampled_in_turn():
    """Each kind of stage of all programs one after the other, in both orders, and no kind is left behind."""
    log: list[tuple[str, int]] = []

    def sampled(kind, i):
        def take():
            log.append((kind, i))
            return [1e-6]

        return driver._Sampled([Series("xla", kind)], take)

    rounds = [[sampled(kind, i) for i in range(3)] for kind in ("a", "b")]
    driver._take_turns(rounds, Clock(2.0))
    turns = [log[i : i + 3] for i in range(0, len(log), 3)]
    assert [t[0][0] for t in turns[:2]] == ["a", "b"]
    for turn in turns:
        assert len({kind for kind, _ in turn}) == 1
        assert [i for _, i in turn] in ([0, 1, 2], [2, 1, 0])
    assert {tuple(i for _, i in turn) for turn in turns} == {(0, 1, 2), (2, 1, 0)}
    assert all(len(x.series[0].times) <= driver.MOST for kind in rounds for x in kind)


@pytest.mark.parametrize("name", ["attention", "gaussian_process", "data_parallel"])
def test_stages_of_real_programs(name):
    program, args = real_program(name)
    found = jt.bench(program, *args, seconds=0)
    assert [s.name for s in found.subjects[0].series] == [
        *("xla lower", "xla compile", "xla first", "xla steady", "numpy first", "numpy steady")
    ]
    for stage in found.json()["programs"][0]["stages"]:
        assert stage["samples"] == len(stage["times"]) == 1 and stage["calls"] >= 1
        assert stage["interval"][0] <= stage["median"] <= stage["interval"][1]


def test_a_function_is_traced_anew_each_time():
    """Also what it calls under jit, whose trace JAX keeps."""
    inner_traces, traces = [], []

    @jax.jit
    def inner(x):
        inner_traces.append(1)
        return jnp.sin(x)

    def f(tree):
        traces.append(1)
        return inner(tree["x"])

    found = jt.bench(f, {"x": np.ones(3, np.float32)}, seconds=0.5, backends=("numpy",))
    (trace,) = [s for s in found.subjects[0].series if s.stage == "trace"]
    assert trace.backend is None and len(trace.times) >= 2
    assert len(traces) >= len(trace.times) + 1 and len(inner_traces) >= len(trace.times)
    assert found.subjects[0].name == "f"


def test_a_backend_that_does_not_take_a_program_is_left_out(monkeypatch):
    def refuse(*_):
        raise jt.UnsupportedError(jt.Diagnostic("XLA does not take it", "xla-compile"))

    monkeypatch.setitem(driver._MAKERS, "xla", refuse)
    program, x = jt.parse(SIN), np.ones(3, np.float32)
    found = jt.bench(program, x, seconds=0)
    assert found.left_out == [("<program>", "xla", "XLA does not take it")]
    assert "<program>: xla is not measured: XLA does not take it" in str(found)
    with pytest.raises(jt.UnsupportedError):
        jt.bench(program, x, seconds=0, backends=("xla",))


def test_several_programs_have_ratios(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jaxpr").write_text(SIN)
    done = invoke(f"bench --json --backends numpy --seconds 0.2 {tmp_path}/a.jaxpr {tmp_path}/b.jaxpr")  # fmt: skip
    found = json.loads(done.output)
    assert [(r["program"], r["stage"]) for r in found["ratios"]] == [
        (f"{tmp_path}/b.jaxpr", "first"),
        (f"{tmp_path}/b.jaxpr", "steady"),
    ]
    assert all(r["interval"][0] <= r["ratio"] <= r["interval"][1] for r in found["ratios"])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"backends": ("jax",)}, "no backend 'jax'"),
        ({"seconds": float("nan")}, "from 0 to"),
        ({"seconds": float("inf")}, "from 0 to"),
        ({"tolerance": -1.0}, "from 0 on"),
        ({"compare": "no/such.json"}, "no/such.json"),
    ],
)
def test_in_python_wrong_options_are_refused(how, message):
    with pytest.raises(jt.UsageError, match=message):
        jt.bench(jt.parse(SIN), np.ones(3, np.float32), **how)


def test_no_program_is_refused():
    with pytest.raises(jt.UsageError, match="no program"):
        jt.bench([])

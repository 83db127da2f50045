"""Limits of time hold for whole processes, also where one step of the work takes much longer than the limit."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.core import stack
from jaxprtool.core.stack import run_until
from jaxprtool.driver import bench as benches
from jaxprtool.driver.reduce import How, NotInteresting, reduce
from jaxprtool.driver.reducing.interest import Failure, Interest
from jaxprtool.driver.running.prints import silent
from jaxprtool.ir.diagnostics import JaxprToolWarning, UsageError
from tests.analyses.test_reduce import chain, script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="tests are scripts of a shell")
START = 6.0  # seconds for loading, on a busy machine


def reduced_by(tmp_path, body, *more, limit="1"):
    """Run `reduce --test` on a short program; return its status, JSON, messages and seconds."""
    program, _ = chain(6, 2)
    jt.save(program, tmp_path / "p.jaxpr")
    words = ["reduce", "--time", limit, "--test", script(tmp_path, body), "--json", *more]
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "jaxprtool", *words, f"{tmp_path}/p.jaxpr", "--args", "ones"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, json.loads(done.stdout), done.stderr, time.monotonic() - begin


def test_a_test_that_does_not_end_on_the_whole_program(tmp_path):
    status, document, messages, took = reduced_by(tmp_path, "sleep 60")
    assert took < START + 1
    assert status == 2 and document["error"]["code"] == "time-limit"
    assert "before the test had ended on the whole program" in messages


def test_a_test_that_does_not_end_later(tmp_path):
    body = f"echo >> {tmp_path}/n; test $(wc -l < {tmp_path}/n) -lt 4 || sleep 60"
    status, document, _, took = reduced_by(tmp_path, body, limit="2")
    assert took < START + 2
    assert status == 0 and document["ended"] == "time" and not document["flaky"]
    assert document["after"]["eqns"] < document["before"]["eqns"]


def test_a_text_whose_test_does_not_end(tmp_path):
    (tmp_path / "p.txt").write_text("{ lambda ; a:f32[]. let b:f32[] = sin c in (b,) }")
    test = script(tmp_path, "sleep 60")
    begin = time.monotonic()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "jaxprtool",
            "reduce",
            "--time",
            "1",
            "--test",
            test,
            f"{tmp_path}/p.txt",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert time.monotonic() - begin < START + 1
    assert done.returncode == 2 and "[time-limit]" in done.stderr


class Stuck(Interest):
    """A test that at its n-th call does not end before it is told to, as an operation of NumPy does not."""

    def __init__(self, n):
        self.left, self.told = n, threading.Event()
        self.ended = threading.Event()

    def failure(self, c):
        return Failure("stuck", "it is interesting") if self(c) else None

    def __call__(self, c):
        self.left -= 1
        if self.left <= 0:
            try:
                with silent():
                    self.told.wait(60)
            finally:
                self.ended.set()
        return True


def let_go(test):
    """Let the thread go that nobody waits for."""
    test.told.set()
    assert test.ended.wait(10)


def test_a_step_in_this_process_is_left_alone(capsys):
    program, args = chain(40, 20)
    test, rungs = Stuck(4), []
    begin = time.monotonic()
    small = reduce(program, args, test, How(seconds=0.5, show=rungs.append))
    assert time.monotonic() - begin < 10
    assert small.ended == "time" and not small.flaky and small.after < small.before
    print("is seen")
    assert "is seen" in capsys.readouterr().out
    known = len(rungs)
    let_go(test)
    time.sleep(0.2)
    assert len(rungs) == known  # what is found too late has no effect
    print("still")
    assert "still" in capsys.readouterr().out


def test_the_first_step_in_this_process_is_left_alone():
    program, args = chain(40, 20)
    test = Stuck(1)
    with pytest.raises(UsageError, match="before the test had ended on the whole program") as e:
        reduce(program, args, test, How(seconds=0.3))
    assert not isinstance(e.value, NotInteresting)
    let_go(test)


def test_scrubbing_is_part_of_the_time():
    program, args = chain(40, 20)
    test = Stuck(8)
    begin = time.monotonic()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        reduce(program, args, test, How(seconds=1, scrub=True))
    assert time.monotonic() - begin < 10
    assert any(
        issubclass(w.category, JaxprToolWarning) and "the time was up" in str(w.message)
        for w in told
    )
    let_go(test)


def test_a_call_that_ends_in_time_is_like_any_other():
    assert (
        run_until(None, divmod, 7, 2) == run_until(time.monotonic() + 60, divmod, 7, 2) == [(3, 1)]
    )
    with pytest.raises(ZeroDivisionError):
        run_until(time.monotonic() + 60, divmod, 7, 0)
    assert run_until(time.monotonic() + 60, lambda: stack.run_deep(sum, [1, 2])) == [3]


SLOW = """{ lambda ; a:f32[8]. let
    b:f32[8] = scan[
      jaxpr={ lambda ; c:f32[8]. let d:f32[8] = sin c in (d,) }
      length=LENGTH
      linear=(False,)
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] a
  in (b,) }"""


@pytest.fixture(scope="module")
def slow_program():
    """Return a program of about half a second on NumPy."""
    x, length = np.ones(8, np.float32), 2_000
    while True:
        program = jt.parse(SLOW.replace("LENGTH", str(length)))
        begin = time.perf_counter()
        jt.run(program, x)
        if time.perf_counter() - begin > 0.5:
            return program, x
        length *= 2


def runs_of(monkeypatch, module, f):
    """Count the runs on NumPy while f is called."""
    runs, real = [], module.evaluated
    monkeypatch.setattr(module, "evaluated", lambda *a: (runs.append(1), real(*a))[1])
    f()
    return len(runs)


def test_bench_runs_a_slow_program_once_for_each_stage(slow_program, monkeypatch):
    program, x = slow_program
    found = []

    def measured():
        found.append(jt.bench(program, x, seconds=0.1, backends=("numpy",)))

    assert runs_of(monkeypatch, benches, measured) == 2
    stages = found[0].json()["programs"][0]["stages"]
    assert [(s["stage"], s["samples"]) for s in stages] == [("first", 1), ("steady", 1)]
    assert all(s["median"] > 0.1 for s in stages)


def test_profile_runs_a_slow_program_once(slow_program, monkeypatch):
    from jaxprtool.driver import profile as profiles

    program, x = slow_program
    found = []
    runs = runs_of(monkeypatch, sys.modules[profiles.__module__] if callable(profiles) else profiles,
                   lambda: found.append(jt.profile(program, x, seconds=0.1)))  # fmt: skip
    assert runs == 1
    assert found[0].json()["runs"] == 1 and found[0].json()["total"]["seconds"] > 0.1

"""reduce --crash: candidates run in copies of one process, and end there as they do in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import jaxprtool as jt
from jaxprtool.driver.reducing.external_interest import Crash
from jaxprtool.driver.reducing.forks import Forks, can_fork
from tests.analyses.test_reduce import chain

pytestmark = pytest.mark.skipif(not can_fork(), reason="no copies of processes on this system")

GOOD = "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
BAD = "{ lambda ; a:f32[]. let b:f32[] = sin c in (b,) }"


@pytest.fixture
def forks():
    found = Forks()
    yield found
    found.ended()


def by_itself(words, **more):
    return subprocess.run(
        [sys.executable, "-m", "jaxprtool", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **more,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["check", "good"],
        ["check", "bad", "--error-format", "json"],
        ["run", "good", "--args", "1"],
        ["run", "--jit", "good", "--args", "1"],
        ["run", "--through", "jax", "good", "--args", "1"],
        ["grad", "good", "--no-such-option"],
        ["run", "ends.py:f", "--shape", "f32[]"],
        ["run", "-"],
    ],
)
def test_a_command_ends_as_in_a_process_of_its_own(words, forks, tmp_path):
    (tmp_path / "good").write_text(GOOD)
    (tmp_path / "bad").write_text(BAD)
    (tmp_path / "ends.py").write_text("def f(x):\n    raise SystemExit(7)\n")
    given = [str(tmp_path / w) if (tmp_path / w.partition(":")[0]).exists() else w for w in words]
    given = [f"{w}:f" if w.endswith("ends.py") else w for w in given]
    alone = by_itself(given)
    output = str(tmp_path / "output")
    for _ in range(3):  # the third one finds everything loaded
        status = forks.run(given, str(tmp_path), output, 300)
        assert (status, Path(output).read_text()) == (alone.returncode, alone.stdout)


ENDS = {
    "os.kill(os.getpid(), signal.SIGSEGV)": -11,
    "os.abort()": -6,
    "os._exit(9)": 9,
    "time.sleep(60)": None,
}


@pytest.mark.parametrize("how", ENDS)
def test_a_hard_end_takes_nothing_with_it(how, tmp_path):
    (tmp_path / "ends.py").write_text(
        f"import os, signal, time\ndef f(x):\n    {how}\n    return x\n"
    )
    (tmp_path / "good").write_text(GOOD)
    forks, output = Forks(), str(tmp_path / "output")
    words = ["trace", f"{tmp_path}/ends.py:f", "--shape", "f32[]"]
    begin = time.monotonic()
    assert forks.run(words, str(tmp_path), output, 8) == ENDS[how]
    if ENDS[how] is None:
        assert time.monotonic() - begin < 20
        assert forks.server.poll() is not None or forks.server.wait(10) is not None
    else:
        assert forks.run(["check", f"{tmp_path}/good"], str(tmp_path), output, 300) == 0
    forks.ended()


@pytest.mark.parametrize("jobs", [1, 2])
def test_few_processes_are_started(jobs, monkeypatch):
    program, args = chain(30, 20)
    started, real = [], subprocess.Popen

    class Counted(real):
        def __init__(self, *given, **more):
            started.append(given)
            super().__init__(*given, **more)

    monkeypatch.setattr(subprocess, "Popen", Counted)
    small = jt.reduce(program, *args, crash="vmap --in-axes 5", jobs=jobs)
    assert small.after.eqns == 0 and small.tests > 3 and not small.flaky
    assert len(started) <= 2 + 1 + jobs  # the whole program, the result, servers


def test_without_copies_the_result_is_the_same(monkeypatch):
    program, args = chain(12, 5)
    small = jt.reduce(program, *args, crash="vmap --in-axes 5")
    monkeypatch.setattr(Crash, "_server", lambda self: 1 / 0)
    monkeypatch.setattr("jaxprtool.driver.reducing.external_interest.can_fork", lambda: False)
    assert str(jt.reduce(program, *args, crash="vmap --in-axes 5").program) == str(small.program)


def test_a_server_that_ends_is_no_fault(monkeypatch):
    program, args = chain(12, 5)
    real = Crash._server

    def ending(self):
        forks = real(self)
        forks.server.kill()
        forks.server.wait()
        return forks

    monkeypatch.setattr(Crash, "_server", ending)
    small = jt.reduce(program, *args, crash="vmap --in-axes 5")
    assert small.after.eqns == 0 and np.isfinite(small.seconds)

"""A program of 100,000 equations takes less than 1 GB in these verbs: as 10,000 equations tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MEASURED, OF, LIMIT = 10_000, 100_000, 1 << 30
# A small process starts the verb: on Linux the peak of a process counts what the one that started it had, and that is pytest.
STARTER = """
import os, subprocess, sys
verb = subprocess.Popen([sys.executable, "-m", "jaxprtool", *sys.argv[1:]], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(verb.pid, 0)
print(used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""
# Those that take the most of all but XLA, and some that everybody uses.
VERBS = {
    "jvp": [],
    "linearize": [],
    "grad": [],
    "residuals": [],
    "fmt": [],
    "gradcheck": ["--args", "random:0"],
    "gradcheck --order 2": ["--args", "random:0"],
    "run": ["--args", "random:0"],
}


def chain(n: int) -> str:
    """A scalar function of n equations of several kinds, each with a line of Python as its origin."""
    last, before = "a", "a"
    lines = []
    for i in range(n):
        kinds = (f"sin {last}", f"mul {last} 0.5:f32[]", f"tanh {last}", f"add {last} {before}")
        lines.append(f"    v{i}:f32[3] = {kinds[i % 4]} # model.py:{i % 97 + 1}:4 (layer)")
        last, before = f"v{i}", last
    body = "\n".join(lines)
    end = f"    r:f32[] = reduce_sum[axes=(0,) out_sharding=None] {last}"
    return f"{{ lambda ; a:f32[3]. let\n{body}\n{end}\n  in (r,) }}\n"


def peak(verb: str, n: int, folder: Path) -> int:
    """The most memory that the verb has had on a program of n equations, in bytes."""
    file = folder / f"{n}.jaxpr"
    file.write_text(chain(n))
    words = [sys.executable, "-c", STARTER, *verb.split(), str(file), *VERBS[verb]]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) << (0 if sys.platform == "darwin" else 10)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_hundred_thousand_equations_take_less_than_a_gigabyte(verb, tmp_path):
    small, large = (peak(verb, n, tmp_path) for n in (100, MEASURED))
    # Where it starts, and what each equation adds.
    expected = small + (large - small) * OF // MEASURED
    assert large > small, "the peak is not that of the work"
    assert expected < LIMIT, f"{expected >> 20} MB"

"""A program of 100,000 equations takes less than 1 GB in each verb, where XLA or JAX takes no more: as 10,000 equations tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jaxprtool.cli.main import VERBS as ALL

MEASURED, OF, LIMIT = 10_000, 100_000, 1 << 30
# A small process starts the verb: on Linux the peak of a process counts what the one that started it had, and that is pytest.
STARTER = """
import os, subprocess, sys
verb = subprocess.Popen([sys.executable, "-m", "jaxprtool", *sys.argv[1:]], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(verb.pid, 0)
print(used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""
# The words beside the program. `{}` is a second one that differs in a literal.
VALUES = ["--args", "random:0"]
VERBS: dict[str, list[str]] = {
    "assert": ["no f64", "count(sin) > 3"],
    "blame": VALUES,
    "check": [],
    "compare": ["{}", *VALUES],
    "compare --first": ["{}", *VALUES],
    "cost": [],
    "diff": ["{}"],
    "discharge": [],
    "equiv": ["{}"],
    "fmt": [],
    "grad": [],
    "gradcheck": VALUES,  # not of order 2: of 100,000 equations that takes 2.8 GB, of 10,000 0.13 GB
    "grep sin": [],
    "hash": [],
    "jvp": [],
    "linearize": [],
    "lint": [],
    "lower": [],
    "opt": [],
    "partial-eval --known 0": [],
    "precision": VALUES,
    "profile": VALUES,
    "reduce --nan": VALUES,
    "repro": [*VALUES, "--", "run"],
    "residuals": [],
    "run": VALUES,
    "snapshot": ["record"],
    "stats": [],
    "upgrade": [],
    "upgrade --report": [],
    "vjp": [],
    "vmap --in-axes 0 --axis-size 2": [],
}
# Those whose answer is no here: the programs differ, or a rule finds something.
ANSWERS_NO = {"compare", "diff", "equiv", "lint"}
# Of these each equation takes a run of all: they are measured on fewer.
SLOW = {"precision": 4_000, "repro": 24_000}
# From where on each equation adds the same: before, it is what the verb loads, and JAX compiles a long program in parts.
FROM = {"precision": 1_000, "repro": 6_000}
TRIES = 3  # of a peak, the least counts: what else the machine does may only raise it, XLA's threads most of all
NOT_MEASURED = {
    "bench": "XLA compiles it, as `compile`",
    "compile": "XLA alone takes 2 GB",
    "explain": "it reads no program",
    "fuzz": "it draws its own programs",
    "git-setup": "it reads no program",
    "retraces": "it reads logs",
    "trace": "JAX holds what it traces",
    "transpose": "`grad` transposes",
    "triage": "XLA compiles both programs",
}


def chain(n: int, factor: str = "") -> str:
    """A scalar function of n equations of several kinds, each with a line of Python as its origin; times a factor that is computed."""
    last, before = "a", "a"
    lines = []
    for i in range(n):
        kinds = (f"sin {last}", f"mul {last} 0.5:f32[]", f"tanh {last}", f"add {last} {before}")
        lines.append(f"    v{i}:f32[3] = {kinds[i % 4]} # model.py:{i % 97 + 1}:4 (layer)")
        last, before = f"v{i}", last
    body = "\n".join(lines)
    end = f"    r:f32[] = reduce_sum[axes=(0,) out_sharding=None] {last}"
    if factor:
        end = f"    w:f32[] = {factor}\n    u:f32[3] = mul {last} w\n" + end.replace(last, "u")
    return f"{{ lambda ; a:f32[3]. let\n{body}\n{end}\n  in (r,) }}\n"


# The same program as a function, and a project that keeps it and its gradient.
FUNCTION = """
import numpy as np
from jaxprtool import lax

def loss(x):
    before = x
    for i in range({n}):
        kinds = lax.sin, lambda x: lax.mul(x, np.float32(0.5)), lax.tanh, lambda x: lax.add(x, before)
        before, x = x, kinds[i % 4](x)
    return x.sum()
"""
PROJECT = """
[tool.jaxprtool.snapshot]
directory = "jaxprs"
[tool.jaxprtool.snapshot.programs]
loss = { function = "model.py:loss", shapes = ["f32[3]"], verbs = ["grad"], frontend = "lax" }
"""


def written(verb: str, n: int, folder: Path) -> list[str]:
    """Write what the verb is measured on; returns the words that name it."""
    file, other = folder / f"{n}.jaxpr", folder / f"other{n}.jaxpr"
    if verb == "snapshot":
        project = folder / f"project{n}"
        project.mkdir()
        (project / "model.py").write_text(FUNCTION.format(n=n))
        (project / "pyproject.toml").write_text(PROJECT)
        return [*VERBS[verb], "--project", str(project)]
    file.write_text(chain(n, "log -1.0:f32[]") if verb.startswith("reduce") else chain(n))
    other.write_text(chain(n).replace("0.5:f32[]", "0.25:f32[]", 1))
    return [str(file), *(str(other) if word == "{}" else word for word in VERBS[verb])]


def peak(verb: str, n: int, folder: Path) -> int:
    """The most memory that the verb has had on a program of n equations, in bytes."""
    words = [sys.executable, "-c", STARTER, *verb.split(), *written(verb, n, folder)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == (verb.split()[0] in ANSWERS_NO), done.stderr
    return int(done.stdout) << (0 if sys.platform == "darwin" else 10)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_hundred_thousand_equations_take_less_than_a_gigabyte(verb, tmp_path):
    begin, measured = FROM.get(verb, 100), SLOW.get(verb, MEASURED)
    small = large = 1 << 62
    for n in range(TRIES):
        folder = tmp_path / str(n)
        folder.mkdir()
        small, large = (
            min(small, peak(verb, begin, folder)),
            min(large, peak(verb, measured, folder)),
        )
        # Where it starts, and what each equation adds.
        expected = small + (large - small) * OF // (measured - begin)
        if small < large and expected < LIMIT:
            return
    assert large > small, "the peak is not that of the work"
    raise AssertionError(f"{expected >> 20} MB")


def test_each_verb_is_measured_or_has_a_reason():
    known = {verb.split()[0] for verb in VERBS} | NOT_MEASURED.keys()
    assert known == ALL.keys()

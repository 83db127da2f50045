"""Where JAX or jaxlib is missing or broken, everything works that needs neither, and the rest says what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.invoke import VERBS

ROOT = Path(__file__).parent.parent

PROGRAM = """{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] = mul a b
    d:f32[3] = sin c
    e:f32[] = reduce_sum[axes=(0,) out_sharding=None] d
  in (e,) }
"""
FUNCTION = "def f(x):\n    return x * x + 1\n"

KEPT = """[tool.jaxprtool.snapshot.programs]
f = { function = "f.py:f", shapes = ["f32[3]"] }
"""
# What each verb is asked, and whether it needs JAX or jaxlib for it.
ASKED = {
    "run": ("run FILE --args ramp ones", False),
    "run --jit": ("run FILE --jit --args ramp ones", True),
    "run --through jax": ("run FILE --through jax --args ramp ones", True),
    "run --platform": ("run FILE --jit --platform cpu --args ramp ones", True),
    "compile": ("compile FILE", True),
    "trace": ("trace f.py:f --shape f32[3]", False),
    "explain": ("explain key-reuse", False),
    "trace --frontend jax": ("trace f.py:f --shape f32[3] --frontend jax", True),
    "assert": ("assert FILE count(_)>=0", False),
    "grep": ("grep _ FILE", False),
    "diff": ("diff FILE FILE", False),
    "compare": ("compare FILE FILE --args ramp ones", False),
    "equiv": ("equiv FILE FILE", False),
    "gradcheck": ("gradcheck FILE --args ramp ones", False),
    "precision": ("precision FILE --args ramp ones", False),
    "bench": ("bench --seconds 0 FILE --args ramp ones", False),
    "bench --backends": ("bench --backends xla FILE --args ramp ones", True),
    "profile": ("profile --seconds 0 FILE --args ramp ones", False),
    "profile --backend": ("profile --backend xla FILE --args ramp ones", True),
    "blame": ("blame FILE --args ramp ones", False),
    "reduce": ("reduce --slow 0 FILE --args ramp ones", False),
    "repro": ("repro FILE --args ramp ones -- run", False),
    "fuzz": ("fuzz -n 3", False),
    "fuzz --check": ("fuzz --check numpy,vmap -n 3", False),
    "fuzz --check jax": ("fuzz --check jvp -n 3", True),
    "fuzz --check xla": ("fuzz --check xla -n 3", True),
    "compare --backends": ("compare FILE --args ramp ones", True),
    "upgrade": ("upgrade FILE", False),
    "retraces": ("retraces FILE", False),
    "triage": ("triage FILE FILE", True),
    "snapshot": ("snapshot record", False),
    "git-setup": ("git-setup text FILE", False),
    "vmap": ("vmap --in-axes 0,- FILE", False),
    "partial-eval": ("partial-eval --known 1 FILE", False),
    "transpose": ("transpose --linear 0 linear.jaxpr", False),
}
PLAIN = (
    *("check", "fmt", "jvp", "linearize", "vjp", "grad", "discharge", "lower", "opt", "hash"),
    *("stats", "cost", "residuals", "lint"),
)
ASKED.update({verb: (f"{verb} FILE", False) for verb in PLAIN})

# An installation without JAX, one with JAX and no jaxlib, and one whose JAX fails while it is imported.
BLOCKED = {
    "missing": """
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
""",
    "no jaxlib": """
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "jaxlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
""",
    "broken": """
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib"):
            raise RuntimeError("jaxlib version 0.1 is older than jax needs")
""",
}
RUN = """
import json, sys
sys.meta_path.insert(0, Block())
from tests.invoke import invoke
for line in sys.stdin:
    print(json.dumps(invoke(line.strip())))
"""


@pytest.fixture(scope="module", params=BLOCKED)
def answers(request, tmp_path_factory):
    """What each command of `ASKED` answers, in a process that cannot import JAX or jaxlib: (status, output, error)."""
    folder = tmp_path_factory.mktemp("without")
    (folder / "p.jaxpr").write_text(PROGRAM)
    linear = "{ lambda ; a:f32[3]. let b:f32[3] = neg a in (b,) }"
    (folder / "linear.jaxpr").write_text(linear)
    (folder / "f.py").write_text(FUNCTION)
    (folder / "pyproject.toml").write_text(KEPT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    run = subprocess.run(
        [sys.executable, "-c", BLOCKED[request.param] + RUN],
        input="\n".join(line.replace("FILE", "p.jaxpr") for line, _ in ASKED.values()),
        capture_output=True,
        text=True,
        cwd=folder,
        env=env,
    )
    assert run.returncode == 0, run.stderr
    return dict(zip(ASKED, map(json.loads, run.stdout.splitlines()), strict=True))


def test_every_verb_is_asked():
    assert {line.split()[0] for line, _ in ASKED.values()} == set(VERBS)


@pytest.mark.parametrize("name", [n for n, (_, needs) in ASKED.items() if not needs])
def test_what_needs_neither_works(answers, name):
    status, output, error = answers[name]
    assert status == 0, error
    assert output or name == "check" or name == "diff"


@pytest.mark.parametrize("name", [n for n, (_, needs) in ASKED.items() if needs])
def test_what_needs_one_says_so_and_how_to_get_it(answers, name):
    status, _, error = answers[name]
    assert status == 2, error
    assert "jax" in error.lower() and "pip install" in error

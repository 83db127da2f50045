"""Plug-ins that a program's own primitives bring in: entry points of the group `jaxprtool.plugins`."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jaxprtool.driver.user_code.entry_points import BUILT_IN, GROUP

ROOT = Path(__file__).parent.parent.parent

DOUBLED = """
import jaxprtool as jt
from jaxprtool import lax

@jt.primitive
def doubled(x):
    '''2 x.'''

jt.define(
    doubled,
    abstract_eval=lambda x: x,
    impl=lambda np, x: np.add(x, x),
    jvp=lambda primals, tangents: (doubled(*primals), doubled(jt.instantiate(tangents[0]))),
    transpose=lambda ct, x: [doubled(ct)],
)
"""
POINTS = """
[jaxprtool.plugins]
doubled = doubled_plugin
{more}
[console_scripts]
other = other:main
"""
PROGRAM = "{ lambda ; a:f32[2]. let b:f32[2] = NAME a in (b,) }\n"


@pytest.fixture
def site(tmp_path: Path):
    """Makes a folder with an installed distribution; takes modules by name, and further lines of its entry points."""

    def make(more: str = "", **modules: str) -> Path:
        info = tmp_path / "a_library-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-library\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(POINTS.format(more=more))
        for name, source in {"doubled_plugin": DOUBLED, **modules}.items():
            (tmp_path / f"{name}.py").write_text(source)
        return tmp_path

    return make


def python(site: Path, *args: str, text: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), str(ROOT), *filter(None, sys.path[1:])])
    return subprocess.run(
        [sys.executable, *args],
        input=text,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def run(site: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return python(site, "-m", "jaxprtool", *words, text=PROGRAM.replace("NAME", name))


def test_the_table_of_what_is_built_in_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = project["entry-points"][GROUP]
    assert said == {name: module for module, names in BUILT_IN.items() for name in names}


DECLARED = """
import importlib
from jaxprtool.driver.user_code.entry_points import BUILT_IN

for module, names in BUILT_IN.items():
    ops = vars(importlib.import_module(module)).values()
    ops = [op for op in ops if getattr(op, "__module__", None) == module and hasattr(op, "primitive")]
    print(*{op.primitive.name for op in ops} - {*names})
"""


def test_what_a_plugin_declares_is_in_the_table(site) -> None:
    """Else a program that holds nothing else of the plug-in does not bring it."""
    found = python(site, "-c", DECLARED)
    assert not found.stdout.split() and found.stdout.count("\n") == len(BUILT_IN), found


def test_a_program_brings_the_plugin_of_its_primitive(site) -> None:
    home = site("never = never_plugin", never_plugin="raise SystemExit('imported')")
    done = run(home, "doubled", "run", "-", "--args", "[1,2]")
    assert (done.stdout, done.stderr, done.returncode) == ("f32[2] [2., 4.]\n", "", 0)
    for words in (["check"], ["jvp", "-"], ["vjp", "-"]):
        done = run(home, "doubled", *words)
        assert (done.stderr, done.returncode) == ("", 0)


def test_one_that_fails_is_a_warning_and_the_primitive_stays_unknown(site) -> None:
    home = site("tripled = broken_plugin", broken_plugin="1 / 0")
    done = run(home, "tripled", "check")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "broken_plugin" in done.stderr and "ZeroDivisionError" in done.stderr
    assert "unknown primitive tripled" in done.stderr
    done = run(home, "tripled", "fmt", "-")
    assert "tripled a" in done.stdout and done.returncode == 0


@pytest.mark.parametrize(
    "point, why",
    [
        ("doubled_plugin", "does not declare"),
        ("no_such_module", "ModuleNotFoundError"),
        ("doubled_plugin:thing", "has to name the module"),
    ],
)
def test_an_entry_point_that_is_wrong_is_a_warning(site, point: str, why: str) -> None:
    done = run(site(f"tripled = {point}"), "tripled", "check")
    assert why in done.stderr and "Traceback" not in done.stderr


def test_what_a_library_brings_comes_before_what_is_built_in(site) -> None:
    source = DOUBLED.replace("doubled", "unvmap_max")
    home = site("unvmap_max = its_own", its_own=source)
    done = run(home, "unvmap_max", "run", "-", "--args", "[1,2]")
    assert done.stdout == "f32[2] [2., 4.]\n"


def test_a_declaration_of_the_users_own_is_the_one_that_counts(site) -> None:
    """Made before others of the plug-in are needed, or after them; nothing of it is declared twice."""
    code = """
import jaxprtool as jt
from jaxprtool.core.primitive import find_primitive

def text(name): return "{ lambda ; a:bool[]. let b:bool[] = NAME a in (b,) }".replace("NAME", name)

@jt.primitive
def unvmap_any(x): '''Another one.'''

assert jt.parse(text("unvmap_all")).jaxpr.eqns[0].primitive.known
assert jt.parse(text("unvmap_any")).jaxpr.eqns[0].primitive is unvmap_any.primitive

@jt.primitive
def unvmap_all(x): '''Another one.'''
assert jt.parse(text("unvmap_all")).jaxpr.eqns[0].primitive is unvmap_all.primitive
"""
    done = python(site(), "-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr


def test_installed_plugins_are_looked_for_only_when_a_primitive_is_unknown(site) -> None:
    code = """
import sys, jaxprtool as jt
for text in sys.argv[1:]:
    jt.typecheck_jaxpr(jt.parse(text))
print("jaxprtool.driver.user_code.entry_points" in sys.modules)
"""
    known = PROGRAM.replace("NAME", "sin")
    old = "{ lambda ; a:f32[2]. let b:f32[2] = xla_call[call_jaxpr={ lambda ; c:f32[2]. let d:f32[2] = sin c in (d,) } name=f] a in (b,) }"
    home = site()
    assert python(home, "-c", code, known, old).stdout == "False\n"
    assert python(home, "-c", code, PROGRAM.replace("NAME", "doubled")).stdout == "True\n"

"""What is installed: the wheel holds the grammar and its tables, and an editable install finds them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jaxprtool.syntax import tables

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def members(tmp_path_factory) -> set[str]:
    """Names of the files in a wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as z:
        return set(z.namelist())


def test_the_wheel_holds_the_grammars_and_the_tables(members: set[str]) -> None:
    grammars = {f"jaxprtool/grammar/{name}.lark" for name in ("jaxpr", "reader", "assert")}
    assert {*grammars, "jaxprtool/syntax/tables.json"} <= members


def test_the_wheel_holds_every_module_and_no_tests(members: set[str]) -> None:
    modules = {str(p.relative_to(ROOT)) for p in (ROOT / "jaxprtool").rglob("*.py")}
    assert modules <= members
    assert not any(name.startswith(("tests/", "examples/")) for name in members)


def test_an_editable_install_finds_the_grammars() -> None:
    for name in ("jaxpr.lark", "reader.lark", "assert.lark"):
        assert "jaxprtool" in (tables.grammar_folder() / name).read_text()

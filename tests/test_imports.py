"""What the repository's own modules import from each other is there, inside of functions too, and its commands run."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OWN = ("jaxprtool", "tests", "grammar")


def missing(source: str, package: str = "tests") -> list[str]:
    """The names that a source imports from our modules and that are not there, with their lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            wanted = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            wanted = [(module, alias.name) for alias in node.names if alias.name != "*"]
        else:
            continue
        for module, name in wanted:
            if module.split(".")[0] in OWN and not _is_there(module, name):
                found.append(f"{node.lineno}: {module} {name or ''}".rstrip())
    return found


def _is_there(module: str, name: str | None) -> bool:
    try:
        held = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    if name is None or hasattr(held, name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("top", ["jaxprtool", "tests"])
def test_what_is_imported_is_there(top: str) -> None:
    found = {}
    for path in sorted((ROOT / top).rglob("*.py")):
        package = ".".join(path.parent.relative_to(ROOT).parts)
        if faults := missing(path.read_text(), package):
            found[str(path)] = faults
    assert found == {}


def test_the_check_can_fail() -> None:
    assert missing("def f():\n    from tests.timing import no_such_thing") == [
        "2: tests.timing no_such_thing"
    ]
    assert missing("import tests.no_such_module") == ["1: tests.no_such_module"]
    assert missing("from . import no_such_module") == ["1: tests no_such_module"]
    assert not missing("import numpy\nfrom jaxprtool.ir import jaxpr\nfrom .timing import *")


@pytest.mark.parametrize(
    "command",
    [
        "tests.conformance --only ^sin_shape_float32",
        "tests.bench --only text --layers 1 --runs 1",
        "tests.fuzz --only grammar --seconds 1 --seed 1",
        "jaxprtool.rules --primitive sin",
    ],
)
def test_a_command_runs(command: str) -> None:
    words = [sys.executable, "-m", *command.split()]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in run.stderr and run.stdout, run.stderr
    assert run.returncode == 0 or "OVER" in run.stdout, run.stderr

"""The files that others copy or use as they are: hooks for pre-commit, and the workflow."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.invoke import VERBS, command, invoke

ROOT = Path(__file__).parent.parent
HOOKS = (ROOT / ".pre-commit-hooks.yaml").read_text()
WORKFLOW = (ROOT / "examples/ci/github.yml").read_text()
ENTRIES = re.findall(r"^  entry: jaxprtool (.*)$", HOOKS, re.MULTILINE)


def test_the_hooks_are_complete():
    assert re.findall(r"^- id: (.*)$", HOOKS, re.MULTILINE) == [
        f"jaxprtool-{line.split()[0]}" for line in ENTRIES
    ]
    for key in ("name", "description", "entry", "language", "files"):
        assert len(re.findall(rf"^  {key}: ", HOOKS, re.MULTILINE)) == len(ENTRIES) == 3
    assert [line.split()[0] for line in ENTRIES] == ["fmt", "check", "lint"]


@pytest.mark.parametrize("line", [e for e in ENTRIES if e.split()[0] in VERBS])
def test_a_hook_takes_several_files(line, tmp_path):
    paths = [ROOT / "examples" / f"{name}.jaxpr" for name in ("mlp", "square")]
    copies = [shutil.copy(p, tmp_path / p.name) for p in paths]
    done = invoke([*shlex.split(line), *map(str, copies)])
    assert done.status in (0, 1) and "Traceback" not in done.error
    assert [Path(c).read_text() for c in copies] == [p.read_text() for p in paths], "laid out"
    bad = tmp_path / "bad.jaxpr"
    bad.write_text("{ lambda ; a:f32[3]. let b:f32[4] = sin a in (b,)")
    assert invoke([*shlex.split(line), str(bad)]).status in (1, 2)


def test_the_commands_of_the_workflow_are_such():
    lines = [*re.findall(r"(?:^|run: | {2})(jaxprtool [a-z-]+ [^`|\n]*)", WORKFLOW, re.MULTILINE)]
    assert len(lines) >= 5
    for line in lines:
        _, verb, *words = shlex.split(line)
        options = {o for p in command(verb).params for o in p.opts}
        assert {w for w in words if w.startswith("--")} <= options, line
    assert "\t" not in WORKFLOW and "\t" not in HOOKS

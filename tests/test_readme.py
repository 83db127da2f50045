"""What the README says is so: its commands run, and print what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jaxprtool.cli.main import VERBS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL)


def shell(command: str, folder: Path, statuses: tuple[int, ...] = (0,)) -> str:
    """Run a command line; the examples and the tool are at hand."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in statuses, done.stderr
    return done.stdout


def test_the_session_at_the_top(tmp_path: Path) -> None:
    session, _, _ = blocks("console")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command, shown in steps(session):
        assert shell(command, tmp_path) == shown


def steps(session: str) -> list[tuple[str, str]]:
    """The commands of a session, and what each prints."""
    found = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (s.partition("\n") for s in found)]


def without_digits(text: str) -> str:
    """A text with all decimal numbers alike: their last digits are the machine's."""
    return re.sub(r"-?\d+(?:\.\d+(?:e-?\d+)?|e-?\d+)", "#", text)


def test_the_hunt(tmp_path: Path) -> None:
    _, session, _ = blocks("console")
    shutil.copytree(ROOT / "examples" / "faults", tmp_path / "examples" / "faults")
    for command, shown in steps(session):
        assert without_digits(shell(f"{command} 2>&1", tmp_path, (0, 1))) == without_digits(shown)


def test_the_guards(tmp_path: Path) -> None:
    *_, session = blocks("console")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command, shown in steps(session):
        assert shell(f"{command} 2>&1", tmp_path, (0, 1)) == shown


def after(mark: str) -> str:
    """The first block of shell commands after a text."""
    found = re.search(r"```sh\n(.*?)```", README[README.index(mark) :], re.DOTALL)
    assert found
    return found[1].strip()


EXAMPLES = [part for part in re.split(r"\n\n", after("### Examples")) if "jaxprtool" in part]


def test_the_commands_find_the_tool_that_was_installed(tmp_path: Path) -> None:
    """After the first command and the line below it, what follows works as it stands."""
    tool = tmp_path / ".venv" / "bin" / "jaxprtool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    assert shell(f"{after('That installs')}\njaxprtool", tmp_path) == "found\n"


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda c: c.splitlines()[0].lstrip("# ")[:40])
def test_the_examples(command: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert shell(command, tmp_path)


def test_the_python_block(tmp_path: Path) -> None:
    code = "\n".join(blocks("python"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "example.py").write_text(code)
    assert "(f32[3]) -> (f32[])" in shell("python example.py", tmp_path)


def test_two_commands_set_everything_up() -> None:
    demo, tests = after("<!-- demo command -->"), after("<!-- test command -->")
    for command in (demo, tests):
        assert "\n" not in command
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install")
    assert "pytest" in tests and "examples/" in demo


def test_every_verb_is_in_the_readme() -> None:
    table = README[README.index("## The verbs") : README.index("### Examples")]
    assert [verb for verb in VERBS if f"`{verb}" not in table] == []

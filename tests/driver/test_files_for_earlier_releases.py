"""Example files, written for releases before theirs, are taken by the other verbs."""

from __future__ import annotations

from pathlib import Path

import pytest

import jaxprtool as jt
from tests.invoke import invoke
from tests.programs.catalogue import EXAMPLES as FOLDER

# The other example files hold a primitive of a plug-in.
FILES = [p for p in sorted(FOLDER.glob("**/*.jaxpr")) if p.stem != "multiply_add"]
DIALECTS = ("jax-0.1.75", "jax-0.2.5", "jax-0.2.26", "jax-0.3.25", "jax-0.4.13")


def written_for(path: Path, dialect: str, to: Path) -> bool:
    """Write a file for a release; return whether that release has words for it."""
    done = invoke(["fmt", "--dialect", dialect, str(path), "-o", str(to)])
    if done.status:
        errors = [line for line in done.error.splitlines() if ": error: " in line]
        assert done.status == 1 or done.status == 2, done.error
        assert errors and all("[not-in-dialect]" in line for line in errors), done.error
    return not done.status


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_verbs_take_what_is_written(path: Path, dialect: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old.jaxpr", tmp_path / "new.jaxpr"
    if not written_for(path, dialect, old):
        return
    assert invoke(["check", str(old)]).status == 0
    assert invoke(["fmt", "--check", str(old)]).status == 0
    done = invoke(["upgrade", str(old), "-o", str(new)])
    assert done.status == 0, done.error
    done = invoke(["diff", str(old), str(new)])
    assert done.status == 0, done.output
    for program in jt.parse_file(old.read_text()).values():
        assert str(program)  # as JAX prints it, without what only a lossless text has


@pytest.mark.parametrize("name", ["attention", "beam_search", "gru", "kmeans", "mlp"])
def test_values_stay(name: str, tmp_path: Path) -> None:
    old = tmp_path / "old.jaxpr"
    assert written_for(FOLDER / f"{name}.jaxpr", "jax-0.4.13", old)
    found = invoke(
        ["compare", str(FOLDER / f"{name}.jaxpr"), str(old), "--args", "random:0", "--rtol", "1e-5"]
    )
    assert found.status == 0, found.output

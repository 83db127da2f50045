"""Runs the tests that depend on JAX with several releases of JAX, each in its own virtual
environment.

    python -m tests.matrix [--short] [--optional] [--cache FOLDER] [--jax VERSION ...] [--python PATH ...]

An environment is made when it is missing, below the cache folder, with the newest Python of this machine that the release
can be installed for; later calls use it again. The table has a row for each release, with the counts of each part; below it
stand the tests that failed.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent

NEWEST = "newest"
RELEASES = ("0.8.0", "0.8.3", "0.9.2", "0.10.2", "0.11.2", NEWEST)
# The Pythons that a series was published for: (oldest, newest), as minor versions.
PYTHONS = {"0.8": (11, 14), "0.9": (11, 14), "0.10": (11, 14), "0.11": (12, 14), "0.12": (12, 14)}
PACKAGES = (
    "absl-py", "click", "hypothesis", "lark", "ml_dtypes", "numpy", "optree", "pytest", "pytest-xdist", "rich", "scipy",
)  # fmt: skip

PARTS = {
    "front ends": ["tests/frontends"],
    "bridge": ["tests/laws/test_jax_bridge.py"],
    "lowering": ["tests/backends"],
    "conformance": ["tests/conformance"],
    "programs": ["tests/programs", "tests/zoo"],
    "text": ["tests/syntax"],
}
SHORT = {
    "front ends": ["tests/frontends/test_releases.py", "tests/frontends/test_jax_bridge.py"],
    "lowering": ["tests/backends/test_xla.py"],
}


@dataclass
class Outcome:
    """The outcome of one part: pytest's counts, the end of its output where there are no counts,
    and the failed tests.
    """

    counts: dict[str, int] = field(default_factory=dict)
    problem: str = ""
    failed: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return bool(self.counts) and not (self.counts.keys() & {"failed", "error", "errors"})

    def __str__(self) -> str:
        if not self.counts:
            return self.problem or "nothing"
        passed = f"{self.counts.get('passed', 0)} passed"
        bad = sum(self.counts.get(word, 0) for word in ("failed", "error", "errors"))
        return f"{passed}, {bad} failed" if bad else passed


def minor(python: str) -> int:
    """The minor version of an interpreter of Python 3; 0 where it does not run."""
    code = "import sys; print(sys.version_info[1] * (sys.version_info[0] == 3))"
    try:
        run = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return int(run.stdout) if run.returncode == 0 else 0


def pythons() -> dict[int, str]:
    """The interpreters on this machine from 3.11 on, by minor version: those on the path, pyenv's, and this one."""
    found = {sys.version_info[1]: sys.executable}
    on_path = [shutil.which(f"python3.{n}") for n in range(11, 15)]
    root = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    for candidate in [*on_path, *sorted(glob.glob(f"{root}/versions/*/bin/python3"))]:
        number = minor(candidate) if candidate else 0
        if candidate and number >= 11:
            found.setdefault(number, candidate)
    return found


def chosen(release: str, available: dict[int, str]) -> str | None:
    """The newest interpreter that a release can be installed for; None where there is none."""
    series = ".".join(release.split(".")[:2])
    oldest, newest = PYTHONS.get(series, (12, 14))
    fit = [n for n in available if oldest <= n <= newest]
    return available[max(fit)] if fit else None


def environment(release: str, python: str, cache: Path) -> Path:
    """The interpreter of the environment with a release of JAX, which is made where it is missing.

    Raises:
      subprocess.CalledProcessError: it cannot be made.
    """
    folder = cache / f"jax-{release}-py3.{minor(python)}"
    inside = folder / "bin" / "python"
    if (folder / "complete").exists():
        return inside
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True, capture_output=True)
    wanted = "jax" if release == NEWEST else f"jax=={release}"
    install = [str(inside), "-m", "pip", "install", "-q", wanted, *PACKAGES]
    subprocess.run(install, check=True, capture_output=True)
    (folder / "complete").touch()
    return inside


def counts(text: str) -> dict[str, int]:
    """The counts in the last line of pytest's that has any: `3 failed, 20 passed in 1.2s`."""
    for line in reversed(text.splitlines()):
        found = re.findall(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed)\b", line)
        if found:
            return {word: int(n) for n, word in found}
    return {}


def outcome(python: Path, tests: Sequence[str]) -> Outcome:
    """Run some tests with an interpreter."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    command = [str(python), "-m", "pytest", "-n", "auto", "-p", "no:cacheprovider", *tests]
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    found = counts(run.stdout)
    lines = (run.stdout + run.stderr).strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    if found:
        return Outcome(found, failed=failed)
    return Outcome(problem=lines[-1] if lines else f"status {run.returncode}", failed=failed)


def table(rows: dict[str, dict[str, Outcome]], parts: Sequence[str]) -> str:
    """Return the outcomes as a table."""
    cells = [["jax", *parts]]
    cells += [[name, *(str(found.get(p, "")) for p in parts)] for name, found in rows.items()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = (map(str.ljust, row, widths) for row in cells)
    return "\n".join("  ".join(row).rstrip() for row in padded)


def installed(python: Path) -> str:
    """The version of JAX in an environment."""
    code = "from importlib.metadata import version; print(version('jax'))"
    return subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    default = Path(tempfile.gettempdir()) / "jaxprtool-matrix"
    parser.add_argument("--cache", type=Path, default=default, help="where the environments are")
    parser.add_argument("--short", action="store_true", help="the bridge and XLA alone")
    parser.add_argument("--jax", nargs="+", default=list(RELEASES), help="releases of JAX")
    parser.add_argument(
        "--python", nargs="+", default=[], help="interpreters, instead of all found"
    )
    parser.add_argument(
        "--optional", action="store_true", help="do nothing where this Python is the only one"
    )
    asked = parser.parse_args(argv)
    available = {minor(p): p for p in asked.python} if asked.python else pythons()
    if asked.optional and len(available) < 2:
        print("there is no second Python on this machine")
        return 0
    parts, rows = SHORT if asked.short else PARTS, {}
    for release in asked.jax:
        python = chosen(release, available)
        if python is None:
            print(f"{release}: no Python of this machine fits", file=sys.stderr)
            continue
        try:
            inside = environment(release, python, asked.cache.absolute())
        except subprocess.CalledProcessError as e:
            problem = (e.stderr or b"").decode(errors="replace").strip().splitlines()
            rows[release] = dict.fromkeys(parts, Outcome(problem="not installed"))
            print(f"{release}: {problem[-1] if problem else e}", file=sys.stderr)
            continue
        name = f"{installed(inside)} py3.{minor(str(inside))}"
        rows[name] = {part: outcome(inside, tests) for part, tests in parts.items()}
    print(table(rows, list(parts)))
    for name, row in rows.items():
        for line in (line for found in row.values() for line in found.failed):
            print(f"{name}: {line}")
    return 0 if all(o.is_good for row in rows.values() for o in row.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

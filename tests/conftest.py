"""Options of the test run, which tests run, and what a test leaves as it was.

`pytest` alone runs a sample that takes a few minutes: of each test its first case and one in forty of
the others, and no test that is marked `slow`. `pytest --one-in N` runs one in N of them, and the slow
tests; `pytest --all` runs everything; so does a run that names files, tests, a keyword or a marker, of
what it names. Which cases a sample takes changes with each commit.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

import pytest

from jaxprtool.core.verification import set_verify

# On two cores XLA has two threads, and LAPACK calls that run side by side (a QR decomposition for each of
# several derivatives, say) can wait for one another for ever, in JAX's own programs too.
os.environ.setdefault("PJRT_NPROC", "8")
set_verify(True)
FEW = 40


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-cases",
        action="store_true",
        help="rewrite what the files in tests/cases expect by what is printed now",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files in tests/golden by what is printed now",
    )
    parser.addoption(
        "--one-in",
        type=int,
        metavar="N",
        help="run one in N cases of each test, and slow tests too",
    )
    parser.addoption(
        "--all", action="store_true", help="run every case of every test, not a sample"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Decide once whether a sample runs. Workers of xdist get `option`, but not the source of the
    arguments.

    Tests run in the folder of the project, wherever pytest was started: they name files as `examples/mlp.py`.
    """
    os.chdir(config.rootpath)
    option = config.option
    if not hasattr(option, "sample"):
        whole_suite = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        of_part = option.keyword or option.markexpr or not whole_suite
        option.slow = bool(option.one_in or option.all or of_part)
        option.sample = 1 if option.all or of_part else option.one_in or FEW
        option.turn = _turn(config.rootpath)


def _turn(root: os.PathLike[str]) -> int:
    """Return a number that is the same wherever the files of a commit are the same; 0 outside of git."""
    command = ["git", "rev-parse", "HEAD^{tree}"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        tree = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
        return int(tree.stdout[:8], 16)
    return 0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    option, cases = config.option, defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if option.slow or item.get_closest_marker("slow") is None:
            cases[item.nodeid.split("[")[0]].append(item)
    kept = {item for some in cases.values() for item in _spread(some, option.sample, option.turn)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _spread(cases: list[pytest.Item], n: int, turn: int) -> list[pytest.Item]:
    """Return the first case and one in n of the others, which ones in turn."""
    return cases[:1] + cases[1 + turn % n :: n]


@pytest.fixture(autouse=True)
def _same_process() -> Iterator[None]:
    """Modules that a program is read from put their folder on the path; the next test starts without."""
    path, environ = list(sys.path), dict(os.environ)
    yield
    sys.path[:] = path
    for name in {*environ, *os.environ} - {"PYTEST_CURRENT_TEST"}:
        if name not in environ:
            del os.environ[name]
        elif os.environ.get(name) != environ[name]:
            os.environ[name] = environ[name]

"""Options of the test run, and which tests run without them.

`pytest` alone runs a sample that takes a few minutes: of each test its first case and one in forty of
the others, and no test that is marked `slow`. `pytest --all` runs everything; so does a run that names
files, tests, a keyword or a marker, of what it names.
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

from jaxprtool.core.verification import set_verify

# On two cores XLA has two threads, and LAPACK calls that run side by side (a QR decomposition for each of
# several derivatives, say) can wait for one another for ever, in JAX's own programs too.
os.environ.setdefault("PJRT_NPROC", "8")
set_verify(True)


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
        option.sample = whole_suite and not (option.all or option.keyword or option.markexpr)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.sample:
        return
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            cases[item.nodeid.split("[")[0]].append(item)
    kept = {item for of_one in cases.values() for item in _spread(of_one)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _spread(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first case and every fortieth of the others, so that each run takes the same
    ones.
    """
    count = 1 + (len(cases) - 1) // 40
    return [cases[i * len(cases) // count] for i in range(count)]

"""The plug-in for pytest: the fixture `jaxpr_snapshot`, tests from case files, and diffs of
programs in failures.

    def test_loss(jaxpr_snapshot):
        jaxpr_snapshot(loss, params, batch)  # the snapshot is jaxprs/test_loss.test_loss.jaxpr

`pytest --update-jaxprs` writes the snapshots, and the expected output of case files. Options of the
configuration:

    [tool.pytest.ini_options]
    jaxpr_directory = "jaxprs"            # the folder of the snapshots, beside the file of the test
    jaxpr_cases = ["tests/cases"]         # folders, files or patterns of `.jaxpr` files with `# run:` lines; none by default

The rest of the package is imported only when a test needs it, so that the plug-in does not slow
down other tests. `assert_jaxpr` and `assert_jaxpr_equal` are in `jaxprtool.testing`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jaxprtool.testing.cases import Ran
    from jaxprtool.testing.snapshots import JaxprSnapshot

__all__ = ["CaseFailure", "CaseFile", "CaseItem", "jaxpr_snapshot"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--update-jaxprs` and the options of the configuration."""
    group = parser.getgroup("jaxprtool")
    group.addoption(
        "--update-jaxprs",
        action="store_true",
        help="write the programs that jaxpr_snapshot keeps, and what case files expect",
    )
    parser.addini("jaxpr_directory", "folder of what jaxpr_snapshot keeps", default="jaxprs")
    parser.addini("jaxpr_cases", "folders of .jaxpr files with `# run:` lines", "args", [])


@pytest.fixture
def jaxpr_snapshot(request: pytest.FixtureRequest) -> JaxprSnapshot:
    """Compares programs with their snapshots: `jaxpr_snapshot(f, *args)`; see `JaxprSnapshot`."""
    config, path = request.config, request.path
    module: Any = import_module("jaxprtool.testing.snapshots")
    folder = path.parent / str(config.getini("jaxpr_directory"))
    scope = request.cls.__name__ + "." if request.cls else ""
    name = module.file_name(f"{path.stem}.{scope}{request.node.name}")
    return module.JaxprSnapshot(str(folder), name, updates=config.getoption("--update-jaxprs"))


# -- case files ---------------------------------------------------------------------------------------


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CaseFile | None:
    """Collect a file as a case file where `jaxpr_cases` names it."""
    patterns = parent.config.getini("jaxpr_cases")
    if not patterns or file_path.suffix != ".jaxpr":
        return None
    root = parent.config.rootpath
    if not any(_is_meant(file_path, root / pattern) for pattern in patterns):
        return None
    with file_path.open("rb") as f:
        is_case = f.readline().startswith(b"# run: ")
    return CaseFile.from_parent(parent, path=file_path) if is_case else None


def _is_meant(path: Path, pattern: Path) -> bool:
    return pattern in (path, *path.parents) or fnmatch(str(path), str(pattern))


class CaseFile(pytest.File):
    """A case file; it has one test."""

    def collect(self) -> Iterator[CaseItem]:
        """Return its one test."""
        yield CaseItem.from_parent(self, name=self.path.stem)


class CaseFailure(Exception):
    """The output of a command differs from the one that its case file expects.

    Attributes:
      ran: the result of running the case file.
    """

    def __init__(self, ran: Ran):
        super().__init__("a case file")
        self.ran = ran


class CaseItem(pytest.Item):
    """The test of a case file: its command prints the expected output."""

    def runtest(self) -> None:
        """Run the command; with `--update-jaxprs`, write its output into the file as the expected
        one.
        """
        cases: Any = import_module("jaxprtool.testing.cases")
        ran = cases.run_case(self.path)
        if self.config.getoption("--update-jaxprs") and ran.status != 3:
            if ran.expected != ran.printed:
                self.path.write_text(ran.given + ran.printed, encoding="utf-8")
        elif ran.expected != ran.printed or ran.status == 3:
            raise CaseFailure(ran)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the command, and the diff of expected and actual output."""
        if not isinstance(excinfo.value, CaseFailure):
            return super().repr_failure(excinfo, style)
        ran = excinfo.value.ran
        first = ran.given.partition("\n")[0].removeprefix("# run: ")
        lines = [f"jaxprtool {first}", *ran.difference()]
        if not ran.expected:
            lines.append("the file does not say what is expected")
        return "\n".join([*lines, "pytest --update-jaxprs accepts what is printed"])

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the path of the test, its line, and its name."""
        return self.path, 0, f"{self.path.parent.name}/{self.name}"


# -- failures -----------------------------------------------------------------------------------------


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Return the diff of two programs for a failed `assert a == b`."""
    jaxpr: Any = sys.modules.get("jaxprtool.ir.jaxpr")
    if op != "==" or jaxpr is None:
        return None
    if not isinstance(left, jaxpr.ClosedJaxpr) or not isinstance(right, jaxpr.ClosedJaxpr):
        return None
    diff: Any = import_module("jaxprtool.driver.diff")
    found = diff.diff({"": left}, {"": right}, "left", "right")
    said = f"== compares objects, and assert_jaxpr_equal programs; these: {found.summary}"
    return [said, *found.lines]

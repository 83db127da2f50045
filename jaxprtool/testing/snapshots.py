"""The fixture `jaxpr_snapshot`: compares programs of tests with files beside the tests."""

from __future__ import annotations

import os
import re
from typing import Any

from jaxprtool.analyses.snapshot_answer import Recorded
from jaxprtool.driver.api.programs import as_program
from jaxprtool.driver.projects.changed import PRINTER
from jaxprtool.driver.snapshot import compared, keep_changed
from jaxprtool.interpreters.origins import without_origins
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail

__all__ = ["JaxprSnapshot", "file_name"]

_UNUSUAL = re.compile(r"[^\w.+=@-]+")


def file_name(test: str) -> str:
    """Return the name of the file of a test, without its ending: `test_loss-f32-3` for
    `test_loss[f32-3]`.
    """
    return _UNUSUAL.sub("-", test).strip("-")


class JaxprSnapshot:
    """Compares the programs of one test with its snapshot files.

    Attributes:
      folder: the folder of the files.
      test: the name of the test, as `file_name` returns it.
      updates: whether files that are missing or differ are written.
    """

    def __init__(self, folder: str, test: str, *, updates: bool):
        self.folder, self.test, self.updates = folder, test, updates
        self._names: set[str] = set()

    def __call__(
        self,
        program: Any,
        *args: Any,
        name: str = "",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> None:
        """Assert that a program equals its snapshot, up to names, layout and the release of JAX
        that printed it.

        Args:
          program: a program of JAX or of this package; or a function.
          args: the arguments of a function; only their types matter.
          name: the NAME of the file `test_loss.NAME.jaxpr`, where a test has several; by default
            `2`, `3` and so on.
          rtol, atol: the tolerances for constants; by default constants have to be equal.

        Raises:
          AssertionError: the program differs, or has no snapshot; `--update-jaxprs` writes it.
          UsageError: there is no such program, or the test has used the name before.
        """
        __tracebackhide__ = True
        made = {"": without_origins(as_program(program, *args))}
        file = os.path.relpath(os.path.join(self.folder, f"{self._next(name)}.jaxpr"))
        if self.updates:
            keep_changed(file, made)
            return
        try:
            found = compared(os.path.basename(file), file, made, rtol, atol)
        except JaxprToolError as e:
            raise e.with_traceback(None) from None  # the message says what is wrong with the file
        close = (rtol is not None or atol is not None) and found.kind.startswith("constants")
        if found.kind in ("unchanged", PRINTER) or close:
            return
        raise AssertionError("\n".join(_told(found)))

    def _next(self, name: str) -> str:
        if not name:
            n = len(self._names) + 1
            name = "" if n == 1 else str(n)
        if name in self._names:
            fail(UsageError, f"this test keeps two programs of the name {name!r}", "usage")
        self._names.add(name)
        return f"{self.test}.{file_name(name)}" if name else self.test


def _told(found: Recorded) -> list[str]:
    if found.kind == "missing":
        return [f"{found.file} is missing; pytest --update-jaxprs writes it"]
    said = found.describe()
    first = f"the program differs from {found.file}: {found.kind}{f'; {said}' if said else ''}"
    return [first, *found.lines, "pytest --update-jaxprs accepts it"]

"""Regression checks of programs as Python functions: snapshots, the stage at which two programs
differ, retraces in logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprtool.analyses.retraces_answer import Retraces
from jaxprtool.analyses.snapshot_answer import Snapshots
from jaxprtool.analyses.triage_answer import Triage
from jaxprtool.driver import retraces as logging
from jaxprtool.driver import snapshot as keeping
from jaxprtool.driver import triage as staging
from jaxprtool.driver.api.keywords import for_the_function
from jaxprtool.driver.api.programs import as_program, is_function
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["retraces", "snapshot", "triage"]

_ACTIONS = {"record": keeping.record, "check": keeping.check, "update": keeping.update}


def snapshot(action: str, folder: str = ".", names: Sequence[str] = ()) -> Snapshots:
    """Do as `jaxprtool snapshot` for the programs of a project.

    Args:
      action: `record`, `check` or `update`.
      folder: the folder of the project; its settings are in the `pyproject.toml` there or above.
      names: the names of the programs; () for all.

    Returns:
      An object with `rows` (name, file, kind, figures before and after, lines of a diff),
        `changed`, `extra` and `is_clean`; `str` of it is what `jaxprtool snapshot` prints.

    Raises:
      UsageError, JaxprParseError: as `driver.snapshot`.
    """
    if action not in _ACTIONS:
        fail(UsageError, f"{action!r} is none of {', '.join(_ACTIONS)}", "usage")
    return _ACTIONS[action](folder, names)


@for_the_function(programs=2)
def triage(a: Any, b: Any, *args: Any) -> Triage:
    """At which stage two programs begin to differ: jaxpr, StableHLO, optimised HLO or buffers.

    Args:
      a, b: programs, or functions of the same arguments; or two texts, the folders that two installations have written to.
      args: the arguments of those that are functions.

    Returns:
      An object with `programs` (each with `stages`, the `first` that differs and a `verdict`) and `is_same`.

    Raises:
      JaxprTypeError, UsageError: as `driver.triage`.
    """
    if isinstance(a, str) and isinstance(b, str):
        return staging.triage_folders(a, b)
    one, other = (as_program(x, *(args if is_function(x) else ())) for x in (a, b))
    return staging.triage(one, other)


def retraces(*logs: str, by: str = "site", top: int = 20) -> Retraces:
    """Return why JAX traced functions again, from the texts of logs; see `driver.retraces`.

    Returns:
      An object with `misses`, `groups`, `reasons` and the number of `retraces`; `str` of it is what
        `jaxprtool retraces` prints.
    """
    return logging.retraces(logs, by=by, top=top)

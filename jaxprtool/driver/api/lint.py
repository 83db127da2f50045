"""`jt.lint` and `jt.explain`, and the names for writing lint rules of one's own.

See `driver.api.programs`.
"""

from __future__ import annotations

from typing import Any

from jaxprtool.driver import explain as explaining
from jaxprtool.driver import lint as linting
from jaxprtool.driver.api.keywords import for_the_function
from jaxprtool.driver.api.programs import as_program
from jaxprtool.driver.places import with_places
from jaxprtool.linter.answer import Lint
from jaxprtool.linter.explanation import Listed
from jaxprtool.linter.registry import Found, lint_rule

__all__ = ["Found", "explain", "lint", "lint_rule"]


@for_the_function(linting.lint)
def lint(program: Any, *args: Any, **how: Any) -> Lint:
    """Find what is legal in a program, or in that of a function on arguments, but most likely a mistake.

        jt.lint(loss, params, batch).findings

    Args:
      program, args: see `jaxprtool.trace`.
      how: keywords of `driver.lint`: `select`, `ignore` (codes and families of rules), `max_const`,
        `carry` (`["0:0"]`).

    Returns:
      An object with `findings` (their `code`, `found` with message and place, `help`); `str` of it
        is what `jaxprtool lint` prints, `json()` the document.

    Raises:
      JaxprTypeError, UsageError: as `driver.lint`.
    """
    name = getattr(program, "__name__", "<program>")
    placed = with_places(as_program(program, *args), name)
    return linting.lint({"": placed}, name, **how)


def explain(*codes: str) -> Listed:
    """Return the pages about codes of lint rules and of messages; without a code, the list of all pages.

    Returns:
      An object with `pages`; `str` of it is what `jaxprtool explain` prints.

    Raises:
      UsageError: there is no such code.
    """
    return explaining.explain(codes)

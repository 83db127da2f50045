"""explain: show what a code means, with an example and how to mend it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from jaxprtool.driver.check import check
from jaxprtool.driver.lint import lint
from jaxprtool.driver.storage.files import read_programs
from jaxprtool.ir.diagnostics import Diagnostic, JaxprToolError
from jaxprtool.linter.answer import diagnostic_of
from jaxprtool.linter.explanation import Explained, Listed
from jaxprtool.linter.pages import all_pages, find_page
from jaxprtool.linter.registry import Page

__all__ = ["explain", "says"]

_NAME = "example.jaxpr"


def explain(codes: Sequence[str] = ()) -> Listed:
    """Return the pages of codes, with the output of their examples; without codes, the titles of all pages.

    Raises:
      UsageError: there is no such code.
    """
    if not codes:
        return Listed([Explained(page, ()) for page in all_pages()], titles=True)
    pages = [find_page(code) for code in codes]
    return Listed([Explained(page, says(page)) for page in pages], titles=False)


def says(page: Page) -> list[str]:
    """Return the messages with a page's code that `check`, or `lint`, gives for its example; the
    help is the page's.
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        diagnostics = _diagnostics(page)
    said = [str(w.message) for w in warned if getattr(w.category, "code", "") == page.code]
    return [
        *(f"warning: {message} [{page.code}]" for message in said),
        *(str(d).partition("\n")[0] for d in diagnostics if d.code == page.code),
    ]


def _diagnostics(page: Page) -> Sequence[Diagnostic]:
    example = page.example.bad
    verb, *options = example.command.split() or [""]
    if not example.text or verb not in ("lint", "check"):
        return []
    try:
        programs = read_programs(example.text, _NAME)
        if verb == "check":
            check(lambda: programs)
            return []
        carry = options[1:2] if options[:1] == ["--carry"] else ()
        found = lint(programs, _NAME, select=(page.code,), carry=carry).findings
        return [diagnostic_of(f) for f in found]
    except JaxprToolError as e:
        return e.diagnostics

"""`python -m tests.conformance` runs all of JAX's own cases through our tool and prints a table.

The exit status is 1 when a cell that passes in the golden file does not any more. Failures that were there before
are listed too.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.conformance import report
from tests.conformance.columns import FAILED, REFUSED, Outcome
from tests.conformance.harnesses import harness_names
from tests.conformance.run import run_all


def _letters(outcomes: list[Outcome]) -> report.Letters:
    """The letters of each harness; its outcomes come in the order of the columns."""
    letters: report.Letters = {}
    for o in outcomes:
        letters[o.harness] = letters.get(o.harness, "") + o.result
    return letters


def main() -> int:
    """Run, print, compare with the golden file, or write it."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--only", default="", metavar="REGEX", help="harnesses by full name")
    parser.add_argument("--update-golden", action="store_true", help="keep what comes out")
    options = parser.parse_args()
    names = harness_names(options.only)
    if not names:
        parser.error(f"no harness matches {options.only!r}")
    outcomes = list(run_all(names, options.jobs))
    letters = _letters(outcomes)
    print(report.table(letters), end="")
    for o in outcomes:
        if o.result in (FAILED, REFUSED):
            print(f"{o.result} {o.column}: {o.harness}: {o.why}")
    if options.update_golden:
        report.GOLDEN.write_text(report.text({**report.read_golden(), **letters}))
        return 0
    lost = report.worse(letters)
    for line in lost:
        print(f"worse: {line}", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())

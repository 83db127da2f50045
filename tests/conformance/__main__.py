"""`python -m tests.conformance` runs all of JAX's own cases through our tool and prints a table.

The exit status is 1 when a cell that passes in the golden file does not any more. Failures that were there before
are listed too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from tests.conformance import report
from tests.conformance.columns import FAILED, REFUSED, Outcome, run_harness
from tests.conformance.harnesses import harness_names

# Most of the time is XLA's compilation of thousands of small programs that run once.
_QUICK = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false"
)
_CHUNK = 40  # harnesses between two clearings of JAX's caches
_CHUNKS_A_PROCESS = 8  # XLA keeps some memory for each program


def _run_chunk(names: list[str]) -> list[Outcome]:
    import jax

    from jaxprtool.interpreters.check import set_verify

    set_verify(True)
    outcomes = [outcome for name in names for outcome in run_harness(name)]
    jax.clear_caches()
    return outcomes


def _run(names: list[str], jobs: int) -> Iterator[Outcome]:
    """The outcomes of all harnesses; how far it is goes to standard error."""
    start, step = time.monotonic(), -(-len(names) // _CHUNK)
    chunks = [names[i::step] for i in range(step)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, maxtasksperchild=_CHUNKS_A_PROCESS) as pool:
        for done, outcomes in enumerate(pool.imap_unordered(_run_chunk, chunks), 1):
            yield from outcomes
            seconds = time.monotonic() - start
            print(f"\r{done} of {step} parts, {seconds:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _letters(outcomes: list[Outcome]) -> report.Patterns:
    """The letters of each harness; its outcomes come in the order of the columns."""
    patterns: report.Patterns = {}
    for o in outcomes:
        patterns[o.harness] = patterns.get(o.harness, "") + o.result
    return patterns


def main() -> int:
    """Run, print, compare with the golden file, or write it."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--only", default="", metavar="REGEX", help="harnesses by full name")
    parser.add_argument("--update-golden", action="store_true", help="keep what comes out")
    options = parser.parse_args()
    os.environ["XLA_FLAGS"] = f"{_QUICK} {os.environ.get('XLA_FLAGS', '')}"
    names = harness_names(options.only)
    if not names:
        parser.error(f"no harness matches {options.only!r}")
    outcomes = list(_run(names, options.jobs))
    patterns = _letters(outcomes)
    print(report.table(patterns), end="")
    for o in outcomes:
        if o.result in (FAILED, REFUSED):
            print(f"{o.result} {o.column}: {o.harness}: {o.why}")
    if options.update_golden:
        report.GOLDEN.write_text(report.text({**report.read_golden(), **patterns}))
        return 0
    lost = report.worse(patterns)
    for line in lost:
        print(f"worse: {line}", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())

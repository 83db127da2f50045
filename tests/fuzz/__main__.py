"""`python -m tests.fuzz --seconds 600`: every target in turn, with new seeds each time."""

from __future__ import annotations

import argparse
import random
import resource
import sys
import traceback

from tests.fuzz.target import Failure, all_targets, run_target

LIMIT = 16 << 30  # bytes of addresses


def main() -> int:
    """Print a line for each target; 1 when one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--only", default="", help="the target of this name")
    parser.add_argument("--seed", type=int, help="of the first case (default: drawn)")
    parser.add_argument("--cases", type=int, help="this number of cases of each target instead")
    parser.add_argument("--trace", action="store_true", help="show where a failure comes from")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = LIMIT if hard == resource.RLIM_INFINITY else min(LIMIT, hard)
    resource.setrlimit(
        resource.RLIMIT_AS, (limit, hard)
    )  # too much is an error, and no end of the process
    targets = [t for t in all_targets() if options.only in ("", t.name)]
    if not targets:
        parser.error(f"no target is called {options.only}")
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    seconds = 0 if options.cases else options.seconds / len(targets)
    failed = 0
    for target in targets:
        try:
            done = run_target(target, seconds, seed, options.cases or 1)
            print(f"{target.name}: {done} cases from seed {seed}", flush=True)
        except Failure as e:
            failed += 1
            print(f"{target.name}: FAILED: {e}", flush=True)
            if options.trace:
                traceback.print_exception(e.__cause__)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

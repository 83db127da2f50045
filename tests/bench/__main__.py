"""`python -m tests.bench` prints our times as ratios to JAX's, measured in the same run.

A ratio at or below its budget is marked `ok`. `--only kernels` and the like measure one theme.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable

from .blamed import blamed_rows
from .calls import call_rows
from .compared import compared_rows
from .diffs import diff_rows
from .figures import figure_rows
from .growth import growth_rows, start_rows
from .kernels import kernel_rows
from .loops import loop_rows
from .measure import Row
from .profiles import profile_rows
from .shapes import shape_rows
from .transformations import (
    FLAT,
    Subject,
    eval_rows,
    mlp_gradient,
    text_rows,
    transform_rows,
    xla_rows,
)

THEMES = "text,eval,transform,xla,shapes,kernels,loops,calls,compare,blame,figures,profile,diff,start,growth"


def themes(options: argparse.Namespace) -> dict[str, Callable[[], Iterable[Row]]]:
    """What there is to measure, by name."""
    trace, args = mlp_gradient(options.layers)
    subject, runs = Subject.of(trace, args, "", FLAT), options.runs
    if not options.json:
        print(f"text, eval, transform, xla: the gradient of an MLP, {subject.n} equations")
    return {
        "text": lambda: text_rows(subject, runs),
        "eval": lambda: eval_rows(subject, runs),
        "transform": lambda: transform_rows(subject, runs),
        "xla": lambda: xla_rows(subject, runs),
        "shapes": lambda: shape_rows(runs),
        "kernels": lambda: kernel_rows(runs),
        "loops": lambda: loop_rows(runs),
        "calls": lambda: call_rows(runs),
        "compare": lambda: compared_rows(runs),
        "blame": lambda: blamed_rows(runs),
        "figures": lambda: figure_rows(2 * options.layers, max(runs, 5)),
        "profile": lambda: profile_rows(options.layers, max(runs, 5)),
        "diff": diff_rows,
        "start": lambda: start_rows(max(runs, 5)),
        "growth": lambda: growth_rows([int(s) for s in options.growth.split(",") if s]),
    }


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--layers", type=int, default=150, help="depth of the MLP")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--growth", default="1000,10000,100000", help="sizes of the chains")
    parser.add_argument("--only", default=THEMES, help=f"some of {THEMES}")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    parts = themes(options)
    if not options.json:
        print(f"{'':34}{'ours':>10}{'JAX':>10}{'ratio':>8}{'budget':>8}")
    for name in options.only.split(","):
        for row in parts[name]():
            print(json.dumps(vars(row)) if options.json else row, flush=True)


if __name__ == "__main__":
    main()

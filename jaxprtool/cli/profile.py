"""jaxprtool profile."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.analyses.profiling.files import check_ending, is_timeline
from jaxprtool.analyses.profiling.profile import KEYS
from jaxprtool.cli.options import shared as options
from jaxprtool.cli.options.tables import by_option, top_option
from jaxprtool.cli.session import Session
from jaxprtool.driver import profile as driver
from jaxprtool.driver.words.values import values_to_measure


@options.verb("profile")
@options.file_argument
@options.args_option
@click.option("--backend", type=click.Choice(["numpy", "xla"]), default="numpy", help="Or xla.")
@by_option(KEYS, "equation", "What the rows are.")
@click.option("--annotate", is_flag=True, help="Print the program with times at the margin.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Run for so long: once at least, 20 times at most.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no table.")
@click.option("-o", "--output", metavar="OUT", help="Write a file for other tools; see above.")
@top_option
@options.json_option
@options.max_bytes_option
@options.step_limit_option
def profile(
    session: Session,
    file: str,
    args: tuple[str, ...],
    output: str | None,
    quiet: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Where the time of FILE goes, on NumPy or compiled by XLA.

    FILE runs once before anything is measured, unless that takes most of the time; --args are random:0 by default, or the values of --like. The time of an equation that runs
    others is what passes outside of them, and inclusive is with them. Times of all rows add up to that of a run. On NumPy an
    equation's time includes freeing values that nobody reads after the equation before it.

    With --backend xla times are those of XLA's own profiler, of instructions of the optimised HLO, whose metadata lead back to
    equations. One that several equations went into shares its time among them by the number of elements that each computes
    (of a matrix product, by its multiplications), and is listed. Instructions that run at one time on several threads share
    it. What XLA put in, and the time in which no instruction runs, have rows of their own.

    With -o also a file: trace.json for Perfetto (what ran when, in the last run), profile.speedscope.json, profile.pb.gz for
    pprof, profile.folded for flame graphs.

    JSON: {"schema", "backend", "runs", "total": {"seconds", "equations"}, "equations": [{"place", "calls", "seconds",
    "inclusive_seconds"}], "others": [{"what", "seconds"}], "notes"}, of one run on the average; with --by "by" and "groups":
    [{"key", "calls", "seconds"}]; of XLA "instructions": [{"name", "calls", "seconds", "equations": [{"place", "share"}]}].

    \b
    Example:
      jaxprtool profile loss.jaxpr --args random:0
      jaxprtool profile loss.jaxpr --args inputs.npz --backend xla --annotate
      jaxprtool profile train.py:step --like batch --by scope -o trace.json
    """
    if output is not None:
        check_ending(output)
    program = session.placed(file)
    values = values_to_measure(program, args, how["max_bytes"])
    timeline = output is not None and is_timeline(output)
    found = driver.profile(program, values, timeline=timeline, **how)
    if output is not None:
        session.spare_inputs(output)
        driver.write_profile(found, output)
    if as_json or not quiet:
        session.answer(found, as_json=as_json)

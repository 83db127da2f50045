"""jaxprtool bench."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.session import Session
from jaxprtool.driver import bench as driver
from jaxprtool.driver.words.values import values_to_measure


@options.verb("bench")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@options.args_option
@click.option("--backends", metavar="B,C", help="numpy, xla; both, where they are there.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, 86_400),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Measure for so long in all; each stage has 1 sample at least, whatever it takes, and 200 are kept.",
)
@click.option("--compare", metavar="OLD", help="Compare with what --json wrote to this file.")
@click.option("--tolerance", type=float, default=0.05, metavar="R", help="0.05 if not given.")
@click.option("-q", "--quiet", is_flag=True, help="Print no tables; with --compare one line.")
@options.json_option
@options.max_bytes_option
@options.step_limit_option
def bench(
    session: Session,
    files: tuple[str, ...],
    args: tuple[str, ...],
    backends: str | None,
    quiet: bool,
    as_json: bool,
    max_bytes: int,
    **how: Any,
) -> None:
    """Measure how long FILE takes, stage by stage: to trace, lower, compile, call for the first
    time, and call again.

    trace (of a function; JAX traces anew, imports are done), and on XLA lower (to StableHLO),
    compile, first (the first call of what was compiled) and steady (a call, with arguments on the
    device, until its results are there); on NumPy first (a call of a program that was never called)
    and steady. --args are random:0 by default, or the values of --like. Several FILEs are measured
    in turn, on the same --args, and compared with the first one.

    Shown are the median of the samples and a 95 % confidence interval of the median, valid for any
    distribution (between two samples, by the binomial distribution: Conover 1999, 3.2). A ratio is
    the median of the ratios of all pairs of samples (Hodges and Lehmann), with its confidence
    interval. With --compare a stage is slower where its samples are larger than 1 + R times the
    earlier ones by the Mann-Whitney test, at a level of 5 % for all stages together. Two processes
    may differ by more than the samples of each do: measure again before you believe a small change.

    Exit status: 1 where a stage takes more than 1 + R times as long as in OLD (R is --tolerance,
    0.05 by default), else 0.

    JSON: {"schema", "kind": "bench", "versions", "seconds", "programs": [{"program", "arguments":
    [type], "stages": [{"backend", "stage", "median", "interval", "confidence", "samples", "calls",
    "times"}]}], "left_out": [{"program", "backend", "reason"}]}; times are seconds, each the mean
    of so many calls. Of several programs "ratios": [{"program", "backend", "stage", "ratio",
    "interval", "confidence"}]; with --compare "compare": {"tolerance", "slower", "stages":
    [{"program", "backend", "stage", "before", "now", "ratio", "interval", "confidence", "p_slower",
    "p_faster", "verdict"}], "missing": [{"program", "stage"}]}; a verdict is slower, faster, no
    change or too few (samples).

    \b
    Example:
      jaxprtool bench loss.jaxpr --args random:0
      jaxprtool bench old.jaxpr new.jaxpr --backends xla --seconds 20
      jaxprtool bench train.py:step --like batch --json > before.json
      jaxprtool bench train.py:step --like batch --compare before.json
    """
    given: list[driver.Given] = []
    for file in files or ("-",):
        p = session.placed(file)
        values = values_to_measure(p, args, max_bytes)
        given.append(driver.Given(file, p, values, session.tracer(file)))
    named = tuple(filter(None, (backends or "").split(",")))
    found = driver.bench(given, backends=named, max_bytes=max_bytes, **how)
    if quiet and not as_json:
        for line in found.verdict():
            session.echo_lines([line])
    else:
        session.answer(found, as_json=as_json)
    session.exit_code = int(bool(found.slower))

"""jaxprtool equiv."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.session import Session
from jaxprtool.driver import equiv as driver
from jaxprtool.driver.running.results import check_output
from jaxprtool.ir.diagnostics import UsageError, fail


@options.verb("equiv")
@click.argument("a")
@click.argument("b", default="-", metavar="[B]")
@options.args_option
@click.option("--samples", type=int, default=100, show_default=True, metavar="N", help="How many.")
@click.option(
    "--domain",
    multiple=True,
    metavar="DOMAIN",
    help="Values of an argument: 'x: f32[3] in [-1, 1]', 'x in (0, inf)', 'n in {1, 2}'; repeatable.",
)
@click.option("--prove", is_flag=True, help="Status 0 only for what is proved.")
@click.option("--rtol", type=float, metavar="R", help="Relative difference that is allowed.")
@click.option("--atol", type=float, metavar="A", help="Absolute difference that is allowed.")
@click.option("--seed", type=int, default=0, help="Of the samples.")
@click.option(
    "-o", "--output", default="", metavar="OUT", help="Write a counterexample to this .npz file."
)
@options.max_bytes_option
@options.step_limit_option
@options.json_option
def equiv(
    session: Session,
    a: str,
    b: str,
    args: tuple[str, ...],
    prove: bool,
    output: str,
    as_json: bool,
    **how: Any,
) -> None:
    """Decide whether A and B compute the same: proved, probable or refuted.

    Proved: they have one normal form, up to names, order and repetition of equations, dead code,
    calls, operations on constants, and commutativity and associativity where these are exact.
    Callbacks are the same where their functions are one object, or texts give them the same name in
    a module. Derivative rules of custom functions do not count. Where constants of nested jaxprs
    have no values, the answer is only probable. Probable: they agree on all samples, which hold
    ordinary values (--args first, when given), halves, powers of two, equal arguments and the
    numbers written in A and B, then also 0, -0, infinities, NaN, the smallest and the largest
    numbers. Differences that rounding may explain are ignored, and samples on which a loop takes
    many more steps than before are left out. Refuted: they differ on a sample, which is simplified
    as far as possible and printed as values for `run --args`. Status 1 when refuted; with --prove
    for anything but proved.

    JSON: {"schema", "status", "reason", "samples", "left_out", "drawn", "max_abs", "max_rel",
    "max_ulp", "zero_signs", "unknown", "effects", "counterexample": {"special", "same_in", "args",
    "arguments": [{"name", "type", "word"}], "outputs": [{"index", "type", "element", "n_different",
    "max_abs", "max_rel", "max_ulp", "a", "b"}]}}; reason says why programs of other types are
    refuted, and element where a result differs most; drawn are the results that each run draws anew
    (of rng_uniform), which are not compared; zero_signs on how many samples 0 and -0, which are
    equal, stand beside each other; unknown how many constants inside have no values; effects how
    many equations of A and of B print or act outside, by primitive.

    \b
    Example:
      jaxprtool equiv before.jaxpr after.jaxpr
      jaxprtool equiv --prove golden.jaxpr train.py:loss --like example_args
      jaxprtool equiv --domain 'x: f32[3] in [-1, 1]' a.jaxpr b.jaxpr
    """
    if output:
        check_output(output)
        session.spare_inputs(output)
    if not how["samples"] and not prove:
        message = "--samples 0 tries nothing"
        fail(UsageError, message, "option", help="--prove asks for a proof alone")
    found = driver.equiv_words(session.program(a), session.program(b), args, **how)
    if output and found.sample is not None:
        session.write_bytes(driver.packed_arguments(found, output), output)
    session.answer(found, as_json=as_json)
    session.exit_code = 0 if found.proved or not (prove or found.refuted) else 1

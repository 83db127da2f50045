"""jaxprtool residuals."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.options.param_types import Size
from jaxprtool.cli.options.tables import top_option
from jaxprtool.cli.session import Session
from jaxprtool.driver import residuals as driver


@options.verb("residuals")
@options.file_argument
@options.wrt_option("Arguments that are differentiated. Default: all inexact ones.")
@click.option("--policy", metavar="POLICY", help="What is kept; else what FILE says itself.")
@click.option("--vs", metavar="POLICY", help="Say what is kept more and less than by this one.")
@click.option("--best", type=Size(), metavar="N", help="Keep at most so many bytes: 512M, 2G.")
@click.option("-o", "--output", metavar="OUT", help="Write FILE with the policy to this file.")
@top_option
@options.json_option
def residuals(
    session: Session, file: str, best: int | None, output: str | None, as_json: bool, **how: Any
) -> None:
    """What a reverse pass of FILE keeps: values, their sizes, who makes them, and whose derivative reads them.

    A policy is nothing, everything, dots (matrix products), dots_no_batch (those without batch dimensions), names=a,b or
    offload=a,b (values that checkpoint_name gives these names, which are kept, or moved to the host). What is not kept is
    computed again: the operations of both passes are counted, against a reverse pass that keeps all it needs.

    --best finds what to keep in so many bytes (besides arguments and constants) such that the least is recomputed: of the
    results of FILE's own equations by a mixed-integer program, which HiGHS solves, and among the policies above; of more than
    20,000 results among these alone. With -o the program is written, in which those values have names.

    JSON: {"schema", "policy", "total": {"bytes", "computed_bytes", "count", "flops", "recomputed_flops"}, "residuals":
    [{"name", "type", "bytes", "origin", "place", "consumer"}], "scopes": [{"scope", "bytes"}]}, and with --vs "vs":
    {"policy", "total", "more", "less", "flops"}; computed_bytes are those besides arguments and constants.

    \b
    Example:
      jaxprtool residuals loss.jaxpr
      jaxprtool residuals loss.jaxpr --policy dots --vs everything
      jaxprtool residuals loss.jaxpr --best 2G -o smaller.jaxpr
      jaxprtool residuals train.py:loss --like example_args --policy nothing
    """
    program = session.placed(file)
    if best is None:
        found, made = driver.residuals(program, **how), driver.under_policy(program, how["policy"])
    elif how.pop("policy") is None:
        found, made = driver.best(program, best, **how)
    else:
        raise click.UsageError("--best finds a policy, and --policy gives one")
    if output is not None:
        session.write("residuals", made, output)
    session.answer(found, as_json=as_json)

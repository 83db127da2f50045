"""jaxprtool residuals."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli import options
from jaxprtool.cli.session import Session
from jaxprtool.cli.table_options import top_option
from jaxprtool.driver import residuals as driver


@options.verb("residuals")
@options.file_argument
@options.wrt_option("Arguments that are differentiated. Default: all inexact ones.")
@click.option("--policy", metavar="POLICY", help="What is kept; else what FILE says itself.")
@click.option("--vs", metavar="POLICY", help="Say what is kept more and less than by this one.")
@click.option("-o", "--output", metavar="OUT", help="Write FILE with the policy to this file.")
@top_option
@options.json_option
def residuals(session: Session, file: str, output: str | None, as_json: bool, **how: Any) -> None:
    """What a reverse pass of FILE keeps: values, their sizes, who makes them, and whose derivative reads them.

    A policy is nothing, everything, dots (matrix products), dots_no_batch (those without batch dimensions), names=a,b or
    offload=a,b (values that checkpoint_name gives these names, which are kept, or moved to the host). What is not kept is
    computed again: the operations of both passes are counted, against a reverse pass that keeps all it needs.

    JSON: {"schema", "policy", "total": {"bytes", "computed_bytes", "count", "flops", "recomputed_flops"}, "residuals":
    [{"name", "type", "bytes", "origin", "place", "consumer"}], "scopes": [{"scope", "bytes"}]}, and with --vs "vs":
    {"policy", "total", "more", "less", "flops"}; computed_bytes are those besides arguments and constants.

    \b
    Example:
      jaxprtool residuals loss.jaxpr
      jaxprtool residuals loss.jaxpr --policy dots --vs everything
      jaxprtool residuals train.py:loss --like example_args --policy nothing -o loss.jaxpr
    """
    program = session.placed(file)
    found = driver.residuals(program, **how)
    if output is not None:
        session.write("residuals", driver.under_policy(program, how["policy"]), output)
    session.answer(found, as_json=as_json)

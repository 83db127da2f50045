"""jaxprtool retraces."""

from __future__ import annotations

import click

from jaxprtool.analyses.retraces_answer import KEYS
from jaxprtool.cli.options.shared import json_option, verb
from jaxprtool.cli.options.tables import top_option
from jaxprtool.cli.session import Session
from jaxprtool.driver import retraces as driver
from jaxprtool.driver.storage.files import decode, read_bytes


@verb("retraces")
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option("--by", type=click.Choice(KEYS), default="site", show_default=True, help="Groups.")
@click.option(
    "--max", "most", type=click.IntRange(0), metavar="N", help="Status 1 for more retraces."
)
@top_option
@json_option
def retraces(
    session: Session, logs: tuple[str, ...], by: str, most: int | None, top: int, as_json: bool
) -> None:
    """Why did JAX trace again? Add up the cache misses in the LOG of a run by call site and reason.

    JAX says why it traces a function with JAX_EXPLAIN_CACHE_MISSES=1 (or jax.config.update("jax_explain_cache_misses", True)).
    Reasons are the first trace of a function; a function that is made anew for each call; the shape, dtype, weak type or
    sharding of an argument; its pytree; a static argument; the configuration; and what JAX does not explain. What to do about
    each stands below the table.

    JSON: {"schema", "misses", "retraces", "by", "groups": [{"site", "function", "defined", "reason", "count", "milliseconds",
    "details": [{"text", "count"}]}], "reasons": [{"reason", "count", "help"}]}.

    \b
    Example:
      JAX_EXPLAIN_CACHE_MISSES=1 python train.py 2> run.log
      jaxprtool retraces run.log
      jaxprtool retraces --by reason --max 0 run.log
    """
    texts = [session.keep(decode(*read_bytes(x)), x)[0] for x in logs or ("-",)]
    found = driver.retraces(texts, by=by, top=top)
    session.exit_code = 1 if most is not None and found.retraces > most else 0
    session.answer(found, as_json=as_json)

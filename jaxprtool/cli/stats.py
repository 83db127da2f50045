"""jaxprtool stats."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options.shared import json_option, verb
from jaxprtool.cli.options.tables import by_option, top_option, trips_option
from jaxprtool.cli.session import Session
from jaxprtool.driver import stats as driver
from jaxprtool.driver.words.numbers import numbers

_KEYS = ["primitive", "source", "scope", "shape", "dtype", "depth"]


@verb("stats")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@by_option(_KEYS, None, "What to group equations by: primitive, and scope for several sizes.")
@click.option("--vs", metavar="OTHER", help="Say what changed since this program.")
@click.option("--sizes", metavar="N,M", help="The sizes of several programs.")
@trips_option
@top_option
@json_option
def stats(
    session: Session,
    files: tuple[str, ...],
    by: str | None,
    vs: str | None,
    sizes: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Count what FILE consists of: equations, nesting, large values, constants, dead equations,
    effects.

    Equations are counted as written (those of a jaxpr as often as it is used) and as executed: those in a loop times its
    turns, those in branches as a range. Shapes and dtypes are those of first results; depth 1 is the program itself. Bodies of
    reductions and rules of derivatives are not evaluated as they stand, and are counted aside.

    Several FILEs are one program in several sizes: the answer is how its scopes grow, and which do so faster than linearly. The
    sizes are numbers in the names of the files (a_8.jaxpr a_16.jaxpr), or those of --sizes, or the elements of the arguments.

    JSON: {"schema", "equations": {"written", "executed": {"low", "high"}, "aside"}, "depth", "by", "groups": [{"key",
    "equations", "executed"}], "largest": [{"place", "name", "type", "bytes"}], "constants": {"count", "bytes"}, "dead":
    [place], "effects": [{"place", "ordered"}]}; "high" is null where it is unknown. With --vs also "vs": the same of OTHER, and
    "changes": [{"key", "equations": {"before", "after"}, "executed"}]. Of several sizes {"schema", "sizes": [{"program",
    "size"}], "by", "growth": [{"key", "figure", "values", "exponent", "faster_than_linear"}]}.

    \b
    Example:
      jaxprtool stats loss.jaxpr
      jaxprtool stats train.py:step --like batch --by scope --top 5
      jaxprtool stats new.jaxpr --vs old.jaxpr
      jaxprtool stats a_8.jaxpr a_16.jaxpr a_32.jaxpr
    """
    if len(files) > 1:
        if vs:
            raise click.UsageError("--vs goes with one program")
        programs = [session.placed(file) for file in files]
        found: Any = driver.growth(
            programs, files, sizes=numbers("--sizes", sizes), by=by or "scope", **how
        )
    else:
        (file,) = files or ("-",)
        other = None if vs is None else session.placed(vs)
        found = driver.stats(session.placed(file), vs=other, by=by or "primitive", **how)
    session.answer(found, as_json=as_json)

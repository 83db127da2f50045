"""jaxprtool cost."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options.shared import file_argument, json_option, verb
from jaxprtool.cli.options.tables import by_option, top_option, trips_option
from jaxprtool.cli.session import Session
from jaxprtool.driver import cost as driver

_KEYS = ["source", "scope", "primitive", "shape", "dtype", "depth"]
_SORTS = ["flops", "transcendentals", "bytes", "intensity", "seconds"]


@verb("cost")
@file_argument
@by_option(_KEYS, None, "Add up equations with the same key; else each has a row.")
@click.option("--sort", type=click.Choice(_SORTS), default="flops", help="The largest come first.")
@trips_option
@click.option("--device", metavar="NAME", help="Estimate times for a device: h100, a100, tpu-v5e.")
@click.option("--peak-flops", type=float, metavar="F", help="Operations a second of the device.")
@click.option("--bandwidth", type=float, metavar="B", help="Bytes a second of its memory.")
@click.option("--budget", metavar="LIMITS", help="Status 1 over a limit: 'peak=2GiB,flops=1e12'.")
@click.option("--reorder", is_flag=True, help="Look for a better order of large programs, too.")
@click.option("--chart", is_flag=True, help="Draw the lifetimes of the largest values.")
@top_option
@json_option
def cost(session: Session, file: str, as_json: bool, **how: Any) -> None:
    """What FILE costs: operations, bytes, communication and memory, equation by equation.

    Operations are counted as XLA counts them before it optimises; an operation that JAX expands
    counts what it expands to. A loop counts once for each iteration; how many a while loop has is
    unknown without --trips, and so is what depends on it. Of branches the most expensive one
    counts. Bytes are those of operands and results, since nothing is fused yet. A shard_map counts
    on all devices.

    Memory is that of all values in the order of the equations, and in the best order that is found
    (of more than 2,000 equations with --reorder); arguments are there all the time. For a
    collective, communication is what each member of the axes sends. The time of an equation is the
    larger of its operations / operations per second and its bytes / bytes per second of the device
    (a roofline); times are those of each device.

    The figures of --budget are flops, transcendentals, bytes, peak, communication, seconds and equations.

    JSON: {"schema", "total": {"flops", "transcendentals", "bytes", "peak_bytes", "equations",
    "executed", "bytes_read", "bytes_written", "reordered_peak_bytes", "held_bytes", "seconds",
    "communication", "at_least"}, "equations": [{"place", "executed", "flops", "transcendentals",
    "bytes", "bytes_read", "bytes_written", "intensity"}], "unknown": [place], "live_at_peak":
    [{"name", "type", "bytes", "place"}]}; null means unknown. Collectives have "communication",
    with a device there are "seconds" and "bound", with --by "by" and "groups": [{"key",
    "equations", ...}], with --budget "budget": [{"figure", "limit", "value", "over"}].

    \b
    Example:
      jaxprtool cost loss.jaxpr
      jaxprtool cost train.py:step --like batch --by scope --device h100
      jaxprtool cost step.jaxpr --trips 10 --budget 'peak=2GiB,flops=1e12'
    """
    found = driver.cost(session.placed(file), **how)
    session.exit_code = 1 if found.over else 0
    session.answer(found, as_json=as_json)

"""jaxprtool vmap."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options.param_types import Axes
from jaxprtool.cli.options.shared import file_argument, output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import vmap as driver


@verb("vmap")
@file_argument
@click.option(
    "--in-axes",
    type=Axes(),
    default="0",
    show_default=True,
    metavar="I,J",
    help="Batch axis of each argument, - for one that is not mapped; a single one stands for all. "
    "Or by name, x=0,y=1; those not named are not mapped. Trees as well: {params: {w: -, b: 0}, x: 0}.",
)
@click.option(
    "--out-axes",
    type=Axes(),
    default="0",
    show_default=True,
    metavar="I,J",
    help="Batch axis of each result, or a tree of them: {loss: -, h: 0}.",
)
@click.option(
    "--axis-size",
    type=int,
    metavar="N",
    show_default=f"{driver.DEFAULT_SIZE}, and it is said",
    help="Size of the batch.",
)
@output_option
def vmap(
    session: Session,
    file: str,
    in_axes: Any,
    out_axes: Any,
    axis_size: int | None,
    output: str,
) -> None:
    """Vectorise: the jaxpr that does for a batch what FILE does for one element.

    \b
    Example:
      jaxprtool vmap --in-axes 0,- --axis-size 32 loss.jaxpr
      jaxprtool vmap --in-axes x=0,y=0 --axis-size 32 loss.jaxpr
      jaxprtool vmap train.py:loss --like example_args --in-axes batch=0
      jaxprtool vmap --in-axes '{"params": {"w": -, "b": 0}, "x": 0}' loss.jaxpr
    """
    size = driver.DEFAULT_SIZE if axis_size is None else axis_size
    batched = driver.vmap(session.program(file), in_axes, out_axes, size)
    if axis_size is None:
        message = f"--axis-size is not given, and the batch has {size} elements"
        session.warn(message, "axis-size", severity="note")
    session.write("vmap", batched, output)

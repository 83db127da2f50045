"""jaxprtool trace."""

from __future__ import annotations

import contextlib
import sys

import click

from jaxprtool.cli.options import output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import trace as driver
from jaxprtool.driver.static import parse_static


@verb("trace")
@click.argument("target", metavar="MODULE:FUNCTION")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="TYPE",
    help="Type of an argument, once for each: f64[3], i32[], or a pytree of types: "
    "{'w': f32[3,4], 'b': f32[4]}.",
)
@click.option(
    "--static", multiple=True, metavar="NAME=VALUE", help="A keyword argument that is not traced."
)
@click.option("--x64/--no-x64", default=None, help="Whether JAX traces with 64-bit types.")
@click.option(
    "--frontend",
    type=click.Choice(["auto", "jax", "lax", "numpy"]),
    default="auto",
    show_default=True,
    help="What traces: JAX, or jaxprtool itself (for its own lax and plain NumPy).",
)
@click.option(
    "--rules/--no-rules",
    default=True,
    help="Whether the derivative rules of custom functions go with them; they can be long.",
)
@output_option
def trace(
    session: Session,
    target: str,
    shapes: tuple[str, ...],
    static: tuple[str, ...],
    x64: bool | None,
    frontend: str,
    rules: bool,
    output: str,
) -> None:
    """Call a Python function on abstract arguments and record its jaxpr.

    The function is MODULE:FUNCTION or path/to/file.py:FUNCTION. It may use JAX, jaxprtool.lax, or plain NumPy; JAX is
    imported only for the first.

    \b
    Example:
      jaxprtool trace mlp.py:loss --shape 'f32[3,4]' --shape 'f32[4]'
      jaxprtool trace pkg.nn:layer --shape '{"w": f32[3], "b": f32[]}' \\
        --static train=False
    """
    values = dict(map(parse_static, static))
    with contextlib.redirect_stdout(sys.stderr):  # what the function prints is no jaxpr
        program = driver.trace(
            target, list(shapes), values, x64, frontend, rules=rules, verify=session.verify
        )
    session.write("trace", program, output)

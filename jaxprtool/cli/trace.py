"""jaxprtool trace."""

from __future__ import annotations

import click

from jaxprtool.cli.options import output_option, verb
from jaxprtool.cli.session import Session


@verb("trace")
@click.argument("target", metavar="MODULE:FUNCTION")
@output_option
def trace(session: Session, target: str, output: str) -> None:
    """Call a Python function on abstract arguments and record its jaxpr.

    The function is MODULE:FUNCTION or path/to/file.py:FUNCTION. It may use JAX, jaxprtool.lax, or plain NumPy; JAX is
    imported only for the first. Every other verb takes a function in the place of a FILE too, with the same options.

    \b
    Example:
      jaxprtool trace mlp.py:loss --shape 'f32[3,4]' --shape 'f32[4]'
      jaxprtool trace train.py:step --like example_args
      jaxprtool trace sim.py:step --shape 'State(pos=f32[3], vel=f32[3])'
      jaxprtool trace pkg.nn:layer --shape '{"w": f32[3], "b": f32[]}' \\
        --static train=False
    """
    session.write("trace", session.traced(target), output)

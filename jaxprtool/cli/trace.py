"""jaxprtool trace."""

from __future__ import annotations

import click

from jaxprtool.cli.options.shared import output_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver.storage.dumps import programs_of_dump
from jaxprtool.ir.diagnostics import UsageError, fail


@verb("trace")
@click.argument("target", default="", metavar="MODULE:FUNCTION")
@click.option(
    "--from-dump",
    "folder",
    default="",
    metavar="DIR",
    help="In the place of a function: all jaxprs that JAX has written to this folder, by name and in order "
    "(JAX_DUMP_IR_TO=DIR JAX_DUMP_IR_MODES=jaxpr).",
)
@output_option
def trace(session: Session, target: str, folder: str, output: str) -> None:
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
      jaxprtool trace --from-dump /tmp/ir -o programs.jaxpr
    """
    if not target and not folder:
        help = "name one, as module:name or path/to/file.py:name, or a folder: --from-dump DIR"
        fail(UsageError, "missing argument 'MODULE:FUNCTION'", "usage", help=help)
    if folder and (target or session.tracing):
        message = "--from-dump takes the place of a function, and of the options for one"
        fail(UsageError, message, "usage", help=f"leave out all but --from-dump {folder}")
    if folder:
        result, unread = programs_of_dump(folder)
        session.tell(*unread)
    else:
        result = session.traced(target)
    session.write("trace", result, output)

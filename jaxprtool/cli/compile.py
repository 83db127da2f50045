"""jaxprtool compile."""

from __future__ import annotations

import click

from jaxprtool.analyses.memory.intermediates import check_memory
from jaxprtool.cli.options.processes import mesh_devices_option
from jaxprtool.cli.options.shared import (
    file_argument,
    json_option,
    max_bytes_option,
    output_option,
    verb,
)
from jaxprtool.cli.options.tables import trips_option
from jaxprtool.cli.session import Session
from jaxprtool.driver import compile as driver
from jaxprtool.driver.progress import working
from jaxprtool.driver.running.figures import figures
from jaxprtool.driver.verify import prepared


@verb("compile")
@file_argument
@output_option
@click.option("-q", "--quiet", is_flag=True, help="Do not print the figures.")
@trips_option
@max_bytes_option
@mesh_devices_option
@json_option
def compile(
    session: Session,
    file: str,
    output: str,
    quiet: bool,
    trips: int | None,
    max_bytes: int,
    devices: int | None,
    as_json: bool,
) -> None:
    """Compile with XLA for this machine.

    Prints the optimised HLO, and on standard error XLA's figures for cost and memory. The metadata
    of the HLO have the place of each equation, `op_name="[loss.jaxpr:12:5]/attn/dot_general"`, and
    the line of Python. With -o it writes an artifact instead, which `jaxprtool run` loads; load
    only artifacts that you trust.

    XLA counts the body of a loop once; the figures printed count it for each iteration, and give
    both; on a mesh they are those of one device. A result may be an argument, or use the memory of
    an argument that a function of jit donates (on one device; an artifact keeps its arguments).

    JSON, in the place of the HLO: {"schema", "total": {"flops", "transcendentals",
    "bytes_accessed"}, "bodies_once": the same, "loops": [{"name", "trips", "op_name"}], "memory":
    {"arguments", "results", "temporaries", "peak", "aliased"}, "aliases": [{"result", "argument",
    "other_result", "kind"}], "before_optimisation": {"flops", "transcendentals", "bytes"}}; null
    means unknown; a kind is same (one value), may or must (one memory).

    \b
    Example:
      jaxprtool compile loss.jaxpr
      jaxprtool compile --json loss.jaxpr
      jaxprtool compile loss.jaxpr -o loss.bin
      jaxprtool run loss.bin --args random:0
      jaxprtool compile train.py:step --like example_args
    """
    program = prepared(session.placed(file))
    check_memory(program, max_bytes)
    with working("compiling with XLA"):
        if output != "-":
            compiled = driver.compile(program, devices)
        else:
            compiled = driver.compile_located(program, devices, donate=True)
    compiled.check_size(max_bytes)
    if output != "-":
        session.write_bytes(compiled.to_bytes(), output)
    elif not as_json:
        session.write_text(compiled.as_text(), "-")
    if as_json:
        session.answer(figures(compiled, program, trips), as_json=True)
    elif not quiet:
        click.echo("\n".join(figures(compiled, program, trips).lines()), err=True)

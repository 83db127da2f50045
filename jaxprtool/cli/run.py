"""jaxprtool run."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.options.processes import devices_options, processes_options
from jaxprtool.cli.options.values import observing, telling_of_nans, values_options
from jaxprtool.cli.runnable import runnable
from jaxprtool.cli.session import Session
from jaxprtool.driver import run as driver
from jaxprtool.driver.running import check_nans as checking
from jaxprtool.driver.running.distributed import Processes
from jaxprtool.driver.running.results import check_output, packed, shown


@options.verb("run")
@options.file_argument
@options.args_option
@click.option("--jit", is_flag=True, help="Compile with XLA; else NumPy evaluates each equation.")
@devices_options
@processes_options
@options.output_option
@options.json_of('{"outs": [{"dtype", "shape", "data"}], "tree", "schema"}')
@options.max_bytes_option
@options.step_limit_option
@options.check_nans_option
@values_options
def run(
    session: Session,
    file: str,
    args: tuple[str, ...],
    processes: Processes | None,
    output: str,
    as_json: bool,
    values: dict[str, Any] | None,
    check_nans: bool,
    **how: Any,
) -> None:
    """Evaluate the jaxpr of FILE on values for its arguments.

    FILE may also be an artifact that `compile -o` wrote. Each result is printed after its type, in the tree that the
    results of the traced function form. -o writes the results to an .npz file (out0, out1, ..., or by their places in the
    tree: loss, params["w"]) or, a single one, to an .npy file; bf16 and other types that NumPy lacks are kept as their bytes,
    and `--args` reads them back. In JSON, complex numbers are [re, im], and nan and inf are strings.

    With --platform the results are those of the first devices of that kind which the installed JAX has, its plug-ins' among
    them; what only the CPU has (LAPACK, functions of Python) is then lowered by JAX.

    With --coordinator each process is given the same FILE and --args; process 0 alone writes the results.

    \b
    Example:
      jaxprtool run loss.jaxpr --args [1.0,2.0,3.0] 0.5
      jaxprtool run --jit loss.jaxpr --args inputs.npz -o outputs.npz
      jaxprtool run --jit --devices 8 data_parallel.jaxpr --args random:0
      jaxprtool run --jit data_parallel.jaxpr --args random:0 \\
        --coordinator host0:1234 --num-processes 2 --process-id 0
      jaxprtool run --jit --platform gpu loss.jaxpr --args random:0
      jaxprtool run --through jax loss.jaxpr --args random:0
      jaxprtool run --json loss.jaxpr --args random:0
      jaxprtool run loss.jaxpr --args random:0 --print c,d --every 100
      jaxprtool run loss.jaxpr --args random:0 --save-values values \\
        --select 'primitive=exp,line=10-40,name=attn'
      jaxprtool run loss.jaxpr --args random:0 --digest > digests.jsonl
      jaxprtool run --check-nans loss.jaxpr --args random:0
      jaxprtool run loss.jaxpr --args scale=2 x=x.npy
      jaxprtool run loss.jaxpr --args '{"params": {"w": w.npy, "b": 0.5}}' ones
      jaxprtool run --jit train.py:step --like example_args --args random:0
    """
    if output != "-":
        check_output(output)
    alone = values is None
    program = runnable(session, file, how["devices"]) if alone else session.placed(file)
    if check_nans:
        with telling_of_nans(session, as_json):
            results = checking.run_words(program, args, file, alone, processes=processes, **how)
    else:
        with observing(session, values, program, file, as_json=as_json, **how) as observer:
            results = driver.run_words(program, args, processes=processes, observer=observer, **how)
    if processes is not None and processes.process_id != 0:
        return
    if output != "-":
        session.write_bytes(packed(results, output, program.interface), output, in_place=True)
    elif values is None or not values["digest"]:
        session.echo_lines(shown(results, program.interface, as_json=as_json))

"""jaxprtool triage."""

from __future__ import annotations

import os

import click

from jaxprtool.cli.options.shared import json_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import triage as driver
from jaxprtool.ir.diagnostics import UsageError, fail


@verb("triage")
@click.argument("a")
@click.argument("b", default="-", metavar="[B]")
@json_option
def triage(session: Session, a: str, b: str, as_json: bool) -> None:
    """Did the program change, or only the compiler? Compare A and B stage by stage: jaxpr, StableHLO, optimised HLO, buffers.

    A and B are two programs, which are lowered and compiled here, or two folders with what two installations made:

    \b
      JAX_DUMP_IR_TO=DIR JAX_DUMP_IR_MODES=jaxpr,stablehlo \\
        XLA_FLAGS=--xla_dump_to=DIR python train.py

    or with files NAME.jaxpr, NAME.mlir and NAME.hlo. Names of values and what says where an operation comes from make no
    difference. Results that lie where arguments did are counted once in the bytes of the buffers. Status 1 when something differs.

    JSON: {"schema", "same", "programs": [{"name", "verdict", "first", "stages": [{"stage", "status", "note"}]}], "only_a",
    "only_b"}; first is the first stage that differs, or null; a jaxpr that differs has "lines", buffers have "a" and "b":
    {"arguments", "results", "aliased", "temporaries", "constants", "total"}.

    \b
    Example:
      jaxprtool triage before.jaxpr after.jaxpr
      jaxprtool triage golden.jaxpr train.py:step --like example_args
      jaxprtool triage dumps/jax-0.11 dumps/jax-0.12
    """
    folders = [os.path.isdir(x) for x in (a, b)]
    if any(folders) and not all(folders):
        one, other = (a, b) if folders[0] else (b, a)
        message = f"{one} is a folder, and {other} is none"
        help = "a folder is compared with a folder, and a program with a program"
        fail(UsageError, message, "usage", help=help)
    if all(folders):
        found = driver.triage_folders(a, b)
    else:
        found = driver.triage(session.program(a), session.program(b))
    session.exit_code = 0 if found.is_same else 1
    session.answer(found, as_json=as_json)

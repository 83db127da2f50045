"""Options for the devices and the processes in which a program runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from jaxprtool.driver.running.distributed import CONNECT_TIMEOUT, processes_of

__all__ = ["devices_options", "mesh_devices_option", "processes_options"]

F = TypeVar("F", bound=Callable[..., Any])


def devices_options(f: F) -> F:
    """Add the options `--devices`, `--platform` and `--through`, in the form of `driver.run`."""
    return _with_options(
        f,
        click.option(
            "--devices",
            type=click.IntRange(min=1),
            metavar="N",
            help="With --jit: the number of XLA's host devices (of each process); by default as many as the program's meshes have.",
        ),
        click.option(
            "--platform",
            metavar="NAME",
            help="With --jit or --through: cpu, gpu, tpu or a plug-in's, on the devices of the installed JAX.",
        ),
        click.option(
            "--through",
            type=click.Choice(["jax"]),
            help="Compile JAX's own lowering of the program, and not ours.",
        ),
    )


mesh_devices_option = click.option(
    "--devices",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many host devices the program's meshes may have: 64 unasked.",
)


def processes_options(f: F) -> F:
    """Add the options for several processes; the command gets them as `processes`, None without
    them.
    """

    @functools.wraps(f)
    def command(*args: Any, **options: Any) -> Any:
        words = ("coordinator", "num_processes", "process_id", "connect_timeout")
        processes = processes_of(*[options.pop(w) for w in words])
        return f(*args, processes=processes, **options)

    return _with_options(
        command,
        click.option(
            "--coordinator",
            metavar="HOST:PORT",
            help="With --jit: run on the devices of several processes, of which number 0 listens here.",
        ),
        click.option(
            "--num-processes", type=click.IntRange(min=1), metavar="N", help="How many there are."
        ),
        click.option("--process-id", type=int, metavar="I", help="Which one this is, from 0 on."),
        click.option(
            "--connect-timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=CONNECT_TIMEOUT,
            show_default=True,
            metavar="SECONDS",
            help="How long processes wait for one another.",
        ),
    )


def _with_options(command: Any, *options: Callable[[Any], Any]) -> Any:
    """Return a command with options, which --help lists in this order."""
    for option in reversed(options):
        command = option(command)
    return command

"""Options that name several processes which run one program together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from jaxprtool.driver.distributed import CONNECT_TIMEOUT, processes_of

__all__ = ["processes_options"]

F = TypeVar("F", bound=Callable[..., Any])


def processes_options(f: F) -> F:
    """The options that name several processes; the command gets them as `processes`, None without them."""

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
    """A command with options, which --help lists in this order."""
    for option in reversed(options):
        command = option(command)
    return command

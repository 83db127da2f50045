"""Options of `compare`: which backends run, and which differences count."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from jaxprtool.analyses.comparing.comparison import EXACT, Tolerance
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["runs_options", "tolerance_options"]

F = TypeVar("F", bound=Callable[..., Any])
_NOT_NEGATIVE = click.FloatRange(min=0)


def runs_options(f: F) -> F:
    """Add `--backends`, `--first` and `--arbiter`; the command gets `backends` as a tuple."""

    @functools.wraps(f)
    def command(*args: Any, backends: str | None, **options: Any) -> Any:
        named = tuple(filter(None, (backends or "").split(",")))
        return f(*args, backends=named, **options)

    options = (
        click.option(
            "--backends",
            metavar="NAME[,NAME]",
            help="Where A and B run: numpy, xla, jax (compiled by live JAX), f64 (in double precision on NumPy); one for "
            "both, or one for each. Default: numpy for two programs, numpy,xla for one.",
        ),
        click.option(
            "--first",
            is_flag=True,
            help="Find the first equation whose results differ although its operands agree.",
        ),
        click.option(
            "--arbiter",
            "--shadow",
            type=click.Choice(["f64"]),
            help="Run A in double precision too, and say for each output which side is further from that.",
        ),
    )
    return _with(command, options)


def tolerance_options(f: F) -> F:
    """Add `--rtol`, `--atol` and `--ulp`; the command gets one `tolerance`."""

    @functools.wraps(f)
    def command(
        *args: Any, rtol: float | None, atol: float | None, ulp: float | None, **options: Any
    ) -> Any:
        if ulp is not None and (rtol is not None or atol is not None):
            message = "--ulp is a tolerance of its own, and goes without --rtol and --atol"
            fail(UsageError, message, "option", help="give --ulp, or --rtol and --atol")
        given = (rtol, atol, ulp) != (None, None, None)
        return f(*args, tolerance=Tolerance(rtol, atol, ulp) if given else EXACT, **options)

    words = (
        ("--rtol", "Floats agree where they differ by at most ATOL + RTOL * max(|a|, |b|)."),
        ("--atol", "See --rtol."),
        ("--ulp", "Floats agree where at most so many steps from float to float lie between."),
    )
    return _with(
        command, tuple(click.option(w, type=_NOT_NEGATIVE, metavar="X", help=h) for w, h in words)
    )


def _with(command: Any, options: tuple[Callable[[Any], Any], ...]) -> Any:
    for option in reversed(options):
        command = option(command)
    return command

"""Options of `fuzz`: which programs are drawn, and how they are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from jaxprtool.cli.options.param_types import Number

__all__ = ["fuzz_options"]

F = TypeVar("F", bound=Callable[..., Any])


def _option(group: str, name: str, **rest: Any) -> Callable[[F], F]:
    """Return an option whose value is collected in the parameter `group`, a dict."""

    def collect(ctx: click.Context, _param: Any, value: Any) -> None:
        ctx.params.setdefault(group, {})[name] = value

    spelled = f"--{name.replace('_', '-')}"
    return click.option(spelled, name, callback=collect, expose_value=False, **rest)


_OPTIONS: list[Callable[[Any], Any]] = [
    click.option("--seed", type=int, default=0, show_default=True, help="Of the first program."),
    _option(
        "recipe",
        "size",
        type=click.IntRange(1),
        metavar="N",
        help="Equations of a program; by default a few.",
    ),
    _option(
        "recipe",
        "primitives",
        metavar="A,B",
        help="Make programs of these alone; by default of all.",
    ),
    click.option("-n", "count", type=click.IntRange(1), metavar="COUNT", help="How many programs."),
    click.option("--check", "columns", metavar="A,B", help="Run them through these columns."),
    _option(
        "checking",
        "seconds",
        type=Number(0),
        metavar="S",
        help="With --check, stop after so long; 60 by default, where there is no COUNT.",
    ),
    _option("checking", "no_reduce", is_flag=True, help="Keep what fails as it was drawn."),
    click.option(
        "-o",
        "--output",
        metavar="DIR",
        help="A folder for the programs, or for what fails (./fuzz-found by default).",
    ),
]


def fuzz_options(f: F) -> F:
    """Add all options; the command gets the dicts `recipe` and `checking`."""
    for option in reversed(_OPTIONS):
        f = option(f)
    return f

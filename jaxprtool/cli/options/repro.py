"""Options of `repro`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from jaxprtool.cli.options.param_types import Number, Size
from jaxprtool.driver.bundles.bundle import MOST_BYTES
from jaxprtool.driver.bundles.replaying import TIME_LIMIT

__all__ = ["repro_options"]

F = TypeVar("F", bound=Callable[..., Any])


def _made_with(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Store the value of an option in the parameter `how`, a dict."""
    ctx.params.setdefault("how", {})[param.name] = value


_OPTIONS: list[Callable[[Any], Any]] = [
    click.option("-o", "--output", metavar="OUT.zip", help="Write the archive to this file."),
    click.option(
        "--expect",
        metavar="TEXT",
        callback=_made_with,
        expose_value=False,
        help="What the command should have written.",
    ),
    click.option(
        "--scrub",
        is_flag=True,
        callback=_made_with,
        expose_value=False,
        help="Replace names and values by neutral ones.",
    ),
    click.option(
        "--time-limit",
        type=Number(0, min_open=True),
        default=TIME_LIMIT,
        show_default=True,
        metavar="S",
        help="Seconds that the command may take each time; --scrub runs it several times.",
    ),
    click.option(
        "--max-bytes",
        type=Size(),
        default=MOST_BYTES,
        show_default="1G",
        metavar="N",
        help="Refuse arguments, or an archive, of more than this.",
    ),
]


def repro_options(f: F) -> F:
    """Add all options; the command gets those for making an archive as a dict, `how`."""
    for option in reversed(_OPTIONS):
        f = option(f)
    return f

"""Options that say how a program is laid out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["layout_options"]

F = TypeVar("F", bound=Callable[..., Any])


def layout_options(f: F) -> F:
    """The options of `fmt` that `driver.fmt` takes as keywords: the notation, and what stays beside and below equations."""
    style = click.Choice(["jax", "autodidax"])
    for option in (
        click.option(
            "--trees/--no-trees",
            default=True,
            help="Whether the names and trees of arguments and results below a program stay, `args (x=*) -> *`.",
        ),
        click.option(
            "--names/--no-names",
            default=True,
            help="Whether names beside equations stay, `# [jvp(layer)]`.",
        ),
        click.option(
            "--dialect",
            default="",
            metavar="jax-RELEASE",
            help="The release of JAX whose print is written, `jax-0.10.2`; else that of the file.",
        ),
        click.option("--style", type=style, default="jax", show_default=True),
    ):
        f = option(f)
    return f

"""Options of the verbs that print tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

__all__ = ["by_option", "top_option", "trips_option"]

F = TypeVar("F", bound=Callable[..., Any])


def top_option(f: F) -> F:
    """Add `--top N`."""
    return click.option(
        "--top", type=int, default=20, show_default=True, metavar="N", help="How many rows to show."
    )(f)


def by_option(keys: Sequence[str], default: str | None, help: str) -> Callable[[F], F]:
    """Return the option `--by KEY`."""
    return click.option(
        "--by", type=click.Choice(keys), default=default, show_default=bool(default), help=help
    )


def trips_option(f: F) -> F:
    """Add `--trips N`."""
    return click.option(
        "--trips",
        type=click.IntRange(0),
        metavar="N",
        help="Turns of a while loop, whose number is not known before it runs; else it is shown as unknown.",
    )(f)

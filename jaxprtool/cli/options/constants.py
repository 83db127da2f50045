"""Options for constants whose values are not in the text of a program."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["constants_options"]


def _on_consts(ctx: click.Context, _param: Any, value: str) -> None:
    ctx.obj.consts = value


def _on_allow_path(ctx: click.Context, _param: Any, values: tuple[str, ...]) -> None:
    ctx.obj.allowed = values


def constants_options(verb: str) -> list[click.Parameter]:
    """Return the options on constants of a verb; `trace` only writes them, `fmt` does not change
    them.
    """
    read = "values, by name, of constants that the text of the program does not hold"
    of_npz = (
        "where -o puts constants of more than 1 KB (default: beside OUT)"
        if verb == "trace"
        else read
    )
    consts = click.Option(
        ["--consts"],
        metavar="FILE.npz|inline",
        default="",
        expose_value=False,
        callback=_on_consts,
        help=f"FILE.npz: {of_npz}. inline: -o writes large constants in the text, as base64.",
    )
    allow = click.Option(
        ["--allow-path"],
        multiple=True,
        metavar="DIR",
        expose_value=False,
        callback=_on_allow_path,
        help="A folder that npz(...) in a program may read from, besides the program's own; repeatable.",
    )
    found: dict[str, list[click.Parameter]] = {"trace": [consts], "fmt": [allow]}
    return found.get(verb, [consts, allow])

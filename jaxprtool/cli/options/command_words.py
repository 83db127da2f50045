"""Parsing the command line of another verb, for a bundle of `repro`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from jaxprtool.cli.main import cli
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["taken_apart"]


def taken_apart(
    words: Sequence[str], args: Sequence[str]
) -> tuple[str, list[list[str]], Sequence[str]]:
    """Return the verb, the words of each of its options, and the values of the arguments.

    Args:
      words: the command without its file.
      args: the values of `--args` before it.

    Raises:
      UsageError: it does not begin with a verb, has an unknown option, or a file.
    """
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    if command is None:
        fail(UsageError, f"-- {words[0]}: there is no such verb", "usage", help="-- run --jit")
    parser = command.make_parser(click.Context(command, info_name=words[0]))
    found, left, order = parser.parse_args([*words[1:]])
    options = {p.name: p for p in command.params if isinstance(p, click.Option)}
    rest = [x for x in left if x != "{}"]
    arguments = [
        x
        for p in order
        if isinstance(p, click.Argument)
        for x in _values(found.get(p.name or ""))
        if x != "{}"
    ]
    values = [*args, *_values(found.pop("args", None))]
    said = next((o for o in options.values() if "--expression" in o.opts), None)
    if said is not None and said.name and (said.multiple or len(arguments) == 1):
        # the positional words of a verb that asks something about the program
        asked = [*_values(found.get(said.name)), *arguments]
        found[said.name] = asked if said.multiple else asked[0]
        arguments = []
    if rest or arguments:
        message = f"-- {' '.join(words)}: the program of the archive is its only file"
        fail(UsageError, message, "usage", help=f"leave out {(arguments or rest)[0]}")
    kept: list[list[str]] = []
    for name, value in found.items():
        if name in options:
            kept += _words_of(options[name], value)
    return words[0], sorted(kept), values


def _values(x: Any) -> list[str]:
    """Return the words of a parameter; [] if it is not given, for which click has a special
    object.
    """
    return [x] if isinstance(x, str) else [*x] if isinstance(x, (list, tuple)) else []


def _words_of(option: click.Option, value: Any) -> list[list[str]]:
    """Return the words of an option: its longest name, and its value."""
    longest = max(option.opts, key=len)
    name = f"--{longest.lstrip('-')}" if longest.startswith("--") else longest
    if option.is_flag:
        return [[name]]
    if option.multiple:
        return [[name, str(x)] for x in value]
    return [[name, str(value)]]

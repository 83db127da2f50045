"""Run a command line in this process, as fast as a function call."""

from __future__ import annotations

import click

from jaxprtool.cli.main import VERBS, cli
from jaxprtool.testing.invoke import Done, invoke

__all__ = ["VERBS", "Done", "command", "invoke"]


def command(verb: str) -> click.Command:
    """The click command of a verb."""
    found = cli.get_command(click.Context(cli), verb)
    assert found is not None
    return found

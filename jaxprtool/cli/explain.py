"""jaxprtool explain."""

from __future__ import annotations

import click

from jaxprtool.cli.options.shared import json_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import explain as driver


@verb("explain")
@click.argument("codes", nargs=-1, metavar="[CODE]...")
@json_option
def explain(session: Session, codes: tuple[str, ...], as_json: bool) -> None:
    """Describe CODEs: those of lint rules, and those in brackets at the end of messages.

    A page says what is wrong, and shows a program with this mistake, its message, and the corrected
    program. Without a CODE all codes are listed.

    JSON: {"schema", "codes": [{"code", "family", "verb", "title", "why", "mend", "example", "command", "says", "mended",
    "mended_command", "fix", "default"}]}; "example" and "mended" are programs, or lines of Python, or null, "command" and
    "mended_command" what is run on them or null, "says" the messages that `check` or `lint` gives for the example, "fix" the passes that
    mend it or null, "default" whether lint applies the rule where --select does not name it.

    \b
    Example:
      jaxprtool explain
      jaxprtool explain key-reuse
      jaxprtool explain binder-type unbound-variable
      jaxprtool explain --json log-of-softmax
    """
    session.answer(driver.explain(codes), as_json=as_json)

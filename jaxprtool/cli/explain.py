"""jaxprtool explain."""

from __future__ import annotations

import click

from jaxprtool.cli.options import json_option, verb
from jaxprtool.cli.session import Session
from jaxprtool.driver import explain as driver


@verb("explain")
@click.argument("codes", nargs=-1, metavar="[CODE]...")
@json_option
def explain(session: Session, codes: tuple[str, ...], as_json: bool) -> None:
    """Describe CODEs: those of lint's rules, and those that messages have in brackets.

    A page says what is wrong, shows a program that has it with what is said of that, and the program mended. Without a CODE all are
    listed.

    JSON: {"schema", "codes": [{"code", "family", "verb", "title", "why", "mend", "example", "says", "mended", "fix", "default"}]};
    "example" and "mended" are programs or null, "says" the messages that the example gives, "fix" the passes that mend it or null,
    "default" whether lint applies the rule where --select does not name it.

    \b
    Example:
      jaxprtool explain
      jaxprtool explain key-reuse
      jaxprtool explain binder-type unbound-variable
      jaxprtool explain --json log-of-softmax
    """
    session.answer(driver.explain(codes), as_json=as_json)

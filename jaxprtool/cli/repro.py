"""jaxprtool repro."""

from __future__ import annotations

from typing import Any

import click

from jaxprtool.cli.options import shared as options
from jaxprtool.cli.options.command_words import taken_apart
from jaxprtool.cli.options.repro import repro_options
from jaxprtool.cli.session import Session
from jaxprtool.driver import repro as driver
from jaxprtool.driver.bundles.bundle import read_bundle
from jaxprtool.driver.storage.files import read_bytes
from jaxprtool.driver.user_code.loading import is_function


@options.verb("repro")
@click.argument("file", metavar="FILE")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- VERB ...]")
@options.args_option
@repro_options
@options.json_option
def repro(
    session: Session,
    file: str,
    words: tuple[str, ...],
    args: tuple[str, ...],
    output: str | None,
    how: dict[str, Any],
    time_limit: float,
    max_bytes: int,
    as_json: bool,
) -> None:
    """Put FILE, its arguments and a command into one archive that shows what happens, or replay such an archive.

    With a command after `--`, FILE is a program (or a function). The verb is given without FILE and without --args, which
    are those of `repro`. It is run, and the archive keeps the program with its constants, the arguments, the command, its exit
    status and what it wrote, the versions and the platform, a README and a plain script of JAX that computes the same
    without this tool. What the archive holds is listed before it is written; without -o it is only listed. For `run`, what is
    expected is what JAX gives, where that is something else. A file that the command writes is {out}: -o {out}.npz.

    Without a command FILE is an archive: its command is run in a temporary folder, in a process of its own. An
    archive may come from anybody: only built-in verbs run, on the program and the arguments in it; commands, plug-ins,
    modules, other files and the network are refused, and so are archives that are damaged, too large or name paths.

    Exit status: 0 written; of a replay 0 it still happens (the same status and output, but for the
    last digits of floats; for verbs that measure times the same status alone), 1 it does not.

    \b
    In JSON, of an archive that is made {"schema", "members": {name: bytes},
      "command", "status", "expected_by": "jax", "given" or null,
      "values", "sources", "kept", "versions", "platform", "file"};
    of a replay {"schema", "happens", "command",
      "then", "now": {"status", "output", "messages"}, "expected",
      "versions": {name: [then, now]}, "platform": {name: [then, now]}},
      the last two of what differs.

    \b
    Example:
      jaxprtool repro loss.jaxpr --args random:0 -o bug.zip -- run --jit
      jaxprtool repro --scrub loss.jaxpr -o bug.zip -- grad --wrt 0
      jaxprtool repro bug.zip
    """
    if not words:
        driver.refuse_for_replay(output, args, **how)
        bundle = read_bundle(read_bytes(file)[0], file, max_bytes)
        found = driver.replayed(bundle, time_limit)
        session.exit_code = int(not found.happens)
        session.answer(found, as_json=as_json)
        return
    verb, given, values = taken_apart(words, args)
    text = driver.text_of(session.program, file, session.open)
    limits: dict[str, Any] = {"limit": time_limit, "max_bytes": max_bytes}
    limits["of_function"] = is_function(file)
    bundle = driver.bundled(text, file, values, verb, given, **how, **limits)
    session.answer(driver.listing(bundle, output or ""), as_json=as_json)
    if output is not None:
        session.spare_inputs(output)
        driver.written(bundle, output)

"""`jaxprtool.repro` and `jaxprtool.replay`: the verb as functions of Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from jaxprtool.driver import repro as bundling
from jaxprtool.driver.api.keywords import for_the_function
from jaxprtool.driver.api.programs import with_values
from jaxprtool.driver.bundles.bundle import MOST_BYTES, read_bundle
from jaxprtool.driver.bundles.replaying import TIME_LIMIT
from jaxprtool.driver.repro import Listing, Replay
from jaxprtool.driver.storage.files import read_bytes
from jaxprtool.driver.storage.output import program_text

__all__ = ["replay", "repro"]


@for_the_function()
def repro(
    program: Any,
    *args: Any,
    verb: str,
    options: Sequence[Sequence[str]] = (),
    output: str | os.PathLike[str] | None = None,
    expect: str | None = None,
    scrub: bool = False,
    time_limit: float = TIME_LIMIT,
) -> Listing:
    """An archive with a program, its arguments and a command, as `jaxprtool repro` makes it.

        jt.repro(loss, params, batch, verb="run", options=[["--jit"]], output="bug.zip")

    Args:
      program: a program, or a function; see `as_program`.
      args: of a program the values of the constants that it does not hold, then its arguments, arrays one by one; of a
        function its arguments, pytrees.
      verb: the verb.
      options: the words of each of its options: `["--jit"]`, `["--rtol", "1e-3"]`.
      output: where the archive is written; None: it is only listed.
      expect: what the command should write.
      scrub: whether names and values are replaced by neutral ones.
      time_limit: seconds that the command may take.

    Returns:
      What the archive holds.

    Raises:
      UsageError: a command that no archive may hold, arguments that do not fit.
    """
    found, values = with_values(program, args)
    bundle = bundling.bundled(
        program_text({"": found}),
        getattr(program, "__name__", "<program>"),
        (),
        verb,
        options,
        values=[*values] or None,
        of_function=callable(program),
        expect=expect,
        scrub=scrub,
        limit=time_limit,
    )
    path = "" if output is None else os.fspath(output)
    if path:
        bundling.written(bundle, path)
    return bundling.listing(bundle, path)


def replay(
    path: str | os.PathLike[str], *, time_limit: float = TIME_LIMIT, max_bytes: int = MOST_BYTES
) -> Replay:
    """Run the command of an archive again, as `jaxprtool repro bug.zip` does.

    Args:
      path: the archive, which may come from anybody.
      time_limit: seconds that the command may take.
      max_bytes: refuse an archive that takes more when it is unpacked.

    Raises:
      UsageError: it is no archive of `repro`, damaged, or asks for what none may ask for.
    """
    name = os.fspath(path)
    return bundling.replayed(read_bundle(read_bytes(name)[0], name, max_bytes), time_limit)

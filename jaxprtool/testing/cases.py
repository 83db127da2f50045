"""Case files: a command line, its input, and what it has to print.

    # run: jvp --wrt 0 -
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    # ---- output
    { lambda ; a:f32[3] b:f32[3]. let ...

The first line is the command line, the text up to the line `# ----` its standard input. What follows is what it prints:
`# ---- output` on standard output with status 0, `# ---- output 1` with another one, `# ---- error 2` on standard error.
`{folder}` is the folder of the file, in the command line and in what is printed.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import NamedTuple

from jaxprtool.testing.invoke import invoke

__all__ = ["MARK", "Ran", "run_case"]

MARK = re.compile(r"^# ---- (output|error)(?: (\d+))?\n", re.MULTILINE)
_RUN = "# run: "


class Ran(NamedTuple):
    """A case file that was run.

    Attributes:
      given: its command line and its input.
      expected: what it has to print, with the mark above; "" where that is not said.
      printed: what it prints now, in the same form.
      status: the exit status.
    """

    given: str
    expected: str
    printed: str
    status: int

    def difference(self) -> list[str]:
        """How what is printed differs from what is expected, as a unified diff."""
        sides = (self.expected.splitlines(), self.printed.splitlines())
        return [*difflib.unified_diff(*sides, "expected", "printed", lineterm="")]


def run_case(path: Path) -> Ran:
    """Run a case file. Raises ValueError when it does not begin with `# run:`."""
    text = path.read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    if not first.startswith(_RUN):
        raise ValueError(f"{path} does not begin with `# run:`")
    m = MARK.search(rest)
    given, expected = (rest[: m.start()], rest[m.start() :]) if m else (rest, "")
    done = invoke(first.removeprefix(_RUN).replace("{folder}", str(path.parent)), given)
    kind = "error" if done.error else "output"
    status = f" {done.status}" if done.status else ""
    printed = done.error or done.output
    for folder in (str(path.parent), os.path.relpath(path.parent)):
        printed = printed.replace(folder, "{folder}")
    if printed and not printed.endswith("\n"):
        printed += "\n"
    return Ran(f"{first}\n{given}", expected, f"# ---- {kind}{status}\n{printed}", done.status)

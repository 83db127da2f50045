"""Case files: a command line, its standard input, and its expected output.

    # run: jvp --wrt 0 -
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    # ---- output
    { lambda ; a:f32[3] b:f32[3]. let ...

The first line is the command line; the text up to the line that begins with `# ----` is its
standard input. The expected output follows: after `# ---- output` standard output with exit status
0, after `# ---- output 1` with exit status 1, after `# ---- error 2` standard error with exit
status 2. `{folder}` in the command line and the output is the folder of the file.
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
    """The result of running a case file.

    Attributes:
      given: the part of the file with command line and input.
      expected: the part with the expected output, from the line `# ----` on; "" where the file has
        none.
      printed: the actual output, in the same form.
      status: the exit status.
    """

    given: str
    expected: str
    printed: str
    status: int

    def difference(self) -> list[str]:
        """Return the unified diff of expected and actual output, as lines."""
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

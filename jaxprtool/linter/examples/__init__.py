"""What the pages of codes show: for each code a file `CODE.txt` with a program that has it, and the program mended.

    # run: check -
    { lambda ; a:f32[3]. let b:f32[3] = sinn a in (b,) }
    # ---- mended
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }

The first line is the command that says the code, the text up to the mark its standard input. What is mended may have a command of its own
in such a line. What no text has is shown by the command alone; `# python` in its place is said of lines of Python. `# shown: COMMAND`
is for what happens elsewhere only: without a network, in another process, on another machine.
"""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["Example", "Side", "read_example"]

_FOLDER = os.path.dirname(__file__)
_MENDED = "# ---- mended\n"
_KINDS = {"# run: ": "run", "# shown: ": "shown", "# python": "python"}


class Side(NamedTuple):
    """One half of an example.

    Attributes:
      kind: "run" for a command and a text, "shown" for a command that is not run, "python" for lines of Python.
      command: the command, without `jaxprtool`; "" for lines of Python.
      text: its standard input, or the lines; "" where there is none.
    """

    kind: str
    command: str
    text: str


class Example(NamedTuple):
    """What has a code, and the same mended."""

    bad: Side
    good: Side


NO_EXAMPLE = Example(Side("run", "", ""), Side("run", "", ""))


def read_example(code: str) -> Example:
    """The example of a code; an empty one where there is none."""
    path = os.path.join(_FOLDER, f"{code}.txt")
    if not os.path.isfile(path):
        return NO_EXAMPLE
    with open(path, encoding="utf-8") as file:
        bad, _, good = file.read().partition(_MENDED)
    first = _side(bad, Side("run", "", ""))
    return Example(first, _side(good, first))


def _side(text: str, before: Side) -> Side:
    """One half; without a line of its own it has the command of the first one."""
    line, _, rest = text.partition("\n")
    for start, kind in _KINDS.items():
        if line.startswith(start):
            return Side(kind, line.removeprefix(start).strip(), rest)
    return Side(before.kind, before.command, text)

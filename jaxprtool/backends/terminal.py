"""Output with `rich` on the terminal: progress displays for work that takes seconds, and tables in its width."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from jaxprtool.ir.printable import one_line, printable

__all__ = ["show", "show_pairs", "start", "start_bar"]

_STYLES = {"removed": "red", "added": "green", "moved": "blue"}
_WIDTH = 160  # columns of an output that is no terminal


def start(message: str) -> Status:
    """Show a spinner with a message on standard error; its `stop()` removes it."""
    status = Status(message, console=Console(stderr=True))
    status.start()
    return status


def start_bar(read: Callable[[], tuple[str, int, int | None] | None]) -> Callable[..., None]:
    """Show a progress bar on standard error.

    Args:
      read: returns the name of the running loop, its step, and the number of steps (None: not
        known); None for nothing.

    Returns:
      draw(stop=False), which updates the bar, or removes it.
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    progress = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    task = progress.add_task("running", total=None)
    progress.start()

    def draw(stop: bool = False) -> None:
        if stop:
            progress.stop()
            return
        found = read()
        if found is not None:
            name, step, total = found
            progress.update(task, description=printable(name), completed=step, total=total)

    return draw


def show(parts: Sequence[Any], *, color: bool) -> None:
    """Print lines and tables (`analyses.table`) to standard output; long cells are wrapped to the terminal's width."""
    console = Console(no_color=not color, highlight=False, markup=False, emoji=False)
    for part in parts:
        if isinstance(part, str):
            console.print(Text(printable(part)))
            continue
        drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for title in part.titles:
            at_left = title.endswith("<")
            justify = "left" if at_left else "right"
            drawn.add_column(title.removesuffix("<"), justify=justify, overflow="fold")
        for row in part.rows:
            drawn.add_row(*[Text(printable(cell)) for cell in row])
        if part.heading:
            console.print(Text(part.heading, style="bold"))
        console.print(drawn)


def show_pairs(
    names: tuple[str, str], groups: Sequence[tuple[str, Sequence[Any]]], *, color: bool
) -> None:
    """Print lines of two files side by side to standard output, in the width of the terminal.

    Args:
      names: the names of the files.
      groups: headers, each with pairs of cells (number, text, note, kind; see
        `analyses.diffing.page`) below it.
      color: whether to colour.
    """
    terminal = sys.stdout.isatty() or os.environ.get("COLUMNS")
    system = "standard" if color else None
    options: Any = {"color_system": system, "force_terminal": color, "no_color": not color}
    console = Console(highlight=False, markup=False, emoji=False, **options)
    console = (
        console
        if terminal
        else Console(highlight=False, markup=False, emoji=False, width=_WIDTH, **options)
    )
    drawn = Table(box=None, pad_edge=False, expand=True, show_header=True)
    for name in names:
        drawn.add_column("", justify="right", no_wrap=True)
        drawn.add_column(Text(one_line(name)), ratio=1, overflow="fold")
    for header, rows in groups:
        drawn.add_row("", Text(one_line(header), style="cyan"), "", "")
        for pair in rows:
            drawn.add_row(*[text for cell in pair for text in _cell(cell)])
    with console.capture() as captured:
        console.print(drawn)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _cell(cell: Any) -> tuple[str, Text]:
    """Return the number of a line, and the line with its mark and its note."""
    mark = {"removed": "- ", "added": "+ ", "moved": "~ "}.get(cell.kind, "  ") if cell.text else ""
    note = f"  # {cell.note}" if cell.note else ""
    return cell.number, Text(one_line(mark + cell.text + note), style=_STYLES.get(cell.kind, ""))

"""What `rich` draws on the terminal: signs of life for work that takes seconds, and tables in its width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from jaxprtool.ir.printable import printable

__all__ = ["show", "start", "start_bar"]


def start(message: str) -> Status:
    """Show a spinner with a message on standard error; its `stop()` removes it."""
    status = Status(message, console=Console(stderr=True))
    status.start()
    return status


def start_bar(read: Callable[[], tuple[str, int, int | None] | None]) -> Callable[..., None]:
    """Show a progress bar on standard error.

    Args:
      read: what runs now: its name, the step, and how many there are (None: not known); None for nothing.

    Returns:
      draw(stop=False), which brings the bar up to date, or takes it away.
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

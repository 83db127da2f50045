"""A sign of life on the terminal, by `rich`, for work that takes seconds."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status

from jaxprtool.ir.printable import printable

__all__ = ["start", "start_bar"]


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

"""Progress on the terminal, for work that takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context

from jaxprtool.interpreters.evaluation.limits import running_loops

__all__ = ["evaluating", "rung", "stop_showing", "working"]

DELAY = 1.5  # seconds before anything is shown
INTERVAL = 0.2  # seconds between two looks at a loop


@contextmanager
def working(message: str) -> Generator[None]:
    """Show `message` on standard error while the block runs, if that is a terminal and it takes long."""

    def show(finished: threading.Event) -> None:
        from jaxprtool.backends import terminal  # noqa: PLC0415 (gateway: rich, 80 ms)

        status = terminal.start(message)
        finished.wait()
        status.stop()

    with _when_slow(show):
        yield


@contextmanager
def evaluating() -> Generator[None]:
    """Show the progress of the outermost loop while the block runs, under the conditions of `working`."""

    def show(finished: threading.Event) -> None:
        from jaxprtool.backends import terminal  # noqa: PLC0415 (gateway: rich, 80 ms)

        draw = terminal.start_bar(_outermost)
        while not finished.wait(INTERVAL):
            draw()
        draw(stop=True)

    with _when_slow(show):
        yield


def rung(line: str) -> None:
    """Write a line of a ladder of sizes to standard error, if that is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _outermost() -> tuple[str, int, int | None] | None:
    loops = running_loops()
    return (loops[0].name, loops[0].step, loops[0].total) if loops else None


@contextmanager
def _when_slow(show: Callable[[threading.Event], None]) -> Generator[None]:
    """Call `show` in a thread of its own when the block takes long and there is a terminal to see it."""
    running_loops()  # copies of this context, for other threads, share its list of loops
    if not sys.stderr.isatty():
        yield
        return
    finished = threading.Event()

    def wait() -> None:
        if not finished.wait(DELAY):
            show(finished)

    thread = threading.Thread(target=copy_context().run, args=(wait,), daemon=True)
    thread.start()
    _shown[finished] = thread
    try:
        yield
    finally:
        finished.set()
        thread.join()
        _shown.pop(finished, None)


# displays that are on the terminal, or soon will be
_shown: dict[threading.Event, threading.Thread] = {}


def stop_showing() -> None:
    """Clear the progress from the terminal, from any thread: for a command that ends before its work does."""
    for finished, thread in [*_shown.items()]:
        finished.set()
        thread.join(timeout=1.0)

"""A deep stack for deeply nested programs.

# Note [Deep programs]

Recursive functions transform jaxprs inside jaxprs, and Python allows a thousand nested calls. The
functions through which every such recursion passes are marked `deep`: where one of them reaches the
end of the stack, it runs again in a thread whose stack holds tens of thousands of levels. They have
no effects besides caches, so they may run twice, and programs of ordinary depth pay nothing.
Evaluation has effects (it prints), so it computes the depth of the program beforehand.

# Note [The collector]

These functions make many small objects that all stay alive, and Python's garbage collector would
traverse all of them again and again: half of the time of a transformation of a large program. So
collection is off until the outermost of them returns. They leave few reference cycles, so memory
does not suffer.

An evaluation that is observed may be long, and call Python functions that leave reference cycles.
There collection stays on, without the objects that existed before (`heap_set_aside`): JAX alone has
a hundred thousand objects.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

from jaxprtool.core.bind import state

__all__ = ["deep", "heap_set_aside", "run_deep", "run_in_waiting_thread", "run_nested"]

P = ParamSpec("P")
T = TypeVar("T")

_STACK_BYTES = 512 << 20  # reserved, not used, until nesting needs it
_RECURSION_LIMIT = 100_000


_Calls = SimpleQueue[Callable[[], None] | None]


class _Here(threading.local):
    """State of a thread.

    Attributes:
      deep: whether the thread has a deep stack.
      asked: the queue of calls that the thread which waits for this one has to make, ended by None;
        None where no thread waits.
    """

    deep = False
    asked: _Calls | None = None


_here = _Here()
_lock = threading.Lock()
_users = [0, 0]  # threads with a deep stack now, and the recursion limit before the first


@contextmanager
def _raised_limit() -> Generator[None]:
    """Raise Python's recursion limit inside the block; the last thread to leave restores it."""
    with _lock:
        if not _users[0]:
            _users[1] = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_users[1], _RECURSION_LIMIT))
        _users[0] += 1
    try:
        yield
    finally:
        with _lock:
            _users[0] -= 1
            if not _users[0]:
                sys.setrecursionlimit(_users[1])


def _start(work: Callable[[], None]) -> threading.Thread | None:
    """Start a thread with a deep stack that does the work; return None where the system does not
    grant such a stack.
    """
    with _lock:
        before = threading.stack_size()
        try:
            threading.stack_size(_STACK_BYTES)
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
        except (RuntimeError, ValueError):
            return None
        finally:
            threading.stack_size(before)
    return thread


def run_deep(f: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call f in a thread with a deep stack, with the current trace and context variables of this one.

    Raises:
      What f raises.
    """
    if _here.deep:
        return f(*args, **kwargs)
    here = dict(state.__dict__)
    context = contextvars.copy_context()
    outcome = _Outcome[T]()
    asked: _Calls = SimpleQueue()

    def work() -> None:
        _here.deep, _here.asked = True, asked
        state.__dict__.update(here)
        outcome.of(lambda: context.run(f, *args, **kwargs))
        asked.put(None)

    with _raised_limit():
        thread = _start(work)
        if thread is None:
            return f(*args, **kwargs)
        while (call := asked.get()) is not None:
            call()
        thread.join()
    return outcome.get()


def run_in_waiting_thread(f: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call f in the thread that waits for this deep one, mostly the main thread; in this thread where none waits.

    The stack of that thread is an ordinary one, so Python's recursion limit has its former value
    meanwhile.

    Raises:
      What f raises.
    """
    if _here.asked is None:
        return f(*args, **kwargs)
    outcome, done = _Outcome[T](), threading.Event()

    def call() -> None:
        raised = sys.getrecursionlimit()
        sys.setrecursionlimit(_users[1])
        try:
            outcome.of(lambda: f(*args, **kwargs))
        finally:
            sys.setrecursionlimit(raised)
            done.set()

    _here.asked.put(call)
    done.wait()
    return outcome.get()


class _Outcome(Generic[T]):
    """The result or the exception of a call, for another thread."""

    def __init__(self) -> None:
        self.results: list[T] = []
        self.errors: list[BaseException] = []

    def of(self, f: Callable[[], T]) -> None:
        """Call f; store its result or its exception."""
        try:
            self.results.append(f())
        except BaseException as e:  # the waiting thread raises it again
            self.errors.append(e)

    def get(self) -> T:
        """Return the result of the call, or raise its exception."""
        if self.errors:
            raise self.errors[0]
        return self.results[0]


def run_nested(first: Iterator[Any]) -> None:
    """Run a generator that yields further generators, each of which ends before the one that yields it goes on.

    Nesting costs no recursion.
    """
    stack = [first]
    while stack:
        nested = next(stack[-1], None)
        if nested is None:
            stack.pop()
        else:
            stack.append(nested)


@contextmanager
def heap_set_aside() -> Generator[None]:
    """Exclude the objects that exist now from garbage collection inside the block (Note [The collector])."""
    # Objects that other code has frozen have to stay so. To count them takes a step for each of them.
    if not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def deep(f: Callable[P, T]) -> Callable[P, T]:
    """Mark a function through which recursion over nested jaxprs passes (Note [Deep programs]).

    It must have no effects.

    Garbage collection is off meanwhile (Note [The collector]).
    """

    @functools.wraps(f)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        if gc.isenabled():
            gc.disable()
            try:
                return guarded(*args, **kwargs)
            finally:
                gc.enable()
        try:
            return f(*args, **kwargs)
        except RecursionError:
            if _here.deep:
                raise
        return run_deep(f, *args, **kwargs)

    return guarded

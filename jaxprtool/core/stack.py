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
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

from jaxprtool.core.bind import state

__all__ = [
    "deep",
    "heap_set_aside",
    "run_deep",
    "run_in_waiting_thread",
    "run_nested",
    "run_until",
    "wanted",
]

P = ParamSpec("P")
T = TypeVar("T")

_STACK_BYTES = 512 << 20  # reserved, not used, until nesting needs it
_RECURSION_LIMIT = 100_000


_Calls = SimpleQueue[Callable[[], None] | None]


class _Wait:
    """A thread that waits for another one; `over`: no longer."""

    over = False


class _Here(threading.local):
    """State of a thread.

    Attributes:
      deep: whether the thread has a deep stack.
      asked: the queue of calls that the thread which waits for this one has to make, ended by None;
        None where no thread waits.
      waits: those who wait for it, until a time.
    """

    deep = False
    asked: _Calls | None = None
    waits: Sequence[_Wait] = ()


_here = _Here()
_lock = threading.Lock()
# Held by a thread with an effect, and by one that stops waiting for it.
_effects = threading.RLock()
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
    outcome = _Outcome[T]()
    asked: _Calls = SimpleQueue()
    call = _carried(lambda: f(*args, **kwargs), asked)

    def work() -> None:
        outcome.of(call)
        asked.put(None)

    with _raised_limit():
        thread = _start(work)
        if thread is None:
            return f(*args, **kwargs)
        while (here := asked.get()) is not None:
            here()
        thread.join()
    return outcome.get()


def _carried(f: Callable[[], T], asked: _Calls | None, *waits: _Wait) -> Callable[[], T]:
    """Return f for a thread with a deep stack, with the current trace and context variables of this one.

    `asked` is the queue of what f wants to be called in the thread that waits; `waits` are those
    who wait for it until a time.
    """
    here, waits = dict(state.__dict__), (*_here.waits, *waits)
    context = contextvars.copy_context()

    def call() -> T:
        _here.deep, _here.asked, _here.waits = True, asked, waits
        state.__dict__.update(here)
        return context.run(f)

    return call


def run_until(
    deadline: float | None, f: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> list[T]:
    """Call f, but wait for it until a deadline only, as `time.monotonic` gives it.

    Python cannot stop a call, which may be a single operation of NumPy or a compilation. So f is
    called in a thread with a deep stack, as `run_deep` does; past the deadline that goes on, and
    its result is dropped. Effects that it must not have then it has in `wanted` blocks.

    Args:
      deadline: None for no limit; then f is called in this thread.

    Returns:
      The result of f, alone in a list; an empty list where the time was up before.

    Raises:
      What f raises in time.
    """
    if deadline is None:
        return [f(*args, **kwargs)]
    if time.monotonic() >= deadline:
        return []
    outcome, done, wait = _Outcome[T](), threading.Event(), _Wait()
    call = _carried(lambda: f(*args, **kwargs), _here.asked, wait)

    def work() -> None:
        with _raised_limit():
            outcome.of(call)
        done.set()

    if _start(work) is None:
        return [f(*args, **kwargs)]
    try:
        done.wait(max(0.0, deadline - time.monotonic()))
    finally:
        with _effects:
            wait.over = True
    return [outcome.get()] if done.is_set() else []


class _Unwanted(BaseException):
    """Ends a thread that nobody waits for any more."""


@contextmanager
def wanted() -> Generator[None]:
    """Mark an effect that must not happen once `run_until` does not wait for this thread any more.

    It does not stop waiting while the block runs.

    Raises:
      an exception that ends the thread, where it has stopped.
    """
    with _effects:
        if any(w.over for w in _here.waits):
            raise _Unwanted
        yield


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

"""Write files so that each is whole or untouched, and nothing else is left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NoReturn

from jaxprtool.driver.progress import stop_showing
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["check_writable", "remove_temporaries", "removing_temporaries", "write_output"]

_temporaries: set[str] = set()
_lock = threading.Lock()  # held while a temporary file is made, and for good once the process ends
_LOCK_SECONDS = 1.0
_RESCUE_SECONDS = 20.0
# What ends a process unless it is caught, and can be; an interrupt (SIGINT) is an exception of Python's.
_DEADLY = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGXCPU", "SIGALRM", "SIGUSR1", "SIGUSR2")


def write_output(path: str, data: str | bytes) -> None:
    """Write a file whole or not at all: a temporary file beside it takes its place.

    The permissions of a file that is replaced are kept, and so is its group where that is allowed. The temporary
    file's name is drawn at random; `removing_temporaries` removes it when a signal ends the process.

    Raises:
      UsageError: the folder is missing or may not be written to.
    """
    raw = data.encode() if isinstance(data, str) else data
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        _write_special(path, target, raw)
        return
    temporary, handle = _create(path, target)
    try:
        with os.fdopen(handle, "wb") as f:
            _keep_mode(f.fileno(), target)
            f.write(raw)
        os.replace(temporary, target)
    except BaseException as e:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(e, OSError):
            _cannot_write(path, e)
        raise
    finally:
        _temporaries.discard(temporary)


def _create(path: str, target: str) -> tuple[str, int]:
    """Create a temporary file in the folder of a file, with a name that no other has; return the
    name, and the open file.
    """
    while True:
        temporary = os.path.join(os.path.dirname(target), f".jaxprtool-{os.urandom(12).hex()}.tmp")
        with _lock:
            try:
                handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                continue
            except OSError as e:
                _cannot_write(path, e)
            _temporaries.add(temporary)
            return temporary, handle


def _keep_mode(handle: int, target: str) -> None:
    """Give a new file the permissions and, where allowed, the group of the one that it replaces."""
    try:
        old = os.stat(target)
    except OSError:
        return
    with contextlib.suppress(OSError):
        os.fchown(handle, -1, old.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(handle, old.st_mode & 0o777)


def _write_special(path: str, target: str, raw: bytes) -> None:
    """Write to a file that is not a plain one (`/dev/null`, a pipe), which cannot be replaced."""
    try:
        with open(target, "wb") as f:
            f.write(raw)
    except OSError as e:
        _cannot_write(path, e)


def check_writable(path: str) -> None:
    """Raise UsageError where a file can certainly not be written, before the work whose result it would hold."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    reason = 0
    if os.path.isdir(target):
        reason = errno.EISDIR
    elif not os.path.isdir(folder):
        reason = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
    elif not os.access(folder, os.W_OK | os.X_OK) and not os.access(target, os.W_OK):
        reason = errno.EACCES
    if reason:
        _cannot_write(path, OSError(reason, os.strerror(reason)))


def _cannot_write(path: str, error: OSError) -> NoReturn:
    reason = (error.strerror or str(error)).lower()
    fail(UsageError, f"cannot write {path}: {reason}", "unwritable-file")


def remove_temporaries() -> None:
    """Remove the files that are being written, for a process that ends now; no other file is begun."""
    _lock.acquire(timeout=_LOCK_SECONDS)
    for path in [*_temporaries]:
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def removing_temporaries(rescue: Callable[[], object] = lambda: None) -> Generator[None]:
    """Let signals that end the process remove temporary files first, while the block runs (in the main thread).

    Signals that are ignored stay so.

    Args:
      rescue: called before that, to write files that are to stay. It has some seconds.
    """
    before: dict[int, Any] = {}
    for name in _DEADLY:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            before[number] = signal.signal(number, partial(_end, rescue))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(rescue: Callable[[], object], number: int, _frame: Any) -> None:
    """Call the rescue, remove temporary files and what is drawn on the terminal, then end by the same signal."""
    signal.signal(number, signal.SIG_IGN)  # what is left to do is short
    # In a thread of its own: the one that has the signal may hold the lock.
    rescuing = threading.Thread(target=rescue, daemon=True)
    rescuing.start()
    rescuing.join(_RESCUE_SECONDS)
    remove_temporaries()
    stop_showing()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)

"""A process that has modules loaded, and runs each command in a copy of itself.

# Note [Forks]

To start Python and to load modules takes most of the time of a short command. A server loads them
once, and forks for each command: the copy ends as the command ends, with its exit status, by a
signal, or never, and takes nothing with it. The server itself runs no command, so that it never
starts XLA, whose threads a fork would not copy. It learns which modules commands need from the
names that they import, and loads those of a few packages for the next ones.

What a copy has in common with the others and a process of its own has not is the seed of the hashes
of strings. So `Crash` runs the whole program and the result in processes of their own.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence

__all__ = ["PACKAGES", "serve"]

# What commands import of these packages is loaded in the server. JAX is not among them, since verbs set
# variables of the environment before they import it.
PACKAGES = frozenset({"jaxprtool", "numpy", "scipy", "ml_dtypes", "jaxlib", "click", "rich"})


def serve(main: Callable[[], None]) -> None:
    """Run commands until standard input ends.

    Each line of standard input is a JSON object: `words`, the command; `folder`, its folder for
    temporary files; `output`, the file for what it writes. For each, standard output gets a line
    with the number of the process, and one with its exit status, negative for a signal.

    Args:
      main: runs the command in `sys.argv`, and ends the process.
    """
    asked = os.fdopen(os.dup(0))
    answers = os.fdopen(os.dup(1), "w")
    _redirect(os.open(os.devnull, os.O_RDWR), 0, 1, 2)
    for line in asked:
        request = json.loads(line)
        imported = os.memfd_create("imported")
        process = _fork()
        if not process:
            _run(main, imported, **request)
        with contextlib.suppress(OSError):
            os.setpgid(process, process)
        print(process, file=answers, flush=True)
        _, status = os.waitpid(process, 0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)  # its children
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
        _load(imported)


def _fork() -> int:
    gc.collect()
    gc.freeze()  # so that the copies do not write to the memory that they share
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: those of BLAS are prepared for a fork
        return os.fork()


def _run(
    main: Callable[[], None], imported: int, words: Sequence[str], folder: str, output: str
) -> None:
    """Run a command in this copy of the server."""
    try:
        os.setpgid(0, 0)
        os.environ["TMPDIR"], tempfile.tempdir = folder, None
        _redirect(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1, 2)
        sys.argv = ["jaxprtool", *words]
        sys.addaudithook(_noting(imported))
        main()
    finally:
        os.kill(os.getpid(), signal.SIGKILL)  # `main` ends the process itself


def _redirect(file: int, *descriptors: int) -> None:
    for descriptor in descriptors:
        os.dup2(file, descriptor)
    os.close(file)


def _noting(file: int) -> Callable[[str, tuple[object, ...]], None]:
    """Return an audit hook that writes the names of imported modules of `PACKAGES` to a file."""

    def note(event: str, args: tuple[object, ...]) -> None:
        if event == "import":
            name = str(args[0])
            if name.partition(".")[0] in PACKAGES:
                os.write(file, f"{name}\n".encode())

    return note


def _load(imported: int) -> None:
    """Import the modules whose names a file holds, in their order, and close it."""
    os.lseek(imported, 0, os.SEEK_SET)
    with os.fdopen(imported) as names:
        for name in dict.fromkeys(names.read().split()):
            if name not in sys.modules:
                with contextlib.suppress(Exception):  # the command has an import that may fail
                    importlib.import_module(name)

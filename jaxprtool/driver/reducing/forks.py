"""Commands of this tool in copies of a process that has modules loaded (Note [Forks])."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from jaxprtool.driver.running.children import end

__all__ = ["Forks", "ServerEnded", "can_fork"]

_MAIN = (
    "from jaxprtool.cli.entry import main; "
    "from jaxprtool.driver.reducing.serving import serve; serve(main)"
)
_PATIENCE = 60.0  # seconds until a server answers that it has begun a command


class ServerEnded(Exception):
    """The server has ended, or does not answer."""


def can_fork() -> bool:
    """Whether copies of a process that has loaded NumPy work on this system."""
    return sys.platform == "linux"


class Forks:
    """A server, which runs one command after the other.

    Attributes:
      server: its process.
      running: the number of the process of the command that runs; None for none.
    """

    def __init__(self) -> None:
        self.running: int | None = None
        self.server = subprocess.Popen(
            [sys.executable, "-c", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        self._read = b""

    def run(
        self, words: Sequence[str], folder: str, output: str, limit: float | None
    ) -> int | None:
        """Run a command.

        Args:
          words: its verb and options.
          folder: where it makes temporary files.
          output: the file for all that it writes.
          limit: how many seconds it may take.

        Returns:
          Its exit status, negative for a signal; None past the limit, when the server has ended,
          too.

        Raises:
          ServerEnded: it cannot be run.
        """
        deadline = None if limit is None else time.monotonic() + limit
        request = json.dumps({"words": [*words], "folder": folder, "output": output})
        try:
            assert self.server.stdin is not None
            self.server.stdin.write(f"{request}\n".encode())
            self.server.stdin.flush()
            self.running = self._number(time.monotonic() + _PATIENCE)
            if self.running is None:
                raise ServerEnded
            status = self._number(deadline)
        except (OSError, ValueError) as e:  # it was closed
            raise ServerEnded from e
        if status is None:
            self.close()
        self.running = None
        return status

    def close(self) -> None:
        """End the server, and the command that runs."""
        if self.running is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.running, signal.SIGKILL)
        end(self.server)

    def ended(self) -> None:
        """Wait for the server, which was closed."""
        self.close()
        for stream in (self.server.stdin, self.server.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.server.wait()

    def _number(self, deadline: float | None) -> int | None:
        """Return the number on the next line of the server; None past the deadline."""
        assert self.server.stdout is not None
        file = self.server.stdout.fileno()
        while b"\n" not in self._read:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([file], [], [], left)[0]:
                return None
            data = os.read(file, 4096)
            if not data:
                raise ServerEnded
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return int(line)

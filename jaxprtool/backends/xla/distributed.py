"""Several processes, on one or more machines, as one runtime, with the distributed runtime of JAX, which is in jaxlib.

Process 0 runs the coordination service, through which the processes find one another; Gloo, which
XLA's CPU backend calls for collectives, then moves the values.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from jaxprtool.backends.xla import client
from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["Cluster"]

_HEARTBEAT = 30  # seconds after which a process that is not heard of counts as dead
_NEVER = 10**6  # seconds: the runtime ends the process at its own limit, so ours comes first


class Cluster:
    """This process among those that run a program together.

    The constructor waits until all of them have connected.

    Args:
      coordinator: HOST:PORT, where process 0 listens.
      count: the number of processes.
      index: the number of this one; each of 0 to count - 1 occurs once.
      timeout: seconds to wait for the others.

    Raises:
      UsageError: the others do not connect in time, or process 0 cannot listen.
    """

    def __init__(self, coordinator: str, count: int, index: int, timeout: float):
        self.coordinator, self.count, self.index = coordinator, count, index
        self.timeout = timeout
        self._service = self._serve() if index == 0 else None
        self._client = client.distributed_client(coordinator, index, _NEVER, _HEARTBEAT)
        self._connect()

    def _serve(self) -> Any:
        port = int(self.coordinator.rpartition(":")[2])
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        try:  # the service itself ends the process when the port is taken
            socket.create_server(("", port), family=family, dualstack_ipv6=dual).close()
        except OSError as e:
            reason = os.strerror(e.errno).lower() if e.errno else str(e)
            fail(UsageError, f"process 0 cannot listen on port {port}: {reason}", "coordinator")
        return client.distributed_service(port, self.count, _HEARTBEAT)

    def _connect(self) -> None:
        """Connect, in a thread: the call itself cannot be interrupted by Ctrl-C."""
        refused: list[Exception] = []

        def connect() -> None:
            try:
                self._client.connect()
            except RuntimeError as e:  # its message gives no reason
                refused.append(e)

        thread = threading.Thread(target=connect, daemon=True)
        thread.start()
        thread.join(self.timeout)
        if thread.is_alive():
            self._not_connected(f"not all {self.count} were there after {self.timeout:g} s")
        if refused:
            self._not_connected(f"it has no place for number {self.index} of {self.count}")

    def _not_connected(self, why: str) -> NoReturn:
        fail(
            UsageError,
            f"process {self.index} does not reach the others through {self.coordinator}: {why}",
            "coordinator",
            help="start one process for each --process-id, all with the same --coordinator, where process 0 "
            "listens, and --num-processes; --connect-timeout says how long they wait",
        )

    def agree(self, what: str, parts: Iterable[bytes]) -> None:
        """Raise UsageError when the processes do not hold the same bytes.

        All of them have to call it.
        """
        digest = hashlib.blake2b(digest_size=16)
        for part in parts:
            digest.update(part)
        self._client.key_value_set(f"{what}/{self.index}", digest.hexdigest())
        try:
            self._client.wait_at_barrier(what, int(self.timeout * 1000))
            found = [self._client.key_value_try_get(f"{what}/{i}") for i in range(self.count)]
        except RuntimeError as e:
            self._not_connected(_first_line(e))
        differ = next((i for i, d in enumerate(found) if d != found[0]), None)
        if differ is not None:
            fail(
                UsageError,
                f"process {differ} has another {what} than process 0",
                "processes-differ",
                help="all processes take the same program and the same words for --args",
            )

    def runtime(self, devices: int) -> client.Runtime:
        """A runtime with so many devices for each process."""
        return client.distributed_runtime(self._client, self.index, self.count, devices)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep Gloo from writing to standard output that it is connected."""
        sys.stdout.flush()
        saved, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        try:
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)
            os.close(null)

    def close(self) -> None:
        """Disconnect; process 0, through which the others communicate, waits until all of them have finished."""
        with contextlib.suppress(RuntimeError):  # a process that is gone cannot be told
            if self._service is None:
                self._client.key_value_set(f"left/{self.index}", "")
                self._client.shutdown()
                return
            for i in range(1, self.count):
                self._client.blocking_key_value_get(f"left/{i}", int(self.timeout * 1000))
            self._client.shutdown()
            self._service.shutdown()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)

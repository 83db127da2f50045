"""Programs on the devices of several processes, through JAX's distributed runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxprtool.driver.progress import working
from jaxprtool.ir.diagnostics import JaxprToolError, UsageError, fail
from jaxprtool.ir.jaxpr import Value
from jaxprtool.stablehlo.module import StableHLO

__all__ = ["CONNECT_TIMEOUT", "Processes", "processes_of", "run_together"]

CONNECT_TIMEOUT = 300  # seconds, JAX's own


class Processes(NamedTuple):
    """The processes that run one program together, and the position of this one.

    Attributes:
      coordinator: HOST:PORT, where process 0 listens.
      num_processes: their number.
      process_id: the number of this one, from 0 on.
      timeout: seconds to wait for the others.
    """

    coordinator: str
    num_processes: int
    process_id: int
    timeout: float = CONNECT_TIMEOUT


def processes_of(
    coordinator: str | None,
    count: int | None,
    index: int | None,
    timeout: float = CONNECT_TIMEOUT,
) -> Processes | None:
    """Return the processes that options name; None when none of the three is given.

    Raises UsageError when some are missing or do not fit together.
    """
    given = {"--coordinator": coordinator, "--num-processes": count, "--process-id": index}
    missing = [name for name, value in given.items() if value is None]
    if coordinator is None or count is None or index is None:
        if len(missing) < len(given):
            message = f"several processes need {' and '.join(missing)} too"
            fail(UsageError, message, "option", help=f"{', '.join(given)} go together")
        return None
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        fail(UsageError, f"--coordinator {coordinator} is no HOST:PORT", "option")
    if not 0 <= index < count:
        fail(
            UsageError,
            f"--process-id {index} is out of range for --num-processes {count}",
            "option",
            help=f"processes are numbered from 0 to {count - 1}",
        )
    return Processes(coordinator, count, index, timeout)


def run_together(
    program: StableHLO, args: Sequence[Value], processes: Processes, devices: int | None = None
) -> list[Value]:
    """Return the results of a lowered program that all processes run at the same time.

    Args:
      program: the same in all processes.
      args: the whole arguments, the same in all processes; each gives its devices their parts.
      processes: the processes that run the program together.
      devices: the number of host devices of each process; by default the program's, divided evenly.

    Returns:
      The whole results, in every process.

    Raises:
      UsageError: the devices do not fit the program, the others do not connect or run something
        else.
    """
    each = _devices_each(program.devices, processes.num_processes, devices)
    distributed, xla = _backends()
    with working("waiting for the other processes"):
        cluster = distributed.Cluster(*processes)
    try:
        cluster.agree("program", [program.text.encode()])
        with working("compiling with XLA"):
            executable = xla.compile_stablehlo(program, cluster.runtime(each))
        arrays = executable.host_arguments(args)
        cluster.agree("value for the arguments", [a.tobytes() for a in arrays])
    except JaxprToolError:  # the other processes raise it too
        cluster.close()
        raise
    with cluster.quiet():
        results = executable(*arrays)
    cluster.close()
    return results


def _devices_each(needed: int, count: int, given: int | None) -> int:
    """How many devices of each process the program runs on."""
    each, rest = divmod(needed, count)
    if rest:
        mesh = (
            f"the program's mesh has {needed} devices" if needed > 1 else "the program has no mesh"
        )
        fail(UsageError, f"{mesh}, and {count} processes cannot share it evenly", "devices")
    if given is not None and given < each:
        fail(
            UsageError,
            f"the program's mesh has {needed} devices, and {count} processes with {given} each have {given * count}",
            "devices",
            help=f"--devices {each} makes as many",
        )
    return each


def _backends() -> tuple[Any, Any]:
    from jaxprtool.backends.xla import compile as xla  # noqa: PLC0415 (gateway: NumPy and jaxlib)
    from jaxprtool.backends.xla import distributed  # noqa: PLC0415

    return distributed, xla

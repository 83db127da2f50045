"""Compilation with XLA: of programs, of lowered text, and of machine code that was kept."""

from __future__ import annotations

import functools
import hashlib
import platform as machine
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxprtool.backends.xla import client
from jaxprtool.backends.xla.client import Runtime, jaxlib_version
from jaxprtool.backends.xla.executable import Executable
from jaxprtool.backends.xla.failures import reason
from jaxprtool.backends.xla.precautions import (
    check_devices,
    check_survives,
    check_text_survives,
)
from jaxprtool.backends.xla.spmd_executable import SharedExecutable, SpmdExecutable
from jaxprtool.interpreters.located import LocatedContext
from jaxprtool.interpreters.lower import lower_jaxpr
from jaxprtool.ir.diagnostics import UnsupportedError, UsageError, counted, fail
from jaxprtool.ir.jaxpr import ClosedJaxpr
from jaxprtool.ir.memo import Memo
from jaxprtool.stablehlo.module import StableHLO

__all__ = [
    "check_devices",
    "compile_jaxpr",
    "compile_located",
    "compile_stablehlo",
    "compile_text",
    "is_only_for_host",
    "jaxlib_version",
    "load_executable",
    "machine_name",
]


def _prepare_custom_calls(program: StableHLO) -> None:
    """Make what a program calls outside of XLA known to it."""
    if "stablehlo.custom_call" in program.text:
        client.register_lapack()


def compile_stablehlo(
    program: StableHLO, r: Runtime | None = None, flags: Mapping[str, Any] | None = None
) -> Executable:
    """Compile a lowered program, for the devices of this process unless `r` has others, with flags of XLA.

    Raises:
      UnsupportedError: XLA does not take it, with its reason.
    """
    _prepare_custom_calls(program)
    r = r or client.runtime(program.devices)
    try:
        loaded = r.compile(program.text, program.callbacks, flags)
    except RuntimeError as e:
        fail(
            UnsupportedError,
            f"XLA does not compile the lowered program: {reason(e)}",
            "xla-compile",
            help="the text is what `jaxprtool lower` prints",
        )
    return _executable(program, loaded, r)


def _executable(
    program: StableHLO, loaded: Any, r: Runtime, machine_code: bytes = b""
) -> Executable:
    if program.devices == 1:
        return Executable(program, loaded, r, machine_code)
    return (SharedExecutable if r.is_shared else SpmdExecutable)(program, loaded, r, machine_code)


def load_executable(program: StableHLO, machine_code: bytes) -> Executable | None:
    """An executable from what `Executable.serialize` gave; None when this jaxlib does not take it.

    It becomes native code in this process: give it only what you trust.
    """
    r = client.runtime(program.devices)
    _prepare_custom_calls(program)
    loaded = r.deserialize(machine_code)
    if loaded is None:
        return None
    return check_count(_executable(program, loaded, r, machine_code))


def check_count(executable: Executable) -> Executable:
    """An executable of an artifact; raises UsageError where it does not have as many results as the file says."""
    n, said = executable.n_results, len(executable.out_avals)
    if n != said:
        message = f"the artifact's program has {counted(n, 'result')}, and its header says {said}"
        fail(UsageError, message, "artifact-types")
    return executable


def compile_jaxpr(
    closed: ClosedJaxpr,
    max_devices: int | None = None,
    platform: str = "",
    devices_on: Callable[[str, int], Sequence[Any]] | None = None,
) -> Executable:
    """Lower and compile a program; compiled once for each `ClosedJaxpr` object and platform.

    Args:
      closed: the program.
      max_devices: how many devices may be made for it (None: any number). Raises UsageError where it needs more.
      platform: where it runs; empty for the host, by a client of our own.
      devices_on: gives so many devices of a platform.
    """
    if platform and devices_on is not None:
        return _compile_on(closed, platform, devices_on)
    found = _COMPILED.find(closed)
    if found is None:
        program = lower_jaxpr(closed)
        if max_devices is not None:
            check_devices(program, max_devices)
        code = check_survives(closed, program)
        found = _COMPILED.keep(closed, _made_of(code, program))
    return found


def _made_of(machine_code: bytes, program: StableHLO) -> Executable:
    """An executable from the machine code that another process has made of a program, where there is some."""
    found = load_executable(program, machine_code) if machine_code else None
    return found or compile_stablehlo(program)


_COMPILED = Memo[Executable]("compiled")


def compile_located(closed: ClosedJaxpr, max_devices: int, *, donate: bool = False) -> Executable:
    """`compile_jaxpr` for the host, such that the metadata of instructions say where they come from.

    donate: see `lower_jaxpr`; on one device.
    """
    program = lower_jaxpr(closed)
    check_devices(program, max_devices)
    check_survives(closed, program)
    donate = donate and program.devices == 1
    return compile_stablehlo(lower_jaxpr(closed, context=LocatedContext, donate=donate))


def _compile_on(closed: ClosedJaxpr, platform: str, devices_on: Any) -> Executable:
    """A program compiled for the devices of a client that is there already."""
    known = _COMPILED_ON.of(closed, dict)
    if platform not in known:
        program = lower_jaxpr(closed)
        check_survives(closed, program)
        r = client.runtime_on(devices_on(platform, program.devices))
        known[platform] = compile_stablehlo(program, r)
    return known[platform]


_COMPILED_ON = Memo[dict[str, Executable]]("compiled for a platform")


def is_only_for_host(program: StableHLO) -> bool:
    """Whether a lowered program calls what only the host's processors have: LAPACK, functions of Python."""
    return bool(_OF_HOST.search(program.text))


_OF_HOST = re.compile(
    r'(?:custom_call @|call_target_name = ")(?:lapack_|xla_ffi_python_cpu_callback)'
)


def compile_text(program: StableHLO) -> Executable:
    """Compile a lowered program of which only the text is known; see `compile_stablehlo`.

    One with many loops and branches is tried in a process of its own before, since they may be inside each other.
    """
    return check_count(_made_of(check_text_survives(program), program))


@functools.cache
def machine_name() -> str:
    """What machine code is for: the architecture, and a digest of the processor's features."""
    features = ""
    try:
        with open("/proc/cpuinfo") as f:
            features = next((line for line in f if line.startswith(("flags", "Features"))), "")
    except OSError:
        features = machine.processor()
    return f"{machine.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:16]}"

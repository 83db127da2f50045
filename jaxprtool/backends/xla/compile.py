"""Compile with XLA: programs, lowered text, and stored machine code."""

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
    """Register with XLA what a program calls outside of it."""
    if "stablehlo.custom_call" in program.text:
        client.register_lapack()


def compile_stablehlo(
    program: StableHLO, r: Runtime | None = None, flags: Mapping[str, Any] | None = None
) -> Executable:
    """Compile a lowered program with flags of XLA, for the devices of this process unless `r` has others.

    Raises:
      UnsupportedError: XLA does not accept it, with its reason.
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
    """Return an executable from the result of `Executable.serialize`; None when this jaxlib does not accept it.

    It becomes native code in this process: load only trusted code.
    """
    r = client.runtime(program.devices)
    _prepare_custom_calls(program)
    loaded = r.deserialize(machine_code)
    if loaded is None:
        return None
    return check_count(_executable(program, loaded, r, machine_code))


def check_count(executable: Executable) -> Executable:
    """Return the executable of an artifact; raises UsageError where it does not have as many
    results as the file says.
    """
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
      max_devices: the number of devices that may be made for it (None: any). Raises UsageError
        where it needs more.
      platform: where it runs; empty for the host, with a client of our own.
      devices_on: returns so many devices of a platform.
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
    """Return an executable from the machine code that another process has made of a program;
    compile it where there is none.
    """
    found = load_executable(program, machine_code) if machine_code else None
    return found or compile_stablehlo(program)


_COMPILED = Memo[Executable]("compiled")


def compile_located(closed: ClosedJaxpr, max_devices: int, *, donate: bool = False) -> Executable:
    """Do as `compile_jaxpr` for the host, with origins in the metadata of instructions.

    donate: see `lower_jaxpr`; on one device.
    """
    program = lower_jaxpr(closed)
    check_devices(program, max_devices)
    check_survives(closed, program)
    donate = donate and program.devices == 1
    return compile_stablehlo(lower_jaxpr(closed, context=LocatedContext, donate=donate))


def _compile_on(closed: ClosedJaxpr, platform: str, devices_on: Any) -> Executable:
    """Compile a program for the devices of an existing client."""
    known = _COMPILED_ON.of(closed, dict)
    if platform not in known:
        program = lower_jaxpr(closed)
        check_survives(closed, program)
        r = client.runtime_on(devices_on(platform, program.devices))
        known[platform] = compile_stablehlo(program, r)
    return known[platform]


_COMPILED_ON = Memo[dict[str, Executable]]("compiled for a platform")


def is_only_for_host(program: StableHLO) -> bool:
    """Whether a lowered program calls something that only the host can run: LAPACK, Python functions."""
    return bool(_OF_HOST.search(program.text))


_OF_HOST = re.compile(
    r'(?:custom_call @|call_target_name = ")(?:lapack_|xla_ffi_python_cpu_callback)'
)


def compile_text(program: StableHLO) -> Executable:
    """Compile a lowered program of which only the text is known; see `compile_stablehlo`.

    One with many loops and branches is first tried in a process of its own, since they may be
    nested.
    """
    return check_count(_made_of(check_text_survives(program), program))


@functools.cache
def machine_name() -> str:
    """Return what machine code is made for: the architecture, and a digest of the processor's features."""
    features = ""
    try:
        with open("/proc/cpuinfo") as f:
            features = next((line for line in f if line.startswith(("flags", "Features"))), "")
    except OSError:
        features = machine.processor()
    return f"{machine.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:16]}"

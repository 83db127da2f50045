"""The devices of the installed JAX, including those of its plug-ins."""

from __future__ import annotations

import contextlib
from typing import Any

import jax

from jaxprtool.backends.jax.private import platforms
from jaxprtool.backends.jax.releases import named
from jaxprtool.ir.diagnostics import UsageError, counted, fail

__all__ = ["count_host_as", "default_devices", "devices_on"]

_GET = {
    "gpu": 'pip install "jax[cuda12]", on a machine with a GPU',
    "tpu": 'pip install "jax[tpu]", on a machine with a TPU',
}


def count_host_as(count: int) -> None:
    """Make JAX treat the host as this many devices.

    Raises UsageError where it already treats it as fewer.
    """
    _ask_for(count)
    found = len(jax.devices("cpu"))
    if found < count:
        message = f"JAX takes the host for {counted(found, 'device')} in this process already, and {count} are asked for"
        fail(UsageError, message, "devices")


def _ask_for(count: int) -> None:
    with contextlib.suppress(RuntimeError):  # they are counted already
        jax.config.update("jax_num_cpu_devices", count)


def devices_on(platform: str, count: int = 1) -> list[Any]:
    """Return the first devices of a platform.

    Args:
      platform: cpu, gpu (cuda or rocm), tpu, or the name of a plug-in's.
      count: the number of devices; the host counts as as many as are asked for, unless JAX has
        counted it before.

    Raises:
      UsageError: JAX does not have the platform, or not so many devices of it.
    """
    if platform == "cpu" and count > 1:
        _ask_for(count)
    try:
        found = jax.devices(platform)
    except RuntimeError as e:
        fail(
            UsageError,
            f"the platform {platform} is not there: {named()} has {_present(e)}",
            "platform",
            help=_GET.get(platform, ""),
        )
    if len(found) < count:
        fail(
            UsageError,
            f"the program's mesh has {counted(count, 'device')}, and the platform {platform} has {len(found)}",
            "devices",
        )
    return found[:count]


def _present(error: Exception) -> str:
    try:
        return ", ".join(platforms())
    except RuntimeError:
        return f"no devices at all ({str(error).splitlines()[0]})"


def default_devices() -> list[Any]:
    """Return the devices for meshes: those of the platform that `jax.default_device` names, else JAX's own choice."""
    config: Any = jax.config
    chosen = config.jax_default_device
    return jax.devices() if chosen is None else jax.devices(getattr(chosen, "platform", chosen))

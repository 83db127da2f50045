"""The memory of the machine."""

from __future__ import annotations

import os

__all__ = ["default_max_bytes"]


def default_max_bytes() -> int:
    """Return three quarters of the machine's memory, or of the memory limit of the container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_container_limits()]) * 3 // 4


_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def _container_limits() -> list[int]:
    """The memory limits of this process's control group; Linux kills a process that exceeds them."""
    found: list[int] = []
    for path in _LIMIT_FILES:
        try:
            with open(path) as f:
                word = f.read().strip()
        except OSError:
            continue
        if word.isdigit():  # else "max"
            found.append(int(word))
    return found

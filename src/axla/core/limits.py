"""The numbers of threads and bytes that this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

from axla.core import flags

_CGROUP = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_GIB = 1 << 30
MOST_THREADS = 4096


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def thread_count() -> int:
    """The number of threads for parallel loops: the flag `num_threads`, else the number of cores that CPU
    affinity and the container's quota allow.
    """
    chosen = flags.current().num_threads
    if chosen is not None:
        return chosen
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _quota()))


def _groups(controller: str) -> list[Path]:
    """The folders of the control groups of this process and their parents, for cgroup versions 2 and 1.
    `controller` is "cpu" or "memory".
    """
    found = [_CGROUP, _CGROUP / controller]
    for line in _read(_OWN_GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        top = _CGROUP / controller if controllers else _CGROUP
        if not controllers or controller in controllers.split(","):
            inner = top / path.lstrip("/")
            found += [inner, *(group for group in inner.parents if top in group.parents)]
    return found


def _quota() -> int:
    """The number of cores in the smallest CPU quota of a control group, rounded up."""
    least = 1 << 30
    for group in _groups("cpu"):
        quota, _, period = _read(group / "cpu.max").partition(" ")
        if not quota:
            quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):
            least = min(least, math.ceil(int(quota) / int(period)))
    return least


def memory_limit() -> int:
    """The number of bytes that arrays and workspaces together may use: the smaller of physical memory and the
    container's limit.
    """
    limits = [_physical()]
    for group in _groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(group / name)
            if text.isdigit():
                limits.append(int(text))
    return min(limits)


def cache_limit() -> int:
    """The number of bytes of freed memory to keep for reuse: an eighth of the memory limit, at most 4 GiB."""
    return min(memory_limit() // 8, 4 * _GIB)


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 1 << 46

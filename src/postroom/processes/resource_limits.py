"""Limits of memory, CPU time and core files for our own child interpreters. Programs that these start for a person have no such limit.

Only the soft limits are set, which a process may raise again up to the hard ones.
"""

from __future__ import annotations

import resource
import threading

_limits: dict[int, int] = {}  # the soft limits that this process has set
_lock = threading.Lock()


def limit_resources(memory_bytes: int, cpu_seconds: int) -> None:
    """Limit the address space and the CPU time of this process, and write no core files. 0 is no limit of CPU time: for long-lived ones."""
    wanted = {resource.RLIMIT_AS: memory_bytes, resource.RLIMIT_CPU: cpu_seconds, resource.RLIMIT_CORE: 0}
    for kind, value in wanted.items():
        if value or kind == resource.RLIMIT_CORE:
            _limits[kind] = value
    _set_soft_limits(_limits)


class without_limits:  # noqa: N801 - used as a function. `contextlib` costs more than a command has to spend
    """Start a program inside the block that does not inherit the limits of this process."""

    def __enter__(self) -> None:
        _lock.acquire()  # the limits are those of the whole process
        _set_soft_limits(dict.fromkeys(_limits, resource.RLIM_INFINITY))

    def __exit__(self, *exc: object) -> None:
        _set_soft_limits(_limits)
        _lock.release()


def _set_soft_limits(limits: dict[int, int]) -> None:
    """Set soft limits, at most to the hard ones. A system without a limit of this kind refuses, as macOS does for memory."""
    for kind, value in limits.items():
        _, hard = resource.getrlimit(kind)
        is_lower = hard == resource.RLIM_INFINITY or (value != resource.RLIM_INFINITY and value <= hard)
        try:
            resource.setrlimit(kind, (value if is_lower else hard, hard))
        except (ValueError, OSError):
            pass

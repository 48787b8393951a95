"""CPU time and memory of a process, read from /proc."""

from __future__ import annotations

from pathlib import Path


def read_cpu_seconds(pid: int) -> float:
    """Return the seconds on a CPU of all threads, counted by the scheduler: the clock ticks of `stat` are too coarse for what sleeps."""
    seconds = 0.0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
        except FileNotFoundError:
            pass  # it ended meanwhile
    return seconds


def read_resident_bytes(pid: int) -> int:
    """Return the resident memory, shared pages included."""
    return _read_kib(Path(f"/proc/{pid}/status"), "VmRSS:")


def read_proportional_bytes(pid: int) -> int:
    """Return the resident memory, with each shared page divided by the number of processes that share it."""
    return _read_kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")


def _read_kib(path: Path, label: str) -> int:
    return int(path.read_text().partition(label)[2].split()[0]) * 1024

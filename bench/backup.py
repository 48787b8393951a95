"""A backup of a large store beside writers: how long it takes, and for how long it holds a write up."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import postroom
from bench.report import Report, milliseconds, percentile
from bench.results import OURS, SECONDS
from bench.retention import EVERY_SECONDS, WRITERS, answer, processes, tell
from bench.scale import choose
from postroom import work
from postroom.maintenance.backups import back_up

STORE_BYTES = int(os.environ.get("BYTES", choose(1 << 30, 1 << 26)))
BODY_BYTES, BATCH_SENDS = 60_000, 200
BLOCK_SECONDS = 1.0
BLOCKS_WITHOUT = choose(20, 3)
BOUND_SECONDS = 0.020
GROUP = "retention"


def run(report: Report) -> None:
    """Measure writes that do not hurry without a backup, beside one, and without one again."""
    report.section(f"A backup of {STORE_BYTES >> 20:,} MiB beside {WRITERS} writers of {1 / EVERY_SECONDS:.0f} messages a second each")
    with TemporaryDirectory() as folder:
        place = str(Path(folder) / "coord.db")
        _fill(place)
        with processes("bench.retention", "write", place, WRITERS) as writers:
            before = [_write_block(writers) for _ in range(BLOCKS_WITHOUT)]
            beside, seconds = _write_beside_backup(writers, place, str(Path(folder) / "backup.db"))
            after = [_write_block(writers) for _ in range(BLOCKS_WITHOUT)]
    report.row("the backup, verified", f"{seconds:.1f} s")
    report.record(GROUP, f"backup of {STORE_BYTES >> 20:,} MiB, verified", OURS, SECONDS, [seconds])
    for label, blocks in (("before it", before), ("beside it", beside), ("after it", after)):
        waits = [wait for block in blocks for wait in block]
        shares = " / ".join(milliseconds(percentile(waits, share)) for share in (0.5, 0.99, 1))
        late = sum(wait > BOUND_SECONDS for wait in waits)
        report.row(f"a write {label}: median / p99 / longest", shares)
        report.row(f"writes {label} that took more than 20 ms", f"{late} of {len(waits):,}")
    longest, longest_without = [max(block) for block in beside], [max(block) for block in before + after]
    pairs = min(len(longest), len(longest_without))
    operation = "longest write of a second, beside a backup"
    report.record(GROUP, operation, OURS, SECONDS, longest[:pairs], clients=WRITERS)
    report.record(GROUP, operation, "without a backup", SECONDS, longest_without[:pairs], clients=WRITERS)
    added = max(percentile(longest, 0.5) - percentile(longest_without, 0.5), 0.0)
    report.row("the longest write of a second, beside - without (medians)", milliseconds(added), "under 20 ms", met=added < BOUND_SECONDS)


def _fill(place: str) -> None:
    postroom.init(place)
    with closing(postroom.open(place)) as store:
        while os.path.getsize(place) < STORE_BYTES:
            with store.batch() as batch:
                for number in range(BATCH_SENDS):
                    work.send(batch, sender="leader", to="builder", subject=f"Part {number}", body="x" * BODY_BYTES)


def _write_block(writers: list[subprocess.Popen[str]]) -> list[float]:
    for writer in writers:
        tell(writer, f"{BLOCK_SECONDS} {EVERY_SECONDS}")
    return [float(word) for writer in writers for word in answer(writer).split()]


def _write_beside_backup(writers: list[subprocess.Popen[str]], place: str, target: str) -> tuple[list[list[float]], float]:
    began = perf_counter()
    backup = subprocess.Popen([sys.executable, "-m", "bench.backup", place, target])
    blocks = []
    while backup.poll() is None:
        blocks.append(_write_block(writers))
    assert backup.returncode == 0
    return blocks, perf_counter() - began


if __name__ == "__main__":
    with closing(postroom.open(sys.argv[1])) as opened:
        back_up(opened, sys.argv[2])

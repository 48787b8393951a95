"""Power cuts: record what a process writes and syncs, then rebuild the disk as it may look after a cut at some moment, and open the store.

What a file held at its last sync is there. Of what was written to it later, any part may be: each write whole, torn at a sector, or not
at all, in any combination. `python -m tests.torture.power_cut FOLDER` does this for many moments and prints what was lost as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from postroom.store.interface import Store
from tests.torture.write_recorder import DELETE, MARK, SYNC, TRUNCATE, WRITE, WriteRecord, WriteRecorder

SECTOR_BYTES = 512
MESSAGES, CUTS = 24, 60
REPEATED = "again"


@dataclass
class Acknowledged:
    """Something that a verb returned: a query that must find it, in a file of the folder."""

    file: str
    query: str
    value: str


def rebuild(base: Path, records: Sequence[WriteRecord], target: Path, source: Path, random: Random) -> None:
    """Write the files into `target` as they may be after a cut behind these records.

    `base` is a copy of the folder as it was on the disk before the first record, and `source` the folder that was recorded.
    """
    shutil.copytree(base, target)
    synced_folders = _last_folder_syncs(records)
    by_path: dict[str, list[tuple[WriteRecord, bool]]] = {}
    for index, record in enumerate(records):
        if record.action != MARK:
            is_durable = record.action == SYNC or (record.action == DELETE and index < synced_folders.get(_folder_of(record), 0))
            by_path.setdefault(record.path, []).append((record, is_durable))
    for path, changes in by_path.items():
        copy = target / Path(path).relative_to(source)
        content = _content_after_cut(copy.read_bytes() if copy.exists() else None, changes, random)
        if content is None:
            copy.unlink(missing_ok=True)
        else:
            copy.write_bytes(content)


def _last_folder_syncs(records: Sequence[WriteRecord]) -> dict[str, int]:
    """Return where each folder was last synced: with the first sync of a log or journal that is new. Deletions before it are durable."""
    known: set[str] = set()
    syncs: dict[str, int] = {}
    for index, record in enumerate(records):
        if record.action == DELETE:
            known.discard(record.path)
        elif record.action == SYNC and record.path not in known:
            known.add(record.path)
            if record.path.endswith(("-wal", "-journal")):
                syncs[_folder_of(record)] = index
    return syncs


def _folder_of(record: WriteRecord) -> str:
    return os.path.dirname(record.path)


def _content_after_cut(base: bytes | None, changes: list[tuple[WriteRecord, bool]], random: Random) -> bytes | None:
    """Return what a file holds, or None if it is not there. Each change comes with whether it makes all changes before it durable."""
    synced = max((index + 1 for index, (_, is_durable) in enumerate(changes) if is_durable), default=0)
    content = None if base is None else bytearray(base)
    for change, _ in changes[:synced]:
        content = _apply(content, change)
    keep = random.choice((0.0, 0.5, 0.9, 1.0))  # nothing, a part, or all of what was not synced
    for change, _ in changes[synced:]:
        if random.random() < keep:
            content = _apply(content, _tear(change, random))
    return None if content is None else bytes(content)


def _tear(change: WriteRecord, random: Random) -> WriteRecord:
    if change.action != WRITE or len(change.data) <= SECTOR_BYTES or random.random() < 0.7:
        return change
    sectors = random.randrange(len(change.data) // SECTOR_BYTES)
    return WriteRecord(WRITE, change.path, change.offset, change.data[: sectors * SECTOR_BYTES])


def _apply(content: bytearray | None, change: WriteRecord) -> bytearray | None:
    if change.action == DELETE:
        return None
    content = bytearray() if content is None else content
    if change.action == WRITE:
        content.extend(bytes(max(0, change.offset - len(content))))
        content[change.offset : change.offset + len(change.data)] = change.data
    elif change.action == TRUNCATE:
        del content[change.offset :]
    return content


def make_stores(folder: Path) -> None:
    """Create the store and the queue. What follows is about their use."""
    import postroom
    from postroom import queues

    postroom.init(str(folder / "coord.db"))
    queues.init_queue(str(folder / "queue"))


def record_program(folder: Path, recorder: WriteRecorder, acknowledged: list[Acknowledged]) -> None:
    """Use a store and a queue. After each verb has returned, mark what it promised."""
    import postroom
    from postroom import mail, people, queues, work
    from postroom.tasks import Conductor

    place, path = str(folder / "coord.db"), str(folder / "queue")

    def promise(file: str, query: str, value: str) -> None:
        acknowledged.append(Acknowledged(file, query, value))
        recorder.mark(str(len(acknowledged)))

    with closing(postroom.open(place)) as store, closing(postroom.open(place)) as second, queues.open_queue(path) as queue:
        conductor = Conductor(store)
        for agent in ("forge", "canyon"):
            conductor.register(agent)
        for number in range(MESSAGES):
            body = "x" * (number * 997 % 9000)
            thread = work.send(store, sender="leader", to="builder", subject="Build", body=body).thread.thread_id
            promise("coord.db", "SELECT 1 FROM threads WHERE thread_id = ?", thread)
            claim = work.claim(store, thread, agent="builder")
            promise("coord.db", "SELECT 1 FROM leases WHERE lease_token = ?", claim.lease.lease_token)
            work.done(store, thread, agent="builder", summary="Done")
            promise("coord.db", "SELECT 1 FROM threads WHERE status = 'done' AND thread_id = ?", thread)
            mail.enqueue(store, {"msg_id": f"m{number}", "from": "ada", "to": "box", "payload": body})
            promise("coord.db", "SELECT 1 FROM deliveries WHERE msg_id = ?", f"m{number}")
            repeat_after_kill(store, f"{REPEATED}{number}", second if number % 2 else None)
            promise("coord.db", "SELECT 1 FROM deliveries WHERE msg_id = ?", f"{REPEATED}{number}")
            task = conductor.submit("forge", "canyon", f"Look at {number}")
            promise("coord.db", "SELECT 1 FROM tasks WHERE task_id = ?", task.task_id)
            entry = people.notify(store, sender="cron", text=f"Run {number}")
            promise("coord.db", "SELECT 1 FROM entries WHERE id = ?", entry.id)
            event = queues.push(queue, source="self", type="record", subtype="note", content=body)
            promise("queue/events.db", "SELECT 1 FROM events WHERE id = ?", str(event.id))


class KilledError(BaseException):
    """Stands for a SIGKILL: the verb does not return."""


def repeat_after_kill(store: Store, message: str, other: Store | None) -> None:
    """Send a message and be killed between the commit and the sync. Then send it again, by a store that is open or by a new one.

    The second call finds the message and changes nothing. When it returns, the message is accepted, so it must be on the disk.
    """
    import postroom
    from postroom import mail
    from postroom.store.sqlite.open_database import WalFile

    draft = {"msg_id": message, "from": "ada", "to": "box", "payload": "Hello"}
    with suppress(KilledError), patch.object(WalFile, "sync", side_effect=KilledError):
        mail.enqueue(store, draft)
    if other is not None:
        mail.enqueue(other, draft)
        return
    with closing(postroom.open(store.location)) as fresh:
        mail.enqueue(fresh, draft)


def check_after_cut(folder: Path, promised: Iterable[Acknowledged]) -> list[str]:
    """Open what a cut left, and return what is missing or damaged."""
    import postroom
    from postroom import work

    found: list[str] = []
    for file in ("coord.db", "queue/events.db"):
        if not (folder / file).exists():
            found.append(f"{file} is gone")
            continue
        with closing(sqlite3.connect(folder / file)) as connection:
            found += _find_problems(connection, [one for one in promised if one.file == file])
    if found:
        return found
    with closing(postroom.open(str(folder / "coord.db"))) as store:
        work.send(store, sender="leader", to="builder", subject="After the cut")
    return []


def _find_problems(connection: sqlite3.Connection, promised: list[Acknowledged]) -> list[str]:
    try:
        damage = [line for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
        lost = [one for one in promised if connection.execute(one.query, (one.value,)).fetchone() is None]
    except sqlite3.DatabaseError as error:
        return [f"damaged: {error}"]
    return [f"damaged: {line}" for line in damage] + [f"lost: {one.value} ({one.query})" for one in lost]


def cut_everywhere(folder: Path, *, seed: int = 1, cuts: int = CUTS) -> list[str]:
    """Record a program, cut the power at many moments behind its first promise, and return what each cut lost."""
    source, base, target = folder / "recorded", folder / "base", folder / "cut"
    source.mkdir(parents=True)
    make_stores(source)
    shutil.copytree(source, base)
    recorder, acknowledged = WriteRecorder(), list[Acknowledged]()
    record_program(source, recorder, acknowledged)
    records = tuple(recorder.records)
    problems: list[str] = []
    random = Random(seed)
    for moment in _choose_moments(records, acknowledged, random, cuts):
        before = records[:moment]
        rebuild(base, before, target, source, random)
        promised = acknowledged[: sum(record.action == MARK for record in before)]
        problems += [f"cut behind call {moment} of {len(records)}: {problem}" for problem in check_after_cut(target, promised)]
        shutil.rmtree(target)
    return problems


def _choose_moments(records: Sequence[WriteRecord], acknowledged: Sequence[Acknowledged], random: Random, cuts: int) -> list[int]:
    """Return how many records come before each cut: anywhere, right behind a promise, and behind each call that changed nothing."""
    marks = [index for index, record in enumerate(records) if record.action == MARK]
    anywhere = [random.randrange(marks[0], len(records)) for _ in range(cuts // 2)]
    repeated = [mark for mark, promised in zip(marks, acknowledged) if promised.value.startswith(REPEATED)]
    return [index + 1 for index in sorted(anywhere + random.sample(marks, cuts // 2) + repeated)]


def main(folder: str, synchronous: str) -> int:
    if synchronous:
        _weaken(synchronous)
    os.environ["INBOX_DATA"] = str(Path(folder) / "data")
    print(json.dumps(cut_everywhere(Path(folder))))
    return 0


def _weaken(synchronous: str) -> None:
    """Plant a fault: let SQLite sync less than the product asks for, and the product not at all."""
    from postroom.store.sqlite import open_database

    del os.fdatasync

    class Weak(sqlite3.Connection):
        def execute(self, statement: str, *binds: Any) -> sqlite3.Cursor:
            return super().execute(f"PRAGMA synchronous={synchronous}" if "PRAGMA synchronous" in statement else statement, *binds)

    real = vars(open_database)["connect"]
    vars(open_database)["connect"] = lambda *args, **options: real(*args, factory=Weak, **options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *sys.argv[2:3] or [""]))

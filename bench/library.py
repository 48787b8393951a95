"""The verbs beside the same statements by hand, and beside themselves on a large store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import postroom
from bench.blocks import Blocks, interleave, measure_blocks
from bench.report import Report, load, milliseconds, times
from bench.results import OURS, PER_SECOND, SECONDS
from bench.scale import SIZES, choose
from postroom import work
from postroom.core import clock, ids
from postroom.store.interface import Store
from postroom.store.sqlite import statements as sql

BLOCKS, PAIRS_OF_BLOCK = choose(15, 5), 25
BY_HAND = "the same statements by hand"


def run(report: Report) -> None:
    report.section(f"Library: claim + done of a thread, in blocks beside the same statements by hand (sqlite3, FULL); {load()}")
    with TemporaryDirectory() as folder:
        blocks = _side_by_side(str(Path(folder) / "coord.db"))
    for name in (BY_HAND, OURS):
        report.row(f"{name}: claim + done, a second", f"{blocks.rate(name):.0f}")
        report.record("rooms on SQLite", "thread: claim + done", name, PER_SECOND, blocks.rates(name))
    share = blocks.ratio(OURS, BY_HAND)
    report.row("postroom / by hand", f"{share:.0%}", "at least 90 %", met=share >= 0.9)
    report.section(f"Flat cost: at {SIZES[-1]:,} threads / at {SIZES[0]:,}")
    with TemporaryDirectory() as folder:
        verbs = {size: _verbs(str(Path(folder) / f"{size}.db"), size) for size in SIZES}
        for name in verbs[SIZES[0]]:
            measured = interleave(100, 1, **{str(size): verbs[size][name] for size in SIZES})
            for size in SIZES:
                report.record("size", f"threads: {name}", OURS, SECONDS, measured.seconds(str(size)), size=size)
            ratio = measured.ratio(str(SIZES[0]), str(SIZES[-1]))
            small = milliseconds(measured.median(str(SIZES[0])))
            report.row(f"{name} ({small} at {SIZES[0]:,})", times(ratio), "within 1.5", met=ratio <= 1.5)


def _side_by_side(place: str) -> Blocks:
    postroom.init(place)
    store = postroom.open(place)
    total = (BLOCKS + 1) * PAIRS_OF_BLOCK * 2
    threads = iter([work.send(store, sender="leader", to="w", subject="bench").thread.thread_id for _ in range(total)])
    bare = sqlite3.connect(place, isolation_level=None)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "wal_autocheckpoint=1000"):
        bare.execute(f"PRAGMA {pragma}")

    def claim_and_end() -> None:
        thread_id = next(threads)
        work.claim(store, thread_id, agent="w")
        work.done(store, thread_id, agent="w", summary="ok")

    return measure_blocks(BLOCKS, PAIRS_OF_BLOCK, {OURS: claim_and_end, BY_HAND: lambda: _by_hand(bare, next(threads))})


def _by_hand(bare: sqlite3.Connection, thread_id: str) -> None:
    """The statements as written by hand: the same rows, the same guards, no checks in Python."""
    now = clock.format_stamp(clock.now())
    token, message_id = ids.new_id("lse", clock.now()), ids.new_id("msg", clock.now())
    key = {"thread_id": thread_id}
    event = {**key, "run_id": "", "task_id": "", "source": "w", "summary": "bench", "payload_json": "{}", "created_at": now}
    move = {**key, "assigned_to": "w", "now": now}
    bare.execute("BEGIN IMMEDIATE")
    bare.execute(sql.thread_find, key).fetchone()
    granted = {**key, "agent_id": "w", "lease_token": token, "now": now, "expires_at": now, "lease_seconds": 900}
    bare.execute(sql.lease_grant, {**granted, "priority": "normal", "replaced_token": ""})
    bare.execute(sql.thread_move, {**move, "status": "claimed", "seen": "pending", "latest_message_id": None})
    bare.execute(sql.event_append, {**event, "event_type": "thread.claimed", "message_id": None})
    bare.execute(sql.agent_seen, {"name": "w", "now": now})
    bare.execute("COMMIT")
    bare.execute("BEGIN IMMEDIATE")
    bare.execute(sql.thread_find, key).fetchone()
    bare.execute(sql.lease_release, {**key, "lease_token": token, "now": now})
    event_id = bare.execute(sql.event_append, {**event, "event_type": "thread.done", "message_id": message_id}).lastrowid
    said = {"from_agent": "w", "to_agent": "leader", "kind": "result", "summary": "ok", "body": "", "payload_json": "{}", "door": "hand"}
    posted = {
        **key,
        **said,
        "message_id": message_id,
        "created_at": now,
        "event_id": event_id,
        "in_reply_to": None,
        "is_open": 0,
        "traceparent": None,
    }
    bare.execute(sql.message_insert, posted)
    bare.execute(sql.questions_end, {**key, "agent": ""})
    bare.execute(sql.thread_move, {**move, "status": "done", "seen": "claimed", "latest_message_id": message_id})
    bare.execute(sql.read_owed, {**key, "agent": "leader", "event_id": event_id, "guest": 0})
    bare.execute(sql.agent_seen, {"name": "w", "now": now})
    bare.execute("COMMIT")


def _verbs(place: str, size: int) -> dict[str, Callable[[], object]]:
    postroom.init(place)
    _fill(place, size)
    store = postroom.open(place)
    fresh = [work.send(store, sender="leader", to="w1", subject="fresh").thread.thread_id for _ in range(100)]
    for _ in range(100):
        work.send(store, sender="leader", to="w2", subject="to take")
    shown = iter(fresh * 4)
    claimed = iter(fresh)
    return {
        "fetch": lambda: work.fetch(store, agent="w1"),
        "list": lambda: work.list_threads(store, limit=10),  # so that both sizes have as many rows to show
        "list --assigned-to": lambda: work.list_threads(store, assigned_to="w1", limit=10),
        "list by two names": lambda: work.list_threads(store, created_by="leader", assigned_to="w1", limit=10),
        "fetch --unread": lambda: work.fetch(store, agent="leader", unread=True),
        "show": lambda: work.show(store, next(shown)),
        "claim": lambda: work.claim(store, next(claimed), agent="w9"),
        "take": lambda: work.take(store, agent="w2"),
        "wait-reply that times out": lambda: _wait(store, fresh[0]),
    }


def _wait(store: Store, thread_id: str) -> None:
    work.wait_reply(store, thread_id, timeout_seconds=0.000001)


def _fill(place: str, size: int) -> None:
    """Threads of ten agents: most done, some pending, some held."""
    now = clock.now()
    database = sqlite3.connect(place)
    database.execute("PRAGMA synchronous=OFF")
    rows = range(size)

    def status(row: int) -> str:
        return "pending" if row % 10 == 0 else "in_progress" if row % 10 == 1 else "done"

    def key(row: int) -> str:
        return f"thr_{row:016d}"

    def stamp(row: int) -> str:
        return clock.format_stamp(now - (size - row) * 1000)

    database.executemany(
        "INSERT INTO threads VALUES (?, '', '', 'filler', 'leader', ?, ?, 'normal', ?, ?, ?)",
        ((key(row), f"w{row // 10 % 10}", status(row), f"msg_{row:016d}", stamp(row), stamp(row)) for row in rows),
    )
    database.executemany(
        "INSERT INTO messages (message_id, thread_id, from_agent, to_agent, kind, summary, body, payload_json, created_at, event_id, door)"
        " VALUES (?, ?, 'leader', 'w1', 'task', 'filler', '', '{}', ?, ?, 'library')",
        ((f"msg_{row:016d}", key(row), stamp(row), row + 1) for row in rows),
    )
    database.executemany(
        "INSERT INTO events VALUES (?, '', '', ?, 'leader', 'thread.created', ?, 'filler', '{}', ?)",
        ((row + 1, key(row), f"msg_{row:016d}", stamp(row)) for row in rows),
    )
    held, until = (row for row in rows if row % 10 == 1), clock.format_stamp(now + 900 * clock.MICROSECONDS_PER_SECOND)
    database.executemany(
        "INSERT INTO leases VALUES (?, 'w0', ?, ?, ?, NULL, 900, 'normal', 0)",
        ((key(row), f"lse_{row}", stamp(row), until) for row in held),
    )
    database.executemany(
        "INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id) VALUES ('leader', ?, 0, ?)",
        ((key(row), row + 1) for row in rows if status(row) == "done"),
    )
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()

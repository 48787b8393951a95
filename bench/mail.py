"""The mail room beside the same statements by hand, beside other queues that are one file, and beside itself when it is full."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import postroom
from bench.report import Report, interleaved, milliseconds, times
from postroom import mail
from postroom.core import clock, ids
from postroom.store.interface import Store
from postroom.store.sqlite import statements as sql

ROUNDS = 300
CALLS_IN_A_ROW, ROWS = 150, 9
LARGE, SMALL = 1_000_000, 100
WAITING = 20_000  # in each mailbox and queue while messages are taken: an empty one flatters those that search
PAYLOAD = "analyze the auth module"
JSONL = "field notes: a JSONL mailbox, at 100 / 10,000 pending: enqueue 3,700 / 80 a second, dequeue + ack 1,900 / 30"

Action = Callable[[], object]


def run(report: Report) -> None:
    report.section(f"Mail: one message a transaction, every one on disk (synchronous=FULL), in turns; taken from among {WAITING:,}")
    with TemporaryDirectory() as folder:
        puts, takes, fill = _contestants(folder)
        interleaved(ROUNDS, 1, **puts)  # until every log has been through a checkpoint
        put = interleaved(ROUNDS, 1, **puts)
        fill()
        take = interleaved(ROUNDS, 1, **takes)
    for name in (name for name in puts if name != "batch"):
        took = f"{1 / take[name]:.0f}" if name in take else "no ack"
        report.row(f"{name}: enqueue / dequeue + ack, a second", f"{1 / put[name]:.0f} / {took}")
    report.row("postroom: enqueue_all of 100 / ack and the next in one transaction", f"{100 / put['batch']:.0f} / {1 / take['loop']:.0f}")
    for what, measured, ours in (("enqueue", put, "postroom"), ("dequeue + ack", take, "postroom"), ("ack + next", take, "loop")):
        if ours == "postroom":
            share = measured["hand"] / measured["postroom"]
            report.row(f"{what}: postroom / by hand", f"{share:.0%}", "at least 70 %", met=share >= 0.7)
        for peer in ("litequeue", "persistqueue"):
            ahead = measured[peer] / measured[ours]
            report.row(f"{what}: postroom / {peer}", times(ahead), "ahead", met=ahead >= 1)
    report.row(JSONL, "")
    _run_in_a_row(report)
    report.section(f"Mail, flat cost: at {LARGE:,} pending / at {SMALL}")
    with TemporaryDirectory() as folder:
        small, large = (_verbs(str(Path(folder) / f"{size}.db"), size) for size in (SMALL, LARGE))
        for name in small:
            measured = interleaved(ROUNDS // 3, small=small[name], large=large[name])
            ratio = measured["large"] / measured["small"]
            report.row(f"{name} ({milliseconds(measured['small'])} at {SMALL})", times(ratio), "within 1.5", met=ratio <= 1.5)


def _run_in_a_row(report: Report) -> None:
    """Many calls of one queue in a row. Single calls in turns between databases make every queue slower, and hide the difference."""
    report.section(f"Mail: {CALLS_IN_A_ROW} calls in a row, medians of {ROWS} rounds, FULL; taken from among {WAITING:,}")
    with TemporaryDirectory() as folder:
        puts, takes, fill = _contestants(folder)
        fill()
        for what, actions in (("enqueue", puts), ("dequeue + ack", takes)):
            measured = interleaved(ROWS, 1, **{name: _repeat(actions[name]) for name in ("hand", "postroom", "litequeue", "persistqueue")})
            for peer in ("hand", "litequeue", "persistqueue"):
                ahead = measured[peer] / measured["postroom"]
                report.row(f"{what}, in a row: postroom / {peer}", times(ahead), "level", met=ahead >= 1)


def _repeat(action: Action) -> Action:
    def run_in_a_row() -> None:
        for _ in range(CALLS_IN_A_ROW):
            action()

    return run_in_a_row


def _contestants(folder: str) -> tuple[dict[str, Action], dict[str, Action], Action]:
    import litequeue
    import persistqueue
    from huey.storage import SqliteStorage

    place = str(Path(folder) / "coord.db")
    postroom.init(place)
    store = postroom.open(place)
    bare = _bare(place)
    lite = litequeue.LiteQueue(str(Path(folder) / "lite.db"))
    lite.conn.execute("PRAGMA synchronous=FULL")
    persist: Any = persistqueue.SQLiteAckQueue(str(Path(folder) / "persist"), auto_commit=True)
    for connection in (persist._conn, persist._putter, persist._getter):
        connection.execute("PRAGMA synchronous=FULL")
    huey: Any = SqliteStorage(filename=str(Path(folder) / "huey.db"), fsync=True)

    def lite_take() -> None:
        message = lite.pop()
        assert message is not None
        lite.done(message.message_id)

    puts: dict[str, Action] = {
        "hand": lambda: _enqueue_by_hand(bare),
        "postroom": lambda: mail.enqueue(store, {"from": "lead", "to": "analyst", "payload": PAYLOAD}),
        "batch": lambda: mail.enqueue_all(store, [{"from": "lead", "to": "batched", "payload": PAYLOAD}] * 100),
        "litequeue": lambda: lite.put(PAYLOAD),
        "persistqueue": lambda: persist.put(PAYLOAD),
        "huey": lambda: huey.enqueue(PAYLOAD.encode()),
    }
    loop = _Loop(store, "looped")
    takes: dict[str, Action] = {
        "hand": lambda: _take_by_hand(bare),
        "loop": loop.turn,
        "postroom": lambda: _take(store, "analyst"),
        "litequeue": lite_take,
        "persistqueue": lambda: persist.ack(persist.get()),
    }

    def fill() -> None:
        """Without waiting for the disk, which is what is measured afterwards."""
        connections = (bare, lite.conn, persist._conn, persist._putter, persist._getter)
        for connection in connections:
            connection.execute("PRAGMA synchronous=OFF")
        for _ in range(WAITING // 100):
            for session in ("analyst", "looped", "by-hand"):
                mail.enqueue_all(store, [{"from": "lead", "to": session, "payload": PAYLOAD}] * 100)
        for _ in range(WAITING):
            lite.put(PAYLOAD)
            persist.put(PAYLOAD)
        for connection in connections:
            connection.execute("PRAGMA synchronous=FULL")

    return puts, takes, fill


def _bare(place: str) -> sqlite3.Connection:
    bare = sqlite3.connect(place, isolation_level=None)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "wal_autocheckpoint=250"):
        bare.execute(f"PRAGMA {pragma}")
    return bare


def _take(store: Store, session: str) -> None:
    delivery = mail.dequeue(store, session)
    assert delivery is not None
    mail.ack(store, session, delivery.message.msg_id, delivery_token=delivery.delivery_token)


class _Loop:
    """A receiver that acks one message and takes the next in one transaction."""

    def __init__(self, store: Store, session: str) -> None:
        self._store, self._session = store, session
        self._held: str | None = None

    def turn(self) -> None:
        if self._held is None:
            delivery = mail.dequeue(self._store, self._session)
        else:
            _, delivery = mail.ack_and_dequeue(self._store, self._session, self._held)
        assert delivery is not None
        self._held = delivery.message.msg_id


_number = count()


def _enqueue_by_hand(bare: sqlite3.Connection) -> None:
    """What a careful person would type: the same rows, the same guards, nothing checked in Python."""
    now = clock.now()
    msg_id = f"hand:{now * 1000}"
    bare.execute("BEGIN IMMEDIATE")
    if bare.execute(sql.mailbox_lock_named, {"name": "by-hand"}).fetchone() is None:
        bare.execute(sql.mailbox_open, {"session": "by-hand"})
    bare.execute(sql.delivery_known, {"msg_id": msg_id, "sender": "hand"}).fetchone()
    draft = {"msg_id": msg_id, "session": "by-hand", "sender": "hand", "payload": PAYLOAD, "extra_json": "{}", "door": "hand"}
    bare.execute(
        sql.delivery_insert,
        {
            **draft,
            "created_at": now // clock.MICROSECONDS_PER_SECOND,
            "rank": now // clock.MICROSECONDS_PER_SECOND,
            "now": now,
            "expires_at": None,
        },
    )
    _close_by_hand(bare, "mail.stored", msg_id, now)


def _close_by_hand(bare: sqlite3.Connection, event_type: str, msg_id: str, now: int) -> None:
    counts = {"pending": next(_number), "in_flight": 0, "nacked": 0, "acked": 0, "dead_letter": 0, "expired": 0}
    bare.execute(sql.mailbox_count, {"session": "by-hand", **counts})
    event = {"run_id": "", "task_id": "", "thread_id": "", "source": "hand", "summary": "", "payload_json": "{}"}
    bare.execute(sql.event_append, {**event, "event_type": event_type, "message_id": msg_id, "created_at": clock.format_stamp(now)})
    bare.execute("COMMIT")


def _take_by_hand(bare: sqlite3.Connection) -> None:
    now = clock.now()
    key = {"session": "by-hand"}
    bare.execute("BEGIN IMMEDIATE")
    bare.execute(sql.mailbox_lock, key).fetchone()
    row = bare.execute(sql.delivery_offer, key).fetchone()
    token = ids.new_id("dlv", now)
    move = {"delivery_id": row[0], "attempt": 0, "delivery_token": token, "since": now, "reason": ""}
    flying = {"state": "in_flight", "seen": "pending", "move_at": now, "due_at": now}
    bare.execute(sql.delivery_hold, {**move, **flying})
    _close_by_hand(bare, "mail.offered", row[1], now)
    bare.execute("BEGIN IMMEDIATE")
    bare.execute(sql.mailbox_lock, key).fetchone()
    bare.execute(sql.deliveries_named, {"msg_id": row[1], **key}).fetchone()
    landed = {"state": "acked", "seen": "in_flight", "head": 0, "move_at": None, "due_at": None, "ended_at": now}
    bare.execute(sql.delivery_move, {**move, **landed})
    bare.execute(sql.pair_advance, {**key, "sender": row[3]})
    _close_by_hand(bare, "mail.acked", row[1], now)


def _verbs(place: str, size: int) -> dict[str, Action]:
    postroom.init(place)
    store = postroom.open(place)
    mail.enqueue(store, {"from": "lead", "to": "full", "payload": PAYLOAD})
    _fill(place, size)
    return {
        "enqueue": lambda: mail.enqueue(store, {"from": "lead", "to": "full", "payload": PAYLOAD}),
        "dequeue + ack": lambda: _take(store, "full"),
        "peek": lambda: mail.peek(store, "full", limit=20),
        "sessions": lambda: mail.sessions(store),
    }


def _fill(place: str, size: int) -> None:
    """Half of it from one sender, half from a hundred others."""
    now = clock.now()
    database = sqlite3.connect(place)
    database.execute("PRAGMA synchronous=OFF")

    def sender(row: int) -> str:
        return "lead" if row % 2 else f"sender-{row // 2 % 100}"

    heads = {f"sender-{number}": 2 * number for number in range(100)}
    database.executemany(
        "INSERT INTO deliveries (msg_id, session, sender, created_at, attempt, state, head, rank, stored_at, since, door, payload)"
        " VALUES (?, 'full', ?, ?, 0, 'pending', ?, ?, ?, 0, 'library', ?)",
        (
            (
                f"fill:{row}",
                sender(row),
                now // clock.MICROSECONDS_PER_SECOND,
                int(heads.get(sender(row)) == row),
                now // clock.MICROSECONDS_PER_SECOND,
                now,
                PAYLOAD,
            )
            for row in range(size)
        ),
    )
    database.execute("UPDATE mailboxes SET pending = pending + ? WHERE session = 'full'", (size,))
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()

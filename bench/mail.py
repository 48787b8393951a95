"""The mail room beside the same statements by hand, beside other queues that are one file, and beside itself when it is full."""

from __future__ import annotations

import sqlite3
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import postroom
from bench.blocks import Action, measure_blocks, measure_runs
from bench.mail_queues import KINDS, PAYLOAD, MailQueue, PostroomQueue, Workers, take_message
from bench.report import Report, interleaved, load, milliseconds, times
from postroom import mail
from postroom.core import clock, ids
from postroom.store.interface import Store
from postroom.store.sqlite import statements as sql

ROUNDS, CALLS = 9, 100  # blocks of one candidate, and calls in a row in each of them
PROCESSES, CALLS_OF_PROCESS = 4, 25
WAITING = (300, 20_000)  # in each mailbox and queue: a short one flatters those that search
FLAT_ROUNDS, LARGE, SMALL = 100, 1_000_000, 100
PAGES_CALLS = 200
FRAME_BYTES, LOG_HEADER_BYTES = 4096 + 24, 32
JSONL = "field notes: a JSONL mailbox, at 100 / 10,000 pending: enqueue 3,700 / 80 a second, dequeue + ack 1,900 / 30"


def run(report: Report) -> None:
    for waiting in WAITING:
        report.section(f"Mail: {CALLS} calls in a row, in turns, every one on disk (synchronous=FULL), {waiting:,} waiting; {load()}")
        with TemporaryDirectory() as folder:
            queues = {kind: make(folder) for kind, make in KINDS.items()}
            for queue in queues.values():
                queue.fill(waiting)
            _run_in_a_row(report, queues, ByHand(folder, waiting))
            _run_batches(report, queues["postroom"])
            _report_pages(report, queues["postroom"], folder)
            _run_crowd(report, folder)
    report.row(JSONL, "")
    _run_flat(report)


def _run_in_a_row(report: Report, queues: dict[str, MailQueue], by_hand: ByHand) -> None:
    candidates: dict[str, MailQueue] = {**queues, "hand": by_hand}
    for what, method in (("enqueue", "put"), ("dequeue + ack", "take")):
        blocks = measure_blocks(ROUNDS, CALLS, {name: getattr(queue, method) for name, queue in candidates.items()})
        for name in candidates:
            report.row(f"{name}: {what}, a second", f"{blocks.rate(name):.0f}")
        share = blocks.ratio("postroom", "hand")
        report.row(f"{what}: postroom / by hand", f"{share:.0%}", "at least 70 %", met=share >= 0.7)
        for peer in ("litequeue", "persistqueue"):
            ahead = blocks.ratio("postroom", peer)
            report.row(f"{what}: postroom / {peer}", times(ahead), "level", met=ahead >= 1)


def _run_batches(report: Report, queue: MailQueue) -> None:
    assert isinstance(queue, PostroomQueue)
    store = queue.store
    mail.enqueue_all(store, [{"from": "lead", "to": "looped", "payload": PAYLOAD}] * 1000)
    loop = _Loop(store, "looped")
    batch = [{"from": "lead", "to": "batched", "payload": PAYLOAD}] * 100
    batches = measure_blocks(ROUNDS, 1, {"batch": lambda: mail.enqueue_all(store, batch)})
    report.row("postroom: messages a second by enqueue_all of 100", f"{100 * batches.rate('batch'):.0f}")
    loops = measure_blocks(ROUNDS, CALLS // 2, {"loop": loop.turn})
    report.row("postroom: ack and the next in one transaction, a second", f"{loops.rate('loop'):.0f}")


def _report_pages(report: Report, queue: MailQueue, folder: str) -> None:
    """Pages do not depend on the load of the machine."""
    assert isinstance(queue, PostroomQueue)
    connection = queue.store.connection
    for what, act in (("enqueue", queue.put), ("dequeue + ack", queue.take)):
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        for _ in range(PAGES_CALLS):
            act()
        pages = ((Path(folder) / "coord.db-wal").stat().st_size - LOG_HEADER_BYTES) / FRAME_BYTES / PAGES_CALLS
        report.row(f"postroom: pages that {what} writes to the log", f"{pages:.1f}")


def _run_crowd(report: Report, folder: str) -> None:
    crowds = {kind: Workers(kind, folder, processes=PROCESSES, calls=CALLS_OF_PROCESS) for kind in KINDS}
    try:
        blocks = measure_runs(ROUNDS, PROCESSES * CALLS_OF_PROCESS, {kind: crowd.run for kind, crowd in crowds.items()})
    finally:
        for crowd in crowds.values():
            crowd.close()
    for kind in crowds:
        report.row(f"{kind}: {PROCESSES} processes, enqueue + dequeue + ack, a second", f"{blocks.rate(kind):.0f}")
    for peer in ("litequeue", "persistqueue"):
        ahead = blocks.ratio("postroom", peer)
        report.row(f"{PROCESSES} processes: postroom / {peer}", times(ahead), "ahead", met=ahead > 1)


def _run_flat(report: Report) -> None:
    report.section(f"Mail, flat cost: at {LARGE:,} pending / at {SMALL}")
    with TemporaryDirectory() as folder:
        small, large = (_verbs(str(Path(folder) / f"{size}.db"), size) for size in (SMALL, LARGE))
        for name in small:
            measured = interleaved(FLAT_ROUNDS, small=small[name], large=large[name])
            ratio = measured["large"] / measured["small"]
            report.row(f"{name} ({milliseconds(measured['small'])} at {SMALL})", times(ratio), "within 1.5", met=ratio <= 1.5)


class ByHand:
    """The same rows and guards in plain `sqlite3`, in a mailbox of their own."""

    def __init__(self, folder: str, waiting: int) -> None:
        place = str(Path(folder) / "coord.db")
        store = postroom.open(place)
        for _ in range(waiting // 100):
            mail.enqueue_all(store, [{"from": "hand", "to": "by-hand", "payload": PAYLOAD}] * 100)
        store.close()
        self._connection = _bare(place)

    def put(self) -> None:
        _enqueue_by_hand(self._connection)

    def take(self) -> None:
        _take_by_hand(self._connection)

    def fill(self, count: int) -> None:
        """Do nothing: the constructor has filled it."""


def _bare(place: str) -> sqlite3.Connection:
    bare = sqlite3.connect(place, isolation_level=None)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "wal_autocheckpoint=1000"):
        bare.execute(f"PRAGMA {pragma}")
    return bare


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
        "dequeue + ack": lambda: take_message(store, "full"),
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

"""The mail room beside the same statements by hand, beside other queues that are one file, and beside itself when it is full."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.blocks import Action, interleave, measure_blocks
from bench.mail_queues import MODULES, PAYLOAD, SESSION, MailQueue, PostroomQueue, Workers, fill_mailbox, find_installed
from bench.ratios import pair_ratios
from bench.report import Report, load, milliseconds, times
from bench.results import OURS, PER_SECOND, SECONDS
from bench.scale import CLIENTS, SIZES, choose
from postroom import mail
from postroom.core import clock, ids
from postroom.store.interface import Store
from postroom.store.sqlite import statements as sql
from postroom.store.sqlite.engine import SqliteStore

GROUP = "mail on SQLite"
BY_HAND = "the same statements by hand"
# Blocks of one candidate, and calls in a row in each of them. Short blocks: a stall of the disk then spoils few of them.
ROUNDS, CALLS = choose(21, 5), 30
BLOCK_SECONDS = 0.2  # a block ends then: litequeue takes a second for one of a million
CROWD_ROUNDS = choose(7, 5)
CROWD_SIZE, CROWD_SECONDS = 10_000, choose(0.5, 0.3)
FLAT_ROUNDS = choose(100, 30)
PAGES_CALLS = 200
FRAME_BYTES, LOG_HEADER_BYTES = 4096 + 24, 32
OPERATIONS = (("enqueue", "put"), ("dequeue + ack", "take"))
JSONL = "field notes: a JSONL mailbox, at 100 / 10,000 pending: enqueue 3,700 / 80 a second, dequeue + ack 1,900 / 30"


def run(report: Report) -> None:
    for peer in MODULES.keys() - find_installed():
        report.leave_out(peer)
    with TemporaryDirectory() as folder:
        queues = {size: _open_queues(Path(folder) / str(size), size) for size in SIZES}
        for size in SIZES:
            _run_in_a_row(report, queues[size], size)
        ours = queues[CROWD_SIZE][OURS]
        assert isinstance(ours, PostroomQueue)
        _run_batches(report, ours)
        _report_pages(report, ours)
        _run_crowd(report, str(Path(folder) / str(CROWD_SIZE)))
        _run_flat(report, {size: queues[size][OURS] for size in SIZES})
    report.row(JSONL, "")


def _open_queues(folder: Path, size: int) -> dict[str, MailQueue]:
    folder.mkdir()
    queues = {kind: make(str(folder)) for kind, make in find_installed().items()}
    for queue in queues.values():
        queue.fill(size)
    return {**queues, BY_HAND: ByHand(str(folder), min(size, CROWD_SIZE))}  # its cost is flat, and a million more rows take long to insert


def _run_in_a_row(report: Report, queues: dict[str, MailQueue], size: int) -> None:
    """Measure puts and takes by turns, so that the number of waiting messages stays as it is."""
    report.section(f"Mail: {CALLS} calls in a row, in turns, every one on disk (synchronous=FULL), {size:,} waiting; {load()}")
    actions = {f"{name} {what}": getattr(queue, method) for name, queue in queues.items() for what, method in OPERATIONS}
    blocks = measure_blocks(ROUNDS, CALLS, actions, most_seconds=BLOCK_SECONDS)
    for what, _ in OPERATIONS:
        for name in queues:
            report.row(f"{name}: {what}, a second", f"{blocks.rate(f'{name} {what}'):.0f}")
            report.record(GROUP, what, name, PER_SECOND, blocks.rates(f"{name} {what}"), size=size)
        share = blocks.ratio(f"{OURS} {what}", f"{BY_HAND} {what}")
        report.row(f"{what}: postroom / by hand", f"{share:.0%}", "at least 70 %", met=share >= 0.7)
        for peer in queues.keys() & MODULES:
            ahead = blocks.ratio(f"{OURS} {what}", f"{peer} {what}")
            report.row(f"{what}: postroom / {peer}", times(ahead), "level", met=ahead >= 1)


def _run_batches(report: Report, queue: PostroomQueue) -> None:
    store = queue.store
    mail.enqueue_all(store, [{"from": "lead", "to": "looped", "payload": PAYLOAD}] * 1000)
    loop = _Loop(store, "looped")
    batch = [{"from": "lead", "to": "batched", "payload": PAYLOAD}] * 100
    batches = measure_blocks(ROUNDS, 1, {"batch": lambda: mail.enqueue_all(store, batch)})
    report.row("postroom: messages a second by enqueue_all of 100", f"{100 * batches.rate('batch'):.0f}")
    report.record(GROUP, "enqueue_all of 100 messages", OURS, PER_SECOND, [100 * rate for rate in batches.rates("batch")], size=CROWD_SIZE)
    loops = measure_blocks(ROUNDS, CALLS // 2, {"loop": loop.turn})
    report.row("postroom: ack and the next in one transaction, a second", f"{loops.rate('loop'):.0f}")
    report.record(GROUP, "ack_and_dequeue", OURS, PER_SECOND, loops.rates("loop"), size=CROWD_SIZE)


def _report_pages(report: Report, queue: PostroomQueue) -> None:
    """Pages do not depend on the load of the machine."""
    connection = queue.store.connection
    for what, act in (("enqueue", queue.put), ("dequeue + ack", queue.take)):
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        for _ in range(PAGES_CALLS):
            act()
        pages = (Path(f"{queue.store.location}-wal").stat().st_size - LOG_HEADER_BYTES) / FRAME_BYTES / PAGES_CALLS
        report.row(f"postroom: pages that {what} writes to the log", f"{pages:.1f}")


def _run_crowd(report: Report, folder: str) -> None:
    """Let 1, 4 and 16 processes share each queue."""
    crowds = {kind: Workers(kind, folder, processes=max(CLIENTS), seconds=CROWD_SECONDS) for kind in find_installed()}
    rates: dict[tuple[str, int], list[float]] = {(kind, clients): [] for clients in CLIENTS for kind in crowds}
    try:
        for _ in range(CROWD_ROUNDS):
            for (kind, clients), values in rates.items():
                values.append(crowds[kind].measure_rate(clients))
    finally:
        for crowd in crowds.values():
            crowd.close()
    for (kind, clients), values in rates.items():
        report.row(f"{kind}: {clients} processes, enqueue + dequeue + ack, a second", f"{median(values):.0f}")
        report.record(GROUP, "enqueue + dequeue + ack", kind, PER_SECOND, values, size=CROWD_SIZE, clients=clients)
        if kind != OURS:
            ahead = median(pair_ratios(rates[OURS, clients], values))
            report.row(f"{clients} processes: postroom / {kind}", times(ahead), "ahead", met=ahead > 1)


def _run_flat(report: Report, queues: dict[int, MailQueue]) -> None:
    report.section(f"Mail, flat cost: at {SIZES[-1]:,} pending / at {SIZES[0]}")
    verbs = {size: _verbs(queue) for size, queue in queues.items()}
    for name in verbs[SIZES[0]]:
        blocks = interleave(FLAT_ROUNDS, 1, **{str(size): verbs[size][name] for size in SIZES})
        for size in SIZES:
            report.record("size", f"mail: {name}", OURS, SECONDS, blocks.seconds(str(size)), size=size)
        ratio = blocks.ratio(str(SIZES[0]), str(SIZES[-1]))
        small = milliseconds(blocks.median(str(SIZES[0])))
        report.row(f"{name} ({small} at {SIZES[0]})", times(ratio), "within 1.5", met=ratio <= 1.5)


class ByHand:
    """The same rows and guards in plain `sqlite3`, in a mailbox of their own."""

    def __init__(self, folder: str, waiting: int) -> None:
        place = str(Path(folder) / "coord.db")
        with closing(SqliteStore(place)) as store:
            fill_mailbox(store, "by-hand", waiting)
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
    """The statements as written by hand: the same rows, the same guards, no checks in Python."""
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


def _verbs(queue: MailQueue) -> dict[str, Action]:
    assert isinstance(queue, PostroomQueue)
    return {
        "enqueue": queue.put,
        "dequeue + ack": queue.take,
        "peek": lambda: mail.peek(queue.store, SESSION, limit=20),
        "sessions": lambda: mail.sessions(queue.store),
    }

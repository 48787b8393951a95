"""State transitions of messages in a locked mailbox. Only this module writes the state of a message."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import StoreBusy
from postroom.core.records.mail import DEAD_LETTER, EXPIRED, IN_FLIGHT, NACKED, PENDING, STATES, TERMINAL_STATES
from postroom.store.event_log import announce, inbox_topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.mail import DeliveryRow, MailboxRow
    from postroom.store.interface import Transaction

MAX_MOVES_PER_BATCH = 500  # per transaction, because other writers wait for its lock
ARRIVAL_STEPS = ("stored", "retried", "released")  # they leave a message to take
EXHAUSTED_REASON = "max_retries exhausted"
_SETTING_NAMES = ("base_backoff_secs", "max_retries", "inflight_timeout_secs", "ttl_secs")


class LockedMailbox:
    """A mailbox that is locked until the transaction ends. Changes are collected here, and stored by `write_back`.

    `next_due` is an instant (microseconds) before which no move is due. It is exact after a sweep, and may be too early
    otherwise. `tally` counts the moves that time has caused.
    """

    def __init__(self, tx: Transaction, row: MailboxRow) -> None:
        stored = vars(row)
        self.session = row.session
        self.counts: dict[str, int] = {state: stored[state] for state in STATES}
        self.next_due = row.next_due
        self.tally: dict[str, int] = {"retried": 0, "timed_out": 0, "dead_lettered": 0, "expired": 0}
        self._settings: dict[str, Any] | None = None
        self._row = row
        self._tx = tx

    @property
    def settings(self) -> dict[str, Any]:
        """The policy by name. Changes of this dictionary are stored by `write_back`. Most verbs only read `_row`."""
        if self._settings is None:
            stored = vars(self._row)
            self._settings = {name: stored[name] for name in _SETTING_NAMES}
        return self._settings

    def count_move(self, before: str | None, after: str | None) -> None:
        """Count a message that changed its state. None stands for "not in the mailbox"."""
        if before is not None:
            self.counts[before] -= 1
        if after is not None:
            self.counts[after] += 1

    def note_due_at(self, due_at: int | None) -> None:
        """Set `next_due` to `due_at` if that is earlier."""
        if due_at is not None and (self.next_due is None or due_at < self.next_due):
            self.next_due = due_at

    def expiry_instant(self) -> int | None:
        """Return the instant at which a message that is stored now expires, or None without a TTL."""
        ttl = self._row.ttl_secs
        return None if ttl is None else self._tx.now() + int(ttl * clock.MICROSECONDS_PER_SECOND)

    def in_flight_until(self, seconds: float | None = None) -> int:
        """Return the instant at which a delivery that starts now times out."""
        return self._tx.now() + int((seconds or self._row.inflight_timeout_secs) * clock.MICROSECONDS_PER_SECOND)

    def longest_pause_seconds(self) -> float:
        """Return the longest time that the stored policy gives to a delivery, a retry or a message."""
        return self._row.longest_pause_seconds

    def write_back(self) -> None:
        """Store the counts, and the settings and `next_due` if they have changed."""
        if self.next_due == self._row.next_due and (self._settings is None or self._settings.items() <= vars(self._row).items()):
            self._tx.execute(self._tx.sql.mailbox_count, session=self.session, **self.counts)
            return
        self._tx.execute(self._tx.sql.mailbox_put, session=self.session, next_due=self.next_due, **self.counts, **self.settings)


def lock_mailbox(tx: Transaction, session: str) -> LockedMailbox | None:
    """Lock a mailbox until the transaction ends. Returns None if it does not exist."""
    row = tx.fetch_one(tx.sql.mailbox_lock, session=session)
    return None if row is None else LockedMailbox(tx, row)


def lock_named_mailbox(tx: Transaction, name: str) -> LockedMailbox | None:
    """Lock the mailbox of a session or an alias. Returns None if it does not exist."""
    row = tx.fetch_one(tx.sql.mailbox_lock_named, name=name)
    return None if row is None else LockedMailbox(tx, row)


def open_mailbox(tx: Transaction, session: str) -> LockedMailbox:
    """Lock a mailbox, and create it if it does not exist."""
    locked = lock_mailbox(tx, session)
    if locked is None:
        tx.execute(tx.sql.mailbox_open, session=session)
        locked = lock_mailbox(tx, session)
    assert locked is not None
    return locked


def move_message(tx: Transaction, locked: LockedMailbox, row: DeliveryRow, state: str, *, at: int, **changes: Any) -> DeliveryRow:
    """Write a message's new state and return its row. Raises `StoreBusy` if its state is no longer that of `row`.

    If the state is terminal, the next message of the same sender becomes the head.
    """
    ended = state in TERMINAL_STATES
    move_at = changes.pop("move_at", None)
    due_at = None if ended else _earlier(move_at, row.expires_at)
    after = row.replace(
        state=state,
        head=0 if ended else row.head,
        since=at,
        move_at=move_at,
        due_at=due_at,
        ended_at=at if ended else None,
        **changes,
    )
    changed = {"delivery_token": after.delivery_token, "since": at, "move_at": move_at, "due_at": due_at}
    statement = tx.sql.delivery_hold
    if state != IN_FLIGHT:
        statement = tx.sql.delivery_move
        changed |= {"attempt": after.attempt, "head": after.head, "ended_at": after.ended_at, "reason": after.reason}
    busy = StoreBusy(f"{row.msg_id} changed while it was being written", hint="Try again.")
    tx.execute_exactly_one(busy, statement, delivery_id=row.delivery_id, seen=row.state, state=state, **changed)
    locked.count_move(row.state, state)
    locked.note_due_at(after.due_at)
    if ended:  # do not check `row.head`: if several messages expire in one batch, the one before has just made this one the head
        tx.execute(tx.sql.pair_advance, session=row.session, sender=row.sender)
    return after


def _earlier(first: int | None, second: int | None) -> int | None:
    return first if second is None or (first is not None and first < second) else second


def nack_message(tx: Transaction, locked: LockedMailbox, row: DeliveryRow, *, at: int, reason: str, by: str) -> DeliveryRow:
    """Nack a message as of the instant `at`: schedule a retry, or make it a dead letter after the last retry.

    A timeout also removes the delivery token, so that the receiver can no longer ack.
    """
    token = None if by == "timeout" else row.delivery_token
    if row.attempt < locked.settings["max_retries"]:
        backoff = min(locked.settings["base_backoff_secs"] * 2.0**row.attempt, checks.MAX_WAIT_SECONDS)
        retry_at = at + int(backoff * clock.MICROSECONDS_PER_SECOND)
        nacked = move_message(tx, locked, row, NACKED, at=at, move_at=retry_at, reason=reason, delivery_token=token)
        append_step_event(tx, nacked, "nacked", at=at, reason=reason, by=by, retry_at=clock.format_stamp(retry_at))
        return nacked
    append_step_event(tx, row.replace(state=NACKED), "nacked", at=at, reason=reason, by=by, retry_at=None)
    dead_reason = f"{EXHAUSTED_REASON}: {reason}" if reason else EXHAUSTED_REASON
    dead = move_message(tx, locked, row, DEAD_LETTER, at=at, reason=dead_reason, delivery_token=token)
    locked.tally["dead_lettered"] += 1
    append_step_event(tx, dead, "dead_letter", at=at, reason=dead_reason)
    return dead


def settle_message(tx: Transaction, locked: LockedMailbox, row: DeliveryRow) -> DeliveryRow:
    """Apply the overdue moves of one message, each as of the instant at which it was due."""
    while row.due_at is not None and row.due_at <= tx.now():
        at = row.due_at
        if at == row.expires_at:
            row = move_message(tx, locked, row, EXPIRED, at=at)
            locked.tally["expired"] += 1
            append_step_event(tx, row, "expired", at=at)
        elif row.state == IN_FLIGHT:
            locked.tally["timed_out"] += 1
            waited = (at - row.since) / clock.MICROSECONDS_PER_SECOND
            row = nack_message(tx, locked, row, at=at, reason=f"not acknowledged within {waited:g} s", by="timeout")
        else:
            locked.tally["retried"] += 1
            row = move_message(tx, locked, row, PENDING, at=at, attempt=row.attempt + 1)
            append_step_event(tx, row, "retried", at=at)
    return row


def apply_overdue_moves(tx: Transaction, locked: LockedMailbox) -> bool:
    """Apply at most `MAX_MOVES_PER_BATCH` overdue moves of a mailbox. Returns True if there may be more."""
    if locked.next_due is None:
        return False
    if clock.is_misdated(locked.next_due, locked.longest_pause_seconds(), tx.now()):
        return _settle_misdated(tx, locked)
    if locked.next_due > tx.now():
        return False
    key = {"session": locked.session, "now": tx.now(), "limit": MAX_MOVES_PER_BATCH}
    due = tx.fetch_all(tx.sql.deliveries_overdue, **key) + tx.fetch_all(tx.sql.deliveries_expired, **key)
    due.sort(key=lambda row: (row.due_at, row.delivery_id))
    for row in due[:MAX_MOVES_PER_BATCH]:
        settle_message(tx, locked, row)
    read_next_due(tx, locked)
    return len(due) >= MAX_MOVES_PER_BATCH


def read_next_due(tx: Transaction, locked: LockedMailbox) -> None:
    """Set `next_due` to the instant at which the next delivery, backoff or message of a mailbox ends."""
    locked.next_due = tx.fetch_one(tx.sql.delivery_next_move, session=locked.session)
    locked.note_due_at(tx.fetch_one(tx.sql.delivery_next_expiry, session=locked.session))


def _settle_misdated(tx: Transaction, locked: LockedMailbox) -> bool:
    """End the deliveries and backoffs that began before the clock was set back, as of now. Returns True if there may be more."""
    latest = tx.now() + int(clock.MAX_CLOCK_STEP_SECONDS * clock.MICROSECONDS_PER_SECOND)
    key = {"session": locked.session, "now": tx.now(), "latest": latest}
    rows = tx.fetch_all(tx.sql.deliveries_misdated, limit=MAX_MOVES_PER_BATCH, **key)
    for row in rows:
        if row.state == IN_FLIGHT:
            locked.tally["timed_out"] += 1
            nack_message(tx, locked, row, at=tx.now(), reason="not acknowledged before the clock was set back", by="timeout")
        else:
            locked.tally["retried"] += 1
            append_step_event(tx, move_message(tx, locked, row, PENDING, at=tx.now(), attempt=row.attempt + 1), "retried")
    read_next_due(tx, locked)
    return len(rows) == MAX_MOVES_PER_BATCH


def append_step_event(
    tx: Transaction, row: DeliveryRow, step: str, *, at: int | None = None, source: str | None = None, **facts: object
) -> None:
    """Append the event of a message's step. `at` is the instant at which the step was due, if it is earlier than now."""
    payload = {"session": row.session, "from": row.sender, "state": row.state, "attempt": row.attempt, **facts}
    if at is not None and at != tx.now():
        payload["at"] = clock.format_stamp(at)
    append_mail_event(tx, row.session, step, source=source or row.session, msg_id=row.msg_id, payload=payload)


def append_mail_event(tx: Transaction, session: str, step: str, *, source: str, msg_id: str | None, payload: dict[str, object]) -> None:
    """Append an event of a mailbox.

    It wakes the waiters of the mailbox, except for `offered` and `extended`: these leave no message to take.
    """
    topics: tuple[str, ...] = (taken_topic(session) if step in ("offered", "extended") else mailbox_topic(session),)
    if step in ARRIVAL_STEPS:
        topics = (*topics, inbox_topic(session))
    announce(tx, topics, event_type=f"mail.{step}", source=source, message_id=msg_id, payload=payload)


# The topics that waiters subscribe to: events that may leave a message to take, and events of taken messages.


def mailbox_topic(session: str) -> str:
    return f"mail:{session}"


def taken_topic(session: str) -> str:
    return f"mail-taken:{session}"

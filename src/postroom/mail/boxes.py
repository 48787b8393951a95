"""Boxes: a mailbox while a transaction has it to itself, and how a message moves in it. Every state is written here."""

from __future__ import annotations

from postroom.core import checks, clock, jsontext
from postroom.core.errors import StoreBusy
from postroom.core.letters import DEAD_LETTER, EXPIRED, IN_FLIGHT, NACKED, PENDING, TERMINAL, Parcel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.store.port import Row, Transaction

BATCH = 500  # moves that one transaction makes at most: others wait for it
EXHAUSTED = "max_retries exhausted"
PARCEL_FIELDS = len(Parcel.__fields__)
_SETTINGS = ("base_backoff_secs", "max_retries", "inflight_timeout_secs", "ttl_secs")


class Box:
    """A mailbox that nobody else changes until the transaction ends. What changes is kept here, and written by `close`.

    `next_due` is an instant before which nothing falls due: exact after a sweep, and never too late.
    """

    def __init__(self, tx: Transaction, row: Row) -> None:
        self.session: str = row[0]
        self.counts: dict[str, int] = {"pending": row[1], "in_flight": row[2], "nacked": row[3], "acked": row[4]}
        self.counts["dead_letter"], self.counts["expired"] = row[5], row[6]
        self.settings: dict[str, Any] = dict(zip(_SETTINGS, row[7:11]))
        self.next_due: int | None = row[11]
        self.tally: dict[str, int] = {"retried": 0, "timed_out": 0, "dead_lettered": 0, "expired": 0}
        self._tx = tx

    def count(self, before: str | None, after: str | None) -> None:
        if before is not None:
            self.counts[before] -= 1
        if after is not None:
            self.counts[after] += 1

    def expect(self, due_at: int | None) -> None:
        if due_at is not None and (self.next_due is None or due_at < self.next_due):
            self.next_due = due_at

    def expiry(self) -> int | None:
        """When a message that is stored now expires."""
        ttl = self.settings["ttl_secs"]
        return None if ttl is None else self._tx.now() + int(ttl * clock.SECOND)

    def in_flight_until(self, seconds: float | None = None) -> int:
        return self._tx.now() + int((seconds or self.settings["inflight_timeout_secs"]) * clock.SECOND)

    def close(self) -> None:
        self._tx.run(self._tx.sql.mailbox_put, session=self.session, next_due=self.next_due, **self.counts, **self.settings)


def locked(tx: Transaction, session: str) -> Box | None:
    """A mailbox, ours until the transaction ends; None if it was never heard of."""
    row = tx.one(tx.sql.mailbox_lock, session=session)
    return None if row is None else Box(tx, row)


def opened(tx: Transaction, session: str) -> Box:
    """The same, made if it is not there."""
    box = locked(tx, session)
    if box is None:
        tx.run(tx.sql.mailbox_open, session=session)
        box = locked(tx, session)
    assert box is not None
    return box


def move(tx: Transaction, box: Box, parcel: Parcel, state: str, *, at: int, **changes: Any) -> Parcel:
    """Write a message's new state, guarded by the one that was seen. When it ends, the next of its pair is at the head."""
    ended = state in TERMINAL
    move_at = changes.pop("move_at", None)
    due_at = move_at if move_at is None or parcel.expires_at is None else min(move_at, parcel.expires_at)
    after = parcel.replace(
        state=state,
        head=0 if ended else parcel.head,
        since=at,
        move_at=move_at,
        due_at=None if ended else parcel.expires_at if due_at is None else due_at,
        ended_at=at if ended else None,
        **changes,
    )
    tx.must(
        StoreBusy(f"{parcel.msg_id} changed while it was being written", hint="Try again."),
        tx.sql.delivery_move,
        delivery_id=after.delivery_id,
        seen=parcel.state,
        state=state,
        attempt=after.attempt,
        head=after.head,
        delivery_token=after.delivery_token,
        since=after.since,
        move_at=after.move_at,
        due_at=after.due_at,
        ended_at=after.ended_at,
        reason=after.reason,
    )
    box.count(parcel.state, state)
    box.expect(after.due_at)
    if ended:  # whatever was seen: of a pair that expires together, each was made the head by the one before
        tx.run(tx.sql.pair_advance, session=parcel.session, sender=parcel.sender)
    return after


def nack(tx: Transaction, box: Box, parcel: Parcel, *, at: int, reason: str, by: str) -> Parcel:
    """Not delivered, as of an instant: tried again after its backoff, or, after the last time, dead.

    Who let it time out has no say in it any more: its token is taken back.
    """
    token = None if by == "timeout" else parcel.delivery_token
    if parcel.attempt < box.settings["max_retries"]:
        backoff = min(box.settings["base_backoff_secs"] * 2.0**parcel.attempt, checks.LONGEST_WAIT)
        retry_at = at + int(backoff * clock.SECOND)
        nacked = move(tx, box, parcel, NACKED, at=at, move_at=retry_at, reason=reason, delivery_token=token)
        tell(tx, nacked, "nacked", at=at, reason=reason, by=by, retry_at=clock.stamp(retry_at))
        return nacked
    tell(tx, parcel.replace(state=NACKED), "nacked", at=at, reason=reason, by=by, retry_at=None)
    why = f"{EXHAUSTED}: {reason}" if reason else EXHAUSTED
    dead = move(tx, box, parcel, DEAD_LETTER, at=at, reason=why, delivery_token=token)
    box.tally["dead_lettered"] += 1
    tell(tx, dead, "dead_letter", at=at, reason=why)
    return dead


def settle(tx: Transaction, box: Box, parcel: Parcel) -> Parcel:
    """Make the moves of one message that are due, each as of the instant at which it fell due."""
    while parcel.due_at is not None and parcel.due_at <= tx.now():
        at = parcel.due_at
        if at == parcel.expires_at:
            parcel = move(tx, box, parcel, EXPIRED, at=at)
            box.tally["expired"] += 1
            tell(tx, parcel, "expired", at=at)
        elif parcel.state == IN_FLIGHT:
            box.tally["timed_out"] += 1
            waited = (at - parcel.since) / clock.SECOND
            parcel = nack(tx, box, parcel, at=at, reason=f"not acknowledged within {waited:g} s", by="timeout")
        else:
            box.tally["retried"] += 1
            parcel = move(tx, box, parcel, PENDING, at=at, attempt=parcel.attempt + 1)
            tell(tx, parcel, "retried", at=at)
    return parcel


def carry_out(tx: Transaction, box: Box) -> bool:
    """Make the moves that are due in a mailbox. True if there are more than one transaction should make."""
    if box.next_due is None or box.next_due > tx.now():
        return False
    rows = tx.all(tx.sql.deliveries_due, session=box.session, now=tx.now(), limit=BATCH)
    for row in rows:
        settle(tx, box, Parcel(*row))
    left = tx.one(tx.sql.delivery_next_due, session=box.session)
    box.next_due = left[0] if left else None
    return len(rows) == BATCH


def tell(tx: Transaction, parcel: Parcel, step: str, *, at: int | None = None, source: str | None = None, **facts: object) -> None:
    """Write the event of a step. `at`: when it fell due, if that was earlier."""
    payload = {"session": parcel.session, "from": parcel.sender, "state": parcel.state, "attempt": parcel.attempt, **facts}
    if at is not None and at != tx.now():
        payload["at"] = clock.stamp(at)
    announce(tx, parcel.session, step, source=source or parcel.session, msg_id=parcel.msg_id, payload=payload)


def announce(tx: Transaction, session: str, step: str, *, source: str, msg_id: str | None, payload: dict[str, object]) -> None:
    """Write an event. It wakes who waits for this mailbox, unless a message was only taken: that is nothing to wait for."""
    tx.append(
        tx.sql.event_append,
        (of_taking(session) if step in ("offered", "extended") else of_mailbox(session),),
        run_id="",
        task_id="",
        thread_id="",
        source=source,
        event_type=f"mail.{step}",
        message_id=msg_id,
        summary="",
        payload_json=jsontext.dumps(payload),
        created_at=clock.stamp(tx.now()),
    )


# The topics that waiters choose from: what may leave a message to take in a mailbox, and what is taken.


def of_mailbox(session: str) -> str:
    return f"mail:{session}"


def of_taking(session: str) -> str:
    return f"mail-taken:{session}"

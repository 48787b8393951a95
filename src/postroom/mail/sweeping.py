"""Sweeping: apply the overdue moves of mailboxes, and delete old messages.

Every verb applies the overdue moves of the mailbox that it uses. `sweep` does it for all mailboxes.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.errors import InvalidInput
from postroom.core.records.mail import PURGED, SweepResult
from postroom.core.text import sha1_hex, short_repr
from postroom.core.verbs import OWN_NAME, PEOPLE, STEPS, verb
from postroom.mail import identity, transitions
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.mail import DeliveryRow
    from postroom.mail.transitions import LockedMailbox
    from postroom.store.interface import Store, Transaction

DAY_MICROSECONDS = 86_400 * clock.MICROSECONDS_PER_SECOND
_KEPT_FACTS = frozenset(("session", "from", "alias", "state", "attempt", "at", "retry_at", "in_flight_until"))
_NO_MOVES = {"retried": 0, "timed_out": 0, "dead_lettered": 0, "expired": 0}


@verb(caller=PEOPLE, mode=STEPS)
def sweep(store: Store, *, keep_days: float | None = None) -> SweepResult:
    """Apply the overdue moves of all mailboxes, and count them: retries, timeouts, dead letters, expiries.

    With `keep_days`, also forget the messages that were acked or expired longer ago: only ids, states and times stay. Their ids cannot
    be enqueued again, and dead letters stay. The protocol is correct without this verb.
    """
    if keep_days is not None and (not isinstance(keep_days, int | float) or not 0 <= keep_days <= 36_500):
        raise InvalidInput(f"keep_days must be from 0 to 36500, not {short_repr(keep_days)}", field="keep_days")
    tally = dict(_NO_MOVES)
    for session in _list_due_sessions(store):
        for name, number in sweep_mailbox(store, session).items():
            tally[name] += number
    forgotten = 0 if keep_days is None else _forget_old_messages(store, keep_days)
    return SweepResult(tally["retried"], tally["timed_out"], tally["dead_lettered"], tally["expired"], forgotten)


def _list_due_sessions(store: Store) -> list[str]:
    with store.read() as tx:
        return tx.fetch_all(tx.sql.mailboxes_due, now=tx.now(), limit=1_000_000)


def sweep_mailbox(store: Store, session: str) -> dict[str, int]:
    """Apply all overdue moves of a mailbox, in several transactions if necessary. Returns the number of moves by kind."""
    tally = dict(_NO_MOVES)
    while True:
        moved, more = _sweep_batch(store, session)
        for name, number in moved.items():
            tally[name] += number
        if not more:
            return tally


def bring_mailbox_up_to_date(store: Store, session: str) -> None:
    """Apply the overdue moves of a mailbox before it is read. Writes nothing if no move is due."""
    with store.read() as tx:
        mailbox_row = tx.fetch_one(tx.sql.mailbox_find, session=session)
        is_due = mailbox_row is not None and mailbox_row.is_due(tx.now())
    if is_due:
        sweep_mailbox(store, session)


@retry_on_contention
def _sweep_batch(store: Store, session: str) -> tuple[dict[str, int], bool]:
    """Apply overdue moves in one transaction. Returns their number by kind, and whether there are more."""
    with store.write() as tx:
        locked = transitions.lock_mailbox(tx, session)
        if locked is None:
            return {}, False
        more = transitions.apply_overdue_moves(tx, locked)
        locked.write_back()
        return locked.tally, more


@verb(caller="session", access=OWN_NAME, mode=STEPS)
def purge(store: Store, session: str) -> int:
    """Delete the unfinished messages of a mailbox, and return how many. Their ids cannot be enqueued again."""
    session = identity.read_session(store, session)
    with store.read() as tx:
        upto = tx.fetch_one(tx.sql.delivery_latest) or 0
    purged = 0
    while True:
        removed = _purge_batch(store, session, upto)
        purged += removed
        if removed < transitions.MAX_MOVES_PER_BATCH:
            return purged


@retry_on_contention
def _purge_batch(store: Store, session: str, upto: int) -> int:
    with store.write() as tx:
        locked = transitions.lock_mailbox(tx, session)
        if locked is None:
            return 0
        transitions.apply_overdue_moves(tx, locked)
        rows = tx.fetch_all(tx.sql.deliveries_purgeable, session=session, upto=upto, limit=transitions.MAX_MOVES_PER_BATCH)
        for row in rows:
            delete_message(tx, locked, row, PURGED, read_digest(tx, row))
        locked.write_back()
        for row in rows:
            transitions.append_step_event(tx, row.replace(state=PURGED), "purged")
    return len(rows)


def read_digest(tx: Transaction, row: DeliveryRow) -> str | None:
    """Return the digest of a message's payload, or None if the message is gone."""
    contents = tx.fetch_one(tx.sql.delivery_contents, delivery_id=row.delivery_id)
    return None if contents is None else sha1_hex(contents.payload)


def delete_message(tx: Transaction, locked: LockedMailbox, row: DeliveryRow, state: str, digest: str | None) -> None:
    """Delete a message and keep its id with `state` and the digest of its payload. The next message of its sender becomes the head."""
    tx.execute(tx.sql.delivery_delete, delivery_id=row.delivery_id)
    kept = {"msg_id": row.msg_id, "sender": row.sender, "session": row.session, "state": state}
    tx.execute(tx.sql.mail_id_keep, ended_at=tx.now(), payload_digest=digest, **kept)
    locked.count_move(row.state, None)
    if row.head:
        tx.execute(tx.sql.pair_advance, session=row.session, sender=row.sender)


def remove_message(tx: Transaction, row: DeliveryRow, digest: str | None, *, upto: int) -> int:
    """Delete a message that was acked or expired, and its events up to `upto`. Its id is kept. Returns 0 if it was deleted before.

    The caller has read the digest: that takes long if the payload is, and other writers would wait.
    """
    locked = transitions.open_mailbox(tx, row.session)
    found = tx.fetch_one(tx.sql.delivery_of_sender, msg_id=row.msg_id, sender=row.sender)
    if found is None or found.delivery_id != row.delivery_id:
        return 0
    delete_message(tx, locked, row, row.state, digest)
    locked.write_back()
    tx.execute(tx.sql.prune_subject_events, subject=row.msg_id, delivery_id=row.delivery_id, upto=upto)
    return 1


def _forget_history(tx: Transaction, row: DeliveryRow) -> None:
    """Remove everything but ids, states and times from the events of a message."""
    after = 0
    while steps := tx.fetch_all(tx.sql.mail_steps, msg_id=row.msg_id, after=after, limit=transitions.MAX_MOVES_PER_BATCH):
        for step in steps:
            facts = jsontext.loads(step.payload_json)
            kept = {name: value for name, value in facts.items() if name in _KEPT_FACTS}
            if facts.get("from") == row.sender and kept != facts:
                tx.execute(tx.sql.mail_step_put, event_id=step.event_id, payload_json=jsontext.dumps(kept))
        after = steps[-1].event_id


def _forget_old_messages(store: Store, keep_days: float) -> int:
    with store.read() as tx:
        before = tx.now() - int(keep_days * DAY_MICROSECONDS)
    forgotten = 0
    after = 0
    while True:
        scanned, removed, after = _forget_batch(store, before, after)
        forgotten += removed
        if scanned < transitions.MAX_MOVES_PER_BATCH:
            return forgotten


@retry_on_contention
def _forget_batch(store: Store, before: int, after: int) -> tuple[int, int, int]:
    """Delete one batch of old messages. Returns the number scanned, the number deleted, and the last delivery id.

    Mailboxes are locked in the order of their names, so that two concurrent sweeps cannot deadlock.
    """
    with store.write() as tx:
        rows = tx.fetch_all(tx.sql.deliveries_forgettable, before=before, after=after, limit=transitions.MAX_MOVES_PER_BATCH)
        opened = {session: transitions.open_mailbox(tx, session) for session in sorted({row.session for row in rows})}
        removed = 0
        for row in rows:
            digest = read_digest(tx, row)
            if digest is not None:  # a concurrent sweep may have deleted it
                delete_message(tx, opened[row.session], row, row.state, digest)
                _forget_history(tx, row)
                removed += 1
        for locked in opened.values():
            locked.write_back()
    return len(rows), removed, rows[-1].delivery_id if rows else after

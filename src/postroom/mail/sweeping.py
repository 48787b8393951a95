"""Sweeping: what is due is carried out by whoever touches a mailbox; this does it for all of them, and clears away."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput
from postroom.core.letters import PURGED, Parcel, Swept
from postroom.core.verbs import verb
from postroom.core.words import shown
from postroom.mail import boxes
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.mail.boxes import Box
    from postroom.store.port import Store, Transaction

DAY = 86_400 * clock.SECOND
_NOTHING = {"retried": 0, "timed_out": 0, "dead_lettered": 0, "expired": 0}


@verb
def sweep(store: Store, *, keep_days: float | None = None) -> Swept:
    """Carry out everything that is due, in every mailbox.

    With `keep_days`, also forget the messages that were acked or expired longer ago than that: their ids stay known, and
    dead letters stay. Nobody has to call this for the protocol to hold.
    """
    if keep_days is not None and (not isinstance(keep_days, int | float) or not 0 <= keep_days <= 36_500):
        raise InvalidInput(f"keep_days must be from 0 to 36500, not {shown(keep_days)}", field="keep_days")
    tally = dict(_NOTHING)
    for session in _due(store):
        for name, number in bring_up(store, session).items():
            tally[name] += number
    forgotten = 0 if keep_days is None else _forget_all(store, keep_days)
    return Swept(tally["retried"], tally["timed_out"], tally["dead_lettered"], tally["expired"], forgotten)


def _due(store: Store) -> list[str]:
    with store.read() as tx:
        return [row[0] for row in tx.all(tx.sql.mailboxes_due, now=tx.now(), limit=1_000_000)]


def bring_up(store: Store, session: str) -> dict[str, int]:
    """Carry out what is due in one mailbox, in as many transactions as it takes; how many moves of each kind."""
    tally = dict(_NOTHING)
    while True:
        moved, more = _pass(store, session)
        for name, number in moved.items():
            tally[name] += number
        if not more:
            return tally


def fresh(store: Store, session: str) -> None:
    """Before a mailbox is read: carry out what is due, if anything is."""
    with store.read() as tx:
        row = tx.one(tx.sql.mailbox_find, session=session)
        due = row is not None and row[-1] is not None and row[-1] <= tx.now()
    if due:
        bring_up(store, session)


@retried
def _pass(store: Store, session: str) -> tuple[dict[str, int], bool]:
    with store.write() as tx:
        box = boxes.locked(tx, session)
        if box is None:
            return {}, False
        more = boxes.carry_out(tx, box)
        box.close()
        return box.tally, more


@verb
def purge(store: Store, session: str) -> int:
    """Remove every message of a mailbox that has not ended; how many. Their ids stay known."""
    checks.name("session", session)
    with store.read() as tx:
        row = tx.one(tx.sql.delivery_latest)
        upto = row[0] if row else 0
    purged = 0
    while True:
        removed = _purge_some(store, session, upto)
        purged += removed
        if removed < boxes.BATCH:
            return purged


@retried
def _purge_some(store: Store, session: str, upto: int) -> int:
    with store.write() as tx:
        box = boxes.locked(tx, session)
        if box is None:
            return 0
        boxes.carry_out(tx, box)
        parcels = [Parcel(*row) for row in tx.all(tx.sql.deliveries_purgeable, session=session, upto=upto, limit=boxes.BATCH)]
        for parcel in parcels:
            remove(tx, box, parcel, PURGED)
        box.close()
        for parcel in parcels:
            boxes.tell(tx, parcel.replace(state=PURGED), "purged")
    return len(parcels)


def remove(tx: Transaction, box: Box, parcel: Parcel, state: str) -> None:
    """Take a message out of the store, all but its id."""
    tx.run(tx.sql.delivery_delete, delivery_id=parcel.delivery_id)
    tx.run(tx.sql.mail_id_keep, msg_id=parcel.msg_id, session=parcel.session, state=state, ended_at=tx.now())
    box.count(parcel.state, None)
    if parcel.head:
        tx.run(tx.sql.pair_advance, session=parcel.session, sender=parcel.sender)


def _forget_all(store: Store, keep_days: float) -> int:
    with store.read() as tx:
        before = tx.now() - int(keep_days * DAY)
    forgotten, after = 0, 0
    while True:
        found, removed, after = _forget_some(store, before, after)
        forgotten += removed
        if found < boxes.BATCH:
            return forgotten


@retried
def _forget_some(store: Store, before: int, after: int) -> tuple[int, int, int]:
    """How many were found, how many of them were left to forget, and where to go on.

    Mailboxes are locked in the order of their names, so that two who sweep never wait for each other in a circle.
    """
    with store.write() as tx:
        found = tx.all(tx.sql.deliveries_forgettable, before=before, after=after, limit=boxes.BATCH)
        parcels = [Parcel(*row) for row in found]
        opened = {session: boxes.opened(tx, session) for session in sorted({parcel.session for parcel in parcels})}
        removed = 0
        for parcel in parcels:
            if tx.one(tx.sql.delivery_find, msg_id=parcel.msg_id) is not None:  # another sweep may have been here first
                remove(tx, opened[parcel.session], parcel, parcel.state)
                removed += 1
        for box in opened.values():
            box.close()
    return len(parcels), removed, parcels[-1].delivery_id if parcels else after

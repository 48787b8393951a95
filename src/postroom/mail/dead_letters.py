"""Dead letters: what nobody could take is kept until somebody looks, and tries it again or throws it away."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import TooLarge
from postroom.core.letters import DEAD_LETTER, PENDING, PURGED, DeadLetterEntry, Parcel
from postroom.core.verbs import verb
from postroom.mail import boxes, mailbox, sweeping
from postroom.mail.boxes import PARCEL_FIELDS
from postroom.mail.drafts import Draft
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.mail.boxes import Box
    from postroom.store.port import Row, Store, Transaction

    Act = Callable[[Transaction, Box, Parcel, str, str], None]

_NO_END = 2**62
_BATCH = 100  # they come with their payloads
MOST_SHOWN = 64 * 1024 * 1024  # characters of payloads


@verb
def peek_dead_letter(store: Store, session: str, *, limit: int = 100) -> tuple[DeadLetterEntry, ...]:
    """The dead letters of a mailbox, the oldest first."""
    checks.name("session", session)
    checks.limit("limit", limit)
    sweeping.fresh(store, session)
    with store.read() as tx:
        sizes = [size for (size,) in tx.all(tx.sql.deliveries_dead_sizes, session=session, limit=limit)]
        if len(sizes) > 1 and sum(sizes) > MOST_SHOWN:
            hint = "Ask for fewer of them with a limit."
            raise TooLarge(f"{len(sizes)} dead letters hold {sum(sizes) >> 20} MiB", hint=hint, field="limit")
        rows = tx.all(tx.sql.deliveries_dead, session=session, upto=_NO_END, limit=limit)
    return tuple(_entry(row) for row in rows)


def _entry(row: Row) -> DeadLetterEntry:
    parcel = Parcel(*row[:PARCEL_FIELDS])
    message = mailbox.message_of(parcel, *row[PARCEL_FIELDS:])
    return DeadLetterEntry(message, parcel.reason, (parcel.ended_at or 0) // clock.SECOND, parcel.attempt)


@verb
def purge_dead_letter(store: Store, session: str, *, msg_id: str | None = None) -> int:
    """Throw away the dead letters of a mailbox, or one of them; how many. Their ids stay known."""
    return _each(store, session, msg_id, _throw_away)


@verb
def retry_dead_letter(store: Store, session: str, *, msg_id: str | None = None) -> int:
    """Try the dead letters of a mailbox again, or one of them; how many. Each joins the tail of its pair, as if new."""
    return _each(store, session, msg_id, _requeue)


def _throw_away(tx: Transaction, box: Box, parcel: Parcel, extra_json: str, payload: str) -> None:
    sweeping.remove(tx, box, parcel, PURGED)
    boxes.tell(tx, parcel.replace(state=PURGED), "purged")


def _requeue(tx: Transaction, box: Box, parcel: Parcel, extra_json: str, payload: str) -> None:
    tx.run(tx.sql.delivery_delete, delivery_id=parcel.delivery_id)
    box.count(DEAD_LETTER, None)
    draft = Draft(parcel.msg_id, parcel.sender, parcel.session, payload, parcel.created_at, extra_json)
    mailbox.store_draft(tx, box, draft, parcel.msg_id)
    boxes.tell(tx, parcel.replace(state=PENDING, attempt=0), "requeued")


def _each(store: Store, session: str, msg_id: str | None, act: Act) -> int:
    checks.name("session", session)
    if msg_id is not None:
        _one(store, session, msg_id, act)
        return 1
    sweeping.fresh(store, session)
    with store.read() as tx:
        row = tx.one(tx.sql.delivery_latest)
        upto = row[0] if row else 0  # what is retried now and dies again is not retried for ever
    done = 0
    while True:
        handled = _some(store, session, upto, act)
        done += handled
        if handled < _BATCH:
            return done


@retried
def _one(store: Store, session: str, msg_id: str, act: Act) -> None:
    with store.write() as tx:
        box, parcel = mailbox.found(tx, session, msg_id)
        contents = tx.one(tx.sql.delivery_contents, delivery_id=parcel.delivery_id)
        if contents is None or parcel.state != DEAD_LETTER:
            raise mailbox.not_allowed(msg_id, parcel.state, "Only a dead letter can be retried or purged by its id.")
        act(tx, box, parcel, *contents)
        box.close()


@retried
def _some(store: Store, session: str, upto: int, act: Act) -> int:
    with store.write() as tx:
        box = boxes.locked(tx, session)
        if box is None:
            return 0
        rows = tx.all(tx.sql.deliveries_dead, session=session, upto=upto, limit=_BATCH)
        for row in rows:
            act(tx, box, Parcel(*row[:PARCEL_FIELDS]), *row[PARCEL_FIELDS:])
        box.close()
        return len(rows)

"""Reading without taking: what waits in a mailbox, how many there are, and the whole story of one message."""

from __future__ import annotations

from postroom.core import checks, clock, jsontext
from postroom.core.errors import NotFound
from postroom.core.letters import FORGOTTEN, PURGED, MessageSummary, Parcel, Peeked, Receipt, SessionCounts, Step
from postroom.core.records import Event
from postroom.core.verbs import verb
from postroom.mail import drafts, sweeping
from postroom.mail.mailbox import message_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store

_SUBJECT = ("session", "from", "state", "at", "door")


@verb
def peek(store: Store, session: str, *, limit: int = 100) -> Peeked:
    """The messages of a mailbox that have not ended, in the order of delivery, without taking any."""
    checks.name("session", session)
    checks.limit("limit", limit)
    sweeping.fresh(store, session)
    with store.read() as tx:
        box = tx.one(tx.sql.mailbox_find, session=session)
        rows = tx.all(tx.sql.deliveries_waiting, session=session, limit=limit)
    summaries = tuple(MessageSummary(*row).replace(due_at=None if row[-1] is None else clock.stamp(row[-1])) for row in rows)
    return Peeked(summaries, box[1] + box[2] + box[3] if box else 0)


@verb
def sessions(store: Store, *, limit: int = 1000) -> tuple[SessionCounts, ...]:
    """How many messages of each mailbox are in each state."""
    checks.limit("limit", limit)
    sweeping.sweep(store)
    with store.read() as tx:
        rows = tx.all(tx.sql.mailboxes_all, limit=limit)
    return tuple(SessionCounts(*row[:7]) for row in rows)


@verb
def show(store: Store, msg_id: str) -> Receipt:
    """Every step of a message, with its time. Of one that was purged or forgotten, the steps are left."""
    checks.name("msg_id", msg_id, longest=drafts.ID_LENGTH)
    with store.read() as tx:
        row = tx.one(tx.sql.delivery_find, msg_id=msg_id)
    if row is not None:
        sweeping.fresh(store, row[2])
    with store.read() as tx:
        row = tx.one(tx.sql.delivery_find, msg_id=msg_id)
        gone = tx.one(tx.sql.mail_id_find, msg_id=msg_id)
        contents = None if row is None else tx.one(tx.sql.delivery_contents, delivery_id=row[0])
        steps = tuple(_step(Event(*event)) for event in tx.all(tx.sql.events_of_subject, message_id=msg_id))
    if row is not None and contents is not None:
        parcel = Parcel(*row)
        return Receipt(message_of(parcel, *contents), parcel.state, steps)
    if gone is None:
        raise NotFound(f"no message {msg_id} was ever stored", hint="See `mailbox sessions`.", msg_id=msg_id)
    return Receipt(None, PURGED if gone[1] == PURGED else FORGOTTEN, steps)


@verb
def standing(store: Store, session: str, msg_id: str, *, delivery_token: str) -> str | None:
    """The state of a message that was delivered with this token; None if it was delivered again since, or is gone."""
    checks.name("session", session)
    with store.read() as tx:
        row = tx.one(tx.sql.delivery_find, msg_id=checks.name("msg_id", msg_id, longest=drafts.ID_LENGTH))
    parcel = None if row is None else Parcel(*row)
    return parcel.state if parcel is not None and parcel.session == session and parcel.delivery_token == delivery_token else None


def _step(event: Event) -> Step:
    facts = jsontext.loads(event.payload_json)
    at = facts.get("at", event.created_at)
    return Step(at, event.event_type.partition(".")[2], {name: value for name, value in facts.items() if name not in _SUBJECT})

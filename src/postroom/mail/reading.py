"""Read mailboxes without taking messages: the waiting messages, the counts by state, and the receipt of one message."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks
from postroom.core.errors import NotFound
from postroom.core.records.mail import FORGOTTEN, PURGED, MailboxCounts, MailReceipt, MailReceiptStep, PeekResult
from postroom.core.verbs import ANY_AGENT, LEADERS, MESSAGE_PARTY, OWN_NAME, OWN_VIEW, READ, STEPS, verb
from postroom.mail import drafts, sweeping
from postroom.mail.mailbox import build_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.work import Event
    from postroom.store.interface import Store

_RECEIPT_FIELDS = ("session", "from", "state", "at", "door")


@verb(caller="session", access=OWN_VIEW, mode=STEPS)
def peek(store: Store, session: str, *, limit: int = 100) -> PeekResult:
    """List the unfinished messages of a mailbox in the order of delivery, without taking any."""
    checks.name("session", session)
    checks.limit("limit", limit)
    sweeping.bring_mailbox_up_to_date(store, session)
    with store.read() as tx:
        mailbox_row = tx.fetch_one(tx.sql.mailbox_find, session=session)
        summaries = tuple(tx.fetch_all(tx.sql.deliveries_waiting, session=session, limit=limit))
    return PeekResult(summaries, mailbox_row.unfinished_count if mailbox_row else 0)


@verb(caller=LEADERS, mode=STEPS)
def sessions(store: Store, *, limit: int = 1000) -> tuple[MailboxCounts, ...]:
    """Count the messages of each mailbox by state."""
    checks.limit("limit", limit)
    sweeping.sweep(store)
    with store.read() as tx:
        rows = tx.fetch_all(tx.sql.mailboxes_all, limit=limit)
    return tuple(MailboxCounts(*(getattr(row, name) for name in MailboxCounts.__fields__)) for row in rows)


@verb(caller=ANY_AGENT, access=MESSAGE_PARTY, mode=STEPS)
def show(store: Store, msg_id: str) -> MailReceipt:
    """Return a message, its state and all its steps with their times. A purged or forgotten message has only its steps.

    Refuses with `NotFound` an id that was never stored.
    """
    checks.name("msg_id", msg_id, max_chars=drafts.MAX_ID_CHARS)
    with store.read() as tx:
        row = tx.fetch_one(tx.sql.delivery_find, msg_id=msg_id)
    if row is not None:
        sweeping.bring_mailbox_up_to_date(store, row.session)
    with store.read() as tx:
        row = tx.fetch_one(tx.sql.delivery_find, msg_id=msg_id)
        used_id = tx.fetch_one(tx.sql.mail_id_find, msg_id=msg_id)
        contents = None if row is None else tx.fetch_one(tx.sql.delivery_contents, delivery_id=row.delivery_id)
        steps = tuple(_to_receipt_step(event) for event in tx.fetch_all(tx.sql.events_of_subject, message_id=msg_id))
    if row is not None and contents is not None:
        return MailReceipt(build_message(row, contents), row.state, steps)
    if used_id is None:
        raise NotFound(f"no message {msg_id} was ever stored", hint="See `mailbox sessions`.", msg_id=msg_id)
    return MailReceipt(None, PURGED if used_id.state == PURGED else FORGOTTEN, steps)


@verb(caller="session", access=OWN_NAME, mode=READ)
def delivery_state(store: Store, session: str, msg_id: str, *, delivery_token: str) -> str | None:
    """Return the state of a message if the token is of its current delivery. Returns None if not, or if it was deleted."""
    checks.name("session", session)
    with store.read() as tx:
        row = tx.fetch_one(tx.sql.delivery_find, msg_id=checks.name("msg_id", msg_id, max_chars=drafts.MAX_ID_CHARS))
    if row is None or row.session != session or row.delivery_token != delivery_token:
        return None
    return row.state


def _to_receipt_step(event: Event) -> MailReceiptStep:
    facts = jsontext.loads(event.payload_json)
    at = facts.get("at", event.created_at)
    return MailReceiptStep(
        at, event.event_type.partition(".")[2], {name: value for name, value in facts.items() if name not in _RECEIPT_FIELDS}
    )

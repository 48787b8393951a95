"""Read mailboxes without taking messages: the waiting messages, the counts by state, and the receipt of one message."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.records.mail import FORGOTTEN, PURGED, MailboxCounts, MailboxPage, MailReceipt, MailReceiptStep, PeekResult
from postroom.core.text import short_repr
from postroom.core.verbs import ANY_AGENT, LEADERS, MESSAGE_PARTY, OWN_NAME, OWN_VIEW, READ, STEPS, verb
from postroom.mail import identity, sweeping
from postroom.mail.mailbox import build_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records import Event
    from postroom.core.records.mail import DeliveryRow, MailId
    from postroom.store.interface import Store, Transaction

_MAX_SENDERS_OF_ID = 1000  # messages of one id that are looked at
_RECEIPT_FIELDS = ("session", "from", "state", "at", "door")
_ANNOUNCED_STEPS = {"wake.offered": "announced", "wake.injected": "injected"}  # written by people/agents/wake_routes.py


@verb(caller="session", access=OWN_VIEW, mode=STEPS)
def peek(store: Store, session: str, *, limit: int = 100, after: str | None = None, acked: bool = False) -> PeekResult:
    """List the unfinished messages of a mailbox in the order of delivery, without taking any. `after` is the cursor of a page.

    With `acked`, list the acked messages that the store still keeps instead, the newest first.
    """
    checks.limit("limit", limit)
    first = (-1, checks.AFTER_ALL_IDS if acked else 0)
    rank, delivery_id = first if after is None else _parse_peek_cursor(after)
    session = identity.read_session(store, session)
    sweeping.bring_mailbox_up_to_date(store, session)
    with store.read() as tx:
        mailbox_row = tx.fetch_one(tx.sql.mailbox_find, session=session)
        if acked:
            found = tx.fetch_all(tx.sql.deliveries_acked_summaries, session=session, before=delivery_id, limit=limit + 1)
        else:
            found = tx.fetch_all(tx.sql.deliveries_waiting, session=session, rank=rank, after=delivery_id, limit=limit + 1)
    more = len(found) > limit
    summaries = tuple(waiting.summary for waiting in found[:limit])
    total = 0 if mailbox_row is None else mailbox_row.acked if acked else mailbox_row.unfinished_count
    return PeekResult(summaries, total, more, found[limit - 1].cursor if more else None)


def _parse_peek_cursor(after: str) -> tuple[int, int]:
    """Return the rank and the delivery id in the cursor of `peek`."""
    rank, _, delivery_id = after.partition(".") if isinstance(after, str) else ("", "", "")
    return parse_cursor(rank), parse_cursor(delivery_id)


def parse_cursor(after: str) -> int:
    """Return the number in a cursor. Refuses a text that no listing gave."""
    if not isinstance(after, str) or not after.isascii() or not after.isdigit() or len(after) > 18:
        raise InvalidInput(
            f"after is not the cursor of a listing: {short_repr(after)}", field="after", hint="Pass `after` of the page before."
        )
    return int(after)


@verb(caller=LEADERS, mode=STEPS)
def sessions(store: Store, *, limit: int = 1000, after: str | None = None) -> MailboxPage:
    """Count the messages of each mailbox by state. `after` is the cursor of a page."""
    checks.limit("limit", limit)
    after = "" if after is None else checks.name("after", after)
    sweeping.sweep(store)
    with store.read() as tx:
        rows = tx.fetch_all(tx.sql.mailboxes_all, after=after, limit=limit + 1)
    more = len(rows) > limit
    found = tuple(MailboxCounts(*(getattr(row, name) for name in MailboxCounts.__fields__)) for row in rows[:limit])
    return MailboxPage(found, more, found[-1].session if more else None)


@verb(caller=ANY_AGENT, access=MESSAGE_PARTY, mode=STEPS)
def show(
    store: Store,
    msg_id: str,
    *,
    sent_by: str | None = None,
    limit: int = 1000,
    after: str | None = None,
    visible_to: str | None = None,
) -> MailReceipt:
    """Return a message, its state and its steps with their times. A purged or forgotten message has only its steps.

    `sent_by` is the sender. It is necessary if several senders used the id. `after` is the cursor of a page of steps. `visible_to`
    selects messages that an agent sent or received. A server sets it for agents. Refuses with `NotFound` an id that was never stored.
    """
    identity.check_message_name(msg_id, sent_by)
    if visible_to is not None:
        checks.name("visible_to", visible_to)
    checks.limit("limit", limit)
    after_event = 0 if after is None else parse_cursor(after)
    with store.read() as tx:
        row = _find_message(tx, msg_id, sent_by, visible_to)[0]
    if row is not None:
        sweeping.bring_mailbox_up_to_date(store, row.session)
    with store.read() as tx:
        row, used_id = _find_message(tx, msg_id, sent_by, visible_to)
        contents = None if row is None else tx.fetch_one(tx.sql.delivery_contents, delivery_id=row.delivery_id)
        events = tx.fetch_all(tx.sql.mail_steps, msg_id=msg_id, after=after_event, limit=limit + 1)
    named = row or used_id
    page = _steps_page(events, limit, sender="" if named is None else named.sender, session="" if named is None else named.session)
    if row is not None and contents is not None:
        return MailReceipt(build_message(row, contents), row.state, **page)
    if used_id is None:
        raise NotFound(f"no message {msg_id} was ever stored", hint="See `mailbox sessions`.", msg_id=msg_id)
    return MailReceipt(None, PURGED if used_id.state == PURGED else FORGOTTEN, **page)


def _find_message(tx: Transaction, msg_id: str, sent_by: str | None, visible_to: str | None) -> tuple[DeliveryRow | None, MailId | None]:
    """Return the message with an id, or else its kept id. Refuses an id of several senders, of whom none is named."""
    if sent_by is None:
        rows = tx.fetch_all(tx.sql.deliveries_of_id, msg_id=msg_id, limit=_MAX_SENDERS_OF_ID)
    else:
        rows = tx.fetch_all(tx.sql.delivery_of_sender, msg_id=msg_id, sender=sent_by)
    ids = [used for used in tx.fetch_all(tx.sql.mail_ids_of, msg_id=msg_id, limit=_MAX_SENDERS_OF_ID) if sent_by in (None, used.sender)]
    if visible_to is not None:
        rows = [row for row in rows if visible_to in (row.sender, row.session)]
        ids = [used for used in ids if visible_to in (used.sender, used.session)]
    if len(rows) + len(ids) > 1:
        raise identity.ambiguous_id_error(msg_id)
    return next(iter(rows), None), next(iter(ids), None)


@verb(caller="session", access=OWN_NAME, mode=READ)
def delivery_state(store: Store, session: str, msg_id: str, *, delivery_token: str) -> str | None:
    """Return the state of a message if the token is of its current delivery. Returns None if not, or if it was deleted."""
    checks.name("session", session)
    identity.check_message_name(msg_id, None)
    with store.read() as tx:
        rows = tx.fetch_all(tx.sql.deliveries_named, msg_id=msg_id, session=identity.resolve_session(tx, session))
    return next((row.state for row in rows if row.delivery_token == delivery_token), None)


def _steps_page(events: list[Event], limit: int, *, sender: str, session: str) -> dict[str, Any]:
    """Return the steps of the sender's message, and the cursor behind them. Other senders may have used the id.

    Announcements to the agent of the mailbox are steps too. They are written by the agent's sessions, which do not name the sender.
    """
    parsed = [(event, jsontext.loads(event.payload_json)) for event in events[:limit]]
    steps = tuple(
        _to_receipt_step(event, facts)
        for event, facts in parsed
        if (event.source == session if event.event_type in _ANNOUNCED_STEPS else facts.get("from") == sender)
    )
    more = len(events) > limit
    return {"steps": steps, "more": more, "after": str(events[limit - 1].event_id) if more else None}


def _to_receipt_step(event: Event, facts: dict[str, Any]) -> MailReceiptStep:
    at = facts.get("at", event.created_at)
    if event.event_type in _ANNOUNCED_STEPS:
        return MailReceiptStep(at, _ANNOUNCED_STEPS[event.event_type], {"way": facts["route"], "program": facts["program"]})
    return MailReceiptStep(
        at, event.event_type.partition(".")[2], {name: value for name, value in facts.items() if name not in _RECEIPT_FIELDS}
    )

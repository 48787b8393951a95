"""Identity: the mailbox that a name stands for, the message that an id names, and whether a message was stored before.

An id belongs to its sender. So a verb that names a message by its id alone is refused if the mailbox has that id of two senders.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, limits
from postroom.core.errors import DeliveryLost, IdConflict, InvalidInput, InvalidState, NotFound
from postroom.core.records.mail import ACKED, DeliveryRow
from postroom.core.text import sha1_hex, shell_quote
from postroom.mail import transitions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.mail import MailId
    from postroom.mail.drafts import Draft
    from postroom.mail.transitions import LockedMailbox
    from postroom.store.interface import Store, Transaction

_MAX_SENDERS_OF_ID = 1000  # messages of one id that are looked at
_STORED = "mail.stored"


def resolve_session(tx: Transaction, name: str) -> str:
    """Return the session that an alias stands for, or the name itself if it is no alias."""
    return tx.fetch_one(tx.sql.alias_find, name=name) or name


def read_session(store: Store, name: str) -> str:
    """Check the name of a mailbox, and return the session that it stands for."""
    checks.name("session", name)
    with store.read() as tx:
        return resolve_session(tx, name)


# Repeats and conflicts


def is_repeat(tx: Transaction, draft: Draft, session: str) -> bool:
    """Return whether the sender has stored this message before. Refuses with `IdConflict` another message under the same id."""
    known = tx.fetch_one(tx.sql.delivery_known, msg_id=draft.msg_id, sender=draft.sender)
    if known is None:
        return False
    if known.payload is not None:
        same_payload = known.payload == draft.payload
    else:
        same_payload = known.payload_digest is None or known.payload_digest == sha1_hex(draft.payload)
    if same_payload and (known.session == session or _was_stored_as(tx, draft)):
        return True
    other = "another recipient" if same_payload else "another payload"
    raise IdConflict(
        f"{draft.sender} has used the id {draft.msg_id} for a message with {other}",
        hint="An id stands for one message: choose a new id, or leave it out.",
        msg_id=draft.msg_id,
    )


def _was_stored_as(tx: Transaction, draft: Draft) -> bool:
    """Return whether the sender named the same alias before, and the alias has moved since."""
    steps = tx.fetch_all(tx.sql.mail_steps, msg_id=draft.msg_id, after=0, limit=_MAX_SENDERS_OF_ID)
    facts = [jsontext.loads(step.payload_json) for step in steps if step.event_type == _STORED]
    return any(one["from"] == draft.sender and one.get("alias") == draft.to for one in facts)


# A message by its id


def lock_message(
    tx: Transaction, session: str, msg_id: str, *, sent_by: str | None = None, delivery_token: str | None = None
) -> tuple[LockedMailbox, DeliveryRow]:
    """Lock the mailbox, apply its overdue moves, and return it with a message or its tombstone.

    Refuses with `NotFound`, and with `InvalidInput` if the id is of two senders and neither `sent_by` nor the token decides.
    """
    check_message_name(msg_id, sent_by)
    tx.prefetch(tx.sql.mailbox_lock_named, name=checks.name("session", session))
    tx.prefetch(tx.sql.deliveries_named, msg_id=msg_id, session=session)
    locked = transitions.lock_named_mailbox(tx, session)
    if locked is None:
        raise _not_found(session, msg_id)
    transitions.apply_overdue_moves(tx, locked)
    rows = tx.fetch_all(tx.sql.deliveries_named, msg_id=msg_id, session=locked.session)
    row = _find_by_token(rows, delivery_token)
    if row is None:
        ids = tx.fetch_all(tx.sql.mail_ids_of, msg_id=msg_id, limit=_MAX_SENDERS_OF_ID)
        rows += [_make_tombstone(used) for used in ids if used.session == locked.session]
        row = _choose_message(rows, session, msg_id, sent_by, delivery_token)
    return locked, transitions.settle_message(tx, locked, row)


def lock_delivery(
    tx: Transaction, session: str, msg_id: str, sent_by: str | None, delivery_token: str | None
) -> tuple[LockedMailbox, DeliveryRow]:
    """Lock the mailbox and return it with the message of a delivery.

    Refuses with `DeliveryLost` if the token is not the current one, and with `InvalidState` if the message was deleted
    before it was acked.
    """
    locked, row = lock_message(tx, session, msg_id, sent_by=sent_by, delivery_token=delivery_token)
    if not row.delivery_id:
        if row.state != ACKED:
            raise wrong_state_error(msg_id, row.state, "Nothing is left to do for it.")
        return locked, row
    if delivery_token is not None and delivery_token != row.delivery_token:
        raise _delivery_lost(msg_id, row.state)
    return locked, row


def check_message_name(msg_id: str, sent_by: str | None) -> None:
    checks.name("msg_id", msg_id, max_chars=limits.MAX_MESSAGE_ID_CHARS)
    if sent_by is not None:
        checks.name("from", sent_by)


def ambiguous_id_error(msg_id: str) -> InvalidInput:
    return InvalidInput(
        f"several senders have used the id {msg_id}", field="from", hint="Name the sender with --from, or pass the delivery token."
    )


def wrong_state_error(msg_id: str, state: str, hint: str) -> InvalidState:
    return InvalidState(f"{msg_id} is {state}", hint=hint, msg_id=msg_id, state=state)


def _find_by_token(rows: list[DeliveryRow], delivery_token: str | None) -> DeliveryRow | None:
    return None if delivery_token is None else next((row for row in rows if row.delivery_token == delivery_token), None)


def _choose_message(rows: list[DeliveryRow], session: str, msg_id: str, sent_by: str | None, delivery_token: str | None) -> DeliveryRow:
    chosen = [row for row in rows if sent_by is None or row.sender == sent_by]
    if not chosen:
        raise _not_found(session, msg_id)
    if len(chosen) > 1:
        raise ambiguous_id_error(msg_id) if delivery_token is None else _delivery_lost(msg_id, chosen[0].state)
    return chosen[0]


def _not_found(session: str, msg_id: str) -> NotFound:
    return NotFound(
        f"there is no message {msg_id} in the mailbox {session}",
        hint=f"See `mailbox peek --session {shell_quote(session)}`.",
        msg_id=msg_id,
    )


def _delivery_lost(msg_id: str, state: str) -> DeliveryLost:
    return DeliveryLost(
        f"this delivery of {msg_id} is over: it timed out, or another followed it",
        hint="Stop working on it: it is delivered again to the next receiver.",
        msg_id=msg_id,
        state=state,
    )


def _make_tombstone(used: MailId) -> DeliveryRow:
    """Return the row of a deleted message, with only its id and its last state. Its `delivery_id` is 0."""
    return DeliveryRow(0, used.msg_id, used.session, used.sender, 0, 0, used.state, 0, 0, None, 0, 0, None, None, None, 0, "", "")

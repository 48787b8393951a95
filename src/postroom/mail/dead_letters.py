"""Dead letters: messages whose retries are exhausted. They are kept until a person retries or purges them."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import TooLarge
from postroom.core.records.mail import DEAD_LETTER, PENDING, PURGED, DeadLetterEntry
from postroom.core.verbs import OWN_VIEW, PEOPLE, STEPS, verb
from postroom.mail import mailbox, sweeping, transitions
from postroom.mail.drafts import Draft
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.core.records.mail import DeliveryContents, DeliveryRow, StoredMessage
    from postroom.mail.transitions import LockedMailbox
    from postroom.store.interface import Store, Transaction

    LetterAction = Callable[[Transaction, LockedMailbox, DeliveryRow, DeliveryContents], None]

_AFTER_ALL_DELIVERIES = 2**62
_LETTERS_PER_BATCH = 100  # a small batch: each is read with its payload of up to 10 MiB
MAX_PEEK_CHARS = 64 * 1024 * 1024  # of payloads


@verb(caller="session", access=OWN_VIEW, mode=STEPS)
def peek_dead_letter(store: Store, session: str, *, limit: int = 100) -> tuple[DeadLetterEntry, ...]:
    """List the dead letters of a mailbox, the oldest first. Refuses with `TooLarge` more than `MAX_PEEK_CHARS` of payloads."""
    checks.name("session", session)
    checks.limit("limit", limit)
    sweeping.bring_mailbox_up_to_date(store, session)
    with store.read() as tx:
        sizes = tx.fetch_all(tx.sql.deliveries_dead_sizes, session=session, limit=limit)
        if len(sizes) > 1 and sum(sizes) > MAX_PEEK_CHARS:
            hint = "Ask for fewer of them with a limit."
            raise TooLarge(f"{len(sizes)} dead letters hold {sum(sizes) >> 20} MiB", hint=hint, field="limit")
        dead = tx.fetch_all(tx.sql.deliveries_dead, session=session, upto=_AFTER_ALL_DELIVERIES, limit=limit)
    return tuple(_to_entry(stored) for stored in dead)


def _to_entry(stored: StoredMessage) -> DeadLetterEntry:
    row = stored.delivery
    message = mailbox.build_message(row, stored.contents)
    return DeadLetterEntry(message, row.reason, (row.ended_at or 0) // clock.MICROSECONDS_PER_SECOND, row.attempt)


@verb(caller=PEOPLE, mode=STEPS)
def purge_dead_letter(store: Store, session: str, *, msg_id: str | None = None) -> int:
    """Delete the dead letters of a mailbox, or one of them, and return how many. Their ids cannot be enqueued again."""
    return _apply_to_dead_letters(store, session, msg_id, _purge_letter)


@verb(caller=PEOPLE, mode=STEPS)
def retry_dead_letter(store: Store, session: str, *, msg_id: str | None = None) -> int:
    """Requeue the dead letters of a mailbox, or one of them, and return how many. Each goes behind its sender's other messages."""
    return _apply_to_dead_letters(store, session, msg_id, _requeue_letter)


def _purge_letter(tx: Transaction, locked: LockedMailbox, row: DeliveryRow, contents: DeliveryContents) -> None:
    sweeping.delete_message(tx, locked, row, PURGED)
    transitions.append_step_event(tx, row.replace(state=PURGED), "purged")


def _requeue_letter(tx: Transaction, locked: LockedMailbox, row: DeliveryRow, contents: DeliveryContents) -> None:
    tx.execute(tx.sql.delivery_delete, delivery_id=row.delivery_id)
    locked.count_move(DEAD_LETTER, None)
    draft = Draft(row.msg_id, row.sender, row.session, contents.payload, row.created_at, contents.extra_json)
    mailbox.store_draft(tx, locked, draft, row.msg_id)
    transitions.append_step_event(tx, row.replace(state=PENDING, attempt=0), "requeued")


def _apply_to_dead_letters(store: Store, session: str, msg_id: str | None, action: LetterAction) -> int:
    """Apply an action to one dead letter, or to all of a mailbox in several transactions. Returns how many."""
    checks.name("session", session)
    if msg_id is not None:
        _apply_to_one(store, session, msg_id, action)
        return 1
    sweeping.bring_mailbox_up_to_date(store, session)
    with store.read() as tx:
        upto = tx.fetch_one(tx.sql.delivery_latest) or 0  # a letter that dies again during the loop has a higher id
    total = 0
    while True:
        handled = _apply_to_batch(store, session, upto, action)
        total += handled
        if handled < _LETTERS_PER_BATCH:
            return total


@retry_on_contention
def _apply_to_one(store: Store, session: str, msg_id: str, action: LetterAction) -> None:
    with store.write() as tx:
        locked, row = mailbox.lock_message(tx, session, msg_id)
        contents = tx.fetch_one(tx.sql.delivery_contents, delivery_id=row.delivery_id)
        if contents is None or row.state != DEAD_LETTER:
            raise mailbox.wrong_state_error(msg_id, row.state, "Only a dead letter can be retried or purged by its id.")
        action(tx, locked, row, contents)
        locked.write_back()


@retry_on_contention
def _apply_to_batch(store: Store, session: str, upto: int, action: LetterAction) -> int:
    with store.write() as tx:
        locked = transitions.lock_mailbox(tx, session)
        if locked is None:
            return 0
        dead = tx.fetch_all(tx.sql.deliveries_dead, session=session, upto=upto, limit=_LETTERS_PER_BATCH)
        for stored in dead:
            action(tx, locked, stored.delivery, stored.contents)
        locked.write_back()
        return len(dead)

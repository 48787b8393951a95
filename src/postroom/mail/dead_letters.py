"""Dead letters: messages whose retries are exhausted. They are kept until a person retries or purges them."""

from __future__ import annotations

from postroom.core import checks, clock, limits
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records.mail import DEAD_LETTER, PENDING, PURGED, DeadLetterEntry, DeadLetterPage
from postroom.core.verbs import OWN_NAME, OWN_VIEW, STEPS, verb
from postroom.mail import identity, mailbox, reading, sweeping, transitions
from postroom.mail.drafts import Draft
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from postroom.core.records.mail import DeadLetterSize, DeliveryContents, DeliveryRow, StoredMessage
    from postroom.mail.transitions import LockedMailbox
    from postroom.store.interface import Store, Transaction

    LetterAction = Callable[[Transaction, LockedMailbox, DeliveryRow, DeliveryContents], None]

_LETTERS_PER_BATCH = 100  # a small batch: each is read with its payload of up to 10 MiB
MAX_SHOWN_LETTERS = 100  # in a listing without a limit. A purge without ids removes no more
MAX_PAGE_BYTES = limits.MAX_ANSWER_BYTES  # of payloads in one page, unless one letter alone has more


@verb(caller="session", access=OWN_VIEW, mode=STEPS)
def peek_dead_letter(store: Store, session: str, *, limit: int = MAX_SHOWN_LETTERS, after: str | None = None) -> DeadLetterPage:
    """List the dead letters of a mailbox, the oldest first. `after` is the cursor of a page.

    A page has at most `limit` letters, and fewer if their payloads are large.
    """
    checks.limit("limit", limit)
    after_delivery = 0 if after is None else reading.parse_cursor(after)
    session = identity.read_session(store, session)
    sweeping.bring_mailbox_up_to_date(store, session)
    with store.read() as tx:
        mailbox_row = tx.fetch_one(tx.sql.mailbox_find, session=session)
        sizes = tx.fetch_all(tx.sql.deliveries_dead_sizes, session=session, after=after_delivery, limit=limit + 1)
        count = _count_that_fit(sizes[:limit])
        binds = {"session": session, "after": after_delivery, "upto": checks.AFTER_ALL_IDS}
        dead = tx.fetch_all(tx.sql.deliveries_dead, limit=count, **binds) if count else []
    more = len(sizes) > count
    cursor = str(sizes[count - 1].delivery_id) if more else None
    return DeadLetterPage(tuple(_to_entry(stored) for stored in dead), mailbox_row.dead_letter if mailbox_row else 0, more, cursor)


def _count_that_fit(sizes: list[DeadLetterSize]) -> int:
    """Return how many letters fit into one page, at least one if there is one."""
    page_bytes = 0
    for number, size in enumerate(sizes):
        page_bytes += size.bytes
        if number and page_bytes > MAX_PAGE_BYTES:
            return number
    return len(sizes)


def _to_entry(stored: StoredMessage) -> DeadLetterEntry:
    row = stored.delivery
    message = mailbox.build_message(row, stored.contents)
    return DeadLetterEntry(message, row.reason, (row.ended_at or 0) // clock.MICROSECONDS_PER_SECOND, row.attempt)


@verb(caller="session", access=OWN_NAME, mode=STEPS)
def purge_dead_letter(
    store: Store, session: str, *, msg_id: str | Sequence[str] | None = None, sent_by: str | None = None, everything: bool = False
) -> int:
    """Delete the dead letters of a mailbox, or those with the given ids, and return how many. Their ids cannot be enqueued again.

    Without ids, refuses with `InvalidState` if there are more than a listing shows, unless `everything` is set. `sent_by` is the sender
    of the ids. It is necessary if two senders used one id.
    """
    if msg_id is None and not everything:
        total = peek_dead_letter(store, session, limit=1).total
        if total > MAX_SHOWN_LETTERS:
            hint = f"Read them with `mailbox peek-dead-letter`, then name them with --msg-id, or purge all {total} with --all."
            message = f"{session} has {total} dead letters, and a listing shows {MAX_SHOWN_LETTERS}"
            raise InvalidState(message, hint=hint, dead_letters=total)
    return _apply_to_dead_letters(store, session, msg_id, sent_by, _purge_letter)


@verb(caller="session", access=OWN_NAME, mode=STEPS)
def retry_dead_letter(store: Store, session: str, *, msg_id: str | Sequence[str] | None = None, sent_by: str | None = None) -> int:
    """Requeue the dead letters of a mailbox, or those with the given ids, and return how many.

    Each goes behind its sender's other messages. `sent_by` is the sender of the ids. It is necessary if two senders used one id.
    """
    return _apply_to_dead_letters(store, session, msg_id, sent_by, _requeue_letter)


def _purge_letter(tx: Transaction, locked: LockedMailbox, row: DeliveryRow, contents: DeliveryContents) -> None:
    sweeping.delete_message(tx, locked, row, PURGED, sweeping.read_digest(tx, row))
    transitions.append_step_event(tx, row.replace(state=PURGED), "purged")


def _requeue_letter(tx: Transaction, locked: LockedMailbox, row: DeliveryRow, contents: DeliveryContents) -> None:
    tx.execute(tx.sql.delivery_delete, delivery_id=row.delivery_id)
    locked.count_move(DEAD_LETTER, None)
    draft = Draft(row.msg_id, row.sender, row.session, contents.payload, row.created_at, contents.extra_json)
    mailbox.store_draft(tx, locked, draft, row.msg_id)
    transitions.append_step_event(tx, row.replace(state=PENDING, attempt=0), "requeued")


def _apply_to_dead_letters(
    store: Store, session: str, msg_id: str | Sequence[str] | None, sent_by: str | None, action: LetterAction
) -> int:
    """Apply an action to some dead letters in one transaction, or to all of a mailbox in several. Returns how many."""
    session = identity.read_session(store, session)
    if msg_id is not None:
        msg_ids = _check_ids(msg_id, sent_by)
        _apply_to_named(store, session, msg_ids, sent_by, action)
        return len(msg_ids)
    sweeping.bring_mailbox_up_to_date(store, session)
    with store.read() as tx:
        upto = tx.fetch_one(tx.sql.delivery_latest) or 0  # a letter that dies again during the loop has a higher id
    total = 0
    while True:
        handled = _apply_to_batch(store, session, upto, action)
        total += handled
        if handled < _LETTERS_PER_BATCH:
            return total


def _check_ids(given: str | Sequence[str], sent_by: str | None) -> list[str]:
    """Return the ids without duplicates."""
    ids = [given] if isinstance(given, str) else given
    if not isinstance(ids, (list, tuple)) or len(ids) > limits.MAX_ITEMS:
        raise InvalidInput(f"msg_id must be an id, or a list of at most {limits.MAX_ITEMS} ids", field="msg_id")
    for msg_id in ids:
        identity.check_message_name(msg_id, sent_by)
    return list(dict.fromkeys(ids))


@retry_on_contention
def _apply_to_named(store: Store, session: str, msg_ids: list[str], sent_by: str | None, action: LetterAction) -> None:
    with store.write() as tx:
        for msg_id in msg_ids:
            locked, row = identity.lock_message(tx, session, msg_id, sent_by=sent_by)
            contents = tx.fetch_one(tx.sql.delivery_contents, delivery_id=row.delivery_id)
            if contents is None or row.state != DEAD_LETTER:
                raise identity.wrong_state_error(msg_id, row.state, "Only a dead letter can be retried or purged by its id.")
            action(tx, locked, row, contents)
            locked.write_back()


@retry_on_contention
def _apply_to_batch(store: Store, session: str, upto: int, action: LetterAction) -> int:
    with store.write() as tx:
        locked = transitions.lock_mailbox(tx, session)
        if locked is None:
            return 0
        dead = tx.fetch_all(tx.sql.deliveries_dead, session=session, after=0, upto=upto, limit=_LETTERS_PER_BATCH)
        for stored in dead:
            action(tx, locked, stored.delivery, stored.contents)
        locked.write_back()
        return len(dead)

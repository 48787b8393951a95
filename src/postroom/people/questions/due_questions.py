"""Whether questions wait to be brought up to date: new ones in threads, and passed deadlines. `sync` does it, by question_sync.py.

Apart from it, because nearly every verb of this room asks, and most often there is nothing to do.
"""

from __future__ import annotations

from postroom.core import clock
from postroom.core.records.people import UNTIL_ACTIVITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store, Transaction

CURSOR_NAME = "people.surface"


def sync(store: Store) -> None:
    """Apply new messages and passed deadlines, if there are any."""
    with store.read() as tx:
        behind = is_behind(tx)
    if behind:
        from postroom.people.questions.question_sync import sync_questions

        sync_questions(store)


def is_behind(tx: Transaction) -> bool:
    """Return whether there are messages or deadlines to apply. Reads no message text, so the server may call it on its event loop."""
    cursor = tx.fetch_one(tx.sql.cursor_find, name=CURSOR_NAME) or 0
    if tx.fetch_one(tx.sql.message_to_people_after, after=cursor) is not None:
        return True
    due_at = _next_due(tx)
    return due_at is not None and due_at <= tx.now()


def _next_due(tx: Transaction) -> int | None:
    """Return the next instant, in microseconds, at which a deadline passes or a snoozed entry comes back."""
    due_at, waking = tx.fetch_one(tx.sql.ask_next_due), tx.fetch_one(tx.sql.entry_next_waking)
    wakes_at = None if waking is None or waking >= UNTIL_ACTIVITY else waking * 1000
    return min((instant for instant in (due_at, wakes_at) if instant is not None), default=None)


def seconds_until_deadline(tx: Transaction) -> float | None:
    """Return the seconds until the next deadline, or None if there is none."""
    due_at = _next_due(tx)
    return None if due_at is None else max((due_at - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0.001)

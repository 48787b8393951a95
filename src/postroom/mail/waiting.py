"""Waiting for a message: sleep until one is stored, or until a retry or a timeout makes one available."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import StoreBusy, StoreUnreachable
from postroom.core.verbs import OWN_NAME, OWN_VIEW, READ, WAIT, verb
from postroom.mail import identity, transitions
from postroom.mail.mailbox import dequeue
from postroom.store.wait_loop import wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.mail import Delivery
    from postroom.store.interface import Store, Transaction


@verb(caller="session", access=OWN_NAME, mode=WAIT)
def wait(store: Store, session: str, *, timeout_seconds: float = 0, receiver: str | None = None) -> Delivery | None:
    """Take the next message. If there is none, wait until one is stored or due again.

    Returns None after `timeout_seconds` (0: without a limit).
    """
    checks.seconds("timeout_seconds", timeout_seconds, allow_zero=True)
    session = _resolve_when_reachable(store, session, timeout_seconds)
    due_wake = DueMailWake(store, session)

    def take_next() -> Delivery | None:
        return dequeue(store, session, receiver=receiver) if due_wake.may_have_message() else None

    return wait_until(store, take_next, timeout_seconds, topics=(transitions.mailbox_topic(session),), periodic=due_wake)


def _resolve_when_reachable(store: Store, name: str, timeout_seconds: float) -> str:
    """Return the session that a name stands for. If the store is unreachable, try again until the time is over, as the wait does."""
    try:
        return identity.read_session(store, name)
    except (StoreUnreachable, StoreBusy):
        topics = (transitions.mailbox_topic(name),)
        return wait_until(store, lambda: identity.read_session(store, name), timeout_seconds, topics=topics) or name


@verb(caller="session", access=OWN_VIEW, mode=READ)
def next_available(store: Store, session: str) -> tuple[bool, float | None]:
    """Return whether there may be a message to take, and the seconds until the next retry, timeout or expiry, if any."""
    due_wake = DueMailWake(store, identity.read_session(store, session))
    return due_wake.may_have_message(), due_wake.seconds_until_due()


class DueMailWake:
    """The periodic task that wakes a waiter when a move is due in a mailbox. No event is written at that moment."""

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self._session = session

    def may_have_message(self) -> bool:
        """Return whether there may be a message to take. This is a read, and so does not block writers as `dequeue` does."""
        with self._store.read() as tx:
            return is_message_ready(tx, self._session)

    def seconds_until_due(self) -> float | None:
        with self._store.read() as tx:
            mailbox_row = tx.fetch_one(tx.sql.mailbox_find, session=self._session)
            if mailbox_row is None or mailbox_row.next_due is None:
                return None
            return max((mailbox_row.next_due - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0.001)

    def run(self) -> None:
        """Do nothing: the waiter's next dequeue applies the move."""

    @classmethod
    def seconds_for_session(cls, store: Store, *, session: str) -> float | None:
        """Return the seconds until a move is due in the mailbox of a session, or None."""
        return cls(store, session).seconds_until_due()


def is_message_ready(tx: Transaction, session: str) -> bool:
    """Return whether a mailbox has a message to take, or an overdue move that may leave one."""
    mailbox_row = tx.fetch_one(tx.sql.mailbox_find, session=session)
    if mailbox_row is None:
        return False
    return mailbox_row.is_due(tx.now()) or tx.fetch_one(tx.sql.delivery_offered, session=session) is not None

"""Waiting for a message: sleep until one comes, or until time moves one."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.verbs import verb
from postroom.mail import boxes
from postroom.mail.mailbox import dequeue
from postroom.store.waking import until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.letters import Delivery
    from postroom.store.port import Store, Transaction


@verb
def wait(store: Store, session: str, *, timeout_seconds: float = 0, receiver: str | None = None) -> Delivery | None:
    """Take the next message, sleeping until there is one: stored, or due again. None when the time is over (0: never)."""
    checks.name("session", session)
    checks.seconds("timeout_seconds", timeout_seconds, zero=True)
    tide = Tide(store, session)

    def look() -> Delivery | None:
        return dequeue(store, session, receiver=receiver) if tide.ready() else None

    return until(store, look, timeout_seconds, topics=(boxes.of_mailbox(session),), chore=tide)


@verb
def outlook(store: Store, session: str) -> tuple[bool, float | None]:
    """Whether there may be a message to take, and the seconds until time alone moves one, if it does."""
    tide = Tide(store, checks.name("session", session))
    return tide.ready(), tide.due()


class Tide:
    """Tells when time alone will move something in a mailbox: nobody rings a bell for that."""

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self._session = session

    def ready(self) -> bool:
        """Whether there may be something to take. Looking costs nobody a turn; taking does."""
        with self._store.read() as tx:
            return is_ready(tx, self._session)

    def due(self) -> float | None:
        with self._store.read() as tx:
            box = tx.one(tx.sql.mailbox_find, session=self._session)
            return None if box is None or box[-1] is None else max((box[-1] - tx.now()) / clock.SECOND, 0.001)

    def perform(self) -> None:
        pass

    @classmethod
    def of(cls, store: Store, *, session: str) -> float | None:
        return cls(store, session).due()


def is_ready(tx: Transaction, session: str) -> bool:
    box = tx.one(tx.sql.mailbox_find, session=session)
    if box is None:
        return False
    due = box[-1] is not None and box[-1] <= tx.now()
    return due or tx.one(tx.sql.delivery_offered, session=session) is not None

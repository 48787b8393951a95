"""Hold messages for an agent until it confirms them: several of one sender at once, which no other receiver can take meanwhile."""

from __future__ import annotations

from postroom.core.records.mail import ACKED, IN_FLIGHT, PENDING
from postroom.mail import transitions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.core.records.mail import StoredMessage
    from postroom.store.interface import Transaction

_MESSAGES_PER_STEP = 10  # each may have 10 MiB


def hold_messages(
    tx: Transaction, session: str, *, token: str, receiver: str, limit: int, max_bytes: int, seconds: float
) -> tuple[list[StoredMessage], bool]:
    """Hold at most `limit` messages of a mailbox for `seconds`. Returns them, and whether there are more.

    The head of each pair is put in flight with `token`. The messages behind it stay pending, and are not offered while it is in flight.
    Stops once the payloads have `max_bytes`.
    """
    locked = transitions.lock_mailbox(tx, session)
    if locked is None:
        return [], False
    transitions.apply_overdue_moves(tx, locked)
    held: list[StoredMessage] = []
    size = 0
    while len(held) < limit and size < max_bytes and (head := tx.fetch_one(tx.sql.delivery_offer, session=session)):
        until = locked.in_flight_until(seconds)
        transitions.move_message(tx, locked, head.delivery, IN_FLIGHT, at=tx.now(), move_at=until, delivery_token=token)
        pair = [head]
        size += len(head.contents.payload)
        while len(held) + len(pair) < limit and size < max_bytes and (behind := _read_behind(tx, pair[-1])):
            for message in behind[: limit - len(held) - len(pair)]:
                pair.append(message)
                size += len(message.contents.payload)
                if size >= max_bytes:
                    break
        held += pair
    for message in held:
        transitions.append_step_event(
            tx, message.delivery.replace(state=IN_FLIGHT), "offered", source=receiver, receiver=receiver, door=tx.door
        )
    locked.write_back()
    return held, tx.fetch_one(tx.sql.delivery_offered, session=session) is not None or _has_behind(tx, held)


def _read_behind(tx: Transaction, last: StoredMessage) -> list[StoredMessage]:
    """Return the next messages of the same pair."""
    key = {"session": last.delivery.session, "sender": last.delivery.sender, "after": last.delivery.delivery_id}
    return tx.fetch_all(tx.sql.deliveries_of_pair, limit=_MESSAGES_PER_STEP, **key)


def _has_behind(tx: Transaction, held: list[StoredMessage]) -> bool:
    last_of_pair = {message.delivery.sender: message for message in held}
    return any(_read_behind(tx, last) for last in last_of_pair.values())


def ack_held(tx: Transaction, session: str, token: str, names: Iterable[tuple[str, str]]) -> int:
    """Ack the messages that were held with `token`, given as (id, sender) in their order. Returns how many.

    A message whose hold has ended is acked too, unless another receiver has it: the receiver that held it has got it.
    """
    locked = transitions.lock_mailbox(tx, session)
    if locked is None:
        return 0
    lost: set[str] = set()  # the senders of whose messages one was given to another receiver
    acked = 0
    for msg_id, sender in names:
        row = next(iter(tx.fetch_all(tx.sql.delivery_of_sender, msg_id=msg_id, sender=sender)), None)
        if row is None or row.ended_at is not None or row.session != session or sender in lost:
            continue
        if not row.head or (row.state == IN_FLIGHT and row.delivery_token != token):
            lost.add(sender)
            continue
        transitions.append_step_event(tx, transitions.move_message(tx, locked, row, ACKED, at=tx.now()), "acked", door=tx.door)
        acked += 1
    locked.write_back()
    return acked


def release_held(tx: Transaction, session: str, token: str, names: Iterable[tuple[str, str]]) -> int:
    """Make messages that were held with `token` available again at once, as if they had not been taken. Returns how many were in flight."""
    locked = transitions.lock_mailbox(tx, session)
    if locked is None:
        return 0
    rows = [row for msg_id, sender in names for row in tx.fetch_all(tx.sql.delivery_of_sender, msg_id=msg_id, sender=sender)]
    mine = [row for row in rows if row.state == IN_FLIGHT and row.delivery_token == token and row.session == session]
    for row in mine:
        released = transitions.move_message(tx, locked, row, PENDING, at=tx.now(), delivery_token=None)
        transitions.append_step_event(tx, released, "released")
    locked.write_back()
    return len(mine)

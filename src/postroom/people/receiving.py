"""Receiving: what was said to an agent. Taken and acked in one transaction, so that nothing comes twice; old replies can be shown again."""

from __future__ import annotations

from postroom.core import checks, clock, jsontext
from postroom.core.entries import Entry, PersonReply, Received, entry_of
from postroom.core.letters import Parcel
from postroom.core.records import UNVERIFIED
from postroom.core.verbs import verb
from postroom.mail import mailbox
from postroom.mail.boxes import PARCEL_FIELDS
from postroom.mail.mailbox import message_of
from postroom.people import asking, folding, ledger
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.letters import MailMessage
    from postroom.store.port import Store, Transaction


@verb
def read_messages(store: Store, *, agent: str, limit: int = 20) -> tuple[Received, ...]:
    """All that waits for an agent, oldest first: its mail, and the answers to what it asked and did not wait for."""
    checks.name("agent", agent)
    checks.limit("limit", limit)
    folding.fold(store)
    return _read(store, agent, limit)


@retried
def _read(store: Store, agent: str, limit: int) -> tuple[Received, ...]:
    with store.write() as tx:
        found: list[Received] = []
        for row in tx.all(tx.sql.asks_uncollected, agent=agent, limit=limit):
            answer = _answer(entry_of(row))
            found += _mail(tx, agent, limit - len(found), upto=clock.instant(answer.at))
            if len(found) == limit:
                break
            entry = ledger.locked_or_none(tx, answer.id)
            if entry is not None and entry.ask is not None and entry.ask.collected_at is None:  # nobody was faster
                asking.hand_over(tx, entry)
                found.append(answer)
        found += _mail(tx, agent, limit - len(found))
        tx.run(tx.sql.agent_seen, name=agent, now=clock.stamp(tx.now()))
    return tuple(found)


def _mail(tx: Transaction, agent: str, limit: int, *, upto: int | None = None) -> list[Received]:
    """So much of what waits in the mailbox, or all that was stored up to an instant."""
    taken = mailbox.take_all(tx, agent, receiver=agent, limit=limit, upto=upto) if limit else []
    return [_letter(message, parcel) for message, parcel in taken]


def is_waiting(tx: Transaction, *, agent: str) -> bool:
    """Whether there is something to receive. Looking costs nobody a turn; taking does."""
    from postroom.mail.waiting import is_ready

    return bool(tx.all(tx.sql.asks_uncollected, agent=agent, limit=1)) or is_ready(tx, agent)


@verb
def old_messages(store: Store, *, agent: str, limit: int = 20) -> tuple[Received, ...]:
    """What an agent was told already, newest first: for one that lost the answer in which it came. Changes nothing."""
    checks.name("agent", agent)
    checks.limit("limit", limit)
    with store.read() as tx:
        replies = [PersonReply(*row) for row in tx.all(tx.sql.replies_of_agent, agent=agent, limit=limit)]
        acked = tx.all(tx.sql.deliveries_acked, session=agent, limit=limit)
    mail = [(message_of(Parcel(*row[:PARCEL_FIELDS]), *row[PARCEL_FIELDS:]), Parcel(*row[:PARCEL_FIELDS])) for row in acked]
    told = [Received("reply", it.reply_id, it.person, it.body, it.entry_id, it.created_at, _verified(it.door)) for it in replies]
    told += [letter for letter in (_letter(*each) for each in mail) if letter.kind == "mail"]
    return tuple(sorted(told, key=lambda received: received.at, reverse=True)[:limit])


def _answer(entry: Entry) -> Received:
    ask = entry.ask
    assert ask is not None
    body = "" if ask.answer is None else ask.answer
    door = ask.answered_door or "store"  # silence is noted by the store itself
    return Received(
        ask.state if ask.state != "answered" else "answer",
        entry.id,
        ask.answered_by or "",
        body,
        entry.id,
        ask.answered_at or "",
        _verified(door),
    )


def _letter(message: MailMessage, parcel: Parcel) -> Received:
    extra = jsontext.loads(message.extra_json)
    ours = message.msg_id == f"reply:{extra.get('reply_id')}"
    kind, entry_id = ("reply", str(extra["entry_id"])) if ours else ("mail", None)
    at = clock.stamp(parcel.stored_at)
    return Received(kind, message.msg_id, message.sender, message.payload, entry_id, at, _verified(parcel.door))


def _verified(door: str) -> bool:
    return door not in UNVERIFIED

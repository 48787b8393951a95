"""Receiving: what was said to an agent. Taken and acked in one transaction, so that nothing comes twice; old replies can be shown again."""

from __future__ import annotations

from postroom.core import checks, clock, jsontext
from postroom.core.entries import Entry, PersonReply, Received, entry_of
from postroom.mail import mailbox
from postroom.people import folding
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.letters import MailMessage, Parcel
    from postroom.store.port import Store

UNVERIFIED = ("cli", "library")


def read_messages(store: Store, *, agent: str, limit: int = 20) -> tuple[Received, ...]:
    """All that waits for an agent, oldest first: its mail, and the answers to what it asked and did not wait for."""
    checks.name("agent", agent)
    checks.limit("limit", limit)
    folding.fold(store)
    return _read(store, agent, limit)


@retried
def _read(store: Store, agent: str, limit: int) -> tuple[Received, ...]:
    with store.write() as tx:
        now = clock.stamp(tx.now())
        answers = [entry_of(row) for row in tx.all(tx.sql.asks_uncollected, agent=agent, limit=limit)]
        for entry in answers:
            tx.run(tx.sql.ask_collect, entry_id=entry.id, collected_at=now, collected_door=tx.door)
        mail = mailbox.take_all(tx, agent, receiver=agent, limit=limit - len(answers))
        tx.run(tx.sql.agent_seen, name=agent, now=now)
    found = [_answer(entry) for entry in answers] + [_mail(message, parcel) for message, parcel in mail]
    return tuple(sorted(found, key=lambda received: received.at))


def waiting(store: Store, *, agent: str) -> bool:
    """Whether there is something to receive. Looking costs nobody a turn; taking does."""
    from postroom.mail.waiting import Tide

    folding.fold(store)
    with store.read() as tx:
        if tx.all(tx.sql.asks_uncollected, agent=agent, limit=1):
            return True
    return Tide(store, agent).ready()


def old_messages(store: Store, *, agent: str, limit: int = 20) -> tuple[Received, ...]:
    """The replies to an agent's entries again, newest first. Changes nothing."""
    checks.name("agent", agent)
    checks.limit("limit", limit)
    with store.read() as tx:
        rows = tx.all(tx.sql.replies_of_agent, agent=agent, limit=limit)
    replies = [PersonReply(*row) for row in rows]
    return tuple(Received("reply", it.reply_id, it.person, it.body, it.entry_id, it.created_at, _verified(it.door)) for it in replies)


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


def _mail(message: MailMessage, parcel: Parcel) -> Received:
    extra = jsontext.loads(message.extra_json)
    ours = message.msg_id == f"reply:{extra.get('reply_id')}"
    kind, entry_id = ("reply", str(extra["entry_id"])) if ours else ("mail", None)
    at = clock.stamp(parcel.stored_at)
    return Received(kind, message.msg_id, message.sender, message.payload, entry_id, at, _verified(parcel.door))


def _verified(door: str) -> bool:
    return door not in UNVERIFIED

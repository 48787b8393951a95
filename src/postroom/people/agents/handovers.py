"""Hand messages to an agent so that a lost answer loses nothing: they stay in flight until the agent confirms them.

The MCP server confirms with the next call of the same client, and returns what a cancelled or broken call was given. A handover that is
neither confirmed nor returned ends after `HANDOVER_SECONDS`, and its messages come again.
"""

from __future__ import annotations

from postroom.core import checks, clock, limits
from postroom.core.records.handovers import HandedItem, Handover
from postroom.core.verbs import OWN_NAME, WRITE, verb
from postroom.mail import holding
from postroom.mail.mailbox import build_message
from postroom.people import repository
from postroom.people.agents import receiving
from postroom.people.agents.handed_items import ANSWER, MAIL, THREAD, read_items
from postroom.people.questions import asking, due_questions
from postroom.store.agents import note_seen
from postroom.store.retries import retry_on_contention
from postroom.work import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.core.records.handovers import ReceivedMessage
    from postroom.core.records.people import Answer
    from postroom.store.interface import Store, Transaction

HANDOVER_SECONDS = 120.0


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
def hand_over_messages(store: Store, *, agent: str, limit: int = 20, client: str = "") -> Handover:
    """Hand the waiting messages to an agent: the answers to questions that it did not wait for, and then its mail, each oldest first.

    Hands over at most `limit`, and no more after `MAX_RECEIVED_BYTES`; `more` is true if others wait. They are in flight until
    `confirm_handover` or `return_handover`. After `HANDOVER_SECONDS` they come again, with `again`. `client` names the program that
    gets them.
    """
    checks.name("agent", agent)
    checks.limit("limit", limit)
    checks.line("client", client)
    due_questions.sync(store)
    return _hand_over(store, agent, limit, client)


@retry_on_contention
def _hand_over(store: Store, agent: str, limit: int, client: str) -> Handover:
    with store.write() as tx:
        handover = _NewHandover(tx, agent, client)
        answers, more_answers = _choose_answers(tx, agent, limit)
        received = [handover.add_item(ANSWER, message.id, message) for message in answers]
        held, more_mail = holding.hold_messages(
            tx,
            agent,
            token=handover.handover_id,
            receiver=agent,
            limit=0 if more_answers else limit - len(answers),
            max_bytes=limits.MAX_RECEIVED_BYTES - receiving.size_of(answers),
            seconds=HANDOVER_SECONDS,
        )
        for stored in held:
            message = receiving.mail_message(tx, build_message(stored.delivery, stored.contents), stored.delivery)
            received.append(handover.add_item(MAIL, message.id, message, sender=stored.delivery.sender))
        note_seen(tx, "agent", agent)
        return Handover(handover.handover_id, tuple(sorted(received, key=lambda message: message.at)), more_answers or more_mail)


def _choose_answers(tx: Transaction, agent: str, limit: int) -> tuple[list[ReceivedMessage], bool]:
    """Return the oldest answers that an agent has not collected, and whether there are more."""
    chosen: list[ReceivedMessage] = []
    for entry in receiving.lock_uncollected(tx, agent, limit + 1):
        if len(chosen) == limit or receiving.size_of(chosen) >= limits.MAX_RECEIVED_BYTES:
            return chosen, True
        chosen.append(receiving.answer_message(entry))
    return chosen, False


class _NewHandover:
    """A handover that is being written in a transaction."""

    def __init__(self, tx: Transaction, agent: str, client: str) -> None:
        self._tx = tx
        self._agent = agent
        self._client = client
        self._earlier = {(item.kind, item.item_id, item.sender) for item in read_items(tx, agent)}
        self._position = 0
        self.handover_id = tx.new_id("hnd")

    def add_item(self, kind: str, item_id: str, message: ReceivedMessage, *, sender: str = "") -> ReceivedMessage:
        """Record that a message is handed over. Returns it, marked if it was handed over before."""
        self.write_item(kind, item_id, sender=sender)
        return message.replace(again=True) if (kind, item_id, sender) in self._earlier else message

    def write_item(self, kind: str, item_id: str, *, sender: str = "", event_id: int = 0) -> None:
        now = self._tx.now()
        until = now + int(HANDOVER_SECONDS * clock.MICROSECONDS_PER_SECOND)
        self._position += 1
        item = HandedItem(
            self._agent, kind, item_id, sender, self.handover_id, self._client, event_id, clock.format_stamp(now), until, self._position
        )
        self._tx.execute(self._tx.sql.handover_put, **dict(item.items()))


@retry_on_contention
def hand_over_answer(store: Store, answer: Answer, *, agent: str, client: str) -> str:
    """Record that the answer for which an agent waited is handed to it. Returns the id of the handover."""
    return _hand_over_item(store, agent, client, ANSWER, answer.entry_id)


@retry_on_contention
def hand_over_reply(store: Store, thread_id: str, event_id: int, *, agent: str, client: str) -> str:
    """Record that the reply in a thread for which an agent waited is handed to it. Returns the id of the handover."""
    return _hand_over_item(store, agent, client, THREAD, thread_id, event_id)


def _hand_over_item(store: Store, agent: str, client: str, kind: str, item_id: str, event_id: int = 0) -> str:
    with store.write() as tx:
        handover = _NewHandover(tx, agent, client)
        handover.write_item(kind, item_id, event_id=event_id)
        return handover.handover_id


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def confirm_handover(store: Store, *, agent: str, client: str | None = None, excluded: Iterable[str] = ()) -> int:
    """Record that an agent has seen what was handed to it, or to its `client` only. Returns how many messages that were.

    `excluded` are the ids of handovers that are not confirmed yet: those whose answer is still being sent.
    """
    checks.name("agent", agent)
    left_out = frozenset(excluded)
    with store.write() as tx:
        items = [item for item in read_items(tx, agent) if client in (None, item.client) and item.handover_id not in left_out]
        confirmed = 0
        for item in items:
            if item.kind == ANSWER:
                confirmed += _collect_answer(tx, item)
            elif item.kind == THREAD and tx.fetch_one(tx.sql.thread_find, thread_id=item.item_id) is not None:
                threads.write_read_mark(tx, item.item_id, agent=agent, event_id=item.event_id)
                confirmed += 1
        for handover_id, names in _mail_by_handover(items).items():
            confirmed += holding.ack_held(tx, agent, handover_id, names)
        _delete_items(tx, items)
        return confirmed


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def return_handover(store: Store, handover_id: str, *, agent: str) -> int:
    """Take back what was handed to an agent and did not reach it. It is available again at once. Returns how many messages that were."""
    checks.name("agent", agent)
    with store.write() as tx:
        items = [item for item in read_items(tx, agent) if item.handover_id == handover_id]
        for names in _mail_by_handover(items).values():
            holding.release_held(tx, agent, handover_id, names)
        _delete_items(tx, items)
        _announce_answers(tx, items, agent)
        return len(items)


@retry_on_contention
def end_handovers(store: Store, *, agent: str, client: str) -> int:
    """End what a client that is gone was handed and did not confirm. It comes again at once, marked. Returns how many messages."""
    with store.write() as tx:
        items = [item for item in read_items(tx, agent) if item.client == client]
        for handover_id, names in _mail_by_handover(items).items():
            holding.release_held(tx, agent, handover_id, names)
        for item in items:
            tx.execute(tx.sql.handover_end, until=tx.now(), **_key_of(item))
        _announce_answers(tx, items, agent)
        return len(items)


def _announce_answers(tx: Transaction, items: Iterable[HandedItem], agent: str) -> None:
    """Wake the other receivers of an agent for answers that are available again. Mail that is released wakes them by itself."""
    for item in items:
        entry = repository.lock_entry_if_exists(tx, item.item_id) if item.kind == ANSWER else None
        if entry is not None:
            repository.append_entry_event(tx, "returned", entry.id, source=agent, **repository.event_facts(entry))


def has_unconfirmed(tx: Transaction, *, agent: str, client: str, excluded: Iterable[str]) -> bool:
    """Return whether `confirm_handover` would confirm something. This only reads, so it does not wait for writers."""
    left_out = frozenset(excluded)
    return any(item.client == client and item.handover_id not in left_out for item in read_items(tx, agent))


def _mail_by_handover(items: Iterable[HandedItem]) -> dict[str, list[tuple[str, str]]]:
    names: dict[str, list[tuple[str, str]]] = {}
    for item in items:
        if item.kind == MAIL:
            names.setdefault(item.handover_id, []).append((item.item_id, item.sender))
    return names


def _collect_answer(tx: Transaction, item: HandedItem) -> int:
    entry = repository.lock_entry_if_exists(tx, item.item_id)
    if entry is None or entry.ask is None or entry.ask.collected_at is not None:
        return 0
    asking.write_collected(tx, entry)
    return 1


def _delete_items(tx: Transaction, items: Iterable[HandedItem]) -> None:
    for item in items:
        tx.execute(tx.sql.handover_delete, **_key_of(item))


def _key_of(item: HandedItem) -> dict[str, str]:
    return {name: getattr(item, name) for name in ("agent", "kind", "item_id", "sender", "handover_id")}

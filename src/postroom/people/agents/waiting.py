"""List everything that waits for an agent, and wait for more, taking nothing: mail, answers, threads sent to it, replies in its threads.

Hooks run it often and find nothing, so what describes a message is imported when there is one.
"""

from __future__ import annotations

from itertools import chain, islice

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.records.handovers import WaitingItem, WaitingList
from postroom.core.records.mail import PENDING
from postroom.core.states import UNVERIFIED_DOORS
from postroom.core.verbs import OWN_VIEW, STEPS, WAIT, verb
from postroom.mail.sweeping import bring_mailbox_up_to_date
from postroom.mail.transitions import ARRIVAL_STEPS
from postroom.people.agents import handed_items
from postroom.people.questions import due_questions
from postroom.store.event_log import inbox_topic
from postroom.work import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom.core.records.mail import WaitingMessage
    from postroom.core.records.people import Entry
    from postroom.core.records.work import ReadMark
    from postroom.store.interface import Store, Transaction

MAX_TEXT_CHARS = 2000
PAGE_ITEMS = 500
MAX_ANSWERS = 10_000  # uncollected ones of an agent that are looked at
_ARRIVALS = tuple(f"mail.{step}" for step in ARRIVAL_STEPS)


@verb(caller="agent", access=OWN_VIEW, mode=STEPS)
def list_waiting(store: Store, *, agent: str, after: int = 0, limit: int = 100) -> WaitingList:
    """List what waits for an agent, in the order in which it came, and take nothing.

    Lists mail, replies and answers of people, threads sent to it, and messages to it in its threads. What was handed to it and is not
    confirmed yet is left out. `after` is an event id: only what came later is listed. If the list is cut, `next_event_id` is the event of
    its last item, and is `after` of the next page.
    """
    checks.name("agent", agent)
    checks.limit("limit", limit)
    checks.event_id("after", after)
    due_questions.sync(store)
    bring_mailbox_up_to_date(store, agent)
    with store.read() as tx:
        latest = tx.fetch_one(tx.sql.event_latest) or 0
        found = read_waiting(tx, agent, after=after, limit=limit)
    items = sorted(found, key=lambda item: item.event_id)
    more = len(items) > limit
    return WaitingList(agent, tuple(items[:limit]), more, items[limit - 1].event_id if more else latest)


def list_all_waiting(store: Store, *, agent: str) -> list[WaitingItem]:
    """List everything that waits for an agent, as `list_waiting` does, page by page."""
    page = list_waiting(store, agent=agent, limit=PAGE_ITEMS)
    items = list(page.waiting)
    while page.more:
        page = list_waiting(store, agent=agent, after=page.next_event_id, limit=PAGE_ITEMS)
        items += page.waiting
    return items


def read_waiting(tx: Transaction, agent: str, *, limit: int, after: int = 0) -> list[WaitingItem]:
    """Return what waits for an agent and came after an event, at least the first `limit` of each kind, within a transaction."""
    listed = _list_mail(tx, agent), _list_answers(tx, agent)
    found = [islice((item for item in items if item.event_id > after), limit + 1) for items in listed]
    return [*chain(*found), *_list_threads(tx, agent, after, limit)]


@verb(caller="agent", access=OWN_VIEW, mode=WAIT)
def wait_messages(store: Store, *, agent: str, after: int = 0, timeout_seconds: float = 0, limit: int = 100) -> WaitingList:
    """Wait until something waits for an agent that came after the event `after`, at most `timeout_seconds` (0: without a limit).

    Takes nothing. After a timeout, the list is empty.
    """
    from postroom.mail.waiting import DueMailWake
    from postroom.store.wait_loop import wait_until

    checks.seconds("timeout_seconds", timeout_seconds, allow_zero=True)

    def find_items() -> WaitingList | None:
        found = list_waiting(store, agent=agent, after=after, limit=limit)
        return found if found.waiting else None

    topics = (inbox_topic(checks.name("agent", agent)),)
    found = wait_until(store, find_items, timeout_seconds, topics=topics, periodic=DueMailWake(store, agent), uses_cursor=True)
    return WaitingList(agent, (), False, after) if found is None else found


def _list_mail(tx: Transaction, agent: str) -> Iterator[WaitingItem]:
    handed = handed_items.handed_names(tx, agent)
    rank, delivery_id = -1, 0
    while page := tx.fetch_all(tx.sql.deliveries_waiting, session=agent, rank=rank, after=delivery_id, limit=PAGE_ITEMS):
        for waiting in page:
            summary = waiting.summary
            if summary.state == PENDING and (handed_items.MAIL, summary.msg_id, summary.sender) not in handed:
                yield from _describe_mail(tx, waiting)
        rank, delivery_id = page[-1].rank, page[-1].delivery_id


def _describe_mail(tx: Transaction, waiting: WaitingMessage) -> Iterator[WaitingItem]:
    from postroom.people.agents import receiving

    name = {"msg_id": waiting.summary.msg_id, "sender": waiting.summary.sender}
    for row in tx.fetch_all(tx.sql.delivery_of_sender, **name):
        contents = tx.fetch_one(tx.sql.delivery_contents, delivery_id=row.delivery_id)
        events = [
            event
            for event in tx.fetch_all(tx.sql.events_of_subject, message_id=row.msg_id, types="mail.%")
            if event.event_type in _ARRIVALS
        ]
        own = [event for event in events if jsontext.loads(event.payload_json).get("from") == row.sender]
        if contents is None or not own:
            continue
        reply = receiving.find_reply(tx, row.msg_id, row.sender)
        kind, entry_id = ("mail", None) if reply is None else ("reply", reply.entry_id)
        at, verified = clock.format_stamp(row.stored_at), row.door not in UNVERIFIED_DOORS
        text = contents.payload[:MAX_TEXT_CHARS]
        yield WaitingItem(kind, row.msg_id, row.sender, text, at, verified, row.door, own[-1].event_id, entry_id)


def _list_answers(tx: Transaction, agent: str) -> Iterator[WaitingItem]:
    for entry in tx.fetch_all(tx.sql.asks_uncollected, agent=agent, now=tx.now(), limit=MAX_ANSWERS):
        from postroom.people.agents import receiving

        message = receiving.answer_message(entry)
        text, event_id = message.body[:MAX_TEXT_CHARS], _answer_event(tx, entry)
        yield WaitingItem(message.kind, entry.id, message.from_, text, message.at, message.verified, message.door, event_id, entry.id)


def _answer_event(tx: Transaction, entry: Entry) -> int:
    """Return the event with which an answer came, or came again."""
    from postroom.people import repository

    steps = tuple(f"entry.{step}" for step in repository.ANSWER_STEPS)
    events = [event for event in tx.fetch_all(tx.sql.events_of_subject, message_id=entry.id, types="entry.%") if event.event_type in steps]
    return events[-1].event_id if events else entry.seq


def _list_threads(tx: Transaction, agent: str, after: int, limit: int) -> Iterator[WaitingItem]:
    handed = handed_items.handed_names(tx, agent)
    for mark in tx.fetch_all(tx.sql.threads_unread, agent=agent, after=after, limit=limit + len(handed) + 1):
        if (handed_items.THREAD, mark.thread_id, "") not in handed:
            yield from _describe_thread(tx, mark, agent)


def _describe_thread(tx: Transaction, mark: ReadMark, agent: str) -> Iterator[WaitingItem]:
    """Yield the newest message to an agent in a thread."""
    thread, _ = messages.get_thread(tx, mark.thread_id)
    newest = {"thread_id": mark.thread_id, "first": mark.latest_event_id, "last": mark.latest_event_id}
    for message in tx.fetch_all(tx.sql.messages_between, **newest):
        is_new = thread.status == PENDING and thread.assigned_to == agent
        kind, item_id = ("thread", thread.thread_id) if is_new else ("message", message.message_id)
        text = (message.summary or message.body or thread.subject)[:MAX_TEXT_CHARS]
        made = (kind, item_id, message.from_agent, text, message.created_at, message.verified, message.door, message.event_id)
        yield WaitingItem(*made, thread_id=thread.thread_id)

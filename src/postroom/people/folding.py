"""Folding: what other rooms and the clock decided becomes part of this one. Every verb of the room folds first.

So it is right with no server running: a question that an agent asked a person in a thread is an entry to whoever looks next, and
a deadline that passed has its effect, as of its instant.
"""

from __future__ import annotations

from postroom.core import clock, jsontext
from postroom.core.entries import ANSWERED, DEFAULT, ENDED, ESCALATE, QUESTION, REFUSED, Entry, Workspace, entry_of
from postroom.core.errors import StoreBusy
from postroom.core.records import Event, Message
from postroom.core.states import TERMINAL
from postroom.core.verbs import verb
from postroom.people import asking, ledger
from postroom.store.attempts import retried
from postroom.work.messages import RELEASED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Row, Store, Transaction

CURSOR = "people.surface"
BATCH = 200
SUMMARY_LIMIT = 200_000


def fold(store: Store) -> None:
    """Bring the room up to date, if anything happened."""
    with store.read() as tx:
        behind = is_behind(tx)
    if behind:
        surface(store)


def is_behind(tx: Transaction) -> bool:
    """Whether anything happened that is not part of this room yet."""
    return bool(_news(tx, 1) or _due(tx, 1))


def next_due(tx: Transaction) -> float | None:
    """Seconds until the next deadline, if there is one."""
    row = tx.one(tx.sql.ask_next_due)
    return None if row is None or row[0] is None else max((row[0] - tx.now()) / clock.SECOND, 0.001)


def surface(store: Store) -> int:
    """Make an entry of every question to a person, close those that were answered, and carry out deadlines. How many entries are new."""
    from postroom.people import twin

    made = 0
    while True:
        more, count = _surface(store)
        made += count
        if not more:
            break
    while _fire(store) == BATCH:
        pass
    if made:
        twin.follow(store)
    return made


@retried
def _surface(store: Store) -> tuple[bool, int]:
    made = 0
    with store.write() as tx:
        row = tx.one(tx.sql.cursor_lock, name=CURSOR)
        after = row[0] if row else 0
        rows = tx.all(tx.sql.messages_to_people, after=after, limit=BATCH)
        for found in rows:
            message = Message(*found)
            if message.kind == "question":
                made += _ask(tx, message)
            else:
                _close(tx, message)
        if rows:
            moved = StoreBusy("another process folded in the same messages", hint="Try again.")
            tx.must(moved, tx.sql.cursor_move, name=CURSOR, event_id=rows[-1][9], seen=after)
    return len(rows) == BATCH, made


@verb
@retried
def welcome(store: Store, name: str) -> int:
    """Make entries of what was asked of somebody before they were known as a person, and nobody has answered. How many."""
    with store.write() as tx:
        asked = sorted((Message(*row) for row in tx.all(tx.sql.questions_to, agent=name)), key=lambda message: message.event_id)
        return sum(_ask(tx, message) for message in asked if not _settled(tx, message))


def _settled(tx: Transaction, question: Message) -> bool:
    """Whether a question was answered, or its thread taken from who asked."""
    closing, after = jsontext.dumps(["answer", "control"]), question.event_id
    while (row := tx.one(tx.sql.message_after, thread_id=question.thread_id, after=after, kinds=closing)) is not None:
        message = Message(*row)
        if message.kind == "answer" or _took_back(tx, message):
            return True
        after = message.event_id
    return False


def _news(tx: Transaction, limit: int) -> list[Row]:
    row = tx.one(tx.sql.cursor_find, name=CURSOR)
    return tx.all(tx.sql.messages_to_people, after=row[0] if row else 0, limit=limit)


def _ask(tx: Transaction, message: Message) -> bool:
    person = tx.one(tx.sql.agent_find, name=message.to_agent)
    if person is None or person[1] != "human" or tx.one(tx.sql.entry_of_message, message_id=message.message_id):
        return False
    row = tx.one(tx.sql.workspace_of_agent, agent=message.from_agent)
    choices = jsontext.dumps(asking.offered(message.payload_json))
    question = "\n\n".join(part for part in (message.summary, message.body) if part.strip())
    ledger.insert(
        tx,
        kind=QUESTION,
        workspace=None if row is None else Workspace(*row),
        agent=message.from_agent,
        label=message.from_agent,
        comments=question[:SUMMARY_LIMIT],
        ts=clock.instant(message.created_at) // 1000,
        door=message.door,
        message_id=message.message_id,
        ask={
            "agent": message.from_agent,
            "thread_id": message.thread_id,
            "asked_event": message.event_id,
            "addressee": message.to_agent,
            "choices_json": choices,
        },
    )
    return True


def _close(tx: Transaction, message: Message) -> None:
    """An answer of somebody else answers what was asked before it; the end of the thread ends it, and so does taking it from who asked."""
    rows = tx.all(tx.sql.asks_of_thread, thread_id=message.thread_id, event_id=message.event_id)
    if not rows:
        return
    thread = tx.one(tx.sql.thread_find, thread_id=message.thread_id)
    over = thread is not None and thread[6] in TERMINAL
    ended = message.kind != "answer" and (over or _took_back(tx, message))
    for row in rows:
        entry = entry_of(row)
        if ended:
            asking.settle(tx, entry, ENDED, by=message.from_agent, door=message.door, at=message.created_at)
        elif message.kind == "answer" and message.from_agent != entry.agent:
            said = message.body or message.summary
            asking.settle(tx, entry, ANSWERED, answer=said, by=message.from_agent, door=message.door, at=message.created_at)


def _took_back(tx: Transaction, message: Message) -> bool:
    """Whether a message took a thread from its holder. Any control message may be said in a thread; its event tells what it did."""
    if message.kind != "control":
        return False
    (row,) = tx.all(tx.sql.events_after, after=message.event_id - 1, limit=1)
    return Event(*row).event_type == RELEASED


# Deadlines


def _due(tx: Transaction, limit: int) -> list[Row]:
    return tx.all(tx.sql.asks_due, now=tx.now(), limit=limit)


@retried
def _fire(store: Store) -> int:
    """What silence means, for every question whose time is over."""
    with store.write() as tx:
        due = [entry_of(row) for row in _due(tx, BATCH)]
        for entry in due:
            _silence(tx, entry)
    return len(due)


def _silence(tx: Transaction, seen: Entry) -> None:
    entry = ledger.locked_or_none(tx, seen.id)
    if entry is None or entry.ask is None or entry.ask.due_at is None or entry.ask.due_at > tx.now() or not entry.is_open:
        return  # somebody was faster
    ask, at = entry.ask, clock.stamp(entry.ask.due_at)
    if ask.on_silence == ESCALATE:
        gone = StoreBusy(f"{entry.id} changed while it was being written", hint="Try again.")
        tx.must(gone, tx.sql.ask_escalate, entry_id=entry.id, addressee=ask.escalate_to, escalated_at=at, due_at=ask.due_at)
        ledger.announce(tx, "escalated", entry.id, source="", to=ask.escalate_to, at=at, **ledger.facts(entry))
        ledger.write_read(tx, entry, None, None, None)
    elif ask.on_silence == DEFAULT:
        asking.settle(tx, entry, DEFAULT, answer=ask.default_answer, by=None, door=None, at=at)
    else:
        asking.settle(tx, entry, REFUSED, by=None, door=None, at=at)

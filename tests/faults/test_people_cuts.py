"""Cut at every statement of the people room's verbs: what failed has not happened, what returned has, and the mirror agrees.

A verb's mirror is written after its COMMIT, by statements of its own: a cut there is nobody's failure.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from postroom import mail, people, queues, work
from postroom.core.errors import NotFound, StoreTrouble, StoreUnreachable
from postroom.store.postgres.engine import PostgresStore
from postroom.store.sqlite.engine import SqliteStore
from tests.conftest import Clock
from tests.contract.people_data import (
    AGENT,
    USER,
    asked,
    blocked,
    entry_events,
    happened,
    ids,
    inbox,
    new_workspace,
    pushed,
    surfaced,
    timed,
)
from tests.faults.inspection import assert_no_lock
from tests.faults.mail_children import assert_sound, everything
from tests.faults.people_children import assert_exact, sync
from tests.faults.test_cuts import FAILURES, INTERRUPTIONS, FailingConnection, How, failure
from tests.faults.test_lost_connections import Losing

OTHER = "other"


class Room:
    """A store, a workspace, a clock; and what a verb is to be done to, made anew for each cut that let it through."""

    def __init__(self, store: Any, clock: Clock, folder: Path) -> None:
        self.store, self.clock = store, clock
        self.desk = new_workspace(store, folder)
        self.number = 0
        self.folder = folder

    def new_folder(self) -> str:
        self.number += 1
        made = self.folder / f"desk-{self.number}"
        made.mkdir()
        return str(made)

    def new_queue(self) -> str:
        return queues.init_queue(self.new_folder())

    def watched_queue(self) -> str:
        return people.add_queue(self.store, self.new_queue()).path


Prepare = Callable[[Room], str]
Act = Callable[[Room, str], object]


def nothing(room: Room) -> str:
    return ""


def entry(room: Room) -> str:
    return pushed(room.store, room.desk)


def replied(room: Room) -> str:
    """A reply and an answer wait for the agent, and a letter."""
    entry_id = pushed(room.store, room.desk)
    people.reply(room.store, entry_id, person=USER, body="Good")
    people.reply(room.store, asked(room.store), person=USER, body="Yes")
    mail.enqueue(room.store, {"from": "leader", "to": AGENT, "payload": "Hello"})
    return entry_id


def answered(room: Room) -> str:
    entry_id = asked(room.store)
    people.reply(room.store, entry_id, person=USER, body="Yes")
    return entry_id


WRITES: dict[str, tuple[Prepare, Act]] = {
    "push": (nothing, lambda r, e: people.push(r.store, r.desk, docs=["report.md"], comments="Look")),
    "notify": (nothing, lambda r, e: people.notify(r.store, sender="cron", text="Look")),
    "seed": (nothing, lambda r, e: people.seed(r.store, comments="Look")),
    "ask": (nothing, lambda r, e: people.ask(r.store, agent=AGENT, question="Good?", choices=["yes", "no"])),
    "ask by a deadline": (nothing, lambda r, e: people.ask(r.store, agent=AGENT, question="?", deadline_seconds=60, on_silence="refuse")),
    "reply to a push": (entry, lambda r, e: people.reply(r.store, e, person=USER, body="Good")),
    "reply to a question": (lambda r: asked(r.store), lambda r, e: people.reply(r.store, e, person=USER, body="Yes")),
    "reply to a thread": (lambda r: surfaced(r.store)[1], lambda r, e: people.reply(r.store, e, person=USER, body="Blue")),
    "delete_entry": (entry, lambda r, e: people.delete_entry(r.store, e, person=USER)),
    "delete_entry of what has replies": (replied, lambda r, e: people.delete_entry(r.store, e, person=USER)),
    "delete_entry of a question": (lambda r: asked(r.store), lambda r, e: people.delete_entry(r.store, e, person=USER)),
    "mark_read": (entry, lambda r, e: people.mark_read(r.store, e, person=USER)),
    "read_messages": (replied, lambda r, e: people.read_messages(r.store, agent=AGENT)),
    "wait_answer": (answered, lambda r, e: people.wait_answer(r.store, e, timeout_seconds=10)),
    "redeem": (lambda r: str(people.issue_link(r.store, person=USER)), lambda r, t: people.redeem(r.store, t)),
    "issue_bearer": (nothing, lambda r, t: people.issue_bearer(r.store, person=USER)),
    "revoke": (lambda r: str(people.issue_bearer(r.store, person=USER)), lambda r, t: people.revoke(r.store, t)),
    "add_workspace": (Room.new_folder, lambda r, f: people.add_workspace(r.store, f, label="Desk")),
    "rotate_token": (nothing, lambda r, e: people.rotate_token(r.store, r.desk)),
    "add_queue": (Room.new_queue, lambda r, q: people.add_queue(r.store, q)),
    "remove_queue": (Room.watched_queue, lambda r, q: people.remove_queue(r.store, q)),
}
READS: dict[str, tuple[Prepare, Act]] = {
    "history": (replied, lambda r, e: people.history(r.store)),
    "search": (replied, lambda r, e: people.search(r.store, "good")),
    "show_entry": (replied, lambda r, e: people.show_entry(r.store, e)),
    "old_messages": (replied, lambda r, e: people.old_messages(r.store, agent=AGENT)),
    "own_entries": (replied, lambda r, e: people.own_entries(r.store, agent=AGENT)),
    "list_workspaces": (nothing, lambda r, e: people.list_workspaces(r.store)),
    "list_queues": (nothing, lambda r, e: people.list_queues(r.store)),
    "person_of": (lambda r: str(people.issue_bearer(r.store, person=USER)), lambda r, t: people.person_of(r.store, t)),
    "wait_answer that sleeps": (lambda r: asked(r.store), lambda r, e: people.wait_answer(r.store, e, timeout_seconds=0.001)),
}


def settle(room: Room) -> None:
    """Nothing is left to fold, and the mirror knows all."""
    people.sync_questions(room.store)
    sync(room.store)
    people.history(room.store)


def cut_everywhere(room: Room, prepare: Prepare, act: Act, how: How) -> list[str]:
    """The statements that were cut, each in turn, until the verb came through whole."""
    subject, fresh = "", True
    statements: list[str] = []
    real = room.store.connection
    for nth in range(1, 200):
        if fresh:
            subject = prepare(room)
            settle(room)
            before = everything(room.store.location)
        room.store.connection = cutting = FailingConnection(real, nth, how)
        raised = failure(lambda: act(room, subject))  # noqa: B023 - it is called here
        room.store.connection = real
        assert not real.in_transaction, f"a transaction is left open by a failing {cutting.cut}"
        assert_no_lock(room.store.location)
        if cutting.cut is None:
            assert raised is None
            return statements
        statements.append(cutting.cut)
        happened = everything(room.store.location) != before
        fresh = happened or raised is None
        assert raised is None or isinstance(raised, how.expected), f"{raised!r} came of a failing {cutting.cut}"
        # A caller that received a failure can try again; only a signal may come between the COMMIT and the return.
        assert raised is None or not happened or how.expected is KeyboardInterrupt, cutting.cut
        if fresh:
            settle(room)
            assert_exact(room.store)
    raise AssertionError("the verb never came through")


def assert_usable(room: Room) -> None:
    """Check that the rows do not contradict each other, and that the room goes on."""
    settle(room)
    assert_exact(room.store)
    assert_sound(room.store.location)
    told = [event.message_id for event in entry_events(room.store) if event.event_type == "entry.created"]
    assert len(told) == len(set(told))
    assert set(ids(room.store)) <= set(told)
    room.clock.advance(5)
    entry_id = pushed(room.store, room.desk, "afterwards")
    people.reply(room.store, entry_id, person=USER, body="still here")
    assert people.read_messages(room.store, agent=AGENT, limit=100)[-1].body == "still here"


@pytest.fixture
def room(sqlite_place: str, clock: Clock, tmp_path: Path) -> Any:
    with SqliteStore(sqlite_place, now=clock) as store:
        yield Room(store, clock, tmp_path)


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize(("prepare", "act"), WRITES.values(), ids=WRITES.keys())
def test_a_write_of_which_any_statement_fails_has_happened_wholly_or_not_at_all(room: Room, prepare: Prepare, act: Act, how: How) -> None:
    statements = cut_everywhere(room, prepare, act, how)
    assert {"BEGIN IMMEDIATE", "COMMIT"} <= set(statements)
    assert len(statements) >= 3
    assert_usable(room)


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize(("prepare", "act"), READS.values(), ids=READS.keys())
def test_a_read_of_which_any_statement_fails_says_so_instead_of_empty(room: Room, prepare: Prepare, act: Act, how: How) -> None:
    subject = prepare(room)
    settle(room)
    told = act(room, subject)
    real, before = room.store.connection, everything(room.store.location)
    for nth in range(1, 100):
        room.store.connection = cutting = FailingConnection(real, nth, how)
        came: list[object] = []
        raised = failure(lambda: came.append(act(room, subject)))  # noqa: B023 - it is called here
        room.store.connection = real
        assert raised is None or isinstance(raised, StoreTrouble), cutting.cut
        assert came in ([], [told]), cutting.cut  # a mirror that cannot be looked at does not matter; what is told is true
        assert everything(room.store.location) == before
        assert_no_lock(room.store.location)
        if cutting.cut is None:
            break
    assert nth >= 3
    assert came == [told]


@pytest.mark.parametrize("how", INTERRUPTIONS.values(), ids=INTERRUPTIONS.keys())
@pytest.mark.parametrize("verb", ["push", "ask", "reply to a push", "reply to a thread", "delete_entry", "read_messages", "redeem"])
def test_a_verb_that_a_signal_interrupts_anywhere_leaves_nothing_half_done(room: Room, verb: str, how: How) -> None:
    cut_everywhere(room, *WRITES[verb], how)
    assert_usable(room)


# Folding


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
def test_surfacing_that_fails_anywhere_surfaces_each_question_once(room: Room, how: How) -> None:
    threads = [blocked(room.store, str(number)) for number in range(3)]
    work.reply(room.store, threads[0], sender=USER, summary="Blue")
    work.done(room.store, threads[1], agent=AGENT)
    real = room.store.connection
    for nth in range(1, 200):
        room.store.connection = cutting = FailingConnection(real, nth, how)
        raised = failure(lambda: people.sync_questions(room.store))
        room.store.connection = real
        assert raised is None or isinstance(raised, StoreTrouble)
        assert_no_lock(room.store.location)
        created = [one for one in happened(room.store) if one == "entry.created"]
        assert len(created) <= 3
        if cutting.cut is None:
            break
    assert nth > 3
    assert [(one["comments"], one["question"]["state"]) for one in inbox(room.store)] == [("2", "open"), ("1", "ended"), ("0", "answered")]
    assert_usable(room)


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize("silence", ["default", "refuse", "escalate"])
def test_silence_that_fails_anywhere_falls_once_as_of_the_deadline(room: Room, silence: str, how: How) -> None:
    entry_id = timed(room.store, silence)
    settle(room)
    room.clock.advance(61)
    real = room.store.connection
    for nth in range(1, 100):
        room.store.connection = cutting = FailingConnection(real, nth, how)
        raised = failure(lambda: people.history(room.store))
        room.store.connection = real
        assert raised is None or isinstance(raised, StoreTrouble)
        if cutting.cut is None:
            break
    fired = {"default": "entry.default", "refuse": "entry.refused", "escalate": "entry.escalated"}[silence]
    assert happened(room.store, entry_id) == ["entry.created", fired]
    assert_usable(room)


# A server that goes away


LOSABLE = ("push", "ask", "reply to a push", "reply to a question", "reply to a thread", "delete_entry", "read_messages", "redeem")


@pytest.mark.parametrize("verb", LOSABLE)
def test_a_write_that_loses_its_connection_has_not_happened(
    postgres_place: str, watcher: psycopg.Connection[Any], clock: Clock, tmp_path: Path, verb: str
) -> None:
    prepare, act = WRITES[verb]
    with closing(PostgresStore(postgres_place, now=clock)) as store:
        room = Room(store, clock, tmp_path)
        subject = prepare(room)
        people.history(store)
        before = everything(postgres_place)
        opened: Any = store
        for nth in range(1, 100):
            losing = Losing(store.connection, nth, watcher)
            opened.connection = losing
            raised = failure(lambda: act(room, subject))
            if losing.lost is None:
                assert raised is None
                break
            assert isinstance(raised, StoreUnreachable), f"{raised!r} came of a connection lost before {losing.lost}"
            assert everything(postgres_place) == before, losing.lost
            store.reconnect()
        assert nth >= 3
        assert everything(postgres_place) != before
        store.connection = losing._connection
        assert_no_lock(postgres_place)


def test_a_link_that_was_cut_off_can_be_redeemed_and_then_no_more(room: Room) -> None:
    link = people.issue_link(room.store, person=USER)
    real = room.store.connection
    sessions: list[Any] = []
    for nth in range(1, 100):
        room.store.connection = cutting = FailingConnection(real, nth, FAILURES["fails"])
        failure(lambda: sessions.append(people.redeem(room.store, link)))
        room.store.connection = real
        if cutting.cut is None:
            break
    (session,) = sessions
    assert people.person_of(room.store, session.token) == USER
    with pytest.raises(NotFound):
        people.redeem(room.store, link)


def test_mail_of_others_is_let_be(room: Room) -> None:
    """A cut in one agent's reading leaves another's mailbox as it was."""
    mail.enqueue(room.store, {"from": "leader", "to": OTHER, "payload": "Hello"})
    cut_everywhere(room, *WRITES["read_messages"], FAILURES["fails"])
    assert [(one.kind, one.body) for one in people.read_messages(room.store, agent=OTHER)] == [("mail", "Hello")]

"""Statements that are sent without waiting for the answers of those before them: how few answers a verb waits for, and what stays safe."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from postroom import mail, people, work
from postroom.core.errors import Contended, NotFound, StoreBusy
from postroom.core.records.mail import Delivery, EnqueueAck
from postroom.core.records.work import Claim
from postroom.people import entries
from postroom.people.access import passes
from postroom.people.documents import Described
from postroom.server.http.auth import identify_caller
from postroom.server.rpc.calls import make_call, verify_in_write
from postroom.store.postgres import engine
from postroom.store.postgres.connections.pipelined_connection import PipelinedConnection
from postroom.store.postgres.engine import PostgresStore
from postroom.tasks import A2ATask
from tests.contract import task_data
from tests.contract.thread_data import sent

NO_SUCH_AGENT = "UPDATE agents SET kind = 'agent' WHERE name = 'nobody'"


@pytest.fixture
def place(postgres_place: str) -> str:
    """These are about a server."""
    return postgres_place


@pytest.fixture
def store(place: str, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """A store whose connections are never asked whether they still work, and that notes an agent once, however slow the machine is."""
    monkeypatch.setattr(engine, "SEEN_INTERVAL_MICROSECONDS", 3_600_000_000)
    monkeypatch.setattr(engine, "TRUSTED_IDLE_SECONDS", 3600.0)
    return PostgresStore(place)


@pytest.fixture
def count_waits(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """A function that runs an action, and returns how often it waited for the server."""
    waits: list[None] = []
    flush = PipelinedConnection._flush

    def counted(connection: PipelinedConnection) -> None:
        waits.append(None)
        flush(connection)

    monkeypatch.setattr(PipelinedConnection, "_flush", counted)

    def count(action: Callable[[], object]) -> int:
        waits.clear()
        action()
        return len(waits)

    return count


def test_a_verb_of_threads_waits_for_few_answers(store: PostgresStore, count_waits: Callable[[Callable[[], object]], int]) -> None:
    for _ in range(2):
        sent(store, to="w")
    first = work.take(store, agent="w")
    assert first is not None
    work.done(store, first.thread.thread_id, agent="w", summary="ok")
    claims: list[Claim | None] = []
    assert count_waits(lambda: claims.append(work.take(store, agent="w"))) == 4
    [claim] = claims
    assert claim is not None
    assert count_waits(lambda: work.done(store, claim.thread.thread_id, agent="w", summary="ok")) == 3


def test_a_verb_of_mail_waits_for_few_answers(store: PostgresStore, count_waits: Callable[[Callable[[], object]], int]) -> None:
    mail.enqueue(store, {"from": "a", "to": "b", "msg_id": "m1", "payload": "{}"})
    assert count_waits(lambda: mail.enqueue(store, {"from": "a", "to": "b", "msg_id": "m2", "payload": "{}"})) == 2
    acks: list[EnqueueAck] = []
    assert count_waits(lambda: acks.append(mail.enqueue(store, {"from": "a", "to": "b", "payload": "{}"}))) == 3
    taken: list[Delivery | None] = []
    assert count_waits(lambda: taken.append(mail.dequeue(store, "b"))) == 2
    [delivery] = taken
    assert delivery is not None
    assert count_waits(lambda: mail.ack(store, "b", "m1", delivery_token=delivery.delivery_token)) == 2
    assert [message.msg_id for message in mail.peek(store, "b").messages] == ["m2", acks[0].msg_id]


def test_a_verb_of_tasks_waits_for_few_answers(store: PostgresStore, count_waits: Callable[[Callable[[], object]], int]) -> None:
    conductor = task_data.conductor_with_agents(store)
    tasks: list[A2ATask] = []
    assert count_waits(lambda: tasks.append(task_data.asked(conductor))) == 6
    assert count_waits(lambda: conductor.accept(tasks[0].task_id, agent=task_data.BOB)) == 4
    assert count_waits(lambda: conductor.complete(tasks[0].task_id, agent=task_data.BOB)) == 5


def test_a_push_in_a_batch_of_the_server_waits_for_few_answers(
    store: PostgresStore, tmp_path: Path, count_waits: Callable[[Callable[[], object]], int]
) -> None:
    token = people.add_workspace(store, str(tmp_path), label="Atlas", agent="atlas").token
    with store.read() as tx:
        caller = identify_caller(tx, token, "http")
    assert caller.workspace is not None
    push = partial(entries.store_entry, workspace=caller.workspace, described=Described(), comments="Look")
    write = verify_in_write(caller, push, partial(entries.prefetch_for_entry, workspace=caller.workspace))
    write(store)  # it notes that the agent was seen
    with store.batch() as batch:
        assert count_waits(lambda: write(batch)) == 2


def test_a_verb_of_an_agent_in_a_batch_of_the_server_waits_for_few_answers(
    store: PostgresStore, count_waits: Callable[[Callable[[], object]], int]
) -> None:
    """The token and what the permission reads come with one answer."""
    token = passes.issue_agent_token(store, name="w")
    with store.read() as tx:
        caller = identify_caller(tx, token, "http")
    work.claim(store, thread_id := sent(store, to="w"), agent="w")
    mail.enqueue(store, {"from": "a", "to": "w", "payload": "{}"})
    with store.batch() as batch:
        update = make_call(caller, work.update, thread_id=thread_id, agent="w", summary="half")
        assert count_waits(lambda: update(batch)) == 3
    with store.batch() as batch:
        dequeue = make_call(caller, mail.dequeue, session="w")
        assert count_waits(lambda: dequeue(batch)) == 2


def test_a_write_that_changed_no_row_stops_the_commit_sent_behind_it(store: PostgresStore) -> None:
    def write() -> None:
        with store.write() as tx:
            tx.execute(tx.sql.agent_put, name="before", kind="agent", now="2026")
            tx.execute_exactly_one(StoreBusy("changed meanwhile"), NO_SUCH_AGENT)
            tx.execute(tx.sql.agent_put, name="after", kind="agent", now="2026")

    with pytest.raises(StoreBusy, match="changed meanwhile"):
        write()
    with store.read() as tx:
        assert tx.fetch_one(tx.sql.agent_find, name="before") is None
        assert tx.fetch_one(tx.sql.agent_find, name="after") is None


def test_a_write_that_changed_two_rows_is_refused(store: PostgresStore) -> None:
    with store.write() as tx:
        tx.execute(tx.sql.agent_put, name="second", kind="agent", now="2026")
    with pytest.raises(StoreBusy, match="changed meanwhile"), store.write() as tx:
        tx.execute_exactly_one(StoreBusy("changed meanwhile"), "UPDATE agents SET kind = 'human'")


def test_the_first_of_several_failed_guards_is_the_refusal(store: PostgresStore) -> None:
    def write() -> None:
        with store.write() as tx:
            tx.execute_exactly_one(StoreBusy("not this one"), "UPDATE agents SET kind = kind WHERE name = 'user'")
            tx.execute_exactly_one(NotFound("this one"), NO_SUCH_AGENT)
            tx.execute_exactly_one(StoreBusy("nor this"), NO_SUCH_AGENT)

    with pytest.raises(NotFound):
        write()


def test_a_guard_that_fails_when_the_batch_ends_fails_the_batch(store: PostgresStore) -> None:
    """The refusal belongs to one of its verbs, and the caller of the batch does not know to which."""
    with pytest.raises(Contended), store.batch() as batch, batch.write() as tx:
        tx.execute_exactly_one(NotFound("of one verb"), NO_SUCH_AGENT)


def test_what_was_read_ahead_is_read_again_after_a_write(store: PostgresStore) -> None:
    with store.write() as tx:
        tx.prefetch(tx.sql.agent_find, name="new")
        tx.execute(tx.sql.agent_put, name="new", kind="agent", now="2026")
        assert tx.fetch_one(tx.sql.agent_find, name="new") is not None


def test_a_block_of_events_is_summarised_when_an_event_fills_it_whose_id_nobody_needs(store: PostgresStore) -> None:
    with store.write() as tx:
        tx.execute(
            "INSERT INTO events (event_id, run_id, task_id, thread_id, source, event_type, created_at)"
            " SELECT number, 'r', '', 't', 'a', 'thread.updated', '2026' FROM generate_series(1, 511) AS number"
        )
        tx.fetch_one("SELECT setval('events_event_id_seq', 511)")
    mail.enqueue(store, {"from": "a", "to": "b", "payload": "{}"})
    with store.read() as tx:
        assert tx.fetch_one(tx.sql.event_newest) == 512
        assert tx.fetch_one(tx.sql.event_block_of_topic, topic="run:r", first=0) == 0

"""A store that an earlier version made is refused with what to do, and upgraded in place by `init`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

import postroom
from postroom import mail, people, work
from postroom.cli.inbox import run as inbox_main
from postroom.core.errors import WrongVersion
from postroom.store.migrations import read_scripts
from postroom.store.sqlite.engine import APPLICATION_ID
from postroom.store.sqlite.schema import split_statements
from postroom.store.tables import SCHEMA_VERSION
from tests.postgres_server import Postgres

THREAD = (
    "INSERT INTO threads (thread_id, run_id, task_id, subject, created_by, assigned_to, status, created_at, updated_at)"
    " VALUES ('thr_old', '', '', 'From before', 'leader', 'builder', 'pending', '2026', '2026')"
)


STAMP = "2026-01-01T00:00:00.000000Z"
MakeOldStore = Callable[..., str]


@pytest.fixture
def make_old_store(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeOldStore]:
    """Makes a store as an earlier version made it, with rows in it."""
    with ExitStack() as stack:

        def make(version: int, *rows: str) -> str:
            scripts = [script for number, script in read_scripts(engine) if number <= version]
            if engine == "sqlite":
                with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as file:
                    file.execute("PRAGMA journal_mode=WAL")
                    statements = [statement for script in scripts for statement in split_statements(script)]
                    for statement in (*statements, f"PRAGMA application_id={APPLICATION_ID}", f"PRAGMA user_version={version}", *rows):
                        file.execute(statement)
                return str(tmp_path / "old.db")
            server: Postgres = request.getfixturevalue("postgres")
            url = stack.enter_context(server.schema())
            connection = stack.enter_context(psycopg.connect(server.url, autocommit=True))
            name = url.rpartition("schema=")[2]
            connection.execute(f"CREATE SCHEMA {name}; SET search_path TO {name}".encode())
            for statement in (*scripts, f"INSERT INTO meta (version) VALUES ({version})", *rows):
                connection.execute(statement.encode())
            return url

        yield make


@pytest.fixture
def first_version(make_old_store: MakeOldStore) -> str:
    """A store as version 1 made it, with a thread in it."""
    return make_old_store(1, THREAD)


def test_an_older_store_is_upgraded_with_all_it_holds(first_version: str) -> None:
    with pytest.raises(WrongVersion) as refused:
        postroom.open(first_version)
    assert "inbox init" in refused.value.hint
    assert postroom.init(first_version) is False
    store = postroom.open(first_version)
    assert work.claim(store, "thr_old", agent="builder").thread.subject == "From before"
    assert mail.enqueue(store, {"from": "lead", "to": "analyst", "payload": "new"}).queued
    assert postroom.init(first_version) is False
    store.close()


def talk(thread_id: str, *said: tuple[str, str, str, str], status: str = "blocked") -> Iterator[str]:
    """The rows of a thread and its messages, each an id with its number, sender, receiver and kind. A revoked lease is kind `revoke`."""
    yield THREAD.replace("thr_old", thread_id).replace("'pending'", f"'{status}'")
    for message_id, sender, to, kind in said:
        event_id = int(message_id.removeprefix("m"))
        stored, event = ("control", "thread.released") if kind == "revoke" else (kind, "thread.replied")
        yield (
            "INSERT INTO messages (message_id, thread_id, from_agent, to_agent, kind, summary, created_at, event_id, door)"
            f" VALUES ('{message_id}', '{thread_id}', '{sender}', '{to}', '{stored}', 'Said', '{STAMP}', {event_id}, 'http')"
        )
        yield (
            "INSERT INTO events (event_id, run_id, task_id, thread_id, source, event_type, message_id, created_at)"
            f" VALUES ({event_id}, '', '', '{thread_id}', '{sender}', '{event}', '{message_id}', '{STAMP}')"
        )


def test_answers_from_before_get_their_question_and_no_question_opens_again(make_old_store: MakeOldStore) -> None:
    """Until version 6 an answer settled all questions before it in its thread."""
    place = make_old_store(
        5,
        *talk(
            "thr_one", ("m101", "builder", "user", "question"), ("m102", "user", "builder", "answer"), ("m103", "user", "builder", "answer")
        ),
        *talk("thr_two", ("m104", "builder", "user", "question"), ("m105", "evil", "user", "question"), ("m106", "user", "evil", "answer")),
        *talk("thr_open", ("m107", "builder", "user", "question"), ("m108", "builder", "user", "answer")),
        *talk("thr_revoked", ("m109", "builder", "user", "question"), ("m110", "user", "builder", "revoke")),
        *talk("thr_over", ("m111", "builder", "user", "question"), ("m112", "builder", "leader", "result"), status="done"),
    )
    postroom.init(place)
    with closing(postroom.open(place)) as store:
        shown = {
            message.message_id: message
            for thread in ("thr_one", "thr_two", "thr_open", "thr_revoked", "thr_over")
            for message in work.show(store, thread).messages
        }
        people.sync_questions(store)
        states = {entry.message_id: entry.ask.state for entry in people.history(store).entries if entry.ask is not None}
    assert {message_id: one.in_reply_to for message_id, one in shown.items() if one.in_reply_to} == {"m102": "m101"}
    assert [message_id for message_id, one in shown.items() if one.is_open] == ["m107"]
    assert states == {"m101": "answered", "m104": "ended", "m105": "ended", "m107": "open", "m109": "ended", "m111": "ended"}


def test_passes_that_never_ended_or_belong_to_no_person_are_void_after_the_upgrade(make_old_store: MakeOldStore) -> None:
    kinds = {"bearer": ("user", "NULL"), "session": ("user", "'2999'"), "link": ("bob", "'2999'"), "agent": ("builder", "NULL")}
    rows = [
        "INSERT INTO passes (token_hash, kind, person, created_at, expires_at)"
        f" VALUES ('{kind.encode().hex()}', '{kind}', '{name}', '{STAMP}', {until})"
        for kind, (name, until) in kinds.items()
    ]
    agents = [f"INSERT INTO agents (name, kind, created_at) VALUES ('{name}', 'agent', '{STAMP}')" for name in ("bob", "builder")]
    place = make_old_store(5, *agents, *rows)
    assert postroom.init(place) is False
    with closing(postroom.open(place)) as store:
        assert {listed.kind for listed in people.list_passes(store).passes} == {"session", "agent"}


def test_init_says_that_it_upgraded_and_from_which_version(first_version: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert inbox_main(["init", "--db", first_version]) == 0
    assert capfd.readouterr().out.startswith(f"Upgraded from schema 1 to {SCHEMA_VERSION}: ")
    assert inbox_main(["init", "--db", first_version]) == 0
    assert capfd.readouterr().out.startswith("Already there: ")


def test_version_6_keeps_messages_with_their_artifacts_and_old_events_are_found(make_old_store: MakeOldStore) -> None:
    """Version 7 rebuilds the tables of messages and leases, and summarises the event log."""
    facts = '{"status": "failed", "assigned_to": "builder", "created_by": "leader"}'
    columns = "event_id, run_id, task_id, thread_id, source, event_type, payload_json, created_at"
    logged = [
        f"INSERT INTO events ({columns}) VALUES ({number}, '', '', '{thread}', 'builder', '{kind}', '{facts}', '{STAMP}')"
        for number, thread, kind in ((2, "thr_one", "thread.failed"), (900, "", "mail.stored"))
    ]
    place = make_old_store(
        6,
        *talk("thr_one", ("m1", "leader", "builder", "task"), status="claimed"),
        f"INSERT INTO artifacts (artifact_id, message_id, path, kind, created_at) VALUES ('a1', 'm1', 'plan.md', 'file', '{STAMP}')",
        "INSERT INTO leases (thread_id, agent_id, lease_token, claimed_at, expires_at, lease_seconds, priority)"
        f" VALUES ('thr_one', 'builder', 'lse', '{STAMP}', '{STAMP}', 900, 'normal')",
        *logged,
    )
    postroom.init(place)
    with closing(postroom.open(place)) as store:
        shown = work.show(store, "thr_one")
        assert [artifact.path for artifact in shown.messages[0].artifacts] == ["plan.md"]
        assert shown.lease is not None
        seen = work.watch(store, agent="leader", statuses=("failed",), after_event=0, timeout_seconds=1)
        assert [found.event_id for found in seen.events] == [2]
        with store.read() as tx:
            assert tx.fetch_one(tx.sql.cursor_find, name="work.events") == 511


MAIL_OF_VERSION_5 = (
    "INSERT INTO deliveries (msg_id, session, sender, created_at, attempt, state, head, rank, stored_at, since, door, payload)"
    " VALUES ('m:1', 'box', 'ann', 7, 0, 'pending', 1, 7, 1, 1, 'cli', 'a' || CHAR(16) || 'b')",
    "INSERT INTO mailboxes (session, pending) VALUES ('box', 1)",
    "INSERT INTO mail_ids (msg_id, session, state, ended_at) VALUES ('m:0', 'box', 'acked', 1)",
    "INSERT INTO events (run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at)"
    " VALUES ('', '', '', 'ann', 'mail.stored', 'm:0', '', '{\"from\": \"ann\", \"session\": \"box\", \"reason\": \"secret\"}', '2026')",
)


def test_mail_of_version_5_keeps_its_senders_and_payloads(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as file:
        for number, script in read_scripts("sqlite"):
            for statement in split_statements(script) if number < 6 else ():
                file.execute(statement)
        for statement in (*MAIL_OF_VERSION_5, f"PRAGMA application_id={APPLICATION_ID}", "PRAGMA user_version=5"):
            file.execute(statement)
    postroom.init(str(tmp_path / "old.db"))
    with closing(postroom.open(str(tmp_path / "old.db"))) as store:
        assert not mail.enqueue(store, {"msg_id": "m:0", "from": "ann", "to": "box", "payload": "anything"}).queued
        assert mail.enqueue(store, {"msg_id": "m:0", "from": "bob", "to": "other", "payload": "mine"}).queued
        shown = mail.show(store, "m:0", sent_by="ann")
        assert (shown.state, [step.facts for step in shown.steps]) == ("forgotten", [{}])
        delivery = mail.dequeue(store, "box")
        assert delivery is not None
        assert delivery.message.payload == "a\x10b"

"""Other programs share the file, as document 000 intends: `init` adopts a database made with its DDL, and rows in its columns are seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import postroom
from postroom import people, work
from postroom.cli.inbox import run as inbox_main
from postroom.core.errors import LeaseHeld, NotAStore
from postroom.store.copying import copy_store
from postroom.store.interface import Store

# The DDL of the document, as it stands there.
DOCUMENT_DDL = """
CREATE TABLE IF NOT EXISTS threads (
  thread_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, task_id TEXT NOT NULL, subject TEXT NOT NULL, created_by TEXT NOT NULL,
  assigned_to TEXT NOT NULL, status TEXT NOT NULL, priority TEXT NOT NULL DEFAULT 'normal', latest_message_id TEXT,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS messages (
  message_id TEXT PRIMARY KEY, thread_id TEXT NOT NULL, from_agent TEXT NOT NULL, to_agent TEXT NOT NULL, kind TEXT NOT NULL,
  summary TEXT NOT NULL, body TEXT NOT NULL DEFAULT '', payload_json TEXT NOT NULL DEFAULT '{}', created_at TEXT NOT NULL,
  FOREIGN KEY(thread_id) REFERENCES threads(thread_id));
CREATE TABLE IF NOT EXISTS leases (
  thread_id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, lease_token TEXT NOT NULL, claimed_at TEXT NOT NULL, expires_at TEXT NOT NULL,
  released_at TEXT);
CREATE TABLE IF NOT EXISTS artifacts (
  artifact_id TEXT PRIMARY KEY, message_id TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
  metadata_json TEXT NOT NULL DEFAULT '{}', created_at TEXT NOT NULL, FOREIGN KEY(message_id) REFERENCES messages(message_id));
CREATE TABLE IF NOT EXISTS events (
  event_id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, task_id TEXT NOT NULL, thread_id TEXT NOT NULL, source TEXT NOT NULL,
  event_type TEXT NOT NULL, message_id TEXT, summary TEXT NOT NULL DEFAULT '', payload_json TEXT NOT NULL DEFAULT '{}',
  created_at TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS idx_threads_status_assigned ON threads(status, assigned_to, updated_at);
CREATE INDEX IF NOT EXISTS idx_messages_thread_created ON messages(thread_id, created_at);
CREATE INDEX IF NOT EXISTS idx_events_thread_event ON events(thread_id, event_id);
"""
THREAD = (
    "INSERT INTO threads (thread_id, run_id, task_id, subject, created_by, assigned_to, status, created_at, updated_at)"
    " VALUES (?, 'R1', 'T1', 'Paint the shed', 'leader', 'worker', ?, '2026-11-17T10:00:00Z', '2026-11-17 10:05:00')"
)
MESSAGE = (
    "INSERT INTO messages (message_id, thread_id, from_agent, to_agent, kind, summary, body, payload_json, created_at)"
    " VALUES (?, ?, ?, ?, ?, 'Said', '', '{}', '2026-11-17T12:00:00+02:00')"
)
EVENT = (
    "INSERT INTO events (run_id, task_id, thread_id, source, event_type, message_id, payload_json, created_at)"
    " VALUES ('R1', 'T1', ?, 'leader', 'message_sent', ?, ?, '2026-11-17')"
)
LEASE = (
    "INSERT INTO leases (thread_id, agent_id, lease_token, claimed_at, expires_at, released_at)"
    " VALUES ('{}', 'worker', 'their-token', datetime('now'), datetime('now', '+1 hour'), NULL)"
)
Other = sqlite3.Connection


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "coord.db")


@pytest.fixture
def other(path: str) -> Iterator[Other]:
    """Another program's connection, with the settings of `sqlite3` itself."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
        yield connection


@pytest.fixture
def make_document_database(other: Other) -> Callable[[], None]:
    def make() -> None:
        other.executescript(DOCUMENT_DDL)
        other.execute(THREAD, ("t-open", "pending"))
        other.execute(THREAD, ("t-asked", "blocked"))
        other.execute(THREAD, ("t-over", "done"))
        for message_id, thread, sender, to, kind in (
            *(("m1", "t-asked", "leader", "worker", "task"), ("m2", "t-asked", "worker", "leader", "question")),
            *(("m3", "t-over", "worker", "leader", "question"), ("m4", "t-over", "worker", "leader", "result")),
        ):
            other.execute(MESSAGE, (message_id, thread, sender, to, kind))
            other.execute(EVENT, (thread, message_id, "{}"))
        other.execute(LEASE.format("t-asked"))
        other.execute("INSERT INTO artifacts VALUES ('a1', 'm2', '/tmp/plan.md', 'file', '{}', '2026-11-17')")

    return make


@pytest.fixture
def store(path: str, other: Other) -> Iterator[Store]:
    postroom.init(path)
    with closing(postroom.open(path)) as opened:
        yield opened


@pytest.fixture
def waiters() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_the_documents_own_database_is_adopted_with_its_rows(path: str, make_document_database: Callable[[], None]) -> None:
    make_document_database()
    assert postroom.init(path) is True
    with closing(postroom.open(path)) as store:
        assert {thread.thread_id for thread in work.list_threads(store).threads} == {"t-open", "t-asked", "t-over"}
        shown = work.show(store, "t-asked")
        assert [(one.message_id, one.is_open, one.verified) for one in shown.messages] == [("m1", 0, False), ("m2", 1, False)]
        assert shown.messages[0].created_at == "2026-11-17T10:00:00.000000Z"
        assert [artifact.path for artifact in shown.messages[1].artifacts] == ["/tmp/plan.md"]
        assert not work.show(store, "t-over").messages[0].is_open
        with pytest.raises(LeaseHeld):
            work.claim(store, "t-asked", agent="another")
        assert [candidate.thread.thread_id for candidate in work.fetch(store, agent="worker").candidates] == ["t-open"]
        answer = work.reply(store, "t-asked", sender="leader", summary="Red")
        assert answer.message.in_reply_to == "m2"
        assert work.done(store, "t-asked", agent="worker", lease_token="their-token", summary="Painted").thread.status == "done"
    assert postroom.init(path) is False


def test_ids_of_events_are_kept_and_none_is_given_out_again(path: str, other: Other, make_document_database: Callable[[], None]) -> None:
    make_document_database()
    other.execute("DELETE FROM events WHERE event_id = 4")
    postroom.init(path)
    assert [row[0] for row in other.execute("SELECT event_id FROM events WHERE event_type = 'message_sent'")] == [1, 2, 3]
    assert other.execute("SELECT min(event_id) FROM events WHERE event_type = 'thread.inserted'").fetchone() == (5,)


def test_what_other_programs_keep_in_the_database_stays_as_it_is(
    path: str, other: Other, make_document_database: Callable[[], None]
) -> None:
    other.execute("CREATE TABLE orch_runs (run_id TEXT PRIMARY KEY, goal TEXT)")
    other.execute("INSERT INTO orch_runs VALUES ('R1', 'Paint everything')")
    make_document_database()
    other.execute("CREATE VIEW orch_open AS SELECT thread_id FROM threads WHERE status = 'pending'")
    other.execute("CREATE INDEX orch_senders ON messages(from_agent)")
    other.execute("CREATE TRIGGER orch_count AFTER INSERT ON threads BEGIN UPDATE orch_runs SET goal = goal || '+'; END")
    postroom.init(path)
    assert other.execute("SELECT * FROM orch_runs").fetchall() == [("R1", "Paint everything")]
    assert other.execute("SELECT * FROM orch_open").fetchall() == [("t-open",)]
    with closing(postroom.open(path)) as store:
        work.send(store, sender="leader", to="worker", subject="New")
    assert other.execute("SELECT goal FROM orch_runs").fetchone() == ("Paint everything+",)
    assert other.execute("SELECT count(*) FROM sqlite_master WHERE name = 'orch_senders'").fetchone() == (1,)


def test_a_database_with_tables_of_other_programs_only_becomes_a_store_beside_them(path: str, other: Other) -> None:
    other.execute("CREATE TABLE orch_runs (run_id TEXT)")
    postroom.init(path)
    with closing(postroom.open(path)) as store:
        assert work.send(store, sender="leader", to="worker", subject="New").thread.status == "pending"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("CREATE TABLE tasks (id TEXT)", "has tasks of another program"),
        ("CREATE TABLE threads (thread_id TEXT)", "does not have the columns of document 000"),
        ("CREATE TABLE other (id TEXT); PRAGMA user_version = 3", "is the database of another program"),
        ("CREATE TABLE other (id TEXT); PRAGMA application_id = 3", "is the database of another program"),
    ],
)
def test_what_cannot_stay_beside_our_tables_is_refused_and_nothing_changes(path: str, other: Other, made: str, reason: str) -> None:
    other.executescript(made)
    before = other.execute("SELECT name, sql FROM sqlite_master").fetchall()
    with pytest.raises(NotAStore, match=reason):
        postroom.init(path)
    assert other.execute("SELECT name, sql FROM sqlite_master").fetchall() == before


def test_init_says_that_it_adopted(path: str, make_document_database: Callable[[], None], capfd: pytest.CaptureFixture[str]) -> None:
    make_document_database()
    assert inbox_main(["init", "--db", path]) == 0
    assert capfd.readouterr().out.startswith("Adopted the tables and rows of another program: ")
    assert inbox_main(["init", "--db", path]) == 0
    assert capfd.readouterr().out.startswith("Already there: ")


def test_a_thread_and_message_of_another_program_reach_every_reader(store: Store, other: Other, waiters: ThreadPoolExecutor) -> None:
    watch = waiters.submit(work.watch, store, agent="worker", statuses=("pending",), after_event=0, timeout_seconds=20)
    other.execute("BEGIN")
    other.execute(THREAD, ("t1", "pending"))
    other.execute(MESSAGE, ("m1", "t1", "leader", "worker", "task"))
    other.execute(EVENT, ("t1", "m1", "{}"))
    other.execute("COMMIT")
    assert {event.thread_id for event in watch.result().events} == {"t1"}
    assert [candidate.thread.thread_id for candidate in work.fetch(store, agent="worker", unread=True).candidates] == ["t1"]
    assert [message.message_id for message in work.show(store, "t1").messages] == ["m1"]
    assert "leader" in {agent.name for agent in work.list_agents(store)}
    assert work.claim(store, "t1", agent="worker").lease.agent_id == "worker"


def test_a_message_is_watched_once_though_its_program_also_wrote_an_event(store: Store, other: Other) -> None:
    other.execute(THREAD, ("t1", "pending"))
    other.execute(MESSAGE, ("m1", "t1", "leader", "worker", "task"))
    other.execute(EVENT, ("t1", "m1", "no JSON"))
    other.execute(EVENT, ("t1", None, "[1]"))
    seen = work.watch(store, agent="worker", after_event=0, timeout_seconds=1).events
    assert [(event.event_type, event.message_id) for event in seen] == [
        ("thread.inserted", None),
        ("thread.inserted", "m1"),
        ("message_sent", None),
    ]


def test_a_worker_takes_the_thread_that_another_program_inserts(store: Store, other: Other, waiters: ThreadPoolExecutor) -> None:
    taken = waiters.submit(work.wait_take, store, agent="worker", timeout_seconds=20)
    other.execute(THREAD, ("t1", "pending"))
    claim = taken.result()
    assert claim is not None
    assert claim.thread.thread_id == "t1"


def test_an_answer_of_another_program_wakes_the_worker_that_asked(store: Store, other: Other, waiters: ThreadPoolExecutor) -> None:
    thread = work.send(store, sender="leader", to="worker", subject="Paint").thread.thread_id
    work.claim(store, thread, agent="worker")
    asked = work.update(store, thread, agent="worker", status="blocked", summary="Which colour?")
    reply = waiters.submit(work.wait_reply, store, thread, agent="worker", timeout_seconds=20)
    other.execute(MESSAGE, ("theirs", thread, "leader", "worker", "answer"))
    message = reply.result().message
    assert message is not None
    assert (message.message_id, message.in_reply_to, message.door) == ("theirs", asked.message.message_id, "file")


def test_another_program_cannot_settle_for_a_person_in_the_name_of_an_agent(store: Store, other: Other) -> None:
    thread = work.send(store, sender="leader", to="worker", subject="Paint").thread.thread_id
    work.claim(store, thread, agent="worker")
    work.update(store, thread, agent="worker", status="blocked", summary="May I?", to="user")
    other.execute(MESSAGE, ("theirs", thread, "leader", "worker", "answer"))
    assert [one.is_open for one in work.show(store, thread).messages if one.kind == "question"] == [1]


def test_a_question_of_another_program_to_a_person_becomes_an_entry(store: Store, other: Other) -> None:
    other.execute(THREAD, ("t1", "blocked"))
    other.execute(MESSAGE, ("m1", "t1", "worker", "user", "question"))
    people.sync_questions(store)
    assert [entry.message_id for entry in people.history(store).entries] == ["m1"]
    assert work.reply(store, "t1", sender="user", summary="Yes").message.in_reply_to == "m1"


def test_a_lease_of_another_program_holds_until_it_ends(store: Store, other: Other) -> None:
    thread = work.send(store, sender="leader", to="worker", subject="Paint").thread.thread_id
    other.execute(LEASE.format(thread))
    with pytest.raises(LeaseHeld):
        work.claim(store, thread, agent="another")
    other.execute("UPDATE leases SET expires_at = datetime('now', '+2 hours') WHERE thread_id = ?", (thread,))  # it renews
    with pytest.raises(LeaseHeld):
        work.claim(store, thread, agent="another")
    other.execute("UPDATE leases SET expires_at = datetime('now', '-1 second') WHERE thread_id = ?", (thread,))
    assert work.claim(store, thread, agent="another", lease_seconds=60).lease.agent_id == "another"
    other.execute(  # it takes the thread back, for longer, and in our own format
        "UPDATE leases SET agent_id = 'worker', lease_token = 'again', claimed_at = strftime('%Y-%m-%dT%H:%M:%f000Z'),"
        " expires_at = strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '+3 hours') WHERE thread_id = ?",
        (thread,),
    )
    with pytest.raises(LeaseHeld):
        work.claim(store, thread, agent="another")


def test_rows_of_other_programs_are_copied_as_they_are(store: Store, other: Other, tmp_path: Path) -> None:
    other.execute(THREAD, ("t1", "pending"))
    other.execute(THREAD, ("t2", "blocked"))
    other.execute(MESSAGE, ("m1", "t2", "leader", "worker", "task"))
    other.execute(LEASE.format("t2"))
    postroom.init(str(tmp_path / "copy.db"))
    with closing(postroom.open(str(tmp_path / "copy.db"))) as target:
        copy_store(store, target)
        copy_store(store, target)
        assert work.list_threads(target) == work.list_threads(store)

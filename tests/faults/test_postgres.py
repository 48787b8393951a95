"""Faults that only a server has: overlapping transactions, lost connections, restarts, refused rights."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import postroom
from postroom import mail, work
from postroom.core.errors import Contended, IdConflict, NoStore, Refusal, StoreBusy, StoreReadOnly, StoreTrouble, StoreUnreachable
from postroom.core.records.mail import EnqueueAck
from postroom.mail import drafts, mailbox, transitions
from postroom.mail.deliver import Deliverer
from postroom.store import init_store, wait_loop
from postroom.store.interface import Transaction
from postroom.store.postgres import driver
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.engine import PostgresStore
from postroom.store.postgres.listener import find_listener
from postroom.work.candidates import take_next
from postroom.work.worker import Worker
from tests.cli.mailbox_process import Mailbox
from tests.cli.process import SCRIPT, Inbox
from tests.conftest import Clock
from tests.contract.blocking_store import eventually
from tests.contract.thread_data import asking, sent
from tests.postgres_server import Postgres


@pytest.fixture
def place(postgres_place: str) -> str:
    """These are about a server."""
    return postgres_place


def in_background(act: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run something beside the test; what came of it is in the list."""
    came: list[Any] = []

    def run() -> None:
        try:
            came.append(act())
        except Refusal as refusal:
            came.append(refusal)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, came


def answered(tx: Transaction) -> None:
    """Wait until the statements that were sent have run: they travel together, and the other side must find their result."""
    assert tx.fetch_one("SELECT 1") == (1,)


def waiting_for_a_lock(postgres: Postgres) -> int:
    with psycopg.connect(postgres.url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return row[0] if row else 0


def events(store: PostgresStore) -> list[int]:
    with store.read() as tx:
        return [event.event_id for event in tx.fetch_all(tx.sql.events_after, after=0, limit=1000)]


def append(tx: Transaction) -> int:
    facts = dict.fromkeys(("run_id", "task_id", "thread_id", "source", "event_type", "summary"), "") | {"message_id": None}
    return tx.insert_event(tx.sql.event_append, ["x"], payload_json="{}", created_at="2026", **facts)


def test_a_reader_that_has_seen_an_event_never_misses_one_below(place: str) -> None:
    """Staged: the first writer has its id and has not committed. The second commits, and is not shown before the first."""
    first, reader = PostgresStore(place), PostgresStore(place)
    seen = events(reader)
    with first.write() as tx:
        early = append(tx)
        assert isinstance(sent(PostgresStore(place)), str)
        assert events(reader) == seen, "a later event is visible, and a cursor past it would miss the earlier one"
        with reader.read() as view:
            assert view.fetch_one(view.sql.event_latest) == early - 1
            assert view.fetch_one(view.sql.event_newest) == early + 1
    assert events(reader) == [*seen, early, early + 1]


def test_a_role_that_may_only_connect_stops_no_writer(postgres: Postgres) -> None:
    with postgres.schema() as place, as_stranger(postgres) as stranger:
        schema = place.rpartition("=")[2]
        for key in (f"{schema} events", f"{schema}:init"):
            stranger.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (key,))
        thread, came = in_background(lambda: (init_store(place), work.show(store := PostgresStore(place), sent(store)).thread.subject))
        thread.join(30)
        assert came == [(True, "Add the login page")]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stranger.execute(f"BEGIN; LOCK TABLE {schema}.meta IN SHARE MODE")
        stranger.execute("ROLLBACK")


def test_a_writer_behind_a_lock_that_is_kept_is_refused_and_changes_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_SETTINGS", driver._SETTINGS.replace("'10s'", "'50ms'"))
    holder, writer = PostgresStore(place), PostgresStore(place)
    with holder.write() as tx:
        tx.execute("LOCK TABLE events IN SHARE MODE")
        answered(tx)
        with pytest.raises(StoreBusy, match="another session was in the way") as refusal:
            sent(writer)
    assert "pg_locks" in refusal.value.hint
    assert work.list_threads(writer).threads == ()


@contextmanager
def as_stranger(postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """A connection of a role that may connect, and nothing else."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS mallory")
        connection.execute("CREATE ROLE mallory")
        connection.execute("SET ROLE mallory")
        try:
            yield connection
        finally:
            connection.execute("RESET ROLE")
            connection.execute("DROP ROLE mallory")


def test_no_work_is_never_said_because_a_race_was_lost(place: str, postgres: Postgres) -> None:
    """Staged: somebody holds the only candidate, and lets it go again."""
    store, rival = PostgresStore(place), PostgresStore(place)
    thread_id = sent(store, to="builder")
    with rival.write() as tx:
        assert tx.lock_thread(thread_id)
        answered(tx)
        thread, came = in_background(lambda: work.take(store, agent="builder"))
        assert eventually(lambda: bool(came) or waiting_for_a_lock(postgres) > 0)
        assert came == []
    thread.join(30)
    assert came[0].thread.thread_id == thread_id


def test_a_replaced_owner_that_waited_for_the_lock_is_refused(place: str, postgres: Postgres) -> None:
    """Staged: the old owner's update waits while the new owner's claim commits; it must see the new lease, not its own."""
    store, rival = PostgresStore(place), PostgresStore(place)
    thread_id = sent(store, to="builder")
    old = work.claim(store, thread_id, agent="builder")
    with rival.write() as tx:
        tx.lock_thread(thread_id)
        answered(tx)
        thread, came = in_background(lambda: work.update(store, thread_id, agent="builder", lease_token=old.lease.lease_token))
        assert eventually(lambda: bool(came) or waiting_for_a_lock(postgres) > 0)
        tx.execute("UPDATE leases SET lease_token = 'newer', agent_id = 'other' WHERE thread_id = :thread_id", thread_id=thread_id)
    thread.join(30)
    assert isinstance(came[0], Refusal)
    assert came[0].code == "lease_conflict"


def test_a_batch_that_lost_a_race_is_stored_whole_also_from_a_generator(place: str, postgres: Postgres) -> None:
    """Staged: the batch waits for the message that a rival is storing too, fails on its id, and is done over."""
    store = PostgresStore(place)
    came = _batch_behind_a_rival(store, postgres, session="here")
    assert [(ack.msg_id, ack.queued) for ack in came] == [("shared", False), ("own", True)]
    assert [summary.msg_id for summary in mail.peek(store, "here").messages] == ["shared", "own"]


def test_a_batch_that_lost_its_id_to_another_message_is_refused_whole(place: str, postgres: Postgres) -> None:
    """Staged: the sender's other process stores the id for another mailbox. Done over, the batch finds that it is taken."""
    store = PostgresStore(place)
    with pytest.raises(IdConflict):
        _batch_behind_a_rival(store, postgres, session="elsewhere")
    assert mail.peek(store, "here").messages == ()


def _batch_behind_a_rival(store: PostgresStore, postgres: Postgres, *, session: str) -> tuple[EnqueueAck, ...]:
    """Enqueue a batch for the mailbox "here" while a rival stores the first of its ids in the mailbox `session`."""
    rival = PostgresStore(store.location)
    notes = [{"from": "lead", "to": "here", "payload": msg_id, "msg_id": msg_id} for msg_id in ("shared", "own")]
    with rival.write() as tx:
        locked = transitions.open_mailbox(tx, session)
        mailbox.store_draft(tx, locked, drafts.parse_message(notes[0]), "shared")
        locked.write_back()
        answered(tx)
        thread, came = in_background(lambda: mail.enqueue_all(store, (note for note in notes)))
        assert eventually(lambda: bool(came) or waiting_for_a_lock(postgres) > 0)
        assert came == []
    thread.join(30)
    if isinstance(came[0], Refusal):
        raise came[0]
    acks: tuple[EnqueueAck, ...] = came[0]
    return acks


def test_two_who_make_one_thread_at_once_both_speak_in_it(place: str, postgres: Postgres) -> None:
    """Staged: the second insert waits for the first, fails on its key, and is done over as a message."""
    store, rival = PostgresStore(place), PostgresStore(place)
    with rival.write() as tx:
        tx.execute(
            "INSERT INTO threads (thread_id, run_id, task_id, subject, created_by, assigned_to, status, created_at, updated_at)"
            " VALUES ('shared', '', '', 'First', 'leader', 'builder', 'pending', '2026', '2026')"
        )
        answered(tx)
        thread, came = in_background(lambda: work.send(store, sender="leader", to="builder", subject="Second", thread_id="shared"))
        assert eventually(lambda: bool(came) or waiting_for_a_lock(postgres) > 0)
    thread.join(30)
    assert (came[0].thread.subject, came[0].message.summary) == ("First", "Second")


def test_a_worker_takes_a_thread_while_others_have_locked_all_before_it(place: str, clock: Clock) -> None:
    """Staged: the rival has locked more threads than a worker reads candidates, and keeps them until the worker has its own."""
    with PostgresStore(place, now=clock) as store, PostgresStore(place, now=clock) as rival:
        threads = [sent(store, to="builder") for _ in range(41)]
        threads.remove(work.take(store, agent="builder").thread.thread_id)  # type: ignore[union-attr]  # no sign of life is due any more
        with rival.write() as tx:
            taken = {take_next(tx, agent="builder", lease_seconds=60).thread.thread_id for _ in range(39)}  # type: ignore[union-attr]
            thread, came = in_background(lambda: work.take(store, agent="builder"))
            thread.join(30)
            assert [claim.thread.thread_id for claim in came] == [one for one in threads if one not in taken]


def test_a_deadlock_is_undone_and_tried_again_inside_the_verb(place: str, postgres: Postgres) -> None:
    """Staged: the rival has the agent's row and wants the thread's, the verb has the thread's and wants the agent's."""
    store, rival = PostgresStore(place), PostgresStore(place)
    thread_id = sent(store, to="builder")
    work.claim(store, thread_id, agent="builder")

    def cross() -> tuple[threading.Thread, list[Any]]:
        with rival.write() as tx:
            tx.execute("UPDATE agents SET last_seen_at = '2000' WHERE name = 'builder'")
            answered(tx)
            started = in_background(lambda: work.update(store, thread_id, agent="builder", summary="On it"))
            assert eventually(lambda: waiting_for_a_lock(postgres) > 0)
            tx.lock_thread(thread_id)
        return started

    with psycopg.connect(postgres.url, autocommit=True) as other:  # so that the verb's sign of life is due
        other.execute(f"UPDATE {place.rpartition('schema=')[2]}.agents SET last_seen_at = '2000'")
    store.seen_agents.clear()
    try:
        thread, came = cross()
    except Contended:
        return  # the server chose the rival as its victim: the verb was never in trouble
    thread.join(30)
    assert came[0].message.summary == "On it"


def test_a_connection_lost_in_the_middle_undoes_everything_and_is_made_again(place: str, postgres: Postgres) -> None:
    store = PostgresStore(place)

    def write_and_lose() -> None:
        with store.write() as tx:
            tx.execute(tx.sql.agent_put, name="half", kind="agent", now="2026")
            pid = tx.fetch_one("SELECT pg_backend_pid()")
            with psycopg.connect(postgres.url, autocommit=True) as killer:
                killer.execute("SELECT pg_terminate_backend(%s)", pid)
            tx.execute(tx.sql.agent_put, name="other half", kind="agent", now="2026")

    with pytest.raises(StoreUnreachable):
        write_and_lose()
    assert [agent.name for agent in work.list_agents(store)] == ["user"]
    assert sent(store)


def test_a_connection_that_died_in_its_sleep_is_not_noticed(place: str, postgres: Postgres) -> None:
    store = PostgresStore(place)
    with psycopg.connect(postgres.url, autocommit=True) as killer:
        killer.execute("SELECT pg_terminate_backend(%s)", (store.connection.info.backend_pid,))
    assert sent(store)


def test_waiters_go_on_by_themselves_when_the_server_is_back(own_postgres: Postgres) -> None:
    """They share one connection that listens, and few that read."""
    url = own_postgres.at("restarted")
    postroom.init(url)
    store = postroom.open(url)
    asked = asking(store).thread.thread_id
    waiters = [in_background(lambda: work.wait_reply(store, asked, timeout_seconds=60)) for _ in range(99)]
    # The question's lease is live, so that this one also asks the server when it runs out.
    taker, taken = in_background(lambda: work.wait_take(store, agent="other", timeout_seconds=60))
    assert eventually(lambda: len(find_listener(parse_url(url))._watches) == 100)
    with psycopg.connect(own_postgres.url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postroom'").fetchone()
    assert row is not None
    assert 2 <= row[0] <= 10
    own_postgres.restart()
    work.reply(postroom.open(url), asked, sender="leader", summary="This one")
    for thread, came in waiters:
        thread.join(60)
        assert came[0].message.summary == "This one"
    sent(postroom.open(url), to="other")
    taker.join(60)
    assert taken[0].thread.assigned_to == "other"


def test_a_waiter_that_cannot_look_goes_on_and_never_says_that_nothing_came(place: str) -> None:
    store = postroom.open(place)
    looks: Iterator[StoreUnreachable | str] = iter([StoreUnreachable("away"), StoreUnreachable("away"), "found"])

    def look() -> str | None:
        came = next(looks)
        if isinstance(came, StoreUnreachable):
            raise came
        return came

    class Asks:
        """Asks the server how long it may sleep, as a taker does, and finds it away the first time."""

        asked = 0

        def seconds_until_due(self) -> float | None:
            self.asked += 1
            if self.asked == 1:
                raise StoreUnreachable("away")
            return 0

        def run(self) -> None:
            pass

    with pytest.raises(StoreUnreachable):
        wait_loop.wait_until(store, look, 0.000_001, topics=())
    assert wait_loop.wait_until(store, look, 30, topics=()) == "found"
    empty = iter([None, "found"])
    assert wait_loop.wait_until(store, lambda: next(empty), 30, topics=(), periodic=Asks()) == "found"


def test_a_worker_goes_on_by_itself_when_the_server_is_back(own_postgres: Postgres) -> None:
    url = own_postgres.at("worked")
    postroom.init(url)
    store = postroom.open(url)
    told: list[str] = []
    worker = Worker(postroom.open(url), agent="worker", command="cat", report_step=lambda what, _, __: told.append(what))
    thread, tallied = in_background(worker.run)
    sent(store, to="worker")
    assert eventually(lambda: "done" in told)
    own_postgres.restart()
    sent(store, to="worker")
    assert eventually(lambda: told.count("done") == 2)
    worker.stop()
    thread.join(60)
    assert tallied[0].done == 2


def test_deliveries_and_waiting_receivers_go_on_by_themselves_when_the_server_is_back(own_postgres: Postgres) -> None:
    url = own_postgres.at("mailed")
    postroom.init(url)
    store = postroom.open(url)
    told: list[str] = []
    deliverer = Deliverer(postroom.open(url), ["delivered"], command="cat", report_step=lambda what, _, __: told.append(what))
    engine, tallied = in_background(deliverer.run)
    receiver, received = in_background(lambda: mail.wait(postroom.open(url), "waiting", timeout_seconds=60))
    mail.enqueue(store, {"from": "lead", "to": "delivered", "payload": "before"})
    assert eventually(lambda: "acked" in told)
    own_postgres.restart()
    for session in ("delivered", "waiting"):
        mail.enqueue(store, {"from": "lead", "to": session, "payload": "after"})
    receiver.join(60)
    assert received[0].message.payload == "after"
    assert eventually(lambda: told.count("acked") == 2)
    deliverer.stop()
    engine.join(60)
    assert (tallied[0].acked, tallied[0].lost) == (2, 0)


def test_a_server_in_recovery_can_be_read_and_says_why_it_cannot_be_written(own_postgres: Postgres) -> None:
    url = own_postgres.at("standby")
    postroom.init(url)
    thread_id = sent(postroom.open(url))
    own_postgres.restart(standby__signal="")
    store = postroom.open(url)
    assert work.show(store, thread_id).thread.status == "pending"
    with pytest.raises(StoreReadOnly, match="recovery"):
        sent(store)


def test_a_wrong_password_is_trouble_and_is_not_repeated(own_postgres: Postgres) -> None:
    with psycopg.connect(own_postgres.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE ada LOGIN PASSWORD 'right'")
    own_postgres.restart(pg_hba__conf="local all postgres trust\nlocal all all scram-sha-256\n")
    with pytest.raises(StoreReadOnly, match="refuses") as refused:
        postroom.open(own_postgres.at("any").replace("postgres:@", "ada:wr0ng@"))
    assert "wr0ng" not in f"{refused.value} {refused.value.hint}"


def test_a_database_without_room_is_said_to_be_busy_with_what_to_do(tmp_path: Path, own_postgres: Postgres) -> None:
    url = own_postgres.at("full")
    postroom.init(url)
    own_postgres.restart(postgresql__auto__conf="max_connections = 8\nsuperuser_reserved_connections = 0\nmax_wal_senders = 0\n")
    with ExitStack() as held:
        for _ in range(8):
            held.enter_context(psycopg.connect(own_postgres.url))
        refused = Inbox(tmp_path).run("list", "--db", url, "--json")
    assert refused.error[:2] == (50, "store_busy")
    assert "no room for another connection" in refused.error[2]
    assert "max_connections" in refused.json["error"]["hint"]
    assert "inbox serve" in refused.json["error"]["hint"]


def test_a_role_that_has_all_its_connections_is_said_to_be_busy(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS few")
        connection.execute("CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 0")
        try:
            with pytest.raises(StoreBusy, match="no room"):
                postroom.open(postgres.at("any").replace("postgres:@", "few:few@"))
        finally:
            connection.execute("DROP ROLE few")


def test_a_server_that_is_away_is_trouble_and_never_empty() -> None:
    with pytest.raises(StoreUnreachable):
        postroom.open("postgresql://nobody@127.0.0.1:1/none")


def test_a_database_or_schema_that_is_not_there_is_said_to_be_missing(postgres: Postgres) -> None:
    with pytest.raises(NoStore):
        postroom.open(postgres.at("nothing_here"))
    with pytest.raises(NoStore, match="no database"):
        postroom.open(postgres.url.replace("/postgres?", "/no_such_database?"))


def test_somebody_elses_schema_is_refused(postgres: Postgres) -> None:
    with postgres.schema() as url, psycopg.connect(postgres.url, autocommit=True) as connection:
        name = url.rpartition("schema=")[2]
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"CREATE TABLE {name}.theirs (a int)")
        with pytest.raises(StoreTrouble):
            postroom.init(url)


def test_without_the_right_to_create_a_schema_init_is_refused(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS meek")
        connection.execute("CREATE ROLE meek LOGIN PASSWORD 'meek'")
        try:
            with pytest.raises(StoreReadOnly):
                postroom.init(postgres.at("forbidden").replace("postgres:@", "meek:meek@"))
        finally:
            connection.execute("DROP ROLE meek")


def test_init_by_many_at_once_makes_one_store(postgres: Postgres) -> None:
    with postgres.schema() as url:
        made = [in_background(lambda: postroom.init(url)) for _ in range(6)]
        for thread, _ in made:
            thread.join(30)
        assert sorted(came[0] for _, came in made) == [False] * 5 + [True]


def test_a_password_is_never_shown(postgres: Postgres) -> None:
    with pytest.raises(Refusal) as refused:
        postroom.open("postgresql://ada:secret@127.0.0.1:1/none?password=secret")
    assert "secret" not in f"{refused.value} {refused.value.hint} {refused.value.facts}"


def test_the_mailbox_commands_are_the_same(place: str, tmp_path: Path) -> None:
    with Mailbox(tmp_path) as mailbox:
        waiter = mailbox.start("wait", "--session", "analyst", "--timeout-seconds", "60", "--json", INBOX_DB=place)
        lines = "\n".join(json.dumps({"from": "lead", "to": "analyst", "payload": text, "msgId": text}) for text in ("one", "two"))
        stored = mailbox.answers("enqueue", "--db", place, "--batch", "-", stdin=lines.encode())
        assert (stored["stored"], [ack["pending"] for ack in stored["messages"]]) == (2, [1, 2])
        delivery = waiter.finish().json
        assert delivery["message"]["msg_id"] == "one"
        acked = mailbox.answers("ack", "--db", place, "--session", "analyst", "--msg-id", "one", "--take-next")
        assert (acked["state"], acked["next"]["message"]["msg_id"]) == ("acked", "two")
        nacked = mailbox.answers("nack", "--db", place, "--session", "analyst", "--msg-id", "two", "--reason", "no")
        assert (nacked["state"], nacked["changed"]) == ("nacked", True)
        [counts] = mailbox.answers("sessions", "--db", place)["sessions"]
        assert (counts["acked"], counts["nacked"]) == (1, 1)
        copied = subprocess.run([SCRIPT, "copy", "--from", place, "--to", "copied.db"], cwd=tmp_path, capture_output=True, check=False)
        assert copied.returncode == 0, copied.stderr
        assert mailbox.answers("peek", "--db", "copied.db", "--session", "analyst")["messages"][0]["state"] == "nacked"
        assert mailbox.answers("enqueue", "--db", "copied.db", "--from", "lead", "--to", "new", "--payload", "x")["queued"]


def test_the_commands_are_the_same(place: str, bare: Inbox) -> None:
    database = ("--db", place)
    thread = bare.ok("send", *database, "--from", "leader", "--to", "builder", "--subject", "Over there")["thread"]["thread_id"]
    assert bare.ok("take", "--agent", "builder", INBOX_DB=place)["thread"]["thread_id"] == thread
    asked = bare.ok("update", *database, "--agent", "builder", "--thread", thread, "--status", "blocked", "--summary", "Which?")
    waiter = bare.start("wait-reply", *database, "--agent", "builder", "--thread", thread, "--timeout-seconds", "60", "--json")
    bare.ok("reply", *database, "--from", "leader", "--thread", thread, "--summary", "This")
    finished = waiter.finish()
    assert finished.json["message"]["summary"] == "This"
    assert finished.json["next_event_id"] > asked["next_event_id"]
    assert bare.ok("done", *database, "--agent", "builder", "--thread", thread)["thread"]["status"] == "done"
    assert bare.run("list", "--db", "postgresql://nobody@127.0.0.1:1/none", "--json").error[:2] == (50, "store_away")
    bare.ok("init", "--db", "local.db")
    copied = bare.run("copy", "--from", place, "--to", "copied.db", "--json")
    assert (copied.code, copied.json["copied"]["threads"]) == (0, 1)
    assert bare.ok("show", "--db", "copied.db", "--thread", thread)["thread"]["status"] == "done"


@pytest.fixture
def bare(tmp_path: Any) -> Inbox:
    return Inbox(tmp_path)

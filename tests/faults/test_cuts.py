"""Cut at every statement: whichever fails, nothing has changed, the store can be used, and the refusal is one of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from postroom import tasks, work
from postroom.core.errors import StoreTrouble
from postroom.core.records.work import Attachment
from postroom.store.sqlite.engine import SqliteStore
from tests.conftest import Clock
from tests.contract.thread_data import asking, ended, held, latest, sent
from tests.faults.inspection import assert_no_lock, assert_sound, dump


@pytest.fixture
def place(sqlite_place: str) -> str:
    """These are about files."""
    return sqlite_place


class How:
    """How a statement fails, and what the caller must then see. It fails `after` it was run, or before."""

    def __init__(self, error: type[BaseException], expected: type[BaseException], *, after: bool = False) -> None:
        self.error, self.expected, self.after = error, expected, after

    def runs(self, statement: str) -> bool:
        """A committed transaction has happened, whatever comes after. A BEGIN that SQLite refused has not begun."""
        return self.after and statement != "COMMIT" and not (statement.startswith("BEGIN") and self.error is sqlite3.OperationalError)


FAILURES = {
    "fails": How(sqlite3.OperationalError, StoreTrouble),
    "fails after it was run": How(sqlite3.OperationalError, StoreTrouble, after=True),
}
INTERRUPTIONS = {
    "before it is run": How(KeyboardInterrupt, KeyboardInterrupt),
    "after it was run": How(KeyboardInterrupt, KeyboardInterrupt, after=True),
}


class FailingConnection:
    """A real connection of which the nth statement fails."""

    def __init__(self, connection: Any, nth: int, how: How) -> None:
        self._connection = connection
        self._left = nth
        self._how = how
        self.cut: str | None = None

    def execute(self, statement: str, *binds: object) -> Any:
        if statement == "ROLLBACK":  # the way back is not cut: SQLite's does not fail, and a dead process needs none
            return self._connection.execute(statement, *binds)
        self._left -= 1
        if self._left != 0:
            return self._connection.execute(statement, *binds)
        self.cut = statement
        if self._how.runs(statement):
            self._connection.execute(statement, *binds)
        raise self._how.error("cut")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


Prepare = Callable[[SqliteStore, Clock], str]
Act = Callable[[SqliteStore, str], object]
FILES = [Attachment("a.log"), Attachment("b.log")]


def pending(store: SqliteStore, clock: Clock) -> str:
    return sent(store)


def holding(store: SqliteStore, clock: Clock) -> str:
    return held(store).thread.thread_id


def lapsed(store: SqliteStore, clock: Clock) -> str:
    thread_id = held(store, agent="dead", lease_seconds=1).thread.thread_id
    clock.advance(2)
    return thread_id


def question(store: SqliteStore, clock: Clock) -> str:
    return asking(store).thread.thread_id


def failed(store: SqliteStore, clock: Clock) -> str:
    return ended(store, "failed")


def in_a_run(store: SqliteStore, clock: Clock) -> str:
    return work.send(store, sender="leader", to="builder", subject="S", run_id="r1").thread.thread_id


def two(store: SqliteStore, clock: Clock) -> str:
    sent(store)
    return held(store).thread.thread_id


WRITES: dict[str, tuple[Prepare, Act]] = {
    "send": (pending, lambda s, t: work.send(s, sender="leader", to="builder", subject="S", body="B", artifacts=FILES)),
    "send more": (pending, lambda s, t: work.send(s, sender="leader", summary="S", thread_id=t, priority="high", artifacts=FILES)),
    "send_all": (pending, lambda s, t: work.send_all(s, [{"to": "a", "subject": "S"}, {"to": "b", "subject": "S"}], sender="leader")),
    "send by the holder": (holding, lambda s, t: work.send(s, sender="builder", summary="S", thread_id=t)),
    "reply": (question, lambda s, t: work.reply(s, t, sender="leader", summary="S", artifacts=FILES)),
    "reply by the holder": (question, lambda s, t: work.reply(s, t, sender="builder", summary="S")),
    "claim": (pending, lambda s, t: work.claim(s, t, agent="builder")),
    "claim lapsed": (lapsed, lambda s, t: work.claim(s, t, agent="builder")),
    "claim takeover": (holding, lambda s, t: work.claim(s, t, agent="builder", takeover=True)),
    "take": (pending, lambda s, t: work.take(s, agent="builder")),
    "take lapsed": (lapsed, lambda s, t: work.take(s, agent="builder")),
    "wait_take": (pending, lambda s, t: work.wait_take(s, agent="builder", timeout_seconds=10)),
    "renew": (holding, lambda s, t: work.renew(s, t, agent="builder", lease_seconds=5)),
    "update": (holding, lambda s, t: work.update(s, t, agent="builder", summary="S", artifacts=FILES)),
    "block": (holding, lambda s, t: work.update(s, t, agent="builder", status="blocked", summary="S")),
    "release": (holding, lambda s, t: work.release(s, t, agent="builder", to="other")),
    "done": (holding, lambda s, t: work.done(s, t, agent="builder", summary="S", artifacts=FILES)),
    "done_and_take": (two, lambda s, t: tasks.done_and_take(s, t, agent="builder", summary="S")),
    "fail": (holding, lambda s, t: work.fail(s, t, agent="builder", summary="S", artifacts=FILES)),
    "cancel": (holding, lambda s, t: work.cancel(s, t, agent="leader", reason="S", artifacts=FILES)),
    "reassign": (lapsed, lambda s, t: work.reassign(s, t, agent="leader", to="other")),
    "retry_thread": (failed, lambda s, t: work.retry_thread(s, t, agent="leader", reason="S")),
    "revoke_lease": (question, lambda s, t: work.revoke_lease(s, t, person="user", reason="S")),
    "mark_read": (pending, lambda s, t: work.mark_read(s, t, agent="builder", event_id=1)),
    "add_agent": (pending, lambda s, t: work.add_agent(s, "ada", kind="human")),
}

READS: dict[str, tuple[Prepare, Act]] = {
    "show": (question, work.show),
    "list_threads": (question, lambda s, t: work.list_threads(s)),
    "list_threads of an agent": (question, lambda s, t: work.list_threads(s, agent="builder")),
    "list_threads of a run": (question, lambda s, t: work.list_threads(s, run_id="")),
    "list_runs": (question, lambda s, t: work.list_runs(s)),
    "show_run": (question, lambda s, t: work.show_run(s, "")),
    "list_threads of a task": (question, lambda s, t: work.list_threads(s, task_id="t1")),
    "summarize_run": (in_a_run, lambda s, t: work.summarize_run(s, "r1")),
    "wait_run that sleeps": (in_a_run, lambda s, t: work.wait_run(s, "r1", timeout_seconds=0.001)),
    "activity_histogram": (question, lambda s, t: work.activity_histogram(s)),
    "fetch": (lapsed, lambda s, t: work.fetch(s, agent="builder")),
    "fetch unread": (question, lambda s, t: work.fetch(s, agent="leader", unread=True)),
    "list_agents": (question, lambda s, t: work.list_agents(s)),
    "list_presences": (question, lambda s, t: work.list_presences(s)),
    "show_agent": (question, lambda s, t: work.show_agent(s, "builder")),
    "watch": (question, lambda s, t: work.watch(s, after_event=0, timeout_seconds=10)),
    "wait_reply": (question, lambda s, t: work.wait_reply(s, t, after_event=0, kinds=["question"], timeout_seconds=10)),
    "watch that sleeps": (question, lambda s, t: work.watch(s, timeout_seconds=0.001)),
    "wait_reply that sleeps": (question, lambda s, t: work.wait_reply(s, t, timeout_seconds=0.001)),
}


def cut_everywhere(store: SqliteStore, clock: Clock, prepare: Prepare, act: Act, how: How) -> list[str]:
    """The statements that were cut, each in turn, until the verb came through."""
    thread_id = prepare(store, clock)
    before = dump(store.location)
    real = store.connection
    statements: list[str] = []
    for nth in range(1, 100):
        cutting = FailingConnection(real, nth, how)
        store.connection = cutting  # type: ignore[assignment]
        raised = failure(lambda: act(store, thread_id))
        store.connection = real
        if cutting.cut is None:
            assert raised is None
            return statements
        assert isinstance(raised, how.expected), f"{raised!r} came of a failing {cutting.cut}"
        assert not real.in_transaction, f"a transaction is left open by a failing {cutting.cut}"
        assert dump(store.location) == before, cutting.cut
        assert_no_lock(store.location)
        statements.append(cutting.cut)
    raise AssertionError("the verb never came through")


def failure(act: Callable[[], object]) -> BaseException | None:
    try:
        act()
    except BaseException as raised:
        return raised
    return None


@pytest.fixture
def cuttable(place: str, clock: Clock) -> SqliteStore:
    return SqliteStore(place, now=clock)


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize(("prepare", "act"), WRITES.values(), ids=WRITES.keys())
def test_a_write_of_which_any_statement_fails_has_not_happened(
    cuttable: SqliteStore, clock: Clock, prepare: Prepare, act: Act, how: How
) -> None:
    with cuttable as store:
        statements = cut_everywhere(store, clock, prepare, act, how)
        assert {"BEGIN IMMEDIATE", "COMMIT"} <= set(statements)
        assert len(statements) >= 4
        assert_sound(store.location)
        assert sent(store)


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize(("prepare", "act"), READS.values(), ids=READS.keys())
def test_a_read_of_which_any_statement_fails_says_so_instead_of_empty(
    cuttable: SqliteStore, clock: Clock, prepare: Prepare, act: Act, how: How
) -> None:
    with cuttable as store:
        assert len(cut_everywhere(store, clock, prepare, act, how)) >= 3
        assert sent(store)


@pytest.mark.parametrize("how", INTERRUPTIONS.values(), ids=INTERRUPTIONS.keys())
@pytest.mark.parametrize("verb", ["send", "take", "done_and_take", "show", "fetch"])
def test_a_verb_that_a_signal_interrupts_anywhere_leaves_nothing_behind(cuttable: SqliteStore, clock: Clock, verb: str, how: How) -> None:
    prepare, act = {**WRITES, **READS}[verb]
    with cuttable as store:
        cut_everywhere(store, clock, prepare, act, how)
        assert sent(store)


def test_a_commit_that_fails_is_refused_and_can_be_tried_again(cuttable: SqliteStore) -> None:
    class NoCommit(FailingConnection):
        def execute(self, statement: str, *binds: object) -> Any:
            if statement == "COMMIT":
                raise sqlite3.OperationalError("disk I/O error")
            return self._connection.execute(statement, *binds)

    with cuttable as store:
        real, before = store.connection, latest(store)
        store.connection = NoCommit(real, 0, FAILURES["fails"])  # type: ignore[assignment]
        with pytest.raises(StoreTrouble):
            sent(store)
        store.connection = real
        assert latest(store) == before
        assert_no_lock(store.location)
        assert sent(store)


def test_a_failure_of_the_callers_own_inside_a_transaction_undoes_it(cuttable: SqliteStore) -> None:
    def write_and_fail() -> None:
        with cuttable.write() as tx:
            tx.execute(tx.sql.agent_put, name="ada", kind="human", now="2026")
            raise ZeroDivisionError

    with cuttable as store:
        before = dump(store.location)
        with pytest.raises(ZeroDivisionError):
            write_and_fail()
        assert dump(store.location) == before
        assert_no_lock(store.location)

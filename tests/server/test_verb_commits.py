"""Verbs that write share a commit: each is still all or nothing, whoever else is in the batch."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from prometheus_client import REGISTRY

import postroom
from postroom import mail, work
from postroom.core import clock
from postroom.core.errors import Invalid, InvalidInput, Refusal
from postroom.core.verbs import READ, WRITE
from postroom.server.http.auth import Caller
from postroom.server.http.state import AppState
from postroom.server.rpc import dispatch
from postroom.server.runtime import store_access, writer
from postroom.server.runtime.store_access import StoreAccess
from postroom.store.interface import Store, Transaction
from postroom.store.sqlite.engine import SqliteStore
from postroom.tasks import Conductor
from tests.server.test_verbs import minimal

NUMBERS = count(1)


def _counted_verbs() -> Counter[tuple[str, str]]:
    """How often each verb was counted with each result since the process began."""
    samples = [sample for family in REGISTRY.collect() for sample in family.samples if sample.name == "postroom_verbs_total"]
    return Counter({(sample.labels["verb"], sample.labels["result"]): int(sample.value) for sample in samples})


def _timed_verbs() -> int:
    return sum(
        int(sample.value) for family in REGISTRY.collect() for sample in family.samples if sample.name == "postroom_verb_seconds_count"
    )


def _call(verb: str, **named: Any) -> dispatch.ClientCall:
    key = f"key {next(NUMBERS)}"
    return dispatch.ClientCall(Caller("user", "http"), verb, {"named": named}, key, b"", bool, bool, "")


def _together(place: str, calls: list[dispatch.ClientCall]) -> tuple[list[Any], int]:
    """Return the results of calls that arrived while the writer was busy, and in how many batches they ran."""

    async def run() -> tuple[list[Any], int]:
        server = AppState(StoreAccess(place), person="user", dev=False, rate=1e6, secure=False, behind_proxy=False)
        batches = _counted(server.store_access)
        go, ready = _Gate(), asyncio.ensure_future(server.store_access.write(lambda store: go.wait()))
        await asyncio.to_thread(go.entered.wait)
        asked = [asyncio.ensure_future(dispatch.execute_call(server, call)) for call in calls]
        await asyncio.sleep(0)  # every call is in the queue now
        go.open.set()
        await ready
        found = await asyncio.gather(*asked, return_exceptions=True)
        server.wait_pool.close()
        await server.store_access.close()
        return list(found), len(batches) - 1

    return asyncio.run(run())


class _Gate:
    """Holds the writer until everything else has come."""

    def __init__(self) -> None:
        from threading import Event

        self.entered, self.open = Event(), Event()

    def wait(self) -> None:
        self.entered.set()
        assert self.open.wait(30)


def _counted(workspace: StoreAccess) -> list[int]:
    """The sizes of the batches that are committed from now on."""
    committer, sizes = workspace._writer, []
    commit = committer._commit_batch

    def counting(writes: list[Any], topics: set[str]) -> list[Any]:
        sizes.append(len(writes))
        return commit(writes, topics)

    committer._commit_batch = counting  # type: ignore[method-assign]
    return sizes


@pytest.fixture
def place(tmp_path: Any) -> str:
    found = str(tmp_path / "coord.db")
    postroom.init(found)
    with postroom.open(found) as store:
        work.add_agent(store, "user", kind="human")
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def either_place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A store on each engine. One thread writes, so that what comes while it is busy is one batch."""
    if request.param == "sqlite":
        yield request.getfixturevalue("place")
        return
    monkeypatch.setattr(store_access, "SERVER_WRITE_THREADS", 1)
    monkeypatch.setattr(writer, "MAX_BATCH_SECONDS", 30.0)  # a busy machine would cut the batch
    with request.getfixturevalue("postgres").store() as url:
        yield url


def test_a_refused_verb_in_a_batch_does_not_disturb_the_others(either_place: str) -> None:
    """One refuses before it writes, one has an argument of a wrong type, one refuses in the middle of what it writes."""
    calls = [
        _call("work.send", sender="leader", to="builder", subject="One"),
        _call("work.claim", thread_id="thr_nowhere", agent="builder"),
        _call("mail.enqueue", message={"from": "leader", "to": "box", "payload": "Two"}),
        _call("mail.enqueue_all", messages=[{"from": "leader", "to": "box", "payload": "Not this"}, {"from": "leader", "to": "\n"}]),
        _call("work.send", sender="leader", to="builder", subject="Three", artifacts=[7]),
        _call("mail.set_alias", name="short", session="box"),
    ]
    found, batches = _together(either_place, calls)
    assert [isinstance(one, bytes) for one in found] == [True, False, True, False, False, True], found
    assert all(isinstance(one, Refusal) for one in found if not isinstance(one, bytes)), found
    assert batches == 1
    with postroom.open(either_place) as store:
        assert [thread.subject for thread in work.list_threads(store).threads] == ["One"]
        assert mail.peek(store, "box").total == 1
        assert mail.find_alias(store, "short").session == "box"


def test_a_verb_that_refuses_after_it_has_written_is_undone_alone(either_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_and_refuse(store: Store, name: str, *, kind: str = "agent") -> None:
        with store.write() as tx:
            tx.execute(tx.sql.agent_put, name=name, kind=kind, now="now")
            raise InvalidInput("It is refused now", field="name")

    verb = dispatch.routing_table()["work.add_agent"]
    monkeypatch.setattr(verb, "function", write_and_refuse)
    calls = [
        _call("mail.enqueue", message={"from": "leader", "to": "box", "payload": "First"}),
        _call("work.add_agent", name="nobody"),
        _call("mail.enqueue", message={"from": "leader", "to": "box", "payload": "Last"}),
    ]
    counted, timed = _counted_verbs(), _timed_verbs()
    found, batches = _together(either_place, calls)
    assert [isinstance(one, bytes) for one in found] == [True, False, True], found
    assert batches == 1
    assert _counted_verbs() - counted == {("mail.enqueue", "ok"): 2, ("work.add_agent", "invalid_input"): 1}  # once, though they ran twice
    assert _timed_verbs() - timed == 3
    with postroom.open(either_place) as store:
        assert mail.peek(store, "box").total == 2
        assert "nobody" not in {agent.name for agent in work.list_agents(store)}


def test_verbs_of_a_commit_that_failed_are_counted_as_failed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = dispatch.routing_table()["work.add_agent"]
    monkeypatch.setattr(verb, "function", lambda store, name, kind="agent": os.rename(place, place + ".away"))
    calls = [_call("mail.enqueue", message={"from": "leader", "to": "box", "payload": "First"}), _call("work.add_agent", name="nobody")]
    counted = _counted_verbs()
    found, _ = _together(place, calls)
    assert [one.code for one in found] == ["store_away"] * 2, found
    assert _counted_verbs() - counted == {("mail.enqueue", "store_away"): 1, ("work.add_agent", "store_away"): 1}


def test_a_key_that_comes_twice_into_one_batch_is_done_once(either_place: str) -> None:
    call = _call("mail.enqueue", message={"from": "leader", "to": "box", "payload": "Once"})
    found, _ = _together(either_place, [call, call, call])
    assert len(set(found)) == 1
    with postroom.open(either_place) as store:
        assert mail.peek(store, "box").total == 1


# Promises of each mode


class _Watched:
    """A store that tells of each transaction that may write."""

    def __init__(self, store: Store, opened: Callable[[], None]) -> None:
        self._store = store
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self) -> Transaction:
        self._opened()
        return self._store.write()


@contextmanager
def _writes(place: str, *, later: int = 0) -> Iterator[tuple[Any, list[int]]]:
    """A store, so many seconds later, and the transactions in it that may write."""
    opened: list[int] = []
    with SqliteStore(place, door="library", now=lambda: clock.now() + later * clock.MICROSECONDS_PER_SECOND) as store:
        yield _Watched(store, lambda: opened.append(1)), opened


@pytest.mark.parametrize("name", sorted(verb.name for verb in dispatch.routing_table().values() if verb.mode == READ))
def test_a_verb_that_is_declared_to_read_writes_nothing(place: str, name: str) -> None:
    """Also where something fell due, which other verbs settle first: a question, a delivery and a task."""
    with postroom.open(place) as store:
        thread = work.send(store, sender="builder", to="user", subject="Which?", kind="question").thread.thread_id
        mail.enqueue(store, {"from": "x", "to": "x", "payload": "p"})
        mail.dequeue(store, "x")
        conductor = Conductor(store)
        for agent in ("x", "y"):
            conductor.register(agent)
        conductor.submit("y", "x", "Do it", deadline_seconds=1)
    given = {"after_event": 1, "hours": 1, "thread_id": thread}
    named = minimal(name)
    with _writes(place, later=86_400) as (store, opened):
        try:
            dispatch.routing_table()[name].function(store, **{key: given.get(key, value) for key, value in named.items()})
        except (Refusal, TypeError):
            pass
        assert opened == []


ONE_TRANSACTION: dict[str, dict[str, Any]] = {
    "work.send": {"sender": "a", "to": "b", "subject": "S"},
    "work.take": {"agent": "b"},
    "mail.enqueue": {"message": {"from": "a", "to": "x", "payload": "p"}},
    "mail.dequeue": {"session": "x"},
    "people.notify": {"sender": "a", "text": "T"},
    "tasks.register": {"name": "ada"},
}


@pytest.mark.parametrize("name", ONE_TRANSACTION)
def test_a_verb_that_is_declared_to_write_is_one_transaction_where_nothing_is_due(place: str, name: str) -> None:
    verb = dispatch.routing_table()[name]
    assert verb.mode == WRITE
    with _writes(place) as (store, opened):
        try:
            verb.function(store, **ONE_TRANSACTION[name])
        except Invalid as refused:
            pytest.fail(str(refused))
        assert len(opened) == 1

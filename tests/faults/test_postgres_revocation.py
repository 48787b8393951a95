"""A token that is revoked while a write of its owner waits for a lock of another one: the write is refused, and nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from postroom import people, work
from postroom.core.errors import Contended, Refusal, Unauthenticated
from postroom.people.access import passes
from postroom.server.http.auth import Caller, identify_caller
from postroom.server.rpc.calls import VerbCall, make_call, verify_in_write
from postroom.store.interface import Store
from postroom.store.postgres import engine
from postroom.store.postgres.engine import PostgresStore, PostgresTransaction
from tests.cli.process import LIMIT, eventually
from tests.postgres_server import count_waiters

ADA, MARIA, BUILDER = "ada", "maria", "builder"


@pytest.fixture
def place(postgres_place: str) -> str:
    """These are about a server."""
    return postgres_place


@pytest.fixture
def store(place: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """A store that notes once that an agent was seen. A write that notes it locks the name, and a revocation waits for it."""
    monkeypatch.setattr(engine, "SEEN_INTERVAL_MICROSECONDS", 3_600_000_000)
    with PostgresStore(place) as store:
        for name in (MARIA, "user"):
            work.add_agent(store, name, kind="human")
        yield store


def identified(store: Store, token: str) -> Caller:
    with store.read() as tx:
        return identify_caller(tx, token, "http")


def agent(store: Store) -> tuple[Caller, Callable[[], object]]:
    """Return a caller, and what revokes its token."""
    caller = identified(store, passes.issue_agent_token(store, name=ADA))
    return caller, lambda: passes.revoke_agent_token(store, name=ADA)


def replaced_agent(store: Store) -> tuple[Caller, Callable[[], object]]:
    caller, _ = agent(store)
    return caller, lambda: passes.issue_agent_token(store, name=ADA)


def person(store: Store) -> tuple[Caller, Callable[[], object]]:
    caller = identified(store, passes.issue_bearer(store, person=MARIA))
    return caller, lambda: passes.revoke_passes(store, person=MARIA)


def demoted(store: Store) -> tuple[Caller, Callable[[], object]]:
    caller, _ = person(store)
    return caller, lambda: work.add_agent(store, MARIA, kind="agent")


def workspace(store: Store) -> tuple[Caller, Callable[[], object]]:
    added = people.add_workspace(store, str(Path(__file__).parent), label=BUILDER, agent=BUILDER)
    caller = identified(store, added.token)
    return caller, lambda: people.remove_workspace(store, added.workspace.workspace_id)


CALLERS = {one.__name__: one for one in (agent, replaced_agent, person, demoted, workspace)}


def thread_of(store: Store, caller: Caller) -> str:
    return work.send(store, sender=caller.name, to="worker", subject="Before").thread.thread_id


def count_messages(store: Store, thread_id: str) -> int:
    return len(work.show(store, thread_id).messages)


def say(caller: Caller, thread_id: str) -> VerbCall:
    return make_call(caller, work.send, sender=caller.name, thread_id=thread_id, summary="Too late")


@contextmanager
def locked(place: str, thread_id: str) -> Iterator[Callable[[], bool]]:
    """Hold the lock of a thread. Gives a function that returns whether another transaction waits for it."""
    with PostgresStore(place) as store, store.write() as tx:
        assert isinstance(tx, PostgresTransaction)
        assert tx.lock_thread(thread_id, wait=False)
        yield lambda: count_waiters(place, tx._connection.info.backend_pid) > 0


def refusal_of(outcome: Future[Any]) -> str | None:
    error = outcome.exception(LIMIT)
    assert error is None or isinstance(error, Refusal)
    return None if error is None else error.code


@pytest.mark.parametrize("kind", CALLERS)
def test_a_write_that_waits_for_a_lock_while_its_token_is_revoked_stores_nothing(place: str, store: PostgresStore, kind: str) -> None:
    caller, revoke = CALLERS[kind](store)
    thread_id = thread_of(store, caller)
    before = count_messages(store, thread_id)
    with ThreadPoolExecutor() as threads:
        with locked(place, thread_id) as is_awaited:
            waiting = threads.submit(say(caller, thread_id), store)
            eventually(is_awaited)
            revoke()
        assert refusal_of(waiting) == "unauthenticated"
    assert count_messages(store, thread_id) == before


def test_a_write_without_a_verb_that_waits_while_its_token_is_revoked_stores_nothing(place: str, store: PostgresStore) -> None:
    caller, revoke = workspace(store)
    thread_id = thread_of(store, caller)
    before = count_messages(store, thread_id)
    write = verify_in_write(caller, lambda here: work.send(here, sender=caller.name, thread_id=thread_id, summary="Too late"))
    with ThreadPoolExecutor() as threads:
        with locked(place, thread_id) as is_awaited:
            waiting = threads.submit(write, store)
            eventually(is_awaited)
            revoke()
        assert refusal_of(waiting) == "unauthenticated"
    assert count_messages(store, thread_id) == before


def test_a_batch_in_which_one_token_is_revoked_runs_again_and_refuses_that_call_only(store: PostgresStore) -> None:
    caller, revoke = agent(store)
    other, _ = person(store)
    ours = {thread_of(store, author) for author in (caller, other)}

    def write_and_revoke() -> None:
        with store.batch() as batch:
            for author in (caller, other):
                make_call(author, work.send, sender=author.name, to="worker", subject=author.name)(batch)
            revoke()

    with pytest.raises(Contended):
        write_and_revoke()
    assert {thread.thread_id for thread in work.list_threads(store).threads} == ours
    with store.batch(isolate_verbs=True) as singly:
        with pytest.raises(Unauthenticated):
            make_call(caller, work.send, sender=ADA, to="worker", subject=ADA)(singly)
        make_call(other, work.send, sender=MARIA, to="worker", subject=MARIA)(singly)
    assert [thread.subject for thread in work.list_threads(store).threads if thread.thread_id not in ours] == [MARIA]


@pytest.mark.parametrize("isolate_verbs", [False, True], ids=["in a batch", "by itself"])
@pytest.mark.parametrize(
    "leave",
    [
        lambda caller: make_call(caller, people.revoke_passes, everyone=True),
        lambda caller: make_call(caller, people.revoke_passes, person=MARIA),
        lambda caller: make_call(caller, work.add_agent, name=MARIA, kind="agent"),
    ],
    ids=["revokes all", "revokes its own", "becomes an agent"],
)
def test_a_person_can_end_its_own_token(store: PostgresStore, leave: Callable[[Caller], VerbCall], isolate_verbs: bool) -> None:
    caller, _ = person(store)
    with store.batch(isolate_verbs=isolate_verbs) as batch:
        leave(caller)(batch)
    with pytest.raises(Unauthenticated):
        say(caller, thread_of(store, caller))(store)

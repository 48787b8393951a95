"""Data for contract tests: a thread that was sent, one that is held, one that asks."""

from __future__ import annotations

import pytest

from postroom import work
from postroom.core.errors import Interrupted
from postroom.core.records import Event
from postroom.core.records.work import Claim, Lease, Message, PostedMessage, Thread
from postroom.maintenance.pruning import prune
from postroom.store.interface import Store
from postroom.store.postgres.engine import PostgresStore
from tests.contract.blocking_store import eventually


def sent(
    store: Store, subject: str = "Add the login page", *, sender: str = "leader", to: str = "builder", priority: str | None = None
) -> str:
    """The id of a new pending thread."""
    return work.send(store, sender=sender, to=to, subject=subject, priority=priority).thread.thread_id


def held(store: Store, *, agent: str = "builder", lease_seconds: float = 900) -> Claim:
    """A new thread, claimed by its addressee."""
    return work.claim(store, sent(store, to=agent), agent=agent, lease_seconds=lease_seconds)


def asking(store: Store, *, agent: str = "builder", question: str = "Which colour?", lease_seconds: float = 900) -> PostedMessage:
    """A new thread whose holder waits for an answer."""
    claimed = held(store, agent=agent, lease_seconds=lease_seconds)
    return work.update(store, claimed.thread.thread_id, agent=agent, status="blocked", summary=question)


def ended(store: Store, how: str = "done") -> str:
    """The id of a thread that is over: done, failed or cancelled."""
    thread_id = held(store).thread.thread_id
    if how == "done":
        work.done(store, thread_id, agent="builder", summary="Done")
    elif how == "failed":
        work.fail(store, thread_id, agent="builder", summary="Failed")
    else:
        work.cancel(store, thread_id, agent="leader", reason="Not wanted")
    return thread_id


def shortened(store: Store, *, to: str = "builder") -> str:
    """The id of a cancelled thread whose pruning was interrupted when its first messages were gone."""
    thread_id = work.send(store, sender="leader", to=to, subject="Build", key="build").thread.thread_id
    with store.batch() as batch:
        for number in range(150):
            work.send(batch, sender="leader", thread_id=thread_id, summary=f"More {number}")
    work.cancel(store, thread_id, agent="leader", reason="Not wanted")

    def has_begun() -> bool:
        with store.read() as tx:
            return len(tx.fetch_all("SELECT 1 FROM messages WHERE thread_id = :id", id=thread_id)) < 152

    with pytest.raises(Interrupted):
        prune(store, older_than_seconds=-1, is_stopping=has_begun)
    return thread_id


def thread_of(store: Store, thread_id: str) -> Thread:
    return work.show(store, thread_id).thread


def status_of(store: Store, thread_id: str) -> str:
    return thread_of(store, thread_id).status


def lease_of(store: Store, thread_id: str) -> Lease:
    lease = work.show(store, thread_id).lease
    assert lease is not None
    return lease


def as_shown(store: Store, lease: Lease) -> Lease:
    """A lease as a store shows it. Over HTTP and a WebSocket, its token is shown to its holder, and these tests are a person."""
    return lease.replace(lease_token="") if store.is_remote and not store.location.startswith("unix:") else lease


def last_message(store: Store, thread_id: str) -> Message:
    return work.show(store, thread_id).messages[-1]


def events(store: Store, after: int = 0) -> list[Event]:
    """The events behind a cursor. On PostgreSQL a gap that a rollback left is settled first, which a waiter would do within a second."""
    if isinstance(store, PostgresStore):
        connection = store.pool.borrow()
        assert eventually(lambda: store.settler.settle(connection.driver)[0])
        store.pool.give_back(connection)
    with store.read() as tx:
        return tx.fetch_all(tx.sql.events_after, after=after, limit=10_000)


def latest(store: Store) -> int:
    """The cursor of the latest event."""
    found = events(store)
    return found[-1].event_id if found else 0


def everything(store: Store) -> object:
    """All that the port shows of a store, to compare before and after a refusal."""
    threads = work.list_threads(store, limit=10_000).threads
    return [work.show(store, thread.thread_id) for thread in threads], events(store), work.list_agents(store)

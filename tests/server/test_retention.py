"""A server prunes by the policy of its store, on its own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import postroom
from postroom import work
from postroom.core.errors import CursorExpired, NotFound
from postroom.maintenance import policy
from postroom.maintenance.pruning import prune
from postroom.server.http import sse
from postroom.store.sqlite.engine import SqliteStore
from tests.cli.process import eventually
from tests.conftest import Clock, fresh_file, open_with
from tests.server.event_stream import EventStream
from tests.server.running_server import RunningServer

DAY_SECONDS = 86_400


def fill_with_old_thread(place: str, clock: Clock) -> str:
    clock.advance(-100 * DAY_SECONDS)
    with open_with(place, clock) as store:
        thread = work.send(store, sender="leader", to="builder", subject="Build").thread.thread_id
        work.cancel(store, thread, agent="leader", reason="Not wanted")
    with postroom.open(place) as store:
        work.send(store, sender="leader", to="builder", subject="Still wanted")
        policy.set_policy(store, older_than_seconds=90 * DAY_SECONDS)
    return thread


def test_a_server_prunes_by_the_policy(found: Callable[..., RunningServer], clock: Clock) -> None:
    server = found()
    place = server.place
    thread = fill_with_old_thread(place, clock)
    server.open()
    with postroom.open(place) as store:
        eventually(lambda: not policy.is_due(store))
        assert [listed.subject for listed in work.list_threads(store).threads] == ["Still wanted"]
        with pytest.raises(NotFound):
            work.show(store, thread)
    answer = server.person.get("/api/events", params={"after": 1})
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "cursor_expired")
    assert answer.json()["error"]["next_event_id"] == 2
    with postroom.open(place) as store, pytest.raises(CursorExpired):  # a stream that pruning overtakes ends, and its client asks again
        sse._events_after(store, after=1)


def test_a_stream_that_pruning_overtakes_ends_and_is_refused_when_it_resumes(found: Callable[..., RunningServer]) -> None:
    server = found().open()
    with postroom.open(server.place) as store, server.person.stream("GET", "/api/events") as response:
        stream = EventStream(response)
        server.process.send_signal(signal.SIGSTOP)
        try:
            cursor = work.send(store, sender="leader", to="builder", subject="First").next_event_id
            thread = work.send(store, sender="leader", to="builder", subject="Not wanted").thread.thread_id
            work.cancel(store, thread, agent="leader", reason="Not wanted")
            work.send(store, sender="leader", to="builder", subject="Last")
            prune(store, older_than_seconds=0)
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert cursor is not None
        assert [event.id for event in stream.events() if int(event.id) > cursor] == []
    answer = server.person.get("/api/events", params={"after": cursor})
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "cursor_expired")


def test_a_policy_is_due_until_it_was_applied(tmp_path: Path) -> None:
    with SqliteStore(fresh_file(tmp_path)) as store:
        assert not policy.is_due(store)
        policy.set_policy(store, older_than_seconds=DAY_SECONDS)
        assert policy.is_due(store)
        policy.prune_by_policy(store)
        assert not policy.is_due(store)
        policy.clear_policy(store)
        with pytest.raises(NotFound, match="policy"):
            policy.prune_by_policy(store)

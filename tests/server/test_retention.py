"""A server prunes by the policy of its store, on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import postroom
from postroom import work
from postroom.core.errors import NotFound
from postroom.maintenance import policy
from postroom.store.sqlite.engine import SqliteStore
from tests.cli.process import eventually
from tests.conftest import Clock, fresh_file, open_with
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

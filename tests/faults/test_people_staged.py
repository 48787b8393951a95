"""Races in the people room on PostgreSQL, staged: one deletes an entry and stands before its COMMIT, and another comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from postroom import people
from tests.conftest import Clock
from tests.contract.people_data import USER, ids, new_workspace, pushed
from tests.faults.inspection import assert_no_lock
from tests.faults.test_mail_staged import Stage
from tests.postgres_server import Postgres


@pytest.fixture
def stage(postgres: Postgres, clock: Clock) -> Iterator[Stage]:
    with postgres.store() as url, ExitStack() as stack:
        yield Stage(url, postgres, clock, stack)
        assert_no_lock(url)


def test_all_entries_are_read_although_one_is_deleted_at_the_same_time(stage: Stage, tmp_path: Path) -> None:
    desk = new_workspace(stage.first, tmp_path)
    kept, deleted = pushed(stage.first, desk), pushed(stage.first, desk)
    _, read = stage.raced(
        lambda store: people.delete_entry(store, deleted, person=USER), lambda store: people.mark_all_read(store, person=USER)
    )
    assert read == 1
    (entry,) = people.history(stage.first).entries
    assert (entry.id, entry.read_by) == (kept, USER)


def test_a_list_is_read_although_an_entry_whose_time_has_come_is_deleted(stage: Stage, clock: Clock, tmp_path: Path) -> None:
    desk = new_workspace(stage.first, tmp_path)
    kept, deleted = pushed(stage.first, desk), pushed(stage.first, desk)
    for entry_id in (kept, deleted):
        people.set_state(stage.first, entry_id, person=USER, state="snoozed", until=int(clock() / 1000) + 60_000)
    with stage.before_commit(lambda store: people.delete_entry(store, deleted, person=USER)):
        clock.advance(61)
        listed = stage.meanwhile(people.history)
    assert [entry.id for entry in listed().entries] == [kept]
    assert ids(stage.first) == [kept]

"""The JSONL mirror when many write: appends that race deletes, ten processes, others who append, and SIGKILL in between."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import postroom
from postroom import people
from postroom.store.interface import Store
from tests.contract.blocking_store import eventually
from tests.contract.people_data import USER, id_of, ids, inbox, new_workspace, pushed
from tests.faults.children import BarrierProcess
from tests.faults.inspection import assert_no_lock
from tests.faults.mail_children import KILLED
from tests.faults.people_children import PeopleProcesses, assert_exact, lines, mirror_of, racers, sync
from tests.faults.test_races import race


@pytest.fixture
def live(sqlite_place: str) -> Iterator[Store]:
    with closing(postroom.open(sqlite_place)) as opened:
        yield opened


PUSH = "people.push(store, {desk!r}, comments='raced').to_json()['id']"
DELETE = "people.delete_entry(store, {entry!r}, person='user') or 'deleted'"


def test_an_append_that_races_a_delete_is_never_lost(live: Store, sqlite_place: str, tmp_path: Path) -> None:
    desk = new_workspace(live, tmp_path)
    kept: list[str] = []
    with racers(sqlite_place, ["pusher", "deleter"]) as children:
        for _ in range(60):
            gone = pushed(live, desk)
            accepted, deleted = race(children, PUSH.format(desk=desk), DELETE.format(entry=gone))
            assert deleted == "deleted"
            kept.append(accepted)
            assert sorted(ids(live)) == sorted(kept)
            sync(live)
            assert sorted(json.loads(one)["id"] for one in lines(live)) == sorted(kept)
    assert_exact(live)


@pytest.mark.parametrize("same", [False, True], ids=["two entries", "one entry"])
def test_of_two_deletes_that_race_nothing_returns(live: Store, sqlite_place: str, tmp_path: Path, same: bool) -> None:
    desk = new_workspace(live, tmp_path)
    kept = pushed(live, desk)
    with racers(sqlite_place, ["first", "second"]) as children:
        for _ in range(40):
            first, second = pushed(live, desk), pushed(live, desk)
            answers = race(children, DELETE.format(entry=first), DELETE.format(entry=first if same else second))
            assert sorted(answers) == (["NotFound", "deleted"] if same else ["deleted", "deleted"])
            if same:
                people.delete_entry(live, second, person=USER)
            assert ids(live) == [kept]
            sync(live)
            assert [json.loads(one)["id"] for one in lines(live)] == [kept]


def test_ten_processes_that_push_and_delete_leave_exactly_what_they_say(live: Store, sqlite_place: str, tmp_path: Path) -> None:
    desk = new_workspace(live, tmp_path)
    with PeopleProcesses(sqlite_place, tmp_path) as nursery:
        children = [nursery.start("worker", f"worker-{number}", desk, 12) for number in range(10)]
        assert [nursery.bury(child) for child in children] == [0] * 10, nursery.said("failed")
        accepted, deleted = ({said[1] for said in nursery.said(word)} for word in ("accepted", "deleted"))
    assert (len(accepted), len(deleted)) == (240, 120)
    assert set(ids(live)) == accepted - deleted
    sync(live)
    assert_exact(live)


@pytest.mark.parametrize("seed", [1, 2])
def test_whoever_is_killed_nothing_accepted_is_lost_and_nothing_deleted_returns(
    live: Store, sqlite_place: str, tmp_path: Path, seed: int
) -> None:
    moments, desk = random.Random(seed), new_workspace(live, tmp_path)
    with PeopleProcesses(sqlite_place, tmp_path) as nursery:
        children = [nursery.start("worker", f"worker-{number}", desk, 0) for number in range(3)]
        for number in range(15):
            before = len(nursery.said("deleted"))
            assert eventually(lambda before=before: len(nursery.said("deleted")) > before)  # type: ignore[misc]
            threading.Event().wait(moments.uniform(0, 0.01))
            victim = moments.randrange(3)
            assert nursery.end(children[victim]) == KILLED, nursery.said("failed")
            children[victim] = nursery.start("worker", f"again-{number}", desk, 0)
        assert [nursery.end(child) for child in children] == [KILLED] * 3
        accepted, deleting, deleted = ({said[1] for said in nursery.said(word)} for word in ("accepted", "deleting", "deleted"))
        assert nursery.said("failed") == []
    kept = {entry["id"] for entry in every(live)}
    assert accepted - deleting <= kept
    assert not deleted & kept
    assert len(kept - accepted) <= 18  # stored by those who died before they could say so
    last = id_of(people.push(live, desk, comments="afterwards"))
    assert {json.loads(one)["id"] for one in lines(live)} == kept | {last}
    assert len(lines(live)) == len(kept) + 1
    assert_no_lock(sqlite_place)


def every(store: Store) -> list[dict[str, Any]]:
    """All pages."""
    found: list[dict[str, Any]] = []
    while page := inbox(store, before=found[-1]["id"] if found else None):
        found += page
    return found


# Appends a line at a time, as the document's program does.
FOREIGN_WRITER = """
import json
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
say("READY")
sys.stdin.readline()
for number in range(40):
    os.write(file, json.dumps({"id": f"foreign-{number}", "ts": number, "comments": "x" * 100}).encode() + b"\\n")
say("written")
"""


def test_lines_that_others_append_while_we_append_are_all_taken_in(live: Store, tmp_path: Path) -> None:
    desk = new_workspace(live, tmp_path)
    mine = {pushed(live, desk)}
    with BarrierProcess(FOREIGN_WRITER, mirror_of(live)) as writer:
        writer.ready().tell()
        for _ in range(30):
            mine.add(pushed(live, desk))
        assert writer.line() == "written"
    assert set(ids(live)) == mine | {f"foreign-{number}" for number in range(40)}
    sync(live)
    assert_exact(live)

"""The answers to a sheet are applied in one transaction: cut at every statement, either all of them count or none."""

from __future__ import annotations

import pytest

from postroom.store.interface import Store
from postroom.store.sqlite.engine import SqliteStore
from postroom.tasks import Conductor
from tests.conftest import Clock
from tests.contract.task_data import ANN, BOB, CID, asked, conductor_with_agents
from tests.faults.inspection import assert_sound
from tests.faults.test_cuts import FAILURES, How, cut_everywhere

JOB = "j1"


def _show_three_tasks(store: Store, clock: Clock) -> str:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB, job_id=JOB)
    for name in ("one", "two", "three"):
        asked(conductor, name)
    token = conductor.begin_sheet(JOB).token
    conductor.settle()
    return token


def _answer(store: Store, token: str) -> None:
    """Complete a task, fail one, leave one, delegate, and name one that is not on the sheet."""
    one, two, _ = (task.task_id for task in Conductor(store).show_job(JOB).tasks)
    text = f"@complete {one}: fine\n@fail {two}: no access\n@delegate {CID}: look at module Y\n@complete 5f0e5f0e: unknown"
    Conductor(store).answer_sheet(JOB, text, token)


@pytest.mark.parametrize("how", FAILURES.values(), ids=FAILURES.keys())
def test_answers_of_which_any_statement_fails_change_nothing(sqlite_place: str, clock: Clock, how: How) -> None:
    with SqliteStore(sqlite_place, now=clock) as store:
        statements = cut_everywhere(store, clock, _show_three_tasks, _answer, how)
        assert statements.count("BEGIN IMMEDIATE") == 1
        assert_sound(sqlite_place)
        conductor = Conductor(store)
        assert len([task for task in conductor.tasks(CID) if task.status == "pending"]) == 1
        assert len([result for result in conductor.waiting(ANN) if result.kind == "result"]) == 2
        assert [task.description for task in conductor.waiting(BOB)] == ["three"]

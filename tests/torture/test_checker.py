"""The checker can see: each planted fault is reported as what it is, and the same scene without one breaks nothing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.torture import checker, cuts
from tests.torture.checker import Violation
from tests.torture.history import NEVER, OK, REFUSED, UNKNOWN, read_history, select
from tests.torture.planted import FAULTS, plant
from tests.torture.register import ACQUIRE, END, FREE, HOLD, MAIL_RULES, TASK_RULES, THREAD_RULES, OwnerStep, Register, find_violation
from tests.torture.scenario import play, play_restore
from tests.torture.snapshot import take_snapshot
from tests.torture.stage import TortureStage, wait_all

S = 1_000_000_000


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "INBOX_DATA", "INBOX_TOKEN"):
        monkeypatch.setenv(name, "")


def check_scene(folder: Path) -> list[Violation]:
    stage = play(folder)
    found = check_stage(stage)
    play_restore(stage)
    return found + cuts.check_restored(read_history(stage.history), take_snapshot(stage.location, stage.queue, stage.mirror))


def check_stage(stage: TortureStage) -> list[Violation]:
    history, snapshot = read_history(stage.history), take_snapshot(stage.location, stage.queue, stage.mirror)
    return [*checker.check(history, snapshot), *cuts.check_backups(history, snapshot)]


def test_a_scene_without_a_fault_breaks_no_promise(tmp_path: Path) -> None:
    found = check_scene(tmp_path / "scene")
    found += checker.check_used(read_history(tmp_path / "scene" / "history"))
    assert [violation.describe() for violation in found] == []


def test_the_scene_prunes_and_its_prune_explains_what_is_missing(tmp_path: Path) -> None:
    stage = play(tmp_path / "scene")
    history = read_history(stage.history)
    (prune,) = select(history, "store.prune")
    assert [name for name in ("threads", "mail", "tasks", "entries", "queue_events") if not prune.get("removed")[name]] == []
    kept = [operation for operation in history if operation is not prune]
    found = checker.check(kept, take_snapshot(stage.location, stage.queue, stage.mirror))
    assert checker.LOST in {violation.kind for violation in found}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_reported(tmp_path: Path, name: str) -> None:
    with plant(name):
        found = check_scene(tmp_path / "scene")
    assert FAULTS[name].kind in {violation.kind for violation in found}, [violation.describe() for violation in found]


def test_a_damaged_mirror_is_reported(tmp_path: Path) -> None:
    stage = play(tmp_path / "scene")
    journal = stage.queue / "events.jsonl"
    os.truncate(journal, journal.stat().st_size - 5)
    assert [violation.kind for violation in check_stage(stage)] == [checker.DAMAGED]


def test_a_backup_with_a_later_message_is_reported(tmp_path: Path) -> None:
    stage = play(tmp_path / "scene")
    with closing(sqlite3.connect(stage.folder / "backups" / "scene.db", isolation_level=None)) as backup:
        backup.execute("UPDATE messages SET body = 'three' WHERE event_id = (SELECT max(event_id) FROM messages)")
    assert checker.DISHONEST in {violation.kind for violation in check_stage(stage)}


def test_a_process_that_does_not_end_is_wedged() -> None:
    sleeper = os.posix_spawn("/bin/sleep", ["sleep", "100"], {})
    assert wait_all({"sleeper": sleeper}, 0.05) == ["sleeper"]


# The register


def step(action: str, token: str | None, start: float, end: float, outcome: str = OK, *, lease: float = 1, skew: float = 0) -> OwnerStep:
    until = NEVER if end == NEVER else int(end * S)
    return OwnerStep(action, token, int(start * S), until, outcome, int(lease * S), int(skew * S))


TAKEN = [step(ACQUIRE, "a", 0, 0.1), step(ACQUIRE, "b", 1.2, 1.3)]
BROKEN = {
    "two owners at once": [step(ACQUIRE, "a", 0, 0.1), step(ACQUIRE, "b", 0.3, 0.4)],
    "a replaced owner is obeyed": [*TAKEN, step(HOLD, "a", 1.5, 1.6)],
    "two ends": [*TAKEN, step(END, "b", 1.4, 1.5), step(END, "a", 1.6, 1.7)],
    "an owner is refused though nobody replaced it": [step(ACQUIRE, "a", 0, 0.1), step(HOLD, "a", 2, 2.1, REFUSED)],
    "a renewed lease is given away": [step(ACQUIRE, "a", 0, 0.1), step(HOLD, "a", 0.8, 0.9), step(ACQUIRE, "b", 1.2, 1.3)],
    "a claim is refused long after the lease": [step(ACQUIRE, "a", 0, 0.1), step(ACQUIRE, None, 5, 5.1, REFUSED)],
    "taken after its end": [step(ACQUIRE, "a", 0, 0.1), step(END, "a", 0.2, 0.3), step(ACQUIRE, "b", 5, 5.1)],
    "an answer about nothing": [step(HOLD, "a", 0, 0.1)],
}
SOUND = {
    "replaced after its lease": [*TAKEN, step(HOLD, "a", 1.5, 1.6, REFUSED), step(END, "b", 1.7, 1.8)],
    "a late owner that nobody replaced": [step(ACQUIRE, "a", 0, 0.1), step(HOLD, "a", 3, 3.1), step(END, "a", 3.2, 3.3)],
    "given back": [step(ACQUIRE, "a", 0, 0.1), step(FREE, "a", 0.2, 0.3), step(ACQUIRE, "b", 0.31, 0.4)],
    "two at once, in either order": [step(ACQUIRE, "a", 0, 1), step(FREE, "a", 0.2, 0.9), step(ACQUIRE, "b", 0, 1)],
    "a take without an answer": [step(ACQUIRE, "a", 0, 0.1), step(ACQUIRE, None, 1.2, NEVER, UNKNOWN), step(HOLD, "a", 1.5, 1.6, REFUSED)],
    "an end without an answer": [step(ACQUIRE, "a", 0, 0.1), step(END, "a", 0.2, NEVER, UNKNOWN), step(HOLD, "a", 0.4, 0.5, REFUSED)],
    "a taker whose clock is ahead": [step(ACQUIRE, "a", 0, 0.1), step(ACQUIRE, "b", 0.2, 0.3, skew=3600)],
    "an owner whose clock was ahead": [step(ACQUIRE, "a", 0, 0.1, skew=3600), step(ACQUIRE, "b", 0.2, 0.3)],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_history_that_no_single_owner_explains_is_found(name: str) -> None:
    found = find_violation([*BROKEN[name], step(ACQUIRE, "z", 90, 90.1), step(FREE, "z", 90.2, 90.3)], Register(THREAD_RULES))
    assert found is not None
    assert set(found) <= set(BROKEN[name])


@pytest.mark.parametrize("name", SOUND)
def test_a_history_that_a_single_owner_explains_is_accepted(name: str) -> None:
    assert find_violation(SOUND[name], Register(THREAD_RULES)) is None


def test_the_shortest_history_leaves_out_what_the_contradiction_does_not_need() -> None:
    before = [step(ACQUIRE, f"t{n}", n * 0.2, n * 0.2 + 0.05) for n in range(3)]
    freed = [step(FREE, f"t{n}", n * 0.2 + 0.06, n * 0.2 + 0.1) for n in range(3)]
    refused = [step(HOLD, "t0", 0.5, 0.55, REFUSED)]
    assert find_violation(
        [*before, *freed, *refused, *[step(ACQUIRE, "a", 1, 1.1), step(ACQUIRE, "b", 1.2, 1.3)]], Register(THREAD_RULES)
    ) == [
        step(ACQUIRE, "a", 1, 1.1),
        step(ACQUIRE, "b", 1.2, 1.3),
    ]


def test_a_lapsed_delivery_must_be_refused_and_a_lapsed_task_may_be() -> None:
    late = [step(ACQUIRE, "a", 0, 0.1), step(END, "a", 3, 3.1)]
    assert find_violation(late, Register(MAIL_RULES)) is not None
    assert find_violation(late, Register(TASK_RULES)) is None
    refused = [step(ACQUIRE, "a", 0, 0.1), step(END, "a", 3, 3.1, REFUSED)]
    assert find_violation(refused, Register(MAIL_RULES)) is find_violation(refused, Register(TASK_RULES)) is None

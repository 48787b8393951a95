"""One run of the torture: disturb, let honest workers finish, check, and report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.torture import checker, cuts, draining, maintenance
from tests.torture.actors import DRAIN_SECONDS, Actor
from tests.torture.checker import ESCAPE, WEDGED, Violation
from tests.torture.disturber import UPKEEP, Disturber
from tests.torture.history import read_history, select
from tests.torture.maintenance import PRUNE, count_pruned
from tests.torture.snapshot import StoreSnapshot, take_snapshot
from tests.torture.stage import SQLITE, TortureStage, wait_all

STOP_PATIENCE_SECONDS = 60.0  # a call that lasts longer, with nothing disturbed any more, is wedged
LONG_RUN_SECONDS = 30.0  # on a busy machine, a shorter run may not get to every verb
MIN_RESTORE_SECONDS = 1.0
KILLED_RESTORES = 3
SHOWN_VIOLATIONS = 5
REFUSAL_MODULE = "postroom.core.errors."


@dataclass
class Report:
    """The result of one engine."""

    engine: str
    disturbances: Counter[str]
    operations: int
    accepted: int
    unanswered: int
    violations: list[Violation]

    def count(self, kind: str) -> int:
        return sum(violation.kind == kind for violation in self.violations)


def torture(engine: str, folder: Path, *, seconds: float, seed: int) -> Report:
    """Disturb a store for some seconds while all actors use it, and check what is left."""
    stage = TortureStage(engine, folder, seed=seed)
    try:
        stage.start_server()
        disturber = Disturber(stage)
        violations = disturb_and_check(stage, disturber, seconds)
        if engine == SQLITE:  # a store on PostgreSQL is not overwritten
            violations += restore_and_check(stage, disturber, max(seconds / 10, MIN_RESTORE_SECONDS))
        violations += find_crashes(stage.folder)
        history = read_history(stage.history)
        if seconds >= LONG_RUN_SECONDS:
            violations += checker.check_used(history)
    finally:
        stage.close()
    disturber.counts["pruned rows"] = sum(count_pruned(operation) for operation in select(history, PRUNE))
    unanswered = checker.count_unanswered(history)
    return Report(engine, disturber.counts, len(history), checker.count_accepted(history), unanswered, violations)


def disturb_and_check(stage: TortureStage, disturber: Disturber, seconds: float) -> list[Violation]:
    """Let all actors work while everything is disturbed, also by prunes and backups. Return every broken promise."""
    stage.start_cast()
    stage.start_maintainers()
    disturber.run(seconds / 2)
    disturber.maintain()
    disturber.run(seconds / 2)
    wedged = stage.stop_actors(STOP_PATIENCE_SECONDS) + drain(stage) + _run_alone(stage, maintenance.repeat_pruned)
    history, snapshot = read_history(stage.history), _take_snapshot(stage)
    return [*checker.check(history, snapshot), *cuts.check_backups(history, snapshot), *_describe_wedged(wedged)]


def restore_and_check(stage: TortureStage, disturber: Disturber, seconds: float) -> list[Violation]:
    """Let all actors work again, and restore a backup under them that was taken in between. Return every broken promise."""
    stage.start_cast()
    disturber.run(seconds, without=UPKEEP)
    wedged = _run_alone(stage, maintenance.back_up_once)
    disturber.run(seconds, without=UPKEEP)
    disturber.interrupt_restores(KILLED_RESTORES)
    wedged += _run_alone(stage, maintenance.restore_once)
    disturber.counts["restore"] += 1
    disturber.run(seconds, without=UPKEEP)
    wedged += stage.stop_actors(STOP_PATIENCE_SECONDS) + drain(stage)
    return cuts.check_restored(read_history(stage.history), _take_snapshot(stage)) + _describe_wedged(wedged)


def _take_snapshot(stage: TortureStage) -> StoreSnapshot:
    return take_snapshot(stage.location, stage.queue, stage.mirror if stage.engine == SQLITE else None)


def _run_alone(stage: TortureStage, run: Callable[[Actor], None]) -> list[str]:
    """Run something in a process that nothing disturbs. Return its name if it does not end."""
    return wait_all({run.__name__: stage.fork(run.__name__, run)}, DRAIN_SECONDS + STOP_PATIENCE_SECONDS)


def _describe_wedged(names: list[str]) -> list[Violation]:
    return [Violation(WEDGED, f"{name} did not end: see stack-{name}") for name in names]


def drain(stage: TortureStage) -> list[str]:
    """Let an honest worker for each room finish, and then read on as the watchers. Return the names of those that do not end."""
    patience = DRAIN_SECONDS + STOP_PATIENCE_SECONDS
    workers = {name: stage.fork(name, run) for name, run in draining.ROOMS.items()}
    wedged = wait_all(workers, patience)
    return wedged + wait_all({"drain_watchers": stage.fork("drain_watchers", draining.drain_watchers)}, patience)


def find_crashes(folder: Path) -> list[Violation]:
    """Return the actors that ended by an error which is no refusal. A refusal outside of the history, such as of a full disk, is one."""
    texts = {path.name: path.read_text() for path in folder.glob("crash-*")}
    return [Violation(ESCAPE, f"{name}: {text[-500:]}") for name, text in texts.items() if text and REFUSAL_MODULE not in text]


def print_reports(reports: list[Report], seed: int) -> None:
    columns = ("kills", "operations", "accepted", "no answer", *checker.KINDS)
    print(f"\nseed {seed}\n{'engine':10}" + "".join(f"{column:>11}" for column in columns))
    for report in reports:
        numbers = [report.disturbances["kill"], report.operations, report.accepted, report.unanswered]
        numbers += [report.count(kind) for kind in checker.KINDS]
        print(f"{report.engine:10}" + "".join(f"{number:>11,}" for number in numbers))
    for report in reports:
        print(f"\n{report.engine}, disturbed by: " + ", ".join(f"{name} {count}" for name, count in sorted(report.disturbances.items())))
        for kind in checker.KINDS:
            of_kind = sorted((found for found in report.violations if found.kind == kind), key=lambda found: len(found.history))
            for violation in of_kind[:SHOWN_VIOLATIONS]:
                print("\n" + violation.describe())

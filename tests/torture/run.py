"""One run of the torture: disturb, let honest workers finish, check, and report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.torture import checker, draining
from tests.torture.actors import DRAIN_SECONDS
from tests.torture.checker import ESCAPE, WEDGED, Violation
from tests.torture.disturber import Disturber
from tests.torture.history import read_history
from tests.torture.snapshot import take_snapshot
from tests.torture.stage import SQLITE, TortureStage, wait_all

STOP_PATIENCE_SECONDS = 60.0  # a call that lasts longer, with nothing disturbed any more, is wedged
LONG_RUN_SECONDS = 30.0  # on a busy machine, a shorter run may not get to every verb
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
        stage.start_cast()
        disturber = Disturber(stage)
        disturber.run(seconds)
        wedged = stage.stop_actors(STOP_PATIENCE_SECONDS) + drain(stage)
        history = read_history(stage.history)
        snapshot = take_snapshot(stage.location, stage.queue, stage.mirror if engine == SQLITE else None)
        violations = checker.check(history, snapshot)
        violations += [Violation(WEDGED, f"{name} did not end: see stack-{name}") for name in wedged]
        violations += find_crashes(stage.folder)
        if seconds >= LONG_RUN_SECONDS:
            violations += checker.check_used(history)
    finally:
        stage.close()
    unanswered = checker.count_unanswered(history)
    return Report(engine, disturber.counts, len(history), checker.count_accepted(history), unanswered, violations)


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

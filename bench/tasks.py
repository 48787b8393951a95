"""Tasks beside the same statements by hand, when a million of them have ended, and when 100,000 of them wait."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import postroom
from bench.blocks import interleave
from bench.library import BY_HAND
from bench.report import Report, milliseconds, times
from bench.results import OURS, PER_SECOND, SECONDS
from bench.scale import choose
from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.records.tasks import TaskRow
from postroom.store.sqlite import statements as sql
from postroom.tasks import Conductor
from postroom.tasks.a2a.models import A2ATask
from postroom.tasks.repository import row_from_task

ROUNDS = choose(300, 50)
FINISHED, WAITING = choose(1_000_000, 10_000), 20
FEW_PENDING, MANY_PENDING, PENDING_ROUNDS = 100, choose(100_000, 10_000), choose(60, 10)
SHEET_BUDGET_CHARS = 200  # less than ten tasks take, so that both stores render as many


def run(report: Report) -> None:
    report.section("Tasks: submit, accept and complete, a transaction each, on disk (synchronous=FULL), in turns")
    with TemporaryDirectory() as folder:
        conductor, _ = _conductor(str(Path(folder) / "ours.db"))
        hand = Hand(str(Path(folder) / "hand.db"))
        interleave(50, 1, ours=partial(_ours, conductor), hand=hand.round)
        measured = interleave(ROUNDS, 1, ours=partial(_ours, conductor), hand=hand.round)
    share = measured.ratio("ours", "hand")
    report.row("rounds a second: by hand / postroom", f"{measured.rate('hand'):.0f} / {measured.rate('ours'):.0f}")
    for name, subject in (("ours", OURS), ("hand", BY_HAND)):
        report.record("rooms on SQLite", "task: submit + accept + complete", subject, PER_SECOND, measured.rates(name))
    report.row("postroom / the same statements by hand", f"{share:.0%}", "at least 60 %", met=share >= 0.6)
    report.section(f"Tasks, flat cost: {WAITING} pending beside {FINISHED:,} that have ended / beside none")
    with TemporaryDirectory() as folder:
        small, small_job = _filled(str(Path(folder) / "small.db"), 0)
        large, large_job = _filled(str(Path(folder) / "large.db"), FINISHED)
        verbs: dict[str, dict[str, Callable[[], object]]] = {
            "pending": {"small": lambda: small.pending(small_job), "large": lambda: large.pending(large_job)},
            "render": {"small": lambda: small.render("canyon"), "large": lambda: large.render("canyon")},
        }
        for name, actions in verbs.items():
            found = interleave(100, 1, **actions)
            ratio = found.ratio("small", "large")
            report.row(f"{name} ({milliseconds(found.median('small'))})", times(ratio), "within 1.5", met=ratio <= 1.5)
    run_pending(report)


def run_pending(report: Report) -> None:
    """Compare the verbs that write while few tasks wait for an agent, and while many do."""
    report.section(f"Tasks, flat cost: {MANY_PENDING:,} pending for the agent / {FEW_PENDING}")
    with TemporaryDirectory() as folder:
        few, many = (_pending_verbs(str(Path(folder) / f"{size}.db"), size) for size in (FEW_PENDING, MANY_PENDING))
        for name in few:
            found = interleave(PENDING_ROUNDS, 5, few=few[name], many=many[name])
            for size, key in ((FEW_PENDING, "few"), (MANY_PENDING, "many")):
                report.record("size", f"tasks: {name}", OURS, SECONDS, found.seconds(key), size=size)
            ratio = found.ratio("few", "many")
            report.row(f"{name} ({milliseconds(found.median('few'))} at {FEW_PENDING})", times(ratio), "within 1.5", met=ratio <= 1.5)


def _pending_verbs(place: str, pending: int) -> dict[str, Callable[[], object]]:
    """Return the verbs on a store where so many tasks wait. `submit` comes before `accept`, which takes as many as it gave."""
    conductor, job = _conductor(place)
    columns = ", ".join(_FILL_PENDING.get(name, "NULL") for name in TaskRow.__fields__)
    with sqlite3.connect(place) as database:
        database.execute(
            "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?)"
            f" INSERT INTO tasks SELECT {columns} FROM counted",
            (pending,),
        )

    def end_one_job() -> None:
        conductor.end_job(conductor.start_job("canyon").job_id)

    def show_sheet() -> None:
        sheet = conductor.begin_sheet(job, budget=SHEET_BUDGET_CHARS)
        assert 0 < len(sheet.tasks) < FEW_PENDING
        conductor.end_sheet(job, sheet.token)

    return {
        "submit": lambda: conductor.submit("forge", "canyon", "Review architecture for module X"),
        "accept": lambda: conductor.accept_next("canyon"),
        "begin_sheet + end_sheet": show_sheet,
        "start_job + end_job": end_one_job,
    }


def _conductor(place: str) -> tuple[Conductor, str]:
    postroom.init(place)
    conductor = Conductor(postroom.open(place))
    for name in ("forge", "canyon"):
        conductor.register(name)
    return conductor, conductor.start_job("canyon").job_id


def _ours(conductor: Conductor) -> None:
    task = conductor.submit("forge", "canyon", "Review architecture for module X")
    taken = conductor.accept(task.task_id, agent="canyon")
    conductor.complete(task.task_id, agent="canyon", artifacts={"review": "fine"}, lease_token=taken.lease_token)


def _filled(place: str, ended: int) -> tuple[Conductor, str]:
    conductor, job = _conductor(place)
    columns = ", ".join(f"'{job}'" if name == "target_job_id" else _FILL.get(name, "NULL") for name in TaskRow.__fields__)
    with sqlite3.connect(place) as database:
        database.execute(
            "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?)"
            f" INSERT INTO tasks SELECT {columns} FROM counted WHERE ? > 0",
            (max(ended, 1), ended),
        )
    for _ in range(WAITING):
        conductor.submit("forge", "canyon", "Review architecture for module X")
    return conductor, job


_FILL = {
    **dict.fromkeys(("source_job_id", "priority", "reason"), "'normal'"),
    **dict.fromkeys(("urgency", "attempt", "depth", "is_open"), "0"),
    "task_id": "'t' || n",
    "event_id": "-n",
    "kind": "'task'",
    "door": "'library'",
    "source_agent": "'forge'",
    "target_agent": "'canyon'",
    "description": "'x'",
    "context_json": "'{}'",
    "status": "'completed'",
    "created_at": "'2026'",
    "ended_at": "'2026'",
}


_FILL_PENDING = {
    **_FILL,
    "status": "'pending'",
    "is_open": "1",
    "priority": "'normal'",
    "ended_at": "NULL",
    "reason": "NULL",
    "source_job_id": "''",
}


class Hand:
    """The same statements, in the same three transactions, without anything around them."""

    def __init__(self, place: str) -> None:
        _conductor(place)
        self._database = sqlite3.connect(place, isolation_level=None)
        self._database.execute("PRAGMA synchronous=FULL")
        self._number = 0

    def round(self) -> None:
        self._number += 1
        now = clock.format_stamp(clock.now())
        task = A2ATask(task_id=f"task-{self._number}", source_job_id="", source_agent="forge", target_agent="canyon", description="Review")
        row = row_from_task(task).replace(created_at=now)
        self._begin(now)
        for name in ("forge", "canyon"):
            self._one(sql.agent_find, name=name)
        number = self._event(task.task_id, now)
        row = row.replace(event_id=number)
        self._database.execute(sql.task_insert, dict(row.items()))
        self._event(task.task_id, now)
        self._database.execute("COMMIT")
        taken = row.replace(status="accepted", accepted_at=now, lease_token="t", lease_expires_at=now)
        self._move(row, taken, now)
        ended = taken.replace(status="completed", is_open=0, ended_at=now, artifacts_json=jsontext.dumps({"review": "fine"}))
        self._move(taken, ended, now, result=row.replace(task_id=f"result-{self._number}", kind="result", target_agent="forge"))

    def _move(self, before: TaskRow, after: TaskRow, now: str, result: TaskRow | None = None) -> None:
        self._begin(now)
        self._one(sql.task_find, task_id=before.task_id)
        seen = {"seen_status": before.status, "seen_attempt": 0, "seen_token": before.lease_token or "", "seen_thread": ""}
        self._database.execute(sql.task_move, {**dict(after.items()), **seen, "seen_job": before.target_job_id or ""})
        self._event(before.task_id, now)
        if result is not None:
            self._one(sql.job_find, job_id="")
            number = self._event(result.task_id, now)
            self._database.execute(sql.task_insert, dict(result.replace(event_id=number, target_job_id=None).items()))
        self._database.execute("COMMIT")

    def _begin(self, now: str) -> None:
        """Every verb first looks what time and threads have decided."""
        self._one(sql.tasks_due, now="2000", limit=1)
        self._one(sql.tasks_answered, limit=1)
        self._database.execute("BEGIN IMMEDIATE")

    def _one(self, statement: str, **binds: object) -> tuple[str, ...]:
        return self._database.execute(statement, binds).fetchone() or ("",)

    def _event(self, task_id: str, now: str) -> int:
        binds = dict.fromkeys(("run_id", "task_id", "thread_id", "source", "summary"), "")
        told = {**binds, "event_type": "task.x", "message_id": task_id, "payload_json": "{}", "created_at": now}
        return self._database.execute(sql.event_append, told).lastrowid or 0

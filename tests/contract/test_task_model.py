"""The life of tasks against plain dictionaries: agents, jobs, leases, sheets, checkpoints, and time that passes unseen.

Each rule lets time pass first, so that a verb meets what has fallen due and nobody has carried out. It cannot find races; it
finds what nobody thought of in one process.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from postroom.core import clock as time
from postroom.core.errors import Conflict, InvalidInput
from postroom.store.interface import Store
from postroom.tasks import Conductor
from postroom.tasks.job_verbs import TaskState
from tests.conftest import ENGINES, Clock
from tests.contract import machines
from tests.contract.task_data import ids

SECOND = time.MICROSECONDS_PER_SECOND
NEVER = 2**62
RANKS = ("urgent", "high", "normal", "low")
PAIRS = st.sampled_from([("ann", "bob"), ("ann", "bob"), ("bob", "ann")])
AGENTS = st.sampled_from(["ann", "bob"])
WHICH = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5])
LEASES = st.sampled_from([10, 10, 60, 900])
DEADLINES = st.none() | st.none() | st.sampled_from([5.5, 25.5, 300.5])  # never in the same instant as the end of a lease
PAUSES = st.just(0) | st.just(0) | st.sampled_from([1, 5, 6, 10, 60, 301, 900, 3000])  # seconds
TOKENS = st.sampled_from(["none", "none", "current", "old", "invented"])


class Task:
    """One task, as the model knows it."""

    def __init__(self, task_id: str, source: str, target: str, priority: str, number: int, deadline: int) -> None:
        self.task_id, self.source, self.target, self.priority, self.number, self.deadline = (
            task_id,
            source,
            target,
            priority,
            number,
            deadline,
        )
        self.status = "pending"
        self.attempt = 0
        self.until = NEVER  # the end of its lease
        self.token: str | None = None
        self.tokens: list[str] = []
        self.code: str | None = None
        self.ended: str | None = None

    @property
    def live(self) -> bool:
        return self.status in ("pending", "accepted")

    def settle(self, now: int) -> None:
        """All that happens by itself until now, in its order."""
        while self.live and min(self.until, self.deadline) <= now:
            if self.deadline < self.until:
                self.end("failed", self.deadline, "deadline")
            else:
                self.lapse(self.until)

    def lease(self, token: str, until: int) -> None:
        self.status, self.token, self.until = "accepted", token, until
        self.tokens.append(token)

    def lapse(self, instant: int) -> None:
        """A lease that ran out is an attempt. The end of a sheet or a job is none."""
        self.give_back()
        self.attempt += 1
        if self.attempt == 3:
            self.end("failed", instant, "attempts_exhausted")

    def give_back(self) -> None:
        self.status, self.token, self.until = "pending", None, NEVER

    def end(self, status: str, instant: int, code: str | None = None) -> None:
        self.status, self.code, self.ended, self.until, self.token = status, code, time.format_stamp(instant), NEVER, None


class TaskMachine(RuleBasedStateMachine):
    """Each rule does a verb and says, from the model alone, what must come of it."""

    fresh: Callable[[str, Clock], Store]

    @initialize(running=st.sets(AGENTS))
    def open(self, running: set[str]) -> None:
        self.folder = tempfile.mkdtemp(prefix="postroom-model-")
        self.clock = Clock()
        self.store = type(self).fresh(self.folder, self.clock)
        self.conductor = Conductor(self.store)
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, str] = {}  # agent → its running job
        self.data: dict[str, dict[str, int]] = {}  # job → its saved state
        self.sheets: dict[str, dict[str, Any]] = {}  # agent → its open sheet: token, until, tasks, results
        self.seen: set[str] = set()  # the tasks whose results were acknowledged
        for agent in ("ann", "bob"):
            self.conductor.register(agent)
        for agent in sorted(running):
            self.start(agent)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    # Expected results

    def passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for task in self.tasks.values():
            task.settle(self.clock.instant)
        self.sheets = {agent: sheet for agent, sheet in self.sheets.items() if sheet["until"] > self.clock.instant}

    def pending(self, agent: str) -> list[str]:
        """The ids of an agent's pending tasks, in their order."""
        found = [task for task in self.tasks.values() if task.target == agent and task.status == "pending"]
        return ids(sorted(found, key=lambda task: (RANKS.index(task.priority), task.number)))

    def results(self, agent: str) -> set[str]:
        """The tasks of an agent whose results nobody has been shown, or only by a sheet that came to nothing."""
        shown = self.sheets[agent]["results"] if agent in self.sheets else set()
        return {one.task_id for one in self.tasks.values() if one.source == agent and not one.live} - self.seen - shown

    def pick(self, which: int, first: str = "accepted") -> Task:
        found = sorted(self.tasks.values(), key=lambda task: (task.status != first, task.number))
        return found[which % len(found)]

    def told(self, task: Task, expected: str, act: Callable[[], Any]) -> bool:
        """Whether the verb was obeyed; else it was refused as it must be, the winner's name in the refusal."""
        if task.live and expected == "obeyed":
            assert act().task_id == task.task_id
            return True
        with pytest.raises(Conflict) as refused:
            act()
        assert task.live or task.status in str(refused.value)
        return False

    # Rules

    def start(self, agent: str) -> None:
        job = self.conductor.start_job(agent, state={"step": 0})
        self.jobs[agent], self.data[job.job_id] = job.job_id, {"step": 0}

    @precondition(lambda self: len(self.jobs) < 2)
    @rule(agent=AGENTS, pause=PAUSES)
    def start_job(self, agent: str, pause: int) -> None:
        self.passes(pause)
        if agent not in self.jobs:
            self.start(agent)

    @rule(agent=AGENTS, pause=PAUSES)
    def end_job(self, agent: str, pause: int) -> None:
        self.passes(pause)
        if agent not in self.jobs:
            return
        self.conductor.end_job(self.jobs.pop(agent))
        sheet = self.sheets.pop(agent, {"token": "", "tasks": ()})
        for task in (self.tasks[task_id] for task_id in sheet["tasks"]):
            if task.token == sheet["token"]:
                task.give_back()

    @precondition(lambda self: len(self.tasks) < 10)
    @rule(pair=PAIRS, priority=st.sampled_from(RANKS), deadline=DEADLINES, pause=PAUSES)
    def submit(self, pair: tuple[str, str], priority: str, deadline: float | None, pause: int) -> None:
        self.passes(pause)
        told = self.conductor.submit(*pair, "Do it", priority=priority, deadline_seconds=deadline)
        due = NEVER if deadline is None else self.clock.instant + round(deadline * SECOND)
        self.tasks[told.task_id] = Task(told.task_id, *pair, priority, len(self.tasks), due)
        assert (told.target_job_id, told.status) == (None, "pending")

    @precondition(lambda self: self.tasks)
    @rule(which=WHICH, seconds=LEASES, pause=PAUSES)
    def accept(self, which: int, seconds: int, pause: int) -> None:
        self.passes(pause)
        task = self.pick(which, "pending")
        if task.status == "pending":
            accepted = self.conductor.accept(task.task_id, agent=task.target, lease_seconds=seconds)
            assert accepted.lease_token not in [token for one in self.tasks.values() for token in one.tokens]
            task.lease(accepted.lease_token, self.clock.instant + seconds * SECOND)
        else:
            self.told(task, "refused", lambda: self.conductor.accept(task.task_id, agent=task.target, lease_seconds=seconds))

    @precondition(lambda self: self.tasks)
    @rule(which=WHICH, verb=st.sampled_from(["complete", "fail"]), token=TOKENS, pause=PAUSES)
    def complete_or_fail(self, which: int, verb: str, token: str, pause: int) -> None:
        self.passes(pause)
        task = self.pick(which)
        replaced = [old for old in task.tokens if old != task.tokens[-1]]
        given = {"none": None, "current": task.token, "old": replaced[0] if replaced else None, "invented": "x"}[token]
        expected = "obeyed" if given in (None, task.token) else "refused"
        if verb == "complete":
            act = lambda: self.conductor.complete(task.task_id, agent=task.target, artifacts={"n": 1}, lease_token=given)  # noqa: E731
        else:
            act = lambda: self.conductor.fail(task.task_id, "no", agent=task.target, lease_token=given)  # noqa: E731
        if self.told(task, expected, act):
            task.end({"complete": "completed", "fail": "failed"}[verb], self.clock.instant)

    @precondition(lambda self: self.tasks)
    @rule(which=WHICH, pause=PAUSES)
    def cancel(self, which: int, pause: int) -> None:
        self.passes(pause)
        task = self.pick(which, "pending")
        if self.told(task, "obeyed", lambda: self.conductor.cancel(task.task_id, agent=task.source)):
            task.end("failed", self.clock.instant, "cancelled")

    @precondition(lambda self: self.tasks)
    @rule(which=WHICH, verb=st.sampled_from(["accept", "complete", "acknowledge", "cancel"]), pause=PAUSES)
    def move_what_is_not_ones_own(self, which: int, verb: str, pause: int) -> None:
        self.passes(pause)
        task = self.pick(which)
        if task.live:
            with pytest.raises(InvalidInput):
                getattr(self.conductor, verb)(task.task_id, agent=task.target if verb == "cancel" else task.source)

    @rule(agent=AGENTS, seconds=LEASES, pause=PAUSES)
    def begin_sheet(self, agent: str, seconds: int, pause: int) -> None:
        self.passes(pause)
        if agent not in self.jobs or agent in self.sheets:
            return
        tasks, results = self.pending(agent), self.results(agent)
        sheet = self.conductor.begin_sheet(self.jobs[agent], lease_seconds=seconds, budget=1_000_000)
        assert [one.task_id for one in sheet.tasks if one.kind == "task"] == tasks
        assert {one.answers for one in sheet.tasks if one.kind == "result"} == results
        assert (sheet.text == "") == (not tasks and not results)
        until = self.clock.instant + seconds * SECOND
        self.sheets[agent] = {"token": sheet.token, "until": until, "tasks": tasks, "results": results}
        for task_id in tasks:
            self.tasks[task_id].lease(sheet.token, until)

    @rule(agent=AGENTS, pause=PAUSES)
    def end_sheet(self, agent: str, pause: int) -> None:
        self.passes(pause)
        if agent not in self.sheets:
            return
        sheet = self.sheets.pop(agent)
        self.conductor.end_sheet(self.jobs[agent], sheet["token"])
        self.seen |= sheet["results"]
        for task in (self.tasks[task_id] for task_id in sheet["tasks"]):
            if task.token == sheet["token"]:
                task.give_back()

    @rule(agent=AGENTS, pause=PAUSES)
    def acknowledge(self, agent: str, pause: int) -> None:
        self.passes(pause)
        for answers in sorted(self.results(agent))[:1]:
            (result,) = [one for one in self.conductor.tasks(agent=agent) if one.answers == answers]
            assert self.conductor.acknowledge(result.task_id, agent=agent).status == "completed"
            self.seen.add(answers)

    @rule(agent=AGENTS, pause=PAUSES, verb=st.sampled_from(["complete", "fail", "nothing"]), fails=st.booleans())
    def checkpoint(self, agent: str, pause: int, verb: str, fails: bool) -> None:
        self.passes(pause)
        if agent not in self.jobs:
            return
        job_id = self.jobs[agent]
        if fails:
            with pytest.raises(ZeroDivisionError):
                self.work_and_break(agent, verb)
            return
        with self.conductor.checkpoint(job_id) as state:
            ended = self.work_on(state, agent, verb)
        self.data[job_id] = {"step": self.data[job_id]["step"] + 1}
        if ended is not None:
            ended.end({"complete": "completed", "fail": "failed"}[verb], self.clock.instant)

    def work_and_break(self, agent: str, verb: str) -> None:
        with self.conductor.checkpoint(self.jobs[agent]) as state:
            self.work_on(state, agent, verb)
            raise ZeroDivisionError

    def work_on(self, state: TaskState, agent: str, verb: str) -> Task | None:
        """The task that was ended in a checkpoint's inbox, if one was."""
        inbox = {one.task_id: one.status.value for one in state.inbox.tasks.values() if one.kind == "task"}
        assert {task_id: self.tasks[task_id].status for task_id in inbox} == inbox
        assert {task_id for task_id, status in inbox.items() if status == "pending"} == set(self.pending(agent))
        assert state.data == self.data[self.jobs[agent]]
        state.data["step"] += 1
        if verb == "nothing" or not inbox:
            return None
        task_id = min(inbox)
        if verb == "complete":
            assert state.inbox.complete_task(task_id, artifacts={"n": 1})
        else:
            assert state.inbox.fail_task(task_id, "no")
        return self.tasks[task_id]

    # Invariants

    @invariant()
    def every_task_is_as_the_model_has_it(self) -> None:
        if not hasattr(self, "store"):
            return
        found = self.conductor.tasks()
        codes = {one.task_id: None if one.reason_code == "failed" else one.reason_code for one in found}  # of a plain failure, either
        assert {one.task_id: (one.status.value, one.attempt, codes[one.task_id], one.ended_at) for one in found if one.kind == "task"} == {
            task.task_id: (task.status, task.attempt, task.code, task.ended) for task in self.tasks.values()
        }
        home = [(one.answers, one.target_agent, one.status == "completed") for one in found if one.kind == "result"]
        assert sorted(home) == sorted((one.task_id, one.source, one.task_id in self.seen) for one in self.tasks.values() if not one.live)

    @invariant()
    def what_waits_is_in_its_job_in_its_order_and_nothing_is_stranded(self) -> None:
        if not hasattr(self, "store"):
            return
        for agent, job_id in self.jobs.items():
            found = self.conductor.pending(job_id)
            assert [one.task_id for one in found if one.kind == "task"] == self.pending(agent)
            assert {one.answers for one in found if one.kind == "result"} == self.results(agent)


@pytest.mark.timeout(600)  # hundreds of examples: the default is too short on a loaded machine
@pytest.mark.parametrize("name", ENGINES)
def test_tasks_follow_the_model(name: str, request: pytest.FixtureRequest) -> None:
    machines.run(TaskMachine, name, request)

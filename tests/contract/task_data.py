"""Data for tests of the conductor: agents that know each other, a task that was asked, one in any state that there is."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from postroom.core import clock as time
from postroom.core.records import Event
from postroom.store.interface import Store
from postroom.tasks import A2ATask, Conductor
from tests.conftest import Clock
from tests.contract import thread_data

ANN, BOB, CID = "ann", "bob", "cid"  # who asks, who is asked, and somebody else
JOB = "j1"
OPEN = ("pending", "accepted", "returned")
ENDED = ("completed", "failed", "cancelled", "overdue", "exhausted")  # each another way to one of the two last states
STATES = (*OPEN, *ENDED)
CODES = {"cancelled": "cancelled", "overdue": "deadline", "exhausted": "attempts_exhausted"}


class ArrangedTask(NamedTuple):
    """A task, and the token of its latest lease, if it ever had one."""

    task_id: str
    token: str | None


def conductor_with_agents(store: Store, *names: str) -> Conductor:
    """A conductor and the agents that it knows."""
    conductor = Conductor(store)
    for name in names or (ANN, BOB, CID):
        conductor.register(name)
    return conductor


def at_work(store: Store, agent: str = BOB, state: dict[str, Any] | None = None) -> Conductor:
    """A conductor, with one job that runs."""
    conductor = conductor_with_agents(store)
    conductor.start_job(agent, job_id=JOB, state=state)
    return conductor


def asked(conductor: Conductor, description: str = "Review module X", *, source: str = ANN, target: str = BOB, **fields: Any) -> A2ATask:
    """A new pending task."""
    return conductor.submit(source, target, description, **fields)


def held(conductor: Conductor, *, lease_seconds: float = 900, **fields: Any) -> ArrangedTask:
    """A new task, accepted by its target."""
    task = asked(conductor, **fields)
    accepted = conductor.accept(task.task_id, agent=task.target_agent, lease_seconds=lease_seconds)
    return ArrangedTask(task.task_id, accepted.lease_token)


def lapsed(conductor: Conductor, clock: Clock, task_id: str, *, agent: str = BOB) -> str:
    """The token of a new lease that has run out just now."""
    accepted = conductor.accept(task_id, agent=agent, lease_seconds=10)
    clock.advance(10)
    return accepted.lease_token


def brought(conductor: Conductor, clock: Clock, state: str) -> ArrangedTask:
    """A new task in the state asked for, with a lease wherever it can have had one."""
    if state == "overdue":
        scene = held(conductor, deadline_seconds=5)
        clock.advance(5)
        return scene
    if state in ("returned", "exhausted"):
        task_id, token = asked(conductor).task_id, ""
        for _ in range(1 if state == "returned" else 3):
            token = lapsed(conductor, clock, task_id)
        return ArrangedTask(task_id, token)
    if state == "pending":
        return ArrangedTask(asked(conductor).task_id, None)
    scene = held(conductor)
    if state == "completed":
        conductor.complete(scene.task_id, agent=BOB, artifacts={"review": "fine"})
    elif state == "failed":
        conductor.fail(scene.task_id, "it broke", agent=BOB)
    elif state == "cancelled":
        conductor.cancel(scene.task_id, agent=ANN, reason="not wanted")
    return scene


def status_in(state: str) -> str:
    """The status of a task in that state."""
    return {"returned": "pending", "cancelled": "failed", "overdue": "failed", "exhausted": "failed"}.get(state, state)


def status_of(conductor: Conductor, task_id: str) -> str:
    return conductor.get(task_id).status.value


def results_of(conductor: Conductor, task_id: str) -> list[A2ATask]:
    """The rows of kind result that answer a task."""
    return [task for task in conductor.tasks() if task.kind == "result" and task.answers == task_id]


def result_of(conductor: Conductor, task_id: str) -> A2ATask:
    (result,) = results_of(conductor, task_id)
    return result


def answered(conductor: Conductor, *, source: str = ANN, target: str = BOB, **fields: Any) -> A2ATask:
    """The result, not yet seen, of a task that was completed."""
    task = asked(conductor, source=source, target=target, **fields)
    conductor.complete(task.task_id, agent=target, artifacts={"review": "fine"})
    return result_of(conductor, task.task_id)


def ids(tasks: Any) -> list[str]:
    return [task.task_id for task in tasks]


def waiting(conductor: Conductor, job_id: str) -> list[str]:
    """The descriptions of what is pending for a job, in its order."""
    return [task.description for task in conductor.pending(job_id)]


def happened(store: Store, task_id: str | None = None) -> list[Event]:
    """The events of tasks, or of one, as the log has them."""
    found = [event for event in thread_data.events(store) if event.event_type.startswith("task.A2ATask")]
    return [event for event in found if task_id in (None, facts(event)["task_id"])]


def facts(event: Event) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(event.payload_json)
    return payload


def steps(store: Store, task_id: str) -> list[str]:
    """Return the events of a task: Submitted, Routed, …"""
    return [event.event_type.removeprefix("task.A2ATask") for event in happened(store, task_id)]


def everything(store: Store) -> object:
    """All that can be seen, to compare before and after a refusal."""
    conductor = Conductor(store)
    tasks = conductor.tasks()  # first: it carries out what is due, and says so in the log
    return tasks, conductor.jobs(), thread_data.everything(store)


def at(clock: Clock, seconds: float = 0) -> str:
    """The stamp of an instant so far from now."""
    return time.format_stamp(clock.instant + round(seconds * time.MICROSECONDS_PER_SECOND))

"""After the disturbance: honest workers finish all that is open. What they cannot finish in time is stranded."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep

from postroom import mail, people, queues, work
from tests.torture.actors import BOXES, CONSUMERS, TASK_AGENTS, Actor
from tests.torture.verbs import QueueVerbs

OPEN_THREADS = ("pending", "claimed", "in_progress", "blocked")
LEASE_SECONDS = 30.0


def drain_threads(actor: Actor) -> None:
    """Take and end threads until all have ended."""
    while actor.is_patient() and work.list_threads(actor.store, statuses=OPEN_THREADS, limit=1).threads:
        claim = actor.threads.take(LEASE_SECONDS)
        if claim is None:
            sleep(0.1)
        else:
            actor.threads.done(claim.thread.thread_id, claim.lease.lease_token, actor.text())


def drain_mail(actor: Actor) -> None:
    """Take and ack messages until none is open."""
    while actor.is_patient() and any(mail.peek(actor.store, box, limit=1).total for box in BOXES):
        for box in BOXES:
            got = actor.mail.dequeue(box)
            if got is None:
                sleep(0.02)
            else:
                actor.mail.ack(box, got.message.msg_id, got.delivery_token)


def drain_tasks(actor: Actor) -> None:
    """Run a new job for each agent until no task is open and all results are read."""
    conductor = actor.tasks.conductor
    while actor.is_patient() and any(conductor.tasks(status=status, limit=1) for status in ("pending", "accepted")):
        for agent in TASK_AGENTS:
            _drain_agent(actor, agent)
        sleep(0.1)


def _drain_agent(actor: Actor, agent: str) -> None:
    job = actor.tasks.start_job(agent, LEASE_SECONDS)
    if job is None:
        return
    sheet = actor.tasks.begin_sheet(agent, job.job_id, LEASE_SECONDS)
    if sheet is not None:
        for task in sheet.tasks:
            if task.kind == "task":
                actor.tasks.complete(agent, task.task_id, sheet.token)
        actor.tasks.end_sheet(job.job_id, sheet.token)
    actor.tasks.end_job(job)


def drain_queue(actor: Actor) -> None:
    """Push one more event, which repairs the mirror, and read all events as each consumer."""
    with queues.open_queue(actor.setting.queue) as queue:
        verbs = QueueVerbs(queue, actor.recorder)
        verbs.push([actor.text()])
        for consumer in CONSUMERS:
            while events := verbs.pop(consumer):
                verbs.ack(consumer, events[-1].id)


def drain_people(actor: Actor) -> None:
    """Push one more entry, which repairs the mirror, and read the replies. Questions may stay open: a person need not answer."""
    actor.people.push(actor.text())
    while actor.people.read_messages():
        pass
    if actor.store.data_folder is not None:
        people.EntriesMirror(actor.store, actor.store.data_folder).sync()


def drain_watchers(actor: Actor) -> None:
    """Read what the watchers have not read yet, each from its own cursor."""
    for file in sorted(actor.setting.control.glob("cursor-*")):
        cursor, watcher = int(file.read_text()), file.name.removeprefix("cursor-")
        woke = True
        while woke:
            cursor, woke = actor.threads.follow(cursor, watcher, 1.5)


ROOMS: dict[str, Callable[[Actor], None]] = {
    room.__name__: room for room in (drain_threads, drain_mail, drain_tasks, drain_queue, drain_people)
}
